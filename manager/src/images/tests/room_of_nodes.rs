//! The room of a node's object: who gets in, who waits and says so, and who is next.

use berth_proto::crd::ImagePhase;
use serde_json::{Value, json};

use super::world::*;

/// A job with annotations of so many KiB.
fn large(kib: usize) -> Value {
    json!({ "sandboxConfig": { "annotations": { "a": "x".repeat(kib << 10) } } })
}

/// The fourth of 3 KiB has no room beside three, asks nobody and says why; when one is over and gone it comes
/// in.
#[test]
fn what_does_not_fit_waits_and_comes_in() {
    let mut world = World::with_nodes(1);
    for name in ["a", "b", "c", "d"] {
        world.job(name, large(3));
        world.pass(seconds(1));
    }
    assert_eq!(world.images["n0"].desired.len(), 3, "16 KiB of them");
    ["a", "b", "c"].iter().for_each(|name| world.hear_all(name));
    assert_eq!(world.counts("d"), [1, 0, 0, 0]);
    let message = world.message("d").to_owned();
    assert!(message.contains("1 nodes wait for room") && message.contains("16 KiB"), "{message}");
    world.pass(seconds(500));
    assert!(!world.asks.keys().any(|(_, uid)| *uid == world.jobs["d"].uid));
    world.no_job("b");
    world.pass(seconds(1));
    assert_eq!(
        (world.asked("d"), world.message("d")),
        (vec!["n0".to_owned()], "job is running, progress 0.0%")
    );
}

/// An entry that is kept to be looked up gives way as soon as another job of its namespace waits, and not
/// before; one whose job runs does not.
#[test]
fn an_ended_entry_gives_way() {
    let mut world = World::with_nodes(1);
    for name in ["over", "ended-here", "runs"] {
        let mut job = large(3);
        if name == "ended-here" {
            job["completionPolicy"] = json!({ "type": "Never" });
        }
        world.job(name, job);
        world.pass(seconds(1));
    }
    for name in ["over", "ended-here"] {
        world.answer("n0", name, ImagePhase::Succeeded);
    }
    world.pass(seconds(10));
    assert!(world.is_over("over") && !world.is_over("ended-here"));
    assert_eq!(world.images["n0"].desired.len(), 3, "nobody waits");
    world.job("next", large(3));
    world.pass(seconds(1));
    assert_eq!((world.asked("next").len(), world.images["n0"].desired.len()), (1, 3));
    assert!(world.placed(&world.jobs["over"].uid.clone()).is_empty());
    world.job("one-more", large(3));
    world.pass(seconds(30));
    assert!(world.asked("one-more").is_empty(), "the other two have jobs that are not over");
}

/// The oldest is next, and one that would fit does not overtake one that waits.
#[test]
fn the_oldest_is_next() {
    let mut world = World::with_nodes(1);
    for (name, kib) in [("first", 10), ("z-second", 10), ("a-third", 10), ("b-small", 1)] {
        world.job(name, large(kib));
        world.pass(seconds(1));
    }
    assert_eq!(world.images["n0"].desired.len(), 1);
    world.no_job("first");
    world.pass(seconds(1));
    assert_eq!((world.asked("z-second").len(), world.asked("a-third").len()), (1, 0));
    world.no_job("a-third");
    world.pass(seconds(1));
    assert_eq!(world.asked("b-small").len(), 1, "nobody waits before it");
}

/// Nodes without room take nothing of what a job may do at once.
#[test]
fn a_node_without_room_holds_up_no_other() {
    let mut world = World::with_nodes(3);
    let mut full = large(14);
    full["selector"] = json!({ "names": ["n0"] });
    world.job("full", full);
    let mut job = large(3);
    job["parallelism"] = json!(1);
    world.job("j", job);
    assert_eq!(world.asked("j"), ["n1"]);
    world.succeed_all("j");
    assert_eq!(world.asked("j"), ["n2"]);
    world.succeed_all("j");
    world.pass(seconds(1));
    assert_eq!(world.counts("j"), [3, 0, 2, 0]);
    assert!(!world.is_over("j"));
    world.no_job("full");
    world.pass(seconds(1));
    assert_eq!(world.asked("j"), ["n0"]);
    world.succeed_all("j");
    assert!(world.is_over("j"));
}

