//! Tables of cases. `4o! 3n` are pods 4 and 3, of the old revision and broken, and of the newest one; `4o!?`
//! is one whose probe has failed for 59 seconds, `4o!??` for 60; and `4os` is one that somebody wants made
//! anew.

mod adopt;
mod claims;
mod hooks;
mod in_place;
mod model;
mod named;
mod numbers;
mod probing;
mod refused;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Input, Plan, plan, update::WAITS_FOR_PROBE};
use crate::{
    action::Action,
    adopt::Unadopted,
    agents::Agents,
    clone_set::ClaimView,
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{IN_PLACE_GATE, POD_NAME_LABEL, READY_GATE, REVISION_LABEL, SPECIFIED_DELETE_LABEL, STATE_LABEL},
    plan::Failures,
    pod::{Phase, PodView},
    predownload::Ahead,
    revision::Revision,
};

const NOW: Timestamp = Timestamp::constant(1_000_000, 0);
const NODE: &str = "node-1";

struct World {
    spec: Value,
    revisions: Vec<Revision>,
    pods: Vec<PodView>,
    claims: Vec<ClaimView>,
    in_place: BTreeMap<String, InPlaceState>,
    failures: Failures,
    rests: BTreeMap<String, Timestamp>,
    unadopted: Unadopted,
    /// Nodes whose agents say nothing.
    silent: BTreeSet<String>,
    /// The set is being deleted.
    is_going: bool,
    /// Pods and claims that could not be written to.
    put_off: BTreeSet<String>,
    /// Conditions of its status.
    conditions: Value,
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "db" } },
        "spec": { "containers": [{ "name": "main", "image": image }], "aFieldOfLater": [1] },
    })
}

fn revision(name: &str, number: i64, image: &str) -> Revision {
    Revision {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        version: "1".to_owned(),
        number,
        created: Timestamp::UNIX_EPOCH,
        owner: "set".to_owned(),
        mark: None,
        template: template(image).as_object().cloned().unwrap(),
    }
}

fn pod_owners() -> Vec<OwnerReference> {
    let owners = json!([{ "apiVersion": "", "kind": "", "name": "db", "uid": "set", "controller": true }]);
    serde_json::from_value(owners).unwrap()
}

fn pod(token: &str) -> PodView {
    let marks = token.trim_start_matches(|c: char| c.is_ascii_digit());
    let ordinal = &token[..token.len() - marks.len()];
    let has = |mark| marks.contains(mark);
    let revision = if has('o') { "db-old" } else { "db-new" };
    let name = format!("db-{ordinal}");
    let labels = [
        ("app", "db"),
        (REVISION_LABEL, revision),
        (STATE_LABEL, State::Normal.name()),
        (POD_NAME_LABEL, &name),
    ];
    let specified = has('s').then(|| (SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned()));
    let is_ready = !has('!') && !has('F');
    let failing = has('?').then(|| if marks.ends_with("??") { 60 } else { 59 });
    PodView {
        namespace: "ns".to_owned(),
        uid: format!("uid-{ordinal}"),
        version: "1".to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .chain(specified)
            .collect(),
        name,
        finalizers: Vec::new(),
        owners: pod_owners(),
        gates: Vec::new(),
        placed_on: String::new(),
        node: NODE.to_owned(),
        phase: if has('F') { Phase::Ended } else { Phase::Running },
        terminating: has('T'),
        ready_since: is_ready.then_some(Timestamp::constant(900_000, 0)),
        gate: None,
        kruise_ready: None,
        restarts: 0,
        created: Timestamp::UNIX_EPOCH,
        deletion_cost: 0,
        shut: None,
        metadata_of: None,
        grace: None,
        shown: None,
        not_up: None,
        failing_since: failing.map(|seconds| NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap()),
    }
}

