//! The status: what it counts, and what it says of faults.

use super::*;

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
