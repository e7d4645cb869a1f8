//! Jobs for which there is no room: what they have asked for stays, and they go on when there is some.

use serde_json::json;

use super::world::*;

#[test]
fn what_a_job_has_asked_for_stays() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "parallelism": 2 }));
    world.hear_all("j");
    world.pass(seconds(5));
    let known = |world: &World| (world.asked("j"), world.node_writes, world.job_writes);
    let before = known(&world);
    assert_eq!(before.0, ["n0", "n1"]);
    world.has_room("j", false);
    world.pass(seconds(100));
    assert_eq!(known(&world), before, "nothing is written");
    world.has_room("j", true);
    world.succeed_all("j");
    world.pass(seconds(5));
    assert_eq!(world.succeed_all("j"), ["n2"]);
    world.pass(seconds(5));
    assert!(world.is_over("j"));
}

/// A manager that has never known more of it does not take its entries for those of nobody.
#[test]
fn what_a_job_has_asked_for_stays_with_the_next_manager() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({}));
    world.hear_all("j");
    world.pass(seconds(5));
    let asked = world.asked("j");
    assert_eq!(asked.len(), 1);
    let job = world.jobs.remove("j").unwrap();
    world.fail_over();
    world.jobs.insert("j".to_owned(), job);
    world.has_room("j", false);
    world.pass(seconds(100));
    assert_eq!(world.asked("j"), asked);
    world.has_room("j", true);
    world.pass(seconds(1));
    assert_eq!(world.asked("j"), asked, "it is asked once");
}
