//! Tables of cases. `4o! 3n` are pods 4 and 3, of the old revision and broken, and of the newest one; `4o!?`
//! is one whose probe has failed for 59 seconds, `4o!??` for 60; and `4os` is one that somebody wants made
//! anew.

mod adopt;
mod claims;
mod in_place;
mod model;
mod refused;

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

/// The second number: when to look again, in seconds.
#[rstest]
#[case::it_is_waited_for(ordered(json!({})), "0o 1o!? 2o", "", Some(1))]
#[case::it_was_waited_for(ordered(json!({})), "0o 1o!?? 2o", "-1", None)]
#[case::two_are_waited_for(ordered(json!({})), "0o!?? 1o!? 2o", "", Some(1))]
#[case::it_never_came_up(ordered(json!({})), "0o 1o! 2o", "-1", None)]
#[case::higher_ones_wait(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o!? 2o", "", Some(1))]
#[case::it_is_of_the_partition(ordered(rolling(json!({ "partition": 1 }))), "0o!? 1o 2o", "", Some(1))]
#[case::it_is_new(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o 2n!?", "-1", None)]
#[case::it_is_going(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o!?T 2o", "-2", None)]
#[case::all_at_once(json!({}), "0o 1o!? 2o", "-1", None)]
#[case::nobody_wants_it(ordered(json!({ "updateStrategy": { "type": "OnDelete" } })), "0o 1o!? 2o", "", None)]
fn a_pod_whose_probe_fails_has_time_to_be_mended(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] effect: &str,
    #[case] again: Option<u64>,
) {
    let world = World::new(3, spec, pods);
    assert_eq!(world.effect(), effect);
    assert_eq!(world.plan().again.map(|again| again.as_secs()), again);
}

#[rstest]
#[case::by_its_label(json!({}), "0n 1ns 2n", "-1")]
#[case::one_after_the_other(json!({}), "0n 1ns 2ns", "-2")]
#[case::two_at_once(rolling(json!({ "maxUnavailable": 2 })), "0ns 1ns 2ns", "-2 -1")]
#[case::behind_the_partition(rolling(json!({ "partition": 3 })), "0os 1o 2o", "-0")]
#[case::while_updates_rest(rolling(json!({ "paused": true })), "0o 1os 2o", "-1")]
#[case::where_updates_are_by_hand(json!({ "updateStrategy": { "type": "OnDelete" } }), "0o 1os 2o", "-1")]
#[case::before_others(json!({}), "0o 1os 2o", "-1")]
#[case::beside_others(rolling(json!({ "maxUnavailable": 2 })), "0o 1os 2o", "-1 -2")]
#[case::one_is_out_already(json!({}), "0n! 1ns 2n", "")]
#[case::one_is_missing(json!({}), "0n 1ns", "+2n")]
#[case::one_is_going(json!({}), "0n 1nsT 2ns", "")]
#[case::a_broken_one_costs_nothing(json!({}), "0n! 1ns! 2n", "-1")]
#[case::one_after_the_other_when_ordered(ordered(json!({})), "0ns 1n 2n", "-0")]
#[case::one_whose_probe_fails(ordered(json!({})), "0o 1os!? 2o", "-1")]
#[case::one_without_a_slot(json!({}), "0n 1n 2n 3ns", "-3")]
#[case::one_that_has_ended(json!({}), "0n 1nsF 2n", "-1")]
fn a_pod_that_is_named_by_its_label_is_made_anew(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] effect: &str,
) {
    assert_eq!(World::new(3, spec, pods).effect(), effect);
}

#[test]
fn a_pod_that_is_named_by_its_label_waits_for_its_hook() {
    let spec = json!({ "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" } } } });
    let mut world = World::new(2, spec, "0n 1ns");
    world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "PreparingDelete1");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].labels.remove("hook");
    assert_eq!(world.effect(), "-1");
}

/// Rows: by how many seconds the clock of its node is ahead, and what is done.
#[rstest]
#[case(0, "")]
#[case(60, "")]
#[case(61, "-1")]
#[case(1_000_000_000, "-1")]
fn a_clock_that_is_ahead_holds_up_no_update(#[case] ahead: i64, #[case] effect: &str) {
    let mut world = World::new(3, ordered(json!({})), "0o 1o!? 2o");
    world.pods[1].failing_since = Some(NOW.checked_add(SignedDuration::from_secs(ahead)).unwrap());
    assert_eq!(world.effect(), effect);
}

