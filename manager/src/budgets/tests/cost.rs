//! Cost of an event of a pod: each count of a budget asks for the scale of its workload; and what is lost.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::world::{Pod, World, of_web, owner};
use crate::store::{PodSeen, PodStage};

#[rstest]
#[case::again(|_: &mut PodSeen| {}, false)]
#[case::another_version(|pod: &mut PodSeen| pod.version += 1, false)]
#[case::an_address(|pod: &mut PodSeen| pod.ip = "10.0.0.1".parse().ok(), false)]
#[case::another_node(|pod: &mut PodSeen| pod.node = Some("n1".to_owned()), false)]
#[case::initialized(|pod: &mut PodSeen| pod.initialized = false, false)]
#[case::not_available(|pod: &mut PodSeen| pod.available = false, true)]
#[case::goes(|pod: &mut PodSeen| pod.stage = PodStage::Terminating, true)]
#[case::another_one(|pod: &mut PodSeen| pod.uid = "other".to_owned(), true)]
#[case::another_owner(|pod: &mut PodSeen| pod.owner = Some(owner("CloneSet", "other")), true)]
#[case::another_namespace(|pod: &mut PodSeen| pod.namespace = "other".to_owned(), false)]
fn an_event_that_cannot_matter_is_not_counted(#[case] change: fn(&mut PodSeen), #[case] counted: bool) {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    world.pass(Duration::from_secs(5));
    let before = world.looked.len();
    world.show("p0", change);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.looked.len() > before, counted);
}

/// A write that is lost is made again, less and less often, and a lookup that is lost is asked for again.
#[rstest]
#[case::a_write((1, 0), 3)]
#[case::some_writes((3, 0), 15)]
#[case::a_lookup((0, 1), 31)]
#[case::both((1, 1), 34)]
fn what_is_lost_is_done_again(#[case] loses: (u32, u32), #[case] seconds: u64) {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    assert_eq!(world.status.current_available, 3);
    world.loses = loses;
    let pod = world.pods["p0"].clone();
    world.change("p0", Some(Pod { ready: false, ..pod }));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.status.current_available, 3, "lost");
    world.pass(Duration::from_secs(seconds));
    assert_eq!((world.status.current_available, world.loses), (2, (0, 0)));
}

/// Pods of ReplicaSets that cannot be the Deployment's own are nothing to it.
#[test]
fn a_pod_of_another_deployment_is_not_counted() {
    let budget = json!({
        "maxUnavailable": 1, "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
    });
    let mut world = World::new(3, budget, json!({}));
    for (set, counted) in [("store-1", false), ("web2-1", false), ("web-1", true)] {
        world.pass(Duration::from_secs(5));
        let before = world.looked.len();
        world.make(&format!("{set}-a"), true, Some(owner("ReplicaSet", set)));
        world.pass(Duration::from_secs(5));
        assert_eq!(world.looked.len() > before, counted, "{set}");
    }
}

/// Pods are kept once, for all indexes: what a budget has counted it looks up there again.
#[test]
fn a_budget_keeps_no_pods() {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    let pod = world.pods["p0"].clone();
    world.change("p0", Some(Pod { ready: false, ..pod }));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.status.current_available, 2);
    let kept = format!("{:?}", world.index);
    assert!(kept.contains("\"b\"") && kept.contains("\"web\""), "the budget and its workload: {kept}");
    for name in world.pods.keys() {
        assert!(!kept.contains(&format!("\"{name}\"")), "{name} in {kept}");
    }
}
