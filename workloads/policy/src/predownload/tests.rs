//! Tables of pulls ahead.

use rstest::rstest;

use super::*;

fn revision(name: &str, containers: Value) -> Revision {
    let template = json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "containers": containers, "imagePullSecrets": [{ "name": "registry" }] },
    });
    Revision {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        version: "1".to_owned(),
        number: 1,
        created: jiff::Timestamp::UNIX_EPOCH,
        owner: "set".to_owned(),
        template: template.as_object().cloned().unwrap(),
    }
}

fn images(main: &str, side: &str) -> Value {
    json!([{ "name": "main", "image": main }, { "name": "side", "image": side }])
}

/// A rollout of ten pods from `a:1` to `a:2`.
struct World {
    annotations: Labels,
    current: Revision,
    update: Revision,
    ended: bool,
    replicas: i64,
    updated_ready: i64,
    kind: Kind,
    on: bool,
    rests: bool,
    jobs: Vec<PullJobView>,
}

impl World {
    fn new() -> Self {
        Self {
            annotations: Labels::new(),
            current: revision("shop-old", images("a:1", "s:1")),
            update: revision("shop-new", images("a:2", "s:1")),
            ended: false,
            replicas: 10,
            updated_ready: 0,
            kind: Kind::InPlace { at_once: false },
            on: true,
            rests: false,
            jobs: Vec::new(),
        }
    }

    fn has(mut self, name: &str, hash: &str) -> Self {
        self.jobs.push(PullJobView {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            version: "1".to_owned(),
            owner: "set".to_owned(),
            hash: hash.to_owned(),
            terminating: false,
        });
        self
    }

    fn noted(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn writes(&self) -> Writes {
        let selector = serde_json::from_value(json!({ "matchLabels": { "app": "shop" } })).unwrap();
        let owner = Owner {
            api_version: "apps.kruise.io/v1alpha1",
            kind: "CloneSet",
            namespace: "ns",
            name: "shop",
            uid: "set",
            annotations: &self.annotations,
        };
        let rollout = Rollout {
            owner,
            selector: &selector,
            current: &self.current,
            update: &self.update,
            ended: self.ended,
            replicas: self.replicas,
            updated_ready: self.updated_ready,
        };
        let jobs: Vec<&PullJobView> = self.jobs.iter().collect();
        Ahead { on: self.on, rests: self.rests, jobs: &jobs }.writes(&rollout, self.kind)
    }

    /// `+` and `-` before the names of jobs that are made and deleted.
    fn effect(&self) -> String {
        let Writes { create, delete, .. } = self.writes();
        let text = |action: Action| match action {
            Action::CreatePullJob(job) => format!("+{}", job["metadata"]["name"].as_str().unwrap()),
            Action::DeletePullJob(target) => format!("-{}", target.name),
            other => panic!("{other:?}"),
        };
        create.into_iter().chain(delete).map(text).collect::<Vec<_>>().join(" ")
    }
}

#[rstest]
#[case::in_place(World::new(), "+shop-new-main")]
#[case::once(World::new().has("shop-new-main", "new"), "")]
#[case::both(World { update: revision("shop-new", images("a:2", "s:2")), ..World::new() }, "+shop-new-main +shop-new-side")]
#[case::over(World { ended: true, ..World::new().has("shop-new-main", "new") }, "-shop-new-main")]
#[case::another_one(World::new().has("shop-between-main", "between"), "+shop-new-main -shop-between-main")]
// It was pulled for once, and the set goes back to it.
#[case::back(World { current: revision("shop-new", images("a:2", "s:1")), update: revision("shop-old", images("a:1", "s:1")), ..World::new().has("shop-new-main", "new") }, "+shop-old-main -shop-new-main")]
#[case::off(World { on: false, ..World::new().has("shop-new-main", "new") }, "-shop-new-main")]
#[case::pods_made_anew(World { kind: Kind::None, ..World::new() }, "")]
#[case::all_at_once(World { kind: Kind::InPlace { at_once: true }, ..World::new() }, "")]
#[case::three_pods(World { replicas: 3, ..World::new() }, "")]
#[case::four_pods(World { replicas: 4, ..World::new() }, "+shop-new-main")]
#[case::not_in_place(World { update: revision("shop-new", json!([{ "name": "main", "image": "a:2" }])), ..World::new() }, "")]
#[case::a_daemon_set_anyway(World { kind: Kind::Nodes { at_once: false }, replicas: 1, update: revision("shop-new", json!([{ "name": "main", "image": "a:2" }])), ..World::new() }, "+shop-new-main")]
#[case::a_daemon_set_at_once(World { kind: Kind::Nodes { at_once: true }, ..World::new() }, "")]
#[case::too_few_ready(World { updated_ready: 2, ..World::new().noted(MIN_READY, "25%") }, "")]
#[case::enough_ready(World { updated_ready: 3, ..World::new().noted(MIN_READY, "25%") }, "+shop-new-main")]
#[case::a_number_ready(World { updated_ready: 1, ..World::new().noted(MIN_READY, "2") }, "")]
#[case::no_name(World { update: revision("shop-new", images("a:2", "s:1").as_array().map(|all| json!([{ "name": "Main/..", "image": "a:9" }, all[1]])).unwrap()), current: revision("shop-old", json!([{ "name": "Main/..", "image": "a:1" }, { "name": "side", "image": "s:1" }])), ..World::new() }, "")]
fn cases(#[case] world: World, #[case] effect: &str) {
    assert_eq!(world.effect(), effect);
}

#[test]
fn a_job_is_for_the_nodes_of_old_pods() {
    let world = World::new().noted(PARALLELISM, "5").noted(TIMEOUT_SECONDS, "60");
    let [Action::CreatePullJob(job)] = &world.writes().create[..] else { panic!("one job") };
    assert_eq!(job["metadata"]["labels"], json!({ "app": "shop", REVISION_LABEL: "new" }));
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "set");
    let not_new = json!({ "key": REVISION_LABEL, "operator": "NotIn", "values": ["new", "shop-new"] });
    let spec = json!({
        "image": "a:2",
        "pullSecrets": ["registry"],
        "podSelector": { "matchLabels": { "app": "shop" }, "matchExpressions": [not_new] },
        "parallelism": 5,
        "pullPolicy": { "timeoutSeconds": 60, "backoffLimit": 1 },
        "completionPolicy": { "type": "Always" },
        "imagePullPolicy": "IfNotPresent",
    });
    assert_eq!(job["spec"], spec);
    let _: berth_proto::crd::ImagePullJob = serde_json::from_value(job.clone()).unwrap();
}