/// Pods cease to be Ready again and again: the update waits for two minutes in sum. Rows: for how long it has
/// waited, what its condition says, what is done, and when to look again.
#[rstest]
#[case::a_while(30, WAITS_FOR_PROBE, "", Some(1))]
#[case::a_second_less(119, WAITS_FOR_PROBE, "", Some(1))]
#[case::long_enough(120, WAITS_FOR_PROBE, "-1", None)]
#[case::for_something_else(120, "no quota", "", Some(1))]
fn pods_whose_probes_fail_are_waited_for_in_sum(
    #[case] seconds: i64,
    #[case] message: &str,
    #[case] effect: &str,
    #[case] again: Option<u64>,
) {
    let mut world = World::new(3, ordered(json!({})), "0o 1o!? 2o");
    let since = NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap().to_string();
    world.conditions = json!([{
        "type": "FailedUpdatePod", "status": "True", "message": message,
        "lastUpdateTime": since, "lastTransitionTime": since,
    }]);
    let plan = world.plan();
    assert_eq!((world.effect().as_str(), plan.again.map(|again| again.as_secs())), (effect, again));
    // It says so, and the time does not begin anew when it is over.
    let condition = plan.status.unwrap().conditions.remove(0);
    assert_eq!(condition.message.as_deref(), Some(WAITS_FOR_PROBE));
    let is_known = message == WAITS_FOR_PROBE;
    assert_eq!(condition.last_update_time.unwrap().0.to_string() == since, is_known);
}

/// Its hook holds it, or it is in the midst of an update to another revision: nobody mends that.
#[test]
fn a_pod_that_is_held_is_not_waited_for() {
    let spec = ordered(rolling(json!({ "podUpdatePolicy": "InPlaceOnly" })));
    for state in ["PreparingUpdate", "Updating"] {
        let mut world = World::new(1, spec.clone(), "0o!?");
        world.pods[0].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        assert_eq!(world.effect(), "~0", "{state}");
    }
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

#[rstest]
#[case(4, json!([1]), &[0, 2, 3, 4])]
#[case(4, json!([1, 3]), &[0, 2, 4, 5])]
#[case(3, json!([1, 3]), &[0, 2, 4])]
#[case(3, json!([1, 3, 1]), &[0, 2, 4])]
#[case(4, json!(["1-3", 5]), &[0, 4, 6, 7])]
#[case(3, json!(["0-999999999", "1000000001"]), &[1_000_000_000, 1_000_000_002, 1_000_000_003])]
#[case(2, json!(["0-2147483647"]), &[2_147_483_648, 2_147_483_649])]
#[case(3, json!(["1-", "3-1", -1, "many", "1"]), &[0, 2, 3])]
fn reserved_numbers_are_left_out(#[case] replicas: i32, #[case] reserved: Value, #[case] slots: &[i64]) {
    let world = World::new(replicas, json!({ "reserveOrdinals": reserved }), "");
    let made: Vec<i64> = world
        .effect()
        .split_whitespace()
        .map(|effect| effect.trim_matches(['+', 'n']).parse().unwrap())
        .collect();
    assert_eq!(made, slots);
}

#[rstest]
#[case::the_first(3, started(5, json!({})), "", "+5n +6n +7n")]
#[case::one_by_one(3, ordered(started(5, json!({}))), "5n", "+6n")]
#[case::those_below_and_above_go(2, started(2, json!({})), "0n 1n 2n 3n 4n", "-4 -1 -0")]
#[case::the_highest_first(2, ordered(started(2, json!({}))), "0n 1n 2n 3n 4n", "-4")]
#[case::those_below_after_those_above(2, ordered(started(2, json!({}))), "0n 1n 2n 3n", "-1")]
#[case::those_below_go_when_the_others_are_there(2, ordered(started(2, json!({}))), "0n 1n 2n", "+3n")]
#[case::back_to_none(2, json!({}), "2n 3n", "+0n +1n -3 -2")]
#[case::reserved_numbers_count_from_it(3, started(2, with_reserved(json!({}), json!([1, "3-4"]))), "", "+2n +5n +6n")]
#[case::it_is_reserved(2, started(2, with_reserved(json!({}), json!(["0-3"]))), "", "+4n +5n")]
#[case::the_partition_counts_from_it(3, started(5, rolling(json!({ "partition": 2 }))), "5o 6o 7o", "-7")]
#[case::the_partition_keeps(3, started(5, rolling(json!({ "partition": 2 }))), "5o 7n", "+6o")]
#[case::the_last(2, started(2_000_000_000, json!({})), "", "+2000000000n +2000000001n")]
#[case::less_than_none(2, started(-1, json!({})), "", "+0n +1n")]
fn numbers_start_later(#[case] replicas: i32, #[case] spec: Value, #[case] pods: &str, #[case] effect: &str) {
    assert_eq!(World::new(replicas, spec, pods).effect(), effect);
}

fn started(start: i32, mut spec: Value) -> Value {
    spec["ordinals"] = json!({ "start": start });
    spec
}

#[test]
fn a_hook_holds_the_deletion() {
    let mut spec = json!({ "lifecycle": { "preDelete": { "finalizersHandler": ["example.com/hook"] } } });
    spec["updateStrategy"] = json!({ "rollingUpdate": { "partition": 9 } });
    let mut world = World::new(1, spec, "0n 1n");
    world.pods[1].finalizers.push("example.com/hook".to_owned());
    assert_eq!(world.effect(), "PreparingDelete1");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].finalizers.clear();
    assert_eq!(world.effect(), "-1");
}

