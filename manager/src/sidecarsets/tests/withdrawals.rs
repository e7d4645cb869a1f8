//! Entries of a swap when something happens in the middle of it: which stand until they end, and which are
//! taken back. The agent brings the twins of those to rest.

use berth_proto::crd::UpdatePhase;
use berth_sidecarset::names;
use serde_json::{Value, json};

use super::{
    rollout::hot,
    world::{World, hash, with},
};
use crate::store::SidecarSetSeen;

const FEATURES: [&str; 2] = ["owners/v1", "swaps/v1"];

/// A pod that is asked for; begun: both of its twins run a version.
fn swapping(is_begun: bool) -> World {
    let mut world = hot(&FEATURES, None);
    assert_eq!(world.asked("n0"), ["a"]);
    if is_begun {
        world.agent("n0", UpdatePhase::Updating);
        world.pod(with(world.pods["a"].clone(), |it| {
            it.images.insert("log-2".into(), "log:2".into());
            it.working.insert("log".into(), "log-2".into());
            it.hashes.insert("s".into(), hash("log:2"));
        }));
        world.pass(3_000);
        assert_eq!(world.asked("n0"), ["a"]);
    }
    world
}

/// Somebody edits the set.
fn edit(world: &mut World, change: impl FnOnce(&mut Value)) {
    let before = world.sets["s"].clone();
    let mut spec = serde_json::to_value(before.spec.as_ref().unwrap()).unwrap();
    change(&mut spec);
    world.set(SidecarSetSeen { spec: Ok(serde_json::from_value(spec).unwrap()), ..before });
}

fn others() -> Value {
    json!({ "matchLabels": { "app": "db" } })
}

/// The set has another container in the place of the one that is swapped.
fn removes_the_container(world: &mut World) {
    let hashes = [(names::HASH, "other".to_owned()), (names::HASH_WITHOUT_IMAGE, "other".to_owned())];
    let annotations = &mut world.sets.get_mut("s").unwrap().annotations;
    annotations.extend(hashes.map(|(key, hash)| (key.to_owned(), hash)));
    edit(world, |spec| spec["containers"] = json!([]));
}

fn renames(world: &mut World) {
    let (name, uid) = ("t".to_owned(), "uid-of-t".to_owned());
    let renamed = SidecarSetSeen { name, uid, ..world.sets["s"].clone() };
    world.no_set("s");
    world.set(renamed);
}

/// Rows: what happens, and whether the entry stands then, where the agent has not begun and where it has.
#[test]
fn an_entry_stands_while_its_set_has_the_pod() {
    type Event = fn(&mut World);
    let table: [(&str, Event, [bool; 2]); 10] = [
        (
            "paused",
            |world| edit(world, |spec| spec["updateStrategy"] = json!({ "paused": true })),
            [true, true],
        ),
        (
            "for new pods alone",
            |world| edit(world, |spec| spec["updateStrategy"] = json!({ "type": "NotUpdate" })),
            [false, true],
        ),
        (
            "not selected for the upgrade",
            |world| edit(world, |spec| spec["updateStrategy"] = json!({ "selector": others() })),
            [false, true],
        ),
        ("the container is removed", removes_the_container, [false, true]),
        ("the pod is not selected", |world| edit(world, |spec| spec["selector"] = others()), [false, false]),
        (
            "the pod has other labels",
            |world| {
                let mut other = world.pods["a"].clone();
                other.labels.insert("app".to_owned(), "db".to_owned());
                world.pod(other);
            },
            [false, false],
        ),
        ("the set is deleted", |world| world.no_set("s"), [false, false]),
        ("the set is renamed", renames, [false, false]),
        (
            "the node's object is made anew",
            |world| {
                world.no_node("n0");
                world.pass(3_000);
                world.node("n0", &FEATURES);
            },
            [true, true],
        ),
        ("another leader", World::fail_over, [true, true]),
    ];
    for (what, event, expected) in table {
        for (is_begun, stands) in [false, true].into_iter().zip(expected) {
            let mut world = swapping(is_begun);
            event(&mut world);
            world.pass(3_000);
            let asked = world.asked("n0");
            assert_eq!(asked == ["a"], stands, "{what}, begun: {is_begun}: {asked:?}");
            if stands {
                let swap = &world.nodes["n0"].desired[0].swaps[0];
                assert_eq!((&*swap.image, &*swap.empty_image), ("log:2", "empty:1"), "{what}");
            }
        }
    }
}

/// A newer version takes the place of the one under way, in one entry.
#[test]
fn a_newer_version_takes_its_place() {
    let mut world = swapping(true);
    let hashes = [(names::HASH, hash("log:3"))];
    let annotations = &mut world.sets.get_mut("s").unwrap().annotations;
    annotations.extend(hashes.map(|(key, hash)| (key.to_owned(), hash)));
    edit(&mut world, |spec| spec["containers"][0]["image"] = json!("log:3"));
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["a"]);
    assert_eq!(world.nodes["n0"].desired[0].swaps[0].image, "log:3");
}
