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
        mark: None,
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
            namespace: "ns".to_owned(),
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
            Action::CreatePullJob(job) => Some(format!("+{}", job["metadata"]["name"].as_str().unwrap())),
            Action::DeletePullJob(target) => Some(format!("-{}", target.name)),
            Action::MarkRevision(..) => None,
            other => panic!("{other:?}"),
        };
        create.into_iter().chain(delete).filter_map(text).collect::<Vec<_>>().join(" ")
    }

    fn marked(mut self, mark: Mark) -> Self {
        self.update.mark = Some(mark);
        self
    }

    /// Labels that are written on the new revision, after all jobs were made.
    fn mark(&self) -> Value {
        let create = self.writes().create;
        let at = create.iter().position(|action| matches!(action, Action::MarkRevision(..)));
        let Some(at) = at else { return Value::Null };
        assert_eq!(at, create.len() - 1, "{create:?}");
        let Action::MarkRevision(target, patch) = &create[at] else { panic!("{create:?}") };
        assert_eq!((&*target.name, &*target.version), (&*self.update.name, "1"));
        let metadata = patch.as_object().unwrap()["metadata"].as_object().unwrap();
        assert_eq!(metadata.len(), 1, "{patch}");
        metadata["labels"].clone()
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

/// Label of jobs that were made, in the place of the other one.
fn created() -> Value {
    json!({ "apps.kruise.io/pre-predownload-created": "true", "apps.kruise.io/image-predownload-ignored": null })
}

fn ignored() -> Value {
    json!({ "apps.kruise.io/image-predownload-ignored": "true" })
}

#[rstest]
#[case::made(World::new(), created())]
#[case::made_before(World::new().has("shop-new-main", "new"), created())]
#[case::said(World::new().has("shop-new-main", "new").marked(Mark::Created), Value::Null)]
#[case::made_anew(World::new().marked(Mark::Created), Value::Null)]
#[case::pulled_after_all(World::new().marked(Mark::Ignored), created())]
#[case::over(World { ended: true, ..World::new().has("shop-new-main", "new") }, Value::Null)]
#[case::off(World { on: false, ..World::new() }, Value::Null)]
#[case::off_and_at_once(World { on: false, kind: Kind::InPlace { at_once: true }, ..World::new() }, Value::Null)]
#[case::one_could_not_be_made(World { rests: true, ..World::new() }, Value::Null)]
#[case::it_could_not_be_written(World { rests: true, ..World::new().has("shop-new-main", "new") }, Value::Null)]
#[case::too_few_ready(World { updated_ready: 2, ..World::new().noted(MIN_READY, "25%") }, Value::Null)]
#[case::all_at_once(World { kind: Kind::InPlace { at_once: true }, ..World::new() }, ignored())]
#[case::all_at_once_and_said(World { kind: Kind::InPlace { at_once: true }, ..World::new().marked(Mark::Ignored) }, Value::Null)]
#[case::there_are_jobs_already(World { kind: Kind::InPlace { at_once: true }, ..World::new().marked(Mark::Created) }, Value::Null)]
#[case::it_is_refused(World { kind: Kind::InPlace { at_once: true }, rests: true, ..World::new() }, Value::Null)]
#[case::not_in_place(World { update: revision("shop-new", json!([{ "name": "main", "image": "a:2" }])), ..World::new() }, ignored())]
#[case::nodes_at_once(World { kind: Kind::Nodes { at_once: true }, ..World::new() }, ignored())]
#[case::pods_made_anew(World { kind: Kind::None, ..World::new() }, Value::Null)]
#[case::three_pods(World { replicas: 3, ..World::new() }, Value::Null)]
#[case::three_nodes_at_once(World { kind: Kind::Nodes { at_once: true }, replicas: 3, ..World::new() }, Value::Null)]
#[case::no_other_image(World { update: revision("shop-new", images("a:1", "s:1")), ..World::new() }, Value::Null)]
#[case::nobody_owns_it(World { update: Revision { owner: String::new(), ..revision("shop-new", images("a:2", "s:1")) }, ..World::new() }, Value::Null)]
fn what_is_said_on_the_revision(#[case] world: World, #[case] labels: Value) {
    assert_eq!(world.mark(), labels);
}

/// A label makes no other revision: it is read back, and neither the hash nor the template has it.
#[test]
fn a_mark_is_read_and_changes_nothing_else() {
    let template = json!({ "metadata": { "labels": { "app": "shop" } } });
    let filed = |labels: Value| {
        let object = json!({
            "metadata": { "name": "shop-new", "uid": "u", "labels": labels },
            "data": { "spec": { "template": template } }, "revision": 2,
        });
        Revision::of(&serde_json::from_value(object).unwrap()).unwrap()
    };
    let plain = filed(json!({}));
    assert_eq!(plain.mark, None);
    for (labels, mark) in [
        (json!({ CREATED_LABEL: "true" }), Mark::Created),
        (json!({ IGNORED_LABEL: "true" }), Mark::Ignored),
        (json!({ CREATED_LABEL: "true", IGNORED_LABEL: "true" }), Mark::Created),
    ] {
        let marked = filed(labels);
        assert_eq!(marked.mark, Some(mark));
        assert!(marked.hash() == plain.hash() && marked.has(&plain.template));
        assert_eq!(Revision { mark: None, ..marked }, plain);
    }
}

#[test]
fn a_job_is_for_the_nodes_of_old_pods() {
    let world = World::new().noted(PARALLELISM, "5").noted(TIMEOUT_SECONDS, "60");
    let [Action::CreatePullJob(job), _] = &world.writes().create[..] else { panic!("one job") };
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
    let [Action::CreatePullJob(job), _] = &writes.create[..] else { panic!("one job") };
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
    let [Action::CreatePullJob(job), _] = &World::new().noted(PARALLELISM, "25%").writes().create[..] else {
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
