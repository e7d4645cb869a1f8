//! How often something is written, and when it is written again.

use serde_json::json;

use super::world::*;
use crate::{
    probes::SETTLE,
    store::{Kind, MarkerSeen, Object},
};

#[test]
fn a_hundred_pods_are_a_few_writes_the_first_at_once() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.pass(millis(1000));
    let (nodes, markers) = (world.node_writes, world.marker_writes);
    for number in 0..100 {
        world.pod(pod(&format!("p{number:02}"), "n0", GAME));
        if number == 0 {
            assert_eq!((world.desired("n0").len(), world.matched("m")), (1, 1), "at once");
        }
        world.pass(millis(10));
    }
    world.pass(SETTLE);
    assert_eq!(world.desired("n0").len(), 100);
    assert!((2..=6).contains(&(world.node_writes - nodes)), "{}", world.node_writes - nodes);
    world.pass(millis(500));
    assert_eq!(world.matched("m"), 100);
    assert!((2..=3).contains(&(world.marker_writes - markers)), "{}", world.marker_writes - markers);
    let settled = (world.node_writes, world.marker_writes);
    world.pass(millis(100_000));
    world.list_all();
    for number in 0..100 {
        world.pod(pod(&format!("p{number:02}"), "n0", GAME));
    }
    world.disturb("n0");
    world.pass(millis(1000));
    assert_eq!((world.node_writes, world.marker_writes), settled, "nothing changes, nothing is written");
}

#[test]
fn a_change_that_is_taken_back_in_time_is_none() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.pod(pod("a", "n0", GAME));
    world.pod(pod("b", "n0", GAME));
    world.no_pod("b");
    world.pass(millis(1000));
    assert_eq!((world.node_writes, world.told("n0").len()), (1, 1));
}

/// A second write on the same version could only be refused.
#[test]
fn what_came_of_a_write_is_waited_for() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.pass(millis(1000));
    world.waits = true;
    world.pod(pod("a", "n0", GAME));
    let first: Vec<_> = world.orders.drain(..).collect();
    world.pod(pod("b", "n0", GAME));
    world.pass(millis(1000));
    assert!(world.orders.is_empty(), "{:?}", world.orders);
    world.waits = false;
    world.carry_out_late(first);
    assert_eq!((world.told("n0").len(), world.matched("m")), (2, 2), "with the next version at once");

    world.waits = true;
    world.pass(millis(1000));
    world.pod(pod("c", "n0", GAME));
    world.orders.clear();
    world.pod(pod("d", "n0", GAME));
    world.waits = false;
    world.pass(millis(2000));
    assert_eq!((world.told("n0").len(), world.matched("m")), (4, 4), "but not for ever");
}

#[test]
fn a_write_that_came_too_late_is_decided_anew() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.pass(millis(1000));
    world.waits = true;
    world.pod(pod("a", "n0", GAME));
    world.disturb("n0");
    assert_eq!(world.orders.len(), 2, "to the node and to the marker, once each");
    while world.write_one() {}
    assert!(world.desired("n0").is_empty(), "it was decided on the version before");
    world.waits = false;
    world.pass(SETTLE);
    assert_eq!(world.told("n0"), ["a: m#idle"]);
}

#[test]
fn a_write_that_found_no_room_is_owed_again() {
    let mut world = World::with_nodes(1);
    world.waits = true;
    world.marker("m", spec(&[idle()]));
    world.pod(pod("a", "n0", GAME));
    while !world.orders.is_empty() {
        world.lose_one();
    }
    world.waits = false;
    world.pass(millis(4000));
    assert!(world.desired("n0").is_empty(), "after a pause, or with the next change");
    world.pass(millis(2000));
    assert_eq!((world.told("n0").len(), world.matched("m")), (1, 1));
}

#[test]
fn nothing_is_written_without_the_lease_nor_before_all_is_known() {
    let mut world = World::unlisted();
    world.lead();
    world.list(Kind::PodProbeMarker);
    world.list(Kind::NodePodProbe);
    world.join("n0");
    world.marker("m", spec(&[idle()]));
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(10_000));
    assert_eq!((world.node_writes, world.marker_writes), (0, 0), "pods have not been listed");
    world.rest();
    world.list(Kind::Pod);
    world.no_pod("a");
    world.pod(pod("b", "n0", GAME));
    world.pass(millis(10_000));
    assert_eq!((world.node_writes, world.marker_writes), (0, 0), "another replica leads");
    world.lead();
    assert_eq!((world.told("n0"), world.matched("m")), (vec!["b: m#idle".to_owned()], 1));
}