impl World {
    /// A set of so many pods; what else its spec says.
    fn new(replicas: i32, spec: Value, pods: &str) -> Self {
        let mut all = json!({
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "db" } },
            "template": template("a:2"),
            "podManagementPolicy": "Parallel",
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        Self {
            spec: all,
            revisions: vec![revision("db-old", 1, "a:1"), revision("db-new", 2, "a:2")],
            pods: pods.split_whitespace().map(pod).collect(),
            claims: Vec::new(),
            in_place: BTreeMap::new(),
            failures: Failures::default(),
            rests: BTreeMap::new(),
            unadopted: Unadopted::default(),
            silent: BTreeSet::new(),
            is_going: false,
            put_off: BTreeSet::new(),
            conditions: json!([]),
        }
    }

    fn plan(&self) -> Plan {
        let set = json!({
            "apiVersion": super::API_VERSION,
            "kind": super::KIND,
            "metadata": { "namespace": "ns", "name": "db", "uid": "set", "generation": 1,
                "deletionTimestamp": self.is_going.then_some("2026-01-01T00:00:00Z") },
            "spec": self.spec,
            "status": { "currentRevision": "db-old", "conditions": self.conditions },
        });
        let set = serde_json::from_value(set).unwrap();
        let (pods, claims): (Vec<_>, Vec<_>) = (self.pods.iter().collect(), self.claims.iter().collect());
        let here = BTreeSet::from([NODE.to_owned()]);
        let input = Input {
            set: &set,
            revisions: &self.revisions.iter().collect::<Vec<_>>(),
            pods: &pods,
            claims: &claims,
            in_place: &self.in_place,
            agents: Agents {
                updating: &here,
                present: &here,
                labelling: &here,
                recalling: &here,
                silent: &self.silent,
            },
            ahead: Ahead::default(),
            rests_until: &self.rests,
            failures: &self.failures,
            put_off: &self.put_off,
            collisions: 0,
            unadopted: &self.unadopted,
        };
        plan(&input, NOW)
    }

    /// Effect of a pass: `+3n` is made, `-4` is deleted, `~2` is updated in place.
    fn effect(&self) -> String {
        let ordinal = |name: &str| name.rsplit('-').next().unwrap().to_owned();
        let effects = self.plan().actions.into_iter().filter_map(|action| match action {
            Action::CreatePod(pod) => {
                let label = pod["metadata"]["labels"][REVISION_LABEL].as_str().unwrap();
                let side = if label == "db-old" { 'o' } else { 'n' };
                Some(format!("+{}{side}", ordinal(pod["metadata"]["name"].as_str().unwrap())))
            }
            Action::DeletePod(target) => Some(format!("-{}", ordinal(&target.name))),
            Action::UpdateInPlace(update) => Some(format!("~{}", ordinal(&update.name))),
            Action::PatchPod(target, patch) => {
                let state = patch["metadata"]["labels"][STATE_LABEL].as_str().unwrap_or_default();
                Some(format!("{state}{}", ordinal(&target.name)))
            }
            Action::ForgetInPlace { uid, .. } => Some(format!("forget{}", ordinal(&uid))),
            Action::PatchPodStatus(target, _) => Some(format!("open{}", ordinal(&target.name))),
            _ => None,
        });
        effects.collect::<Vec<_>>().join(" ")
    }
}

fn rolling(fields: Value) -> Value {
    json!({ "updateStrategy": { "rollingUpdate": fields } })
}

fn ordered(mut spec: Value) -> Value {
    spec["podManagementPolicy"] = "OrderedReady".into();
    spec
}

