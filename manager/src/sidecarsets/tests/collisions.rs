//! Counts of collisions in a status that another program has written.

use berth_proto::crd::UpdatePhase;
use rstest::rstest;
use serde_json::json;

use super::world::{World, pod};

/// OpenKruise writes a 0 where this manager leaves the field out.
#[rstest]
#[case::left_out(None)]
#[case::none(Some(0))]
#[case::one(Some(1))]
#[case::no_number_of_such(Some(-1))]
fn pods_are_upgraded(#[case] count: Option<i32>) {
    let mut world = World::new();
    world.upgrade("log:1", json!({}));
    world.pod(pod("a", "log:1"));
    world.pass(3_000);
    let mut shown = world.sets["s"].clone();
    shown.status.as_mut().unwrap().collision_count = count;
    world.sets.insert("s".to_owned(), shown);
    world.fail_over();
    let before = world.set_writes;
    world.pass(10_000);
    assert_eq!(
        (world.set_writes, world.status().collision_count),
        (before, count),
        "nothing is to be written"
    );

    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["a"]);
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((world.counts(), world.reason("UpToDate")), ([1, 1, 1, 1, 0], "Updated"));
    assert_eq!(world.status().collision_count, count);
}
