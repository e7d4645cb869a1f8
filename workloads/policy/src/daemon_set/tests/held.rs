//! Pods that are lost on nodes which the partition holds back, while no other pod tells what they had.

use super::*;

/// One of ten is held, and has lost its pod; the others have the newest.
fn alone() -> World {
    World::new(json!({ "partition": 1 }), &ten("n").replace("a:n", ""))
}

fn had(all: &[(&str, &str)]) -> Held {
    all.iter().map(|(node, hash)| ((*node).to_owned(), (*hash).to_owned())).collect()
}

#[test]
fn a_node_gets_back_what_it_had() {
    for (hash, effect) in [("old", "+ao"), ("mid", "+am"), ("new", "+an"), ("gone", "+am")] {
        let mut world = alone();
        world.held = had(&[("a", hash)]);
        assert_eq!(world.effect(), effect, "{hash}");
    }
    // Most of the others have another one.
    let mut world = World::new(json!({ "partition": 7 }), &split("n", "o", "acdef").replace("a:o", ""));
    world.held = had(&[("a", "mid")]);
    assert_eq!(world.effect(), "+am");
}

/// A set of one node: the program sees the pod before it goes, and what it remembers is what comes back.
#[test]
fn what_a_node_has_is_remembered_until_it_has_another_pod() {
    let mut world = World::new(json!({ "partition": 1 }), "a:o");
    world.nodes.truncate(1);
    assert_eq!(world.plan().held, Some(had(&[("a", "old")])));
    world.held = had(&[("a", "old")]);
    assert_eq!(world.plan().held, None, "nothing is new");
    world.pods[0].terminating = true;
    assert_eq!((world.effect().as_str(), world.plan().held), ("", None));
    world.pods.clear();
    assert_eq!((world.effect().as_str(), world.plan().held), ("+ao", None));
    // Nothing is remembered of nodes that are let go, or gone.
    world.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    assert_eq!((world.effect().as_str(), world.plan().held), ("+an", Some(Held::new())));
    world.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(1);
    world.nodes.clear();
    assert_eq!(world.plan().held, Some(Held::new()));
}

/// The program was restarted while the node had no pod.
#[test]
fn where_nobody_knows_it_is_the_revision_before() {
    let mut world = alone();
    assert_eq!(world.effect(), "+am");
    let status = |hash: &str, updated| AdvancedDaemonSetStatus {
        daemon_set_hash: Some(hash.to_owned()),
        desired_number_scheduled: 10,
        updated_number_scheduled: updated,
        ..AdvancedDaemonSetStatus::default()
    };
    for (hash, updated, effect) in [("new", 10, "+an"), ("new", 9, "+am"), ("mid", 10, "+am")] {
        world.status = Some(status(hash, updated));
        assert_eq!(world.effect(), effect, "{hash} {updated}");
    }
    // Its author went back: the newest is older than the one between.
    world.status = None;
    world.went_back = true;
    assert_eq!(world.effect(), "+an");
}