#[test]
fn a_new_pod_counts_when_its_hook_is_there() {
    let spec = ordered(json!({ "lifecycle": { "preNormal": { "labelsHandler": { "joined": "true" } } } }));
    let mut world = World::new(2, spec, "");
    let actions = world.plan().actions;
    let [Action::CreatePod(made)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(made["metadata"]["labels"][STATE_LABEL], "PreparingNormal");
    world.pods = vec![pod("0n")];
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingNormal".to_owned());
    assert_eq!(world.effect(), "", "the next one waits for it");
    assert_eq!(world.plan().status.unwrap().available_replicas, 0);
    world.pods[0].labels.insert("joined".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal0");
    // Without a hook nothing holds it.
    world.pods[0].labels.remove("joined");
    world.spec["lifecycle"] = json!({});
    assert_eq!(world.effect(), "Normal0");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "Normal".to_owned());
    assert_eq!(world.effect(), "+1n");
}

/// It never served, so its update costs nothing, and whose node could not do it serves as it is.
#[test]
fn a_new_pod_that_is_held_is_updated() {
    let mut spec = rolling(json!({ "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "preNormal": { "labelsHandler": { "joined": "true" } } });
    let mut world = World::new(1, spec, "0o");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingNormal".to_owned());
    assert_eq!(world.effect(), "~0");
    let known = InPlaceState {
        node: NODE.to_owned(),
        revision: "db-new".to_owned(),
        attempt: 0,
        generation: Some(1),
        phase: InPlacePhase::Failed("no room".to_owned()),
    };
    world.in_place.insert("uid-0".to_owned(), known);
    assert_eq!(world.effect(), "");
    world.pods[0].labels.insert("joined".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal0");
}

/// It was held when its template was old, and is let go when the template is the newest again.
#[test]
fn a_deletion_that_is_begun_goes_on() {
    let spec = json!({ "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" } } } });
    let mut world = World::new(3, spec, "0n 1n 2n");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].labels.remove("hook");
    assert_eq!(world.effect(), "-1");
}

#[test]
fn the_status_counts() {
    let status =
        World::new(5, rolling(json!({ "partition": 2 })), "0o 1o! 2n 3n! 4nT").plan().status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (5, 3, 2));
    assert_eq!((status.current_replicas, status.updated_replicas, status.updated_ready_replicas), (2, 2, 2));
    assert_eq!(status.updated_available_replicas, 1);
    assert_eq!(status.current_revision.as_deref(), Some("db-old"));
    let all = World::new(2, json!({}), "0n 1n").plan().status.unwrap();
    assert_eq!(all.current_revision.as_deref(), Some("db-new"));
}

#[test]
fn a_spec_that_makes_no_sense_does_nothing_and_says_so() {
    for (change, says) in [
        (rolling(json!({ "maxUnavailable": "many" })), "maxUnavailable is many"),
        (json!({ "podManagementPolicy": "parallel" }), "spec.podManagementPolicy is \"parallel\""),
        (json!({ "replicas": 100_001 }), "spec.replicas is 100001: give at most 100000"),
        (json!({ "selector": {} }), "spec.selector selects all pods"),
        (started(2_000_000_001, json!({})), "spec.ordinals.start is 2000000001: give at most 2000000000"),
    ] {
        let plan = World::new(3, change, "0o").plan();
        assert!(plan.actions.is_empty());
        let message = plan.status.unwrap().conditions[0].message.clone().unwrap();
        assert!(message.contains(says), "{message}");
    }
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

#[test]
fn failures_of_writes_are_said() {
    let mut world = World::new(1, json!({}), "0n");
    world.failures.scale = Some("no quota".to_owned());
    let condition = world.plan().status.unwrap().conditions.remove(0);
    assert_eq!(
        (condition.type_.as_str(), condition.message.as_deref()),
        ("FailedCreatePod", Some("no quota"))
    );
}

#[test]
fn a_revision_that_cannot_be_made_is_said() {
    let mut world = World::new(1, json!({ "template": template("a:3") }), "0n");
    assert_eq!(world.plan().status, None, "nothing has failed");
    world.failures.update = Some("no quota".to_owned());
    let status = world.plan().status.unwrap();
    assert_eq!((status.observed_generation, status.current_revision.as_deref()), (Some(1), Some("db-old")));
    let said: Vec<_> = status.conditions.iter().map(|one| (&*one.type_, one.message.as_deref())).collect();
    assert_eq!(said, [("FailedUpdatePod", Some("no quota"))]);
}
