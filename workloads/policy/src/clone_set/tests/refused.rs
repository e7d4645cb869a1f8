//! Pods that cannot be made, and all that goes on beside them.

use rstest::rstest;
use serde_json::json;

use super::world::{NODE, World, template};
use crate::{action::Action, names::IN_PLACE_GATE};

/// Rows: replicas, most unavailable, pods, the effect at first, and after pods could not be made.
#[rstest]
#[case::one_is_out(6, 1, "5o", "create n", "create n")]
#[case::one_more_may_be_out(6, 2, "5o", "create n", "create n, delete o")]
#[case::more_are_out_than_may_be(9, 3, "5o", "create n x4", "create n x4")]
#[case::a_broken_one_costs_nothing(6, 2, "4o 1o!", "create n", "create n, delete o!")]
#[case::one_that_is_named(6, 3, "4o 1od", "create n, delete od", "create n, delete od")]
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