#[rstest]
#[case(PARALLELISM, "lots")]
#[case(PARALLELISM, "-1")]
#[case(PARALLELISM, "99999999999")]
#[case(TIMEOUT_SECONDS, "0")]
#[case(TIMEOUT_SECONDS, "5m")]
#[case(MIN_READY, "some")]
fn what_makes_no_sense_is_said_and_counts_as_left_out(#[case] key: &str, #[case] value: &str) {
    let writes = World::new().noted(key, value).writes();
    let [Action::CreatePullJob(job)] = &writes.create[..] else { panic!("one job") };
    assert_eq!(
        (&job["spec"]["parallelism"], &job["spec"]["pullPolicy"]["timeoutSeconds"]),
        (&json!(1), &json!(300))
    );
    let [note] = &writes.notes[..] else { panic!("one note") };
    assert!(
        note.text.contains(key) && note.text.contains(value) && note.text.contains("give a number"),
        "{note:?}"
    );
}

#[test]
fn a_share_of_the_nodes_pulls_at_once() {
    let [Action::CreatePullJob(job)] = &World::new().noted(PARALLELISM, "25%").writes().create[..] else {
        panic!("one job")
    };
    assert_eq!(job["spec"]["parallelism"], "25%");
}

#[test]
fn one_that_could_not_be_made_holds_nothing_up() {
    let writes = World { rests: true, ..World::new() }.writes();
    assert_eq!((writes.create, writes.again), (vec![], Some(AGAIN)));
}

#[test]
fn long_names_are_cut_and_stay_different() {
    let long = "s".repeat(230);
    let both = |update: &str| {
        revision(
            update,
            json!([
                { "name": "a".repeat(63), "image": "x" }, { "name": format!("{}b", "a".repeat(62)), "image": "x" },
            ]),
        )
    };
    let world = World { update: both(&format!("{long}-new")), current: both("shop-old"), ..World::new() };
    assert_eq!(world.effect(), "", "the same images");
    let current = revision(
        "shop-old",
        json!([
            { "name": "a".repeat(63), "image": "y" }, { "name": format!("{}b", "a".repeat(62)), "image": "y" },
        ]),
    );
    let effect = World { current, ..world }.effect();
    let names: std::collections::BTreeSet<&str> = effect.split(' ').collect();
    assert!(names.len() == 2 && names.iter().all(|name| name.len() <= 254), "{effect}");
}
