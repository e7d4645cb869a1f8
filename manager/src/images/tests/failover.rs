//! Another manager goes on exactly: with nothing but the objects that the first one wrote.

use berth_proto::crd::ImagePhase;
use serde_json::json;

use super::world::*;

#[test]
fn every_node_once_whoever_manages() {
    let mut world = World::with_nodes(30);
    world.job("j", json!({ "parallelism": 4 }));
    let mut rounds = 0;
    while !world.is_over("j") {
        let asked = world.asked("j");
        assert!(asked.len() <= 4, "{asked:?}");
        for name in asked.iter().take(2) {
            world.answer(name, "j", if rounds % 3 == 0 { ImagePhase::Failed } else { ImagePhase::Succeeded });
        }
        rounds += 1;
        world.fail_over();
    }
    assert_eq!(world.asks.len(), 30);
    assert!(world.asks.values().all(|times| *times == 1), "{:?}", world.asks);
    let [desired, active, succeeded, failed] = world.counts("j");
    assert_eq!((desired, active, succeeded + failed), (30, 0, 30));
    assert_eq!(world.status("j").failed_nodes.len(), failed as usize);
}

#[test]
fn an_end_is_told_once_whoever_manages() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "parallelism": 2 }));
    world.answer("n0", "j", ImagePhase::Succeeded);
    world.answer("n1", "j", ImagePhase::Failed);
    world.pass(seconds(5));
    assert!(world.is_over("j"));
    let told = |world: &World| {
        let notes = world.notes.iter();
        notes.map(|note| (note.reason, note.warning, note.text.clone())).collect::<Vec<_>>()
    };
    let image = world.jobs["j"].spec.as_ref().unwrap().image.clone();
    let text = format!("1 of 2 nodes have {image}, 1 failed; NodesFailed: 1 of 2 nodes failed");
    let once = [("PullFailed", true, text)];
    assert_eq!(told(&world), once);
    world.fail_over();
    world.pass(seconds(100));
    assert_eq!(told(&world), once, "it was over before this manager saw it");
}

/// The memory in the status alone: without the entries.
#[test]
fn what_ended_is_remembered_without_node_images() {
    let mut world = World::with_nodes(5);
    world.job("j", json!({ "parallelism": 2, "completionPolicy": { "type": "Never" } }));
    world.answer("n0", "j", ImagePhase::Succeeded);
    world.answer("n1", "j", ImagePhase::Failed);
    world.pass(seconds(1));
    for name in ["n0", "n1"] {
        world.no_image(name);
        world.agent(name, None);
    }
    world.fail_over();
    world.pass(seconds(1));
    assert_eq!(world.asked("j"), ["n2", "n3"]);
    assert_eq!(world.counts("j"), [5, 2, 1, 1]);
    assert!(world.asks.values().all(|times| *times == 1));
}

#[test]
fn a_node_that_was_made_anew_is_asked_anew() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "parallelism": 2, "completionPolicy": { "type": "Never" } }));
    world.succeed_all("j");
    world.pass(seconds(5));
    world.no_node("n0");
    world.node("n0", &[]);
    world.pass(seconds(1));
    assert!(world.asked("j").is_empty(), "the NodeImage is that of the node before");
    assert_eq!(world.counts("j"), [1, 0, 1, 0]);
    world.no_image("n0");
    world.agent("n0", None);
    assert_eq!(world.asked("j"), ["n0"]);
    world.succeed_all("j");
    world.pass(seconds(1));
    assert_eq!(world.counts("j"), [2, 0, 2, 0]);
}

/// The same while nobody watched: the node is younger than the memory.
#[test]
fn a_node_that_was_made_anew_while_nobody_watched() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "parallelism": 2, "completionPolicy": { "type": "Never" } }));
    world.succeed_all("j");
    world.pass(seconds(5));
    let (mut node, mut image) = (world.nodes["n0"].clone(), world.images["n0"].clone());
    (node.uid, node.created) = ("anew".to_owned(), Some(world.now().wall));
    (image.uid, image.owner) = ("anew-too".to_owned(), Some("anew".to_owned()));
    image.desired.clear();
    image.pulls.clear();
    world.nodes.insert("n0".to_owned(), node);
    world.images.insert("n0".to_owned(), image);
    world.fail_over();
    assert_eq!(world.asked("j"), ["n0"]);
}

#[test]
fn a_replica_that_does_not_lead_decides_nothing() {
    let mut world = World::with_nodes(3);
    let effects = world.index.rests(world.now());
    assert!(effects.is_empty());
    world.job("j", json!({}));
    world.pass(seconds(3600));
    assert_eq!((world.node_writes, world.job_writes), (0, 0));
    world.lead();
    assert_eq!(world.asked("j"), ["n0"]);
}

/// Checks a manager that lost the lease: its decisions have not happened, and the other replica has done
/// something else.
#[test]
fn decisions_that_nobody_has_seen_are_forgotten_with_the_lease() {
    let mut world = World::with_nodes(4);
    world.waits = true;
    world.job("j", json!({ "parallelism": 2 }));
    world.orders.clear();
    world.index.rests(world.now());
    world.waits = false;
    assert_eq!(world.index.size().asked, 0);
    world.pass(seconds(3600));
    world.lead();
    assert_eq!(world.asked("j"), ["n0", "n1"]);
    assert_eq!(world.counts("j"), [4, 2, 0, 0], "time that passed in between counts for nothing");
}

/// A node whose entry is older than this manager's sight of its job.
#[test]
fn entries_of_somebody_not_seen_yet_stay_a_while() {
    let mut world = World::with_nodes(1);
    world.job("j", json!({}));
    let job = world.jobs.remove("j").unwrap();
    world.fail_over();
    world.pass(seconds(9));
    assert_eq!(world.placed(&job.uid), ["n0"]);
    world.jobs.insert("j".to_owned(), job);
    world.list_all();
    world.hear_all("j");
    world.pass(seconds(60));
    assert_eq!(world.asked("j"), ["n0"]);
    assert!(world.asks.values().all(|times| *times == 1));

    let job = world.jobs.remove("j").unwrap();
    world.fail_over();
    world.pass(seconds(11));
    assert!(world.placed(&job.uid).is_empty(), "it was nobody");
}

#[test]
fn entries_of_a_job_that_ended_long_ago_go_at_once() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "parallelism": 2 }));
    world.succeed_all("j");
    let uid = world.jobs["j"].uid.clone();
    world.fail_over();
    assert_eq!(world.placed(&uid).len(), 2);
    world.passed += seconds(301);
    world.fail_over();
    assert!(world.placed(&uid).is_empty());
}

#[test]
fn a_conflict_is_decided_anew() {
    let mut world = World::with_nodes(1);
    world.waits = true;
    world.job("j", json!({}));
    // The agent writes first, so the order is about a version that is no more.
    world.agent("n0", Some("key"));
    world.waits = false;
    world.carry_out(Vec::new());
    assert_eq!(world.asked("j"), ["n0"]);
    assert_eq!(world.asks.len(), 1);
}
