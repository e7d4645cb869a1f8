//! Pods that cannot be made, written to or deleted, and all that goes on beside them.

use rstest::rstest;
use serde_json::{Value, json};

use super::world::{NODE, World, template};
use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{IN_PLACE_GATE, SPECIFIED_DELETE_LABEL, STATE_LABEL, TEMPLATE_HASH_LABEL},
};

/// Rows: replicas, most unavailable, pods, the effect at first, and after pods could not be made.
#[rstest]
#[case::one_is_out(6, 1, "5o", "create n", "create n")]
#[case::one_more_may_be_out(6, 2, "5o", "create n", "create n, delete o")]
#[case::more_are_out_than_may_be(9, 3, "5o", "create n x4", "create n x4")]
#[case::a_broken_one_costs_nothing(6, 2, "4o 1o!", "create n", "create n, delete o!")]
#[case::one_that_is_named(6, 3, "4o 1od", "create n, delete od", "create n, delete od, delete o")]
#[case::one_that_is_named_takes_the_budget(6, 2, "4o 1od", "create n, delete od", "create n, delete od")]
#[case::a_budget_holds_one_back(10, 2, "8o 1o! 1od", "delete od", "delete od, delete o!")]
fn pods_that_are_there_get_their_update(
    #[case] replicas: i32,
    #[case] most: i32,
    #[case] pods: &str,
    #[case] first: &str,
    #[case] then: &str,
) {
    let update = json!({ "maxUnavailable": most });
    let mut world = World::new(json!({ "replicas": replicas, "updateStrategy": update }), pods);
    assert_eq!(world.effect(), first);
    world.failures.scale = Some("exceeded quota".to_owned());
    assert_eq!(world.effect(), then);
    world.set.spec.update_strategy.as_mut().unwrap().paused = true;
    assert_eq!(world.effect(), first, "it rests");
}

/// The status of before, with the generation and the reason; and pods that are there get Ready.
#[test]
fn a_revision_that_cannot_be_made_is_said() {
    let mut world = World::new(json!({ "replicas": 2 }), "2n");
    world.set.metadata.generation = Some(3);
    world.set.spec.template.0 = template("a:3");
    world.pods[0].gates = vec![IN_PLACE_GATE.to_owned()];
    world.pods[0].gate = None;
    world.silent.insert(NODE.to_owned());
    world.failures.scale = Some("exceeded quota".to_owned());
    assert_eq!(world.plan().status, None, "no revision has failed");
    world.failures.scale = None;
    let status = world.set.status.as_mut().unwrap();
    (status.replicas, status.updated_replicas, status.updated_ready_replicas) = (2, 2, 2);
    world.failures.update = Some("exceeded quota".to_owned());
    let plan = world.plan();
    let status = plan.status.clone().unwrap();
    assert_eq!((status.observed_generation, status.current_revision.as_deref()), (Some(3), Some("shop-old")));
    let [condition] = status.conditions.as_slice() else { panic!("{status:?}") };
    assert_eq!(
        (condition.type_.as_str(), condition.message.as_deref()),
        ("FailedUpdate", Some("exceeded quota"))
    );
    let (parts, _) = plan.into_parts();
    let [first, gates] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(first.as_slice(), [Action::CreateRevision(_)]), "{first:?}");
    assert!(matches!(gates.as_slice(), [Action::PatchPodStatus(..)]), "{gates:?}");
    world.set.status = Some(status);
    assert_eq!(world.plan().status, None, "it is on file");
}

#[test]
fn new_pods_deletions_and_gates_are_parts_of_their_own() {
    let mut world = World::new(json!({ "replicas": 6, "updateStrategy": { "maxUnavailable": 3 } }), "4n 1nd");
    world.pods[0].gates = vec![IN_PLACE_GATE.to_owned()];
    world.pods[0].gate = None;
    world.silent.insert(NODE.to_owned());
    let (parts, _) = world.plan().into_parts();
    let [new, deleted, gates] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(new.as_slice(), [Action::CreatePod(_)]), "{new:?}");
    assert!(matches!(deleted.as_slice(), [Action::DeletePod(_)]), "{deleted:?}");
    assert!(matches!(gates.as_slice(), [Action::PatchPodStatus(..)]), "{gates:?}");
}

/// Names of the pods that a pass writes to, in order.
fn written(world: &World) -> String {
    let name = |action: Action| match action {
        Action::DeletePod(target) | Action::PatchPod(target, _) => target.name,
        Action::UpdateInPlace(update) => update.name,
        other => panic!("{other:?}"),
    };
    world.plan().actions.into_iter().map(name).collect::<Vec<_>>().join(" ")
}

fn strategy(replicas: i32, most: i32, type_: &str) -> Value {
    json!({ "replicas": replicas, "updateStrategy": { "maxUnavailable": most, "type": type_ } })
}

