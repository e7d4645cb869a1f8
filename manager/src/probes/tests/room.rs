//! The room of a node and of a pod: whose probes run, and what the others say.

use serde_json::{Value, json};

use super::world::*;
use crate::{
    probes::{queue, room},
    store::{MarkerSeen, Object, PodSeen},
};

/// A probe with a condition of its own, of so many KiB.
fn probe(name: &str, kib: usize) -> Value {
    json!({ "name": name, "containerName": "game", "podConditionType": format!("game.io/{name}"),
        "probe": { "exec": { "command": ["/idle.sh", "x".repeat(kib << 10)] } } })
}

fn markers_of(world: &World, node: &str, pod: &str) -> Vec<String> {
    let of = world.desired(node).iter().find(|entry| entry.name == pod);
    of.map(|entry| entry.probes.iter().map(|probe| probe.name.clone()).collect()).unwrap_or_default()
}

/// A pod has 64 KiB: the third of 25 KiB waits, says so, and comes in when one before it goes.
#[test]
fn a_pod_has_room_for_so_much() {
    let mut world = World::with_nodes(1);
    world.pod(pod("p", "n0", GAME));
    for name in ["z", "b", "a"] {
        world.pass(millis(1000));
        world.marker(name, spec(&[probe(name, 25)]));
    }
    world.pass(millis(1000));
    assert_eq!(markers_of(&world, "n0", "p"), ["z#z", "b#b"], "the first made come first");
    let accepted = world.accepted("a");
    assert_eq!((&*accepted.status, &*accepted.reason), ("True", "NotOnAllPods"));
    assert!(
        accepted.message.contains("pod p") && accepted.message.contains("64 KiB"),
        "{}",
        accepted.message
    );
    world.no_marker("z");
    world.pass(millis(1000));
    assert_eq!(markers_of(&world, "n0", "p"), ["b#b", "a#a"]);
    assert_eq!(world.accepted("a").reason, "Accepted");
}

#[test]
fn what_never_fits_is_refused() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[probe("a", 63)]));
    world.pass(millis(1000));
    let accepted = world.accepted("m");
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "InvalidSpec"));
    assert!(accepted.message.contains("spec.probes of PodProbeMarker shop/m"), "{}", accepted.message);
}

/// A namespace that wants far more than there is has what is left over; another one's probe runs as if it
/// were alone.
#[test]
fn a_full_node_is_shared() {
    let mut world = World::with_nodes(1);
    for number in 0..40 {
        world.pod(pod(&format!("p{number:02}"), "n0", GAME));
    }
    world.marker("old", spec(&[probe("old", 1)]));
    world.pass(millis(1000));
    world.marker("young", spec(&[probe("young", 40)]));
    world.pass(millis(1000));
    let told = |world: &World| world.desired("n0").iter().map(|pod| pod.probes.len()).sum::<usize>();
    let size: usize = serde_json::to_string(world.desired("n0")).unwrap().len();
    assert!(size <= room::OF_ALL && size > room::OF_ALL / 2, "{size}");
    assert!(told(&world) > 40 && told(&world) < 80, "{}", told(&world));
    assert!(
        (0..40)
            .all(|number| markers_of(&world, "n0", &format!("p{number:02}")).contains(&"old#old".to_owned()))
    );
    assert_eq!(world.accepted("old").reason, "Accepted");
    let accepted = world.accepted("young");
    assert_eq!((&*accepted.status, &*accepted.reason), ("True", "NoRoom"));
    let left = 80 - told(&world);
    assert!(
        accepted.message.contains(&format!("{left} pods of 1 nodes, one of them n0")),
        "{}",
        accepted.message
    );

    let other = |mut seen: MarkerSeen| {
        seen.namespace = "other".to_owned();
        seen.uid = "another".to_owned();
        seen
    };
    let marker = other(world.markers["old"].clone());
    let there =
        PodSeen { namespace: "other".to_owned(), uid: "there".to_owned(), ..pod("there", "n0", GAME) };
    world.waits = true;
    for object in [Object::Pod(there), Object::PodProbeMarker(Box::new(marker))] {
        let orders = world.index.apply(&object, world.now());
        drop(orders);
    }
    let node = &world.index.nodes["n0"];
    assert!(node.chosen.as_ref().unwrap_or(&node.wanted).values().any(|pod| &*pod.namespace == "other"));

    world.waits = false;
    world.no_marker("young");
    world.pass(millis(1000));
    assert!(world.index.nodes["n0"].chosen.is_none() && world.index.nodes["n0"].left_out.is_empty());
}

/// Time passes until nothing is written any more.
fn settle(world: &mut World) {
    loop {
        world.pass(millis(3000));
        if !world.write_one() {
            return;
        }
        while world.write_one() {}
    }
}

/// Thousands of markers of one namespace: the first so many are carried out, the others say that they wait,
/// and an event costs the same however many they are.
#[test]
fn two_thousand_markers() {
    let mut world = World::with_nodes(1);
    world.pod(pod("p", "n0", GAME));
    // Not one within the other.
    world.waits = true;
    for number in 0..2_000 {
        world.marker(&format!("m{number:05}"), spec(&[probe(&format!("c{number}"), 0)]));
    }
    settle(&mut world);
    let run = markers_of(&world, "n0", "p");
    assert!(run.len() == room::MARKERS_OF_POD, "{}", run.len());
    assert_eq!(run[0], "m00000#c0");
    assert_eq!(world.accepted("m00000").reason, "Accepted");
    assert_eq!(world.accepted("m00100").reason, "NotOnAllPods");
    let waits = world.accepted("m01999");
    assert_eq!((&*waits.status, &*waits.reason), ("False", "NoRoom"));
    assert!(waits.message.contains("512") && waits.message.contains("delete"), "{}", waits.message);
    assert_eq!(world.index.size().refused, 2_000 - queue::MOST);

    world.pod(pod("q", "n0", GAME));
    settle(&mut world);
    let writes = world.marker_writes;
    world.index.evaluations = 0;
    world.no_marker("m01900");
    assert_eq!(world.index.evaluations, 0, "one that waits goes unnoticed");
    world.no_marker("m00000");
    settle(&mut world);
    assert_eq!(world.accepted("m00512").reason, "NotOnAllPods", "the next one has its turn");
    assert!(world.marker_writes - writes <= 2 * queue::MOST, "{}", world.marker_writes - writes);
}

/// A namespace has 16 MiB: the plan of a large marker that waits is not kept, and asked for in its turn.
#[test]
fn a_large_marker_is_read_again_in_its_turn() {
    let mut world = World::with_nodes(1);
    world.pod(pod("p", "n0", GAME));
    for name in ["a", "b"] {
        world.pass(millis(1000));
        world.marker(name, spec(&[probe(name, 1)]));
        world.markers.get_mut(name).unwrap().spec_weight.memory = 12 << 20;
        world.show_marker(name);
    }
    world.pass(millis(1000));
    assert_eq!(markers_of(&world, "n0", "p"), ["a#a"]);
    let reason = |world: &World| world.accepted("b").reason.clone();
    assert_eq!((reason(&world).as_str(), world.index.takes_list()), ("NoRoom", false));
    world.no_marker("a");
    assert_eq!((world.index.takes_list(), world.index.takes_list()), (true, false));
    world.pass(millis(1000));
    assert_eq!((markers_of(&world, "n0", "p").len(), reason(&world).as_str()), (0, "NoRoom"));
    world.show_marker("b");
    world.pass(millis(1000));
    assert_eq!(markers_of(&world, "n0", "p"), ["b#b"]);
    assert_eq!(reason(&world), "Accepted");
}