#[rstest]
#[case::n1_the_first(3, ordered(json!({})), "", "+0n")]
#[case::n1_not_available_yet(3, ordered(json!({})), "0n!", "")]
#[case::n1_the_second(3, ordered(json!({})), "0n", "+1n")]
#[case::n2_scale_up(10, json!({ "scaleStrategy": { "maxUnavailable": 2 } }), "0n 1n 2n", "+3n +4n")]
#[case::n2_held(10, json!({ "scaleStrategy": { "maxUnavailable": 2 } }), "0n 1n 2n 3n! 4n!", "")]
#[case::n2_next(10, json!({ "scaleStrategy": { "maxUnavailable": 2 } }), "0n 1n 2n 3n 4n!", "+5n")]
#[case::n3_two(5, rolling(json!({ "maxUnavailable": 2 })), "0o 1o 2o 3o 4o", "-4 -3")]
#[case::n3_next(5, rolling(json!({ "maxUnavailable": 2 })), "0o 1o 2o 3n! 4n", "-2")]
#[case::n4_floor(5, rolling(json!({ "maxUnavailable": "10%" })), "0o 1o 2o 3o 4o", "-4")]
#[case::n5_one_is_broken(5, rolling(json!({ "maxUnavailable": 2 })), "0o! 1o 2o 3o 4o", "-4 -0")]
#[case::n6_all_are_broken(5, rolling(json!({ "maxUnavailable": 2 })), "0o! 1o! 2o! 3o! 4o!", "-4 -3")]
#[case::n6_all_at_once(3, rolling(json!({ "maxUnavailable": "100%" })), "0o! 1o! 2o!", "-2 -1 -0")]
#[case::n6_all_are_broken_and_two_are_made(5, rolling(json!({ "maxUnavailable": 2 })), "0o! 1o! 2o!", "+3n +4n")]
#[case::n7_lost_pods(5, rolling(json!({ "partition": 3 })), "0o 2o 3n", "+1o +4n")]
#[case::n8_reserved(4, with_reserved(rolling(json!({ "partition": 2, "maxUnavailable": 4 })), json!([1])), "0o 2o 3o 4o", "-4 -3 -2")]
#[case::n9_unordered(5, unordered(2, 5), "0o 1n 2o 3o 4n", "-3")]
#[case::n9_unordered_lost_pods(5, unordered(2, 5), "4o", "+0o +1n +2n +3n")]
#[case::n9_unordered_no_more_than_the_partition_leaves(5, unordered(2, 5), "0o 1o", "+2n +3n +4n")]
#[case::n10_reserved_later(4, json!({ "reserveOrdinals": [1, 3] }), "0n 2n 3n 4n", "+5n -3")]
#[case::n11_all_at_once(4, json!({}), "0n 1n 2n 3n 4n 5n 6n", "-6 -5 -4")]
#[case::n11_one_by_one(4, ordered(json!({})), "0n 1n 2n 3n 4n 5n 6n", "-6")]
#[case::n11_on_its_way(4, ordered(json!({})), "0n 1n 2n 3n 4n 5n 6nT", "")]
#[case::none_goes_while_all_are_broken(0, ordered(json!({})), "0n! 1n! 2n!", "")]
#[case::the_lowest_that_is_broken_goes(1, ordered(json!({})), "0n 1n 2n!", "-2")]
#[case::one_that_serves_goes_before_a_broken_one(1, ordered(json!({})), "0n 1n! 2n", "-2")]
#[case::one_that_has_ended_is_not_waited_for(1, ordered(json!({})), "0n 1nF 2nF", "-2")]
#[case::broken_ones_go_all_at_once(0, json!({}), "0n! 1n! 2n!", "-2 -1 -0")]
#[case::n13_out_of_a_broken_template(3, ordered(json!({})), "0o 1o! 2o", "-1")]
#[case::n13_the_first_never_came_up(3, ordered(json!({})), "0o!", "-0")]
#[case::n13_the_second_never_came_up(3, ordered(json!({})), "0o 1o!", "-1")]
#[case::n13_all_are_broken(3, ordered(json!({})), "0o! 1o! 2o!", "-2")]
#[case::n13_the_highest_has_gone(3, ordered(json!({})), "0o! 1o!", "-1")]
#[case::n13_one_is_on_its_way(3, ordered(json!({})), "0n! 1o! 2o!", "")]
#[case::n13_those_that_serve_stay(4, ordered(json!({})), "0o! 1o 2o", "-0")]
#[case::n13_the_first_is_made_anew(4, ordered(json!({})), "1o 2o", "+0n")]
#[case::n13_made_anew_beside_a_broken_one(4, ordered(json!({})), "1o! 2o", "+0n")]
#[case::n13_scaling_waits_too(3, scaled(2), "0o! 1o!", "-1")]
#[case::n13_scaling_goes_on(3, scaled(2), "0o!", "+1n")]
#[case::n14_partition_lifted(4, rolling(json!({ "partition": 3 })), "0o 1n", "+2o +3n")]
#[case::one_that_goes_costs_one(5, rolling(json!({ "maxUnavailable": 2 })), "0o 1o 2o 3o 4oT", "-3")]
#[case::one_that_goes_costs_all(5, rolling(json!({ "maxUnavailable": 1 })), "0o 1o 2o 3o 4oT", "")]
#[case::failed_pods_are_made_anew(2, json!({}), "0n 1nF", "-1")]
#[case::only_by_hand(2, json!({ "updateStrategy": { "type": "OnDelete" } }), "0o", "+1n")]
#[case::at_rest(2, rolling(json!({ "paused": true })), "0o 1o", "")]
#[case::a_name_that_is_none(1, json!({}), "0n", "")]
fn cases(#[case] replicas: i32, #[case] spec: Value, #[case] pods: &str, #[case] effect: &str) {
    assert_eq!(World::new(replicas, spec, pods).effect(), effect);
}

