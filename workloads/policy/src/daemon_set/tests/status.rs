//! Numbers of the status, and nodes that the set does not fit.

use super::*;

#[test]
fn the_status_counts() {
    let status = World::new(json!({ "paused": true }), &ten("o").replace("a:o", "").replace("b:o", "b:n!"))
        .plan()
        .status
        .unwrap();
    let counts = (status.desired_number_scheduled, status.current_number_scheduled, status.number_ready);
    assert_eq!(counts, (10, 9, 8));
    assert_eq!(
        (status.updated_number_scheduled, status.number_available, status.number_unavailable),
        (1, 8, 2)
    );
    assert_eq!(status.daemon_set_hash.as_deref(), Some("new"));
    assert_eq!(status.conditions[0].message.as_deref(), Some("no room"));
}

/// The oldest pod speaks for its node: a rollout that surges has not ended before its new pods run.
#[test]
fn a_new_pod_beside_an_old_one_does_not_count_yet() {
    let surge = json!({ "maxSurge": "100%", "maxUnavailable": 0 });
    for (new, updated, ready) in [("n!", 0, 10), ("n", 0, 10), ("", 0, 10)] {
        let beside: String =
            NODES.chars().filter(|_| !new.is_empty()).map(|node| format!("{node}:{new} ")).collect();
        let status = World::new(surge.clone(), &format!("{}{beside}", ten("o"))).plan().status.unwrap();
        assert_eq!((status.updated_number_scheduled, status.number_ready), (updated, ready), "{new:?}");
        assert_eq!((status.number_available, status.number_unavailable), (ready, 0), "{new:?}");
    }
    let status = World::new(surge, &format!("{}{}", ten("oT"), ten("n!"))).plan().status.unwrap();
    let counts = (status.updated_number_scheduled, status.number_ready, status.number_unavailable);
    assert_eq!(counts, (10, 0, 10), "the old ones are on their way out");
}

#[test]
fn nodes_that_do_not_fit() {
    let taint = |effect: &str| vec![json!({ "key": "x", "effect": effect })];
    let mut world = World::new(json!({}), &ten("n").replace("c:n", ""));
    world.nodes[2].taints = taint("NoSchedule");
    world.nodes[3].taints = taint("NoSchedule");
    world.nodes[4].taints = taint("NoExecute");
    assert_eq!(world.effect(), "-e", "c gets none, d keeps its own");
    let status = world.plan().status.unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_misscheduled), (7, 2));
}

/// They count among the nodes that the partition is of, and take their turn; a pod that would not come back
/// is left where it is.
#[test]
fn n11_nodes_that_do_not_fit_any_more_take_part() {
    for (rolling, effect) in [
        (json!({ "partition": 7, "maxUnavailable": 9 }), "-h"),
        (json!({ "partition": 8, "maxUnavailable": 9 }), ""),
        (json!({ "maxUnavailable": 2 }), "-h -g"),
    ] {
        let mut world = World::new(rolling, &ten("o"));
        for at in [8, 9] {
            world.nodes[at].taints = vec![json!({ "key": "x", "effect": "NoSchedule" })];
        }
        assert_eq!(world.effect(), effect);
    }
}

/// A node that registers anew finds its pods as they were.
#[test]
fn pods_of_a_node_that_is_gone_are_the_garbage_collectors() {
    let mut world = World::new(json!({}), &ten("n"));
    world.nodes.remove(2);
    assert_eq!(world.effect(), "");
    let status = world.plan().status.unwrap();
    assert_eq!((status.desired_number_scheduled, status.number_misscheduled), (9, 0));
    // It was never placed there, and never will be.
    (world.pods[2].node, world.pods[2].placed_on) = (String::new(), "c".to_owned());
    assert_eq!(world.effect(), "-c");
}

/// One that waits for its hook does not count among the deletions of a pass.
#[test]
fn a_pod_that_is_held_keeps_no_other_one_from_going() {
    let mut world = World::new(json!({}), &ten("n").replace("a:n", "a:nP"));
    world.spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    world.spec["burstReplicas"] = json!(1);
    for at in [0, 1] {
        world.nodes[at].taints = vec![json!({ "key": "x", "effect": "NoExecute" })];
    }
    assert_eq!(world.effect(), "-b");
}