/// A job that may not ask further nodes does not keep the room from others; and it asks when it may.
#[test]
fn one_that_is_paused_keeps_no_room() {
    let mut world = World::with_nodes(1);
    world.job("full", large(14));
    world.job("paused", large(10));
    world.job("young", large(7));
    let mut paused = large(10);
    paused["parallelism"] = json!(0);
    world.job("paused", paused);
    world.no_job("full");
    world.pass(seconds(1));
    assert_eq!((world.asked("paused").len(), world.asked("young").len()), (0, 1));
    world.job("paused", large(10));
    assert!(world.asked("paused").is_empty() && world.message("paused").contains("wait for room"));
    world.no_job("young");
    world.pass(seconds(1));
    assert_eq!(world.asked("paused").len(), 1);
}

#[test]
fn what_never_fits_is_refused() {
    let mut world = World::with_nodes(1);
    world.job("j", large(40));
    let accepted = world.condition("j", "Accepted").unwrap();
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "InvalidSpec"));
    assert!(accepted.message.contains("spec.sandboxConfig of ImagePullJob shop/j"), "{}", accepted.message);
    assert!(
        accepted.message.contains("42 KiB") && accepted.message.contains("16 KiB"),
        "{}",
        accepted.message
    );
    world.job("j", large(4));
    assert_eq!(world.asked("j"), ["n0"], "the largest that its definition lets in");
}

/// A job that wants nothing of the node any more, because it is not selected, makes room for who waits behind
/// it.
#[test]
fn one_that_leaves_holds_up_nobody() {
    let mut world = World::with_nodes(0);
    world.join("n0", &[("pool", "a")]);
    world.job("full", large(3));
    let mut head = large(14);
    head["selector"] = json!({ "matchLabels": { "pool": "a" } });
    world.job("head", head);
    world.pass(seconds(1));
    world.job("young", large(3));
    assert!(world.asked("young").is_empty());
    world.node("n0", &[("pool", "b")]);
    world.pass(seconds(1));
    assert_eq!((world.asked("young").len(), world.counts("head")[0]), (1, 0));
}

/// Another manager decides the same from what it sees.
#[test]
fn a_fail_over_changes_nothing() {
    let mut world = World::with_nodes(1);
    for name in ["d", "c", "b", "a"] {
        world.job(name, large(6));
        world.pass(seconds(1));
    }
    ["d", "c"].iter().for_each(|name| world.hear_all(name));
    let shown =
        |world: &World| -> Vec<usize> { world.images.values().map(|image| image.desired.len()).collect() };
    let before = (shown(&world), world.node_writes);
    world.fail_over();
    world.pass(seconds(60));
    assert_eq!((shown(&world), world.node_writes), before);
    world.no_job("d");
    world.pass(seconds(1));
    assert_eq!((world.asked("b").len(), world.asked("a").len()), (1, 0), "the oldest");
}

/// Thousands of jobs of one namespace: what is owed to a node stays small, and an event costs what it
/// touches.
#[test]
fn thousands_of_jobs() {
    let mut world = World::with_nodes(1);
    for number in 0..2_000 {
        world.job(&format!("j{number:05}"), json!({ "image": format!("r.example.com/a:{number}") }));
    }
    let asked = world.images["n0"].desired.len();
    assert!((10..=14).contains(&asked), "{asked}");
    let evaluations = world.index.evaluations;
    for _ in 0..100 {
        world.agent("n0", None);
    }
    assert_eq!(world.index.evaluations, evaluations);
    assert_eq!(world.images["n0"].desired.len(), asked);
}