fn with_reserved(mut spec: Value, reserved: Value) -> Value {
    spec["reserveOrdinals"] = reserved;
    spec
}

fn scaled(most: i32) -> Value {
    json!({ "scaleStrategy": { "maxUnavailable": most } })
}

fn unordered(partition: i32, most: i32) -> Value {
    rolling(json!({
        "partition": partition,
        "maxUnavailable": most,
        "unorderedUpdate": { "priorityStrategy": { "orderPriority": [{ "orderedKey": "none" }] } },
    }))
}

fn started(start: i32, mut spec: Value) -> Value {
    spec["ordinals"] = json!({ "start": start });
    spec
}

#[test]
fn a_pass_is_bounded() {
    assert_eq!(World::new(100_000, json!({}), "").effect().split_whitespace().count(), 500);
}

#[test]
fn a_pod_that_is_not_selected_any_more_is_given_free() {
    let mut world = World::new(2, json!({}), "0n 1n");
    world.pods[1].labels.remove("app");
    let actions = world.plan().actions;
    let [Action::PatchPod(target, patch), Action::CreatePod(_)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!((target.name.as_str(), &patch["metadata"]["ownerReferences"]), ("db-1", &json!([])));
}

/// A node that has no room left refuses a pod: it ends as soon as it is there.
#[test]
fn a_pod_that_ends_again_and_again_is_made_anew_after_a_rest() {
    let mut world = World::new(2, json!({}), "0n 1nF");
    let ended = world.plan().ended_on;
    assert_eq!((world.effect(), ended.len(), ended[0].0.as_str()), ("-1".to_owned(), 1, "db-1"));
    let mut rests = |seconds: i64| {
        world.rests.insert("db-1".to_owned(), Timestamp::constant(1_000_000 + seconds, 0));
        (world.effect(), world.plan().again.map(|again| again.as_secs()))
    };
    assert_eq!(rests(30), (String::new(), Some(30)));
    assert_eq!(rests(0), ("-1".to_owned(), None));
    // Its containers have ended: it cannot be updated in place meanwhile.
    let mut world = World::new(2, rolling(json!({ "podUpdatePolicy": "InPlaceIfPossible" })), "0n 1oF");
    world.rests.insert("db-1".to_owned(), Timestamp::constant(1_000_030, 0));
    assert_eq!(world.effect(), "-1");
}