/// Rows: the set, its pods, which of them is written to, and which when some could not be.
#[rstest]
#[case::updated_by_new_pods(strategy(10, 2, "ReCreate"), "10o", "p0 p1", &[0, 1], "p2 p3")]
#[case::updated_in_place(strategy(10, 2, "InPlaceOnly"), "10o", "p0 p1", &[0, 1], "p2 p3")]
#[case::one_of_two_that_are_named(strategy(5, 1, "ReCreate"), "3n 2nd", "p3", &[3], "p4")]
#[case::all_of_two_that_are_named(strategy(5, 2, "ReCreate"), "3n 2nd", "p3 p4", &[3, 4], "p3 p4")]
#[case::one_that_is_too_many(strategy(3, 1, "ReCreate"), "4n", "p0", &[0], "p1")]
#[case::updates_before_one_that_is_named(strategy(5, 1, "ReCreate"), "4o 1od", "p4", &[4], "p0")]
#[case::and_it_gets_the_rest(strategy(5, 2, "ReCreate"), "1o 3n 1nd", "p4", &[4], "p0 p4")]
#[case::a_broken_one_that_is_named(strategy(5, 2, "ReCreate"), "2o 2n 1n!d", "p4", &[4], "p0 p4")]
#[case::all_that_is_left(strategy(3, 1, "ReCreate"), "2n 1o", "p2", &[2], "p2")]
#[case::some_are_held_by_the_partition(
    json!({ "replicas": 4, "updateStrategy": { "maxUnavailable": 4, "partition": 3 } }), "4o", "p0", &[0, 1], "p2"
)]
fn a_pod_that_cannot_be_written_to_is_last(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] first: &str,
    #[case] put_off: &[usize],
    #[case] then: &str,
) {
    let mut world = World::new(spec, pods);
    assert_eq!(written(&world), first);
    world.put_off = put_off.iter().map(|at| format!("uid-p{at}")).collect();
    assert_eq!(written(&world), then);
}

/// Rows: most unavailable, and what is done when the state of a pod cannot be written. Nobody waits for it,
/// and as long as it does not serve it is counted.
#[rstest]
#[case::one(1, "Normal n")]
#[case::one_more(2, "delete o, Normal n")]
fn a_state_that_cannot_be_written_stops_no_update(#[case] most: i32, #[case] then: &str) {
    let mut world = World::new(strategy(3, most, "ReCreate"), "1n 2o");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), State::Updated.name().to_owned());
    assert_eq!(world.effect(), "Normal n");
    world.put_off = ["uid-p0".to_owned()].into();
    assert_eq!(world.effect(), then);
    // It may be deleted all the same.
    world.pods[0].labels.insert(SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
    assert_eq!(world.effect(), then.replace("Normal n", "delete nd"));
}

/// The same of one whose update has ended: it serves, unless its hook is to hold it from now on.
#[test]
fn the_end_of_an_update_that_cannot_be_written_stops_no_other_one() {
    for (hook, first, then) in
        [(json!({}), "Normal n", "update o, Normal n"), (hook(), "Updated n", "Updated n")]
    {
        let mut spec = strategy(3, 1, "InPlaceOnly");
        spec["lifecycle"] = hook;
        let mut world = World::new(spec, "2o 1n");
        world.pods[2].labels.remove(TEMPLATE_HASH_LABEL);
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "shop-new".to_owned(),
            attempt: 0,
            generation: Some(1),
            phase: InPlacePhase::Done,
        };
        world.in_place.insert("uid-p2".to_owned(), known);
        assert_eq!(world.effect(), first);
        world.put_off = ["uid-p2".to_owned()].into();
        assert_eq!(world.effect(), then);
    }
}

fn hook() -> Value {
    json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } })
}

#[test]
fn a_pod_that_cannot_be_called_back_stops_nothing() {
    let mut spec = strategy(4, 2, "ReCreate");
    spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(spec, "1o 2n 1nP");
    assert_eq!(world.effect(), "Normal n");
    world.put_off = ["uid-p3".to_owned()].into();
    assert_eq!(world.effect(), "Normal n, delete o");
    // Its hook has let it go meanwhile.
    world.pods[3].labels.remove("hook");
    assert_eq!(world.effect(), "Normal n, delete o");
}

/// A claim that nobody uses and that cannot be deleted is no pod's.
#[test]
fn claims_that_nobody_uses_are_a_part_of_their_own() {
    let mut world = World::new(
        json!({
            "replicas": 2, "scaleStrategy": { "disablePVCReuse": true },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" } }],
        }),
        "1n",
    );
    world.claims = vec![super::claims::claim("gone")];
    let (parts, _) = world.plan().into_parts();
    let [claims, new, ..] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(claims.as_slice(), [Action::DeleteClaim(_)]), "{claims:?}");
    assert!(matches!(new.as_slice(), [Action::CreateClaim(_), Action::CreatePod(_)]), "{new:?}");
}
