//! Nodes that fit no more, and those whose pods could not be made: no other node waits for them.

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::build,
    world::{World, node},
};
use crate::jobs::Action;

/// A node that dies while its pod runs, or is cordoned: only nodes that fit are waited for. What runs there
/// goes on, until the job is gone or Kubernetes ends it.
#[rstest]
#[case::dead(json!({ "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }] }), false, 1)]
#[case::dead_and_evicted(
    json!({ "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }] }), true, 0)]
#[case::cordoned(json!({ "unschedulable": true }), false, 1)]
fn a_node_that_fits_no_more_keeps_no_job_from_its_end(
    #[case] of_node: Value,
    #[case] terminating: bool,
    #[case] active: i32,
) {
    let spec = json!({ "completionPolicy": { "ttlSecondsAfterFinished": 5 } });
    let mut world = World::new(&["a", "b", "c"], spec);
    world.settle();
    world.end(&["a"]);
    for node in ["b", "c"] {
        world.pod(node).bound = true;
    }
    world.pod("c").terminating = terminating;
    world.nodes.get_mut("c").unwrap()["spec"] = of_node;
    world.settle();
    world.is("running", 2, active + 1, 1, 0);
    world.end(&["b"]);
    world.settle();
    world.is("completed", 2, active, 2, 0);
    assert!(world.deleted.is_empty(), "{:?}", world.deleted);
    world.later(5);
    world.settle();
    assert!(world.is_gone);
}

/// A pod that is deleted on a node that fits is waited for: its node is done anew.
#[test]
fn a_pod_that_goes_is_waited_for_where_it_fits() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    world.end(&["a"]);
    let pod = world.pod("b");
    (pod.bound, pod.terminating) = (true, true);
    world.settle();
    world.is("running", 2, 0, 1, 0);
}

/// Pods that could not be made do not take the turn of the others.
#[rstest]
#[case::one_at_a_time(json!({ "parallelism": 1 }), &["b"])]
#[case::two(json!({ "parallelism": 2 }), &["b", "d"])]
#[case::all(json!({}), &["b", "d", "e", "a", "c"])]
fn what_could_not_be_made_comes_last(#[case] spec: Value, #[case] nodes: &[&str]) {
    let mut world = World::new(&["a", "b", "c", "d", "e"], spec);
    world.put_off = ["a", "c"].map(|node| build::name(&world.job, node)).into();
    world.settle();
    assert_eq!(world.made, nodes);
}

/// Pods that could not be deleted do not take the turn of the others, nor do pods that are to be made wait
/// for them.
#[test]
fn what_could_not_be_deleted_comes_last() {
    let mut world = World::new(&["a", "b", "c", "d"], json!({ "failurePolicy": { "type": "FailFast" } }));
    world.settle();
    world.put_off = ["a", "c"].map(|node| world.pod(node).uid.clone()).into();
    world.nodes.remove("d");
    world.nodes.insert("e".to_owned(), node("e"));
    world.nodes.get_mut("a").unwrap()["spec"] = json!({ "unschedulable": true });
    let shown = |world: &World| -> String {
        let name = |action: &Action| match action {
            Action::Create(..) => "new".to_owned(),
            Action::Delete(_, target) | Action::Forget(_, target) => world.pods[&target.name].node.clone(),
        };
        world.plan().actions.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    // A pod that waits for its node goes where it does not fit any more.
    assert_eq!(shown(&world), "d new a");
    world.settle();
    world.pod("b").bound = true;
    world.end(&["f:b"]);
    let plan = world.plan();
    assert!(plan.status_first);
    world.carry_out(&plan, 2);
    assert_eq!(shown(&world), "e c", "the job has failed");
}