/// The leader before may have acted on markers that this replica's watch has not shown yet.
#[test]
fn a_new_leader_decides_by_markers_that_it_has_listed() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.rest();
    world.pass(millis(1000));
    world.pod(pod("a", "n0", GAME));
    let now = world.now();
    assert!(world.index.owed(now).is_empty(), "by markers of before");
    world.pass(millis(10_000));
    assert_eq!(world.node_writes, 0);
    world.list(Kind::PodProbeMarker);
    assert_eq!(world.told("n0"), ["a: m#idle"]);
}

#[test]
fn a_new_leader_finds_nothing_to_do() {
    let mut world = World::with_nodes(3);
    world.marker("m", spec(&[idle()]));
    world.marker("bad", json!({ "selector": {}, "probes": [idle()] }));
    for number in 0..9 {
        world.pod(pod(&format!("p{number}"), &format!("n{}", number % 3), GAME));
    }
    world.pass(millis(2000));
    let settled = (world.node_writes, world.marker_writes);
    world.fail_over();
    world.pass(millis(2000));
    assert_eq!((world.node_writes, world.marker_writes), settled);
    // What went while nobody looked is taken back.
    world.pods.remove("p0");
    world.markers.remove("bad");
    world.fail_over();
    world.pass(millis(2000));
    assert_eq!((world.node_writes, world.marker_writes), (settled.0 + 1, settled.1 + 1));
}

/// Checks that the notice of a manager of an earlier version, on an object that nothing acted on, is taken
/// back.
#[test]
fn the_old_notice_is_taken_back() {
    let mut world = World::with_nodes(1);
    world.nodes.get_mut("n0").unwrap().noticed = true;
    world.marker("m", spec(&[idle()]));
    world.pod(pod("a", "n0", GAME));
    world.disturb("n0");
    world.pass(millis(1000));
    assert!(!world.nodes["n0"].noticed && world.told("n0").len() == 1);
    let settled = world.node_writes;
    world.pass(millis(10_000));
    assert_eq!(world.node_writes, settled);
}

/// Its kind is of another version: nothing is written over what is not understood.
#[test]
fn a_status_that_cannot_be_read_is_left_alone() {
    let mut world = World::with_nodes(1);
    world.pod(pod("a", "n0", GAME));
    world.marker("m", spec(&[idle()]));
    world.pass(millis(1000));
    let writes = world.marker_writes;
    world.markers.get_mut("m").unwrap().status = Err("odd".to_owned());
    world.show_marker("m");
    world.pod(pod("b", "n0", GAME));
    world.pass(millis(1000));
    assert_eq!((world.marker_writes, world.told("n0").len()), (writes, 2), "its probes run");
}

/// Ten thousand markers of one author leave the API server to the others: after the first few of their
/// statuses there are five a second, each is written in its turn, and once.
#[test]
fn the_statuses_of_a_namespace_are_written_at_a_pace() {
    let mut world = World::with_nodes(1);
    for number in 0..300 {
        world.marker(&format!("m{number:03}"), spec(&[idle()]));
    }
    assert_eq!(world.marker_writes, 64);
    let other = MarkerSeen { namespace: "other".to_owned(), ..world.markers["m299"].clone() };
    let orders = world.index.apply(Object::PodProbeMarker(Box::new(other)), world.now());
    assert_eq!(orders.len(), 1, "another namespace has its own pace");
    world.pass(millis(1000));
    assert_eq!(world.marker_writes, 64 + 5);
    let has_status = |world: &World, name: &str| {
        world.markers[name].status.as_ref().is_ok_and(|status| !status.conditions.is_empty())
    };
    assert!(has_status(&world, "m068") && !has_status(&world, "m069"), "in their turn");
    for number in 0..150 {
        world.no_marker(&format!("m{number:03}"));
    }
    world.pass(millis(1000));
    assert!(has_status(&world, "m154"), "those that are gone keep no place");
    world.pass(millis(30_000));
    assert!((150..300).all(|number| has_status(&world, &format!("m{number:03}"))));
    assert_eq!(world.marker_writes, 69 + 150);
}

/// A manager that leads anew owes all of them again, at the same pace.
#[test]
fn the_line_ends_with_the_lease() {
    let mut world = World::with_nodes(1);
    for number in 0..100 {
        world.marker(&format!("m{number:03}"), spec(&[idle()]));
    }
    let now = world.now();
    assert!(world.index.rests(now).is_empty());
    world.pass(millis(1000));
    assert_eq!(world.marker_writes, 64, "no more without the lease");
    world.lead();
    world.pass(millis(8000));
    assert_eq!(world.marker_writes, 100);
}
