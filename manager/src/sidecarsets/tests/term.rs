//! A replica that begins to lead.

use serde_json::json;

use super::world::{World, pod};
use crate::store::Kind;

/// The leader before it may have asked for pods by an edit that the watch has not shown here. By what it has
/// shown they would get the sidecars of before.
#[test]
fn nothing_is_decided_before_the_sets_were_listed_in_the_term() {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    world.pod(pod("a", "log:1"));
    world.pass(3_000);
    world.index.rests(world.now());
    world.pass(1_000);
    world.upgrade("log:2", json!({}));
    let writes = world.set_writes;
    assert!(world.index.owed(world.now()).is_empty());
    world.pass(3_000);
    assert_eq!(world.set_writes, writes);
    assert!(world.asked("n0").is_empty());
    world.list(Kind::SidecarSet);
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["a"]);
}
