//! Turns of the jobs of one namespace: who is carried out, who waits and says so, and who is next.

use berth_proto::crd::ImagePhase;
use rstest::rstest;
use serde_json::json;

use super::world::*;
use crate::{
    images::queue::{FEW, FEW_RESTING, MOST, MOST_RESTING},
    store::PodStage,
};

const WAITS: &str = "job waits for older jobs of its namespace";

/// Jobs `j00000`, …, which select no node, each a second after the one before. As many rest as may, so each
/// of these holds its turn.
fn idle(world: &mut World, count: usize) {
    for number in 0..MOST_RESTING {
        world.job(&format!("r{number:05}"), never(&["nowhere"]));
    }
    for number in 0..count {
        world.job(&format!("j{number:05}"), never(&["nowhere"]));
        world.passed += seconds(1);
    }
}

fn never(names: &[&str]) -> serde_json::Value {
    json!({ "selector": { "names": names }, "completionPolicy": { "type": "Never" } })
}

/// One for which there is no room takes no turn, and waits for one again when there is some.
#[test]
fn one_that_is_set_aside_takes_no_turn() {
    let mut world = World::with_nodes(1);
    world.job("first", json!({}));
    world.hear_all("first");
    idle(&mut world, MOST - 1);
    world.job("next", json!({}));
    world.pass(seconds(1));
    world.job("last", json!({}));
    world.pass(seconds(5));
    world.has_room("next", false);
    world.succeed_all("first");
    world.pass(seconds(5));
    assert!(world.is_over("first"));
    assert_eq!((world.asked("next").len(), world.asked("last").len()), (0, 1));
    world.has_room("next", true);
    world.succeed_all("last");
    world.pass(seconds(5));
    assert_eq!(world.asked("next").len(), 1);
}

/// Thousands of jobs of one namespace keep no more of the nodes than those that have their turn.
#[test]
fn thousands_of_jobs_keep_few_standings() {
    let mut world = World::with_nodes(100);
    world.waits = true;
    for number in 0..2_000 {
        world.job(&format!("j{number:05}"), json!({ "parallelism": "100%" }));
    }
    let kept = |world: &World| world.index.rollouts.values().map(|one| one.desired()).sum::<usize>();
    assert_eq!((world.index.rollouts.len(), kept(&world)), (MOST, MOST * 100));
    world.fail_over();
    assert_eq!((world.index.rollouts.len(), kept(&world)), (MOST, MOST * 100), "nor while they are listed");
    assert!(world.index.rollouts.values().all(|one| *one.rank.1 < *format!("j{MOST:05}")), "the first");
}

/// The first that waits says so, is not begun, and comes in when one is over; so does the next when one goes.
#[test]
fn one_more_begins_when_one_is_over() {
    let mut world = World::with_nodes(1);
    world.job("first", json!({}));
    world.hear_all("first");
    idle(&mut world, MOST - 1);
    world.job("next", json!({}));
    world.pass(seconds(1));
    world.job("last", json!({}));
    world.pass(seconds(60));
    for name in ["next", "last"] {
        assert!(world.message(name).starts_with(WAITS), "{}", world.message(name));
        assert!(world.message(name).contains("64"), "{}", world.message(name));
        assert_eq!((world.status(name).start_time.is_none(), world.asked(name).len()), (true, 0));
        let accepted = world.condition(name, "Accepted").unwrap();
        assert_eq!((&*accepted.status, &*accepted.reason), ("True", "Accepted"));
    }
    let said = world.job_writes;
    world.pass(seconds(300));
    assert_eq!(world.job_writes, said, "it is said once");
    world.succeed_all("first");
    world.pass(seconds(5));
    assert!(world.is_over("first"));
    assert_eq!((world.asked("next").len(), world.message("next")), (1, "job is running, progress 0.0%"));
    assert!(world.status("next").start_time.is_some() && world.message("last").starts_with(WAITS));
    world.no_job("j00007");
    world.pass(seconds(1));
    assert_eq!(world.asked("last").len(), 1);
    world.succeed_all("next");
    world.succeed_all("last");
    world.pass(seconds(5));
    assert!(world.is_over("next") && world.is_over("last"));
}

/// A dozen jobs, and as many as have a turn, never see one.
#[test]
fn as_many_as_have_a_turn_wait_for_nobody() {
    let mut world = World::with_nodes(1);
    idle(&mut world, MOST);
    world.pass(seconds(1));
    assert!((0..MOST).all(|number| world.message(&format!("j{number:05}")).starts_with("job is running")));
}

/// A job that was made invalid asks for nothing any more: its turn is free when the last of its nodes has
/// ended.
#[test]
fn one_that_was_made_invalid_rests() {
    let mut world = World::with_nodes(1);
    let invalid = json!({ "image": "" });
    (0..MOST).for_each(|number| world.job(&format!("j{number:05}"), json!({})));
    world.job("next", json!({}));
    world.pass(seconds(10));
    assert!(world.message("next").starts_with(WAITS));
    let asked = world.asked("j00000").len();
    (0..MOST).for_each(|number| world.job(&format!("j{number:05}"), invalid.clone()));
    world.pass(seconds(10));
    assert!(!world.message("next").starts_with(WAITS), "{}, {asked}", world.message("next"));
}

/// Jobs that pause keep nothing of the nodes once they are written, nor under another manager.
#[test]
fn paused_jobs_keep_no_standings() {
    let mut world = World::with_nodes(3);
    let count = MOST + MOST_RESTING + 10;
    (0..count).for_each(|number| world.job(&format!("j{number:05}"), json!({ "parallelism": 0 })));
    for fails_over in [false, true] {
        if fails_over {
            world.fail_over();
        }
        world.pass(seconds(5));
        assert!(world.index.rollouts.is_empty(), "{}", world.index.rollouts.len());
        for number in 0..count {
            let name = format!("j{number:05}");
            assert!(world.message(&name).starts_with("job is paused"), "{}", world.message(&name));
            assert_eq!(world.counts(&name), [3, 0, 0, 0]);
        }
    }
}

/// Nodes that had ended are not asked again when a job goes on, and those that came meanwhile are asked.
#[rstest]
#[case::the_same_manager(false)]
#[case::another_manager(true)]
fn one_that_pauses_goes_on_where_it_was(#[case] fails_over: bool) {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "parallelism": 2 }));
    world.succeed_all("j");
    world.job("j", json!({ "parallelism": 0 }));
    world.pass(seconds(1));
    assert!(world.index.rollouts.len() == 1 && world.asked("j").len() == 1, "one is on its way");
    world.join("n3", &[]);
    world.answer("n2", "j", ImagePhase::Failed);
    world.pass(seconds(1));
    assert_eq!((world.index.rollouts.len(), world.counts("j")), (0, [4, 0, 2, 1]));
    if fails_over {
        world.fail_over();
        world.pass(seconds(1));
        assert!(world.index.rollouts.is_empty());
    }
    world.no_node("n0");
    world.no_image("n0");
    world.join("n0", &[]);
    world.join("n4", &[]);
    world.pass(seconds(1));
    assert!(world.index.rollouts.is_empty());
    world.job("j", json!({ "parallelism": 5 }));
    assert_eq!(world.succeed_all("j"), ["n0", "n3", "n4"], "one of them is another node by now");
    world.pass(seconds(5));
    assert_eq!((world.is_over("j"), world.counts("j")), (true, [5, 0, 4, 1]));
}

/// The time of a job goes on while it pauses.
#[test]
fn one_that_pauses_has_its_deadline() {
    let mut world = World::with_nodes(1);
    let policy = json!({ "activeDeadlineSeconds": 100 });
    world.job("j", json!({ "parallelism": 0, "completionPolicy": policy }));
    world.pass(seconds(99));
    assert!(!world.is_over("j"));
    world.pass(seconds(1));
    assert_eq!(world.message("j"), "job exceeds activeDeadlineSeconds");
}

/// Ten nodes a job, and so many standings that turns are few: how many jobs of a namespace begin, and how
/// many when half of the nodes have gone.
#[rstest]
#[case::few_standings(1000, 20, 20)]
#[case::some(100, 10, 20)]
#[case::no_room_for_any(0, FEW, FEW)]
fn many_standings_are_few_turns(#[case] most: usize, #[case] begun: usize, #[case] then: usize) {
    let mut world = World::with_nodes(10);
    world.index.standings.most = most;
    (0..20).for_each(|number| world.job(&format!("j{number:05}"), json!({})));
    world.pass(seconds(5));
    let waiting =
        |world: &World| world.jobs.keys().filter(|name| world.message(name).starts_with(WAITS)).count();
    assert_eq!((world.index.rollouts.len(), waiting(&world)), (begun, 20 - begun));
    (5..10).for_each(|number| world.no_node(&format!("n{number}")));
    world.pass(seconds(5));
    assert_eq!((world.index.rollouts.len(), waiting(&world)), (then, 20 - then));
    // What a job kept is given back with it.
    (0..20).for_each(|number| world.no_job(&format!("j{number:05}")));
    world.index.standings.most = 1;
    assert!(!world.index.standings.are_many() && world.index.rollouts.is_empty());
}

/// Jobs that have nothing to do keep their turns while turns are few, and rest when they are not.
#[test]
fn those_that_kept_their_turn_rest_later() {
    let mut world = World::with_nodes(1);
    world.index.standings.most = 0;
    for number in 0..=FEW + FEW_RESTING {
        world.job(&format!("j{number:05}"), never(&["nowhere"]));
        world.passed += seconds(1);
    }
    world.pass(seconds(5));
    let last = format!("j{:05}", FEW + FEW_RESTING);
    assert!(world.message(&last).starts_with(WAITS), "{}", world.message(&last));
    world.index.standings.most = 1000;
    world.join("n1", &[]);
    world.pass(seconds(5));
    assert_eq!(world.message(&last), "job is running, no progress");
}

/// A job's time begins with its turn.
#[test]
fn a_deadline_is_of_the_turn() {
    let mut world = World::with_nodes(2);
    idle(&mut world, MOST);
    let policy = json!({ "activeDeadlineSeconds": 700 });
    world.job("late", json!({ "completionPolicy": policy }));
    world.pass(seconds(10_000));
    assert!(!world.is_over("late"));
    world.no_job("j00000");
    world.pass(seconds(1));
    world.hear_all("late");
    world.pass(seconds(698));
    assert!(!world.is_over("late"));
    world.pass(seconds(1));
    assert_eq!(world.message("late"), "job exceeds activeDeadlineSeconds");
}

/// Another manager gives the turns to the same jobs, and asks no node twice.
#[test]
fn a_fail_over_changes_nothing() {
    let mut world = World::with_nodes(2);
    world.job("first", json!({ "parallelism": 1 }));
    world.answer("n0", "first", ImagePhase::Succeeded);
    world.hear_all("first");
    idle(&mut world, MOST - 1);
    world.job("a-young-one", json!({}));
    world.pass(seconds(1));
    world.fail_over();
    world.pass(seconds(10));
    assert_eq!((world.counts("first"), world.asked("first")), ([2, 1, 1, 0], vec!["n1".to_owned()]));
    assert!(world.message("a-young-one").starts_with(WAITS));
    world.succeed_all("first");
    world.pass(seconds(1));
    assert!(world.is_over("first") && world.asks.values().all(|times| *times == 1));
    assert_eq!(world.asked("a-young-one").len(), 1);
}

/// The memory of a job that waits counts once it has its turn, as of one that had it before.
#[test]
fn what_had_ended_is_remembered_through_a_wait() {
    let mut world = World::with_nodes(2);
    world.job("young", json!({ "parallelism": 1, "completionPolicy": { "type": "Never" } }));
    world.succeed_all("young");
    world.hear_all("young");
    world.pass(seconds(1));
    let made = world.jobs["young"].created;
    world.jobs.get_mut("young").unwrap().created = made.map(|time| time + seconds(9000));
    idle(&mut world, MOST);
    world.no_image("n0");
    world.agent("n0", None);
    world.pass(seconds(1));
    world.fail_over();
    world.pass(seconds(1));
    assert!(world.message("young").starts_with(WAITS));
    assert_eq!(world.counts("young")[2], 1, "as it was counted");
    world.no_job("j00000");
    world.pass(seconds(1));
    assert_eq!((world.asked("young"), world.counts("young")), (vec!["n1".to_owned()], [2, 1, 1, 0]));
}

/// A job that makes no sense takes no turn, and one that begins to make sense enters.
#[test]
fn one_that_makes_no_sense_has_no_turn() {
    let mut world = World::with_nodes(1);
    idle(&mut world, MOST - 1);
    world.job("odd", json!({ "image": "NOT/an image" }));
    world.job("good", json!({}));
    assert_eq!(world.asked("good").len(), 1);
    world.job("odd", json!({}));
    world.pass(seconds(1));
    assert!(world.message("odd").starts_with(WAITS));
    world.job("odd", json!({ "image": "NOT/an image" }));
    world.no_job("j00000");
    world.pass(seconds(1));
    assert!(world.index.rollouts.len() == MOST_RESTING + MOST - 1 && world.asked("odd").is_empty());
}

/// Secrets of a job that waits are not read, and pods that came meanwhile count.
#[test]
fn nothing_is_read_for_one_that_waits() {
    let mut world = World::with_nodes(1);
    world.agent("n0", Some("key"));
    idle(&mut world, MOST);
    world.job("sealed", json!({ "pullSecrets": ["one"] }));
    world.job("by-pods", json!({ "podSelector": { "matchLabels": { "a": "b" } } }));
    world.pass(seconds(1));
    assert!(world.fetches.is_empty());
    world.pod("p", "n0", &[("a", "b")], PodStage::Active);
    world.no_job("j00000");
    world.no_job("j00001");
    world.pass(seconds(1));
    assert_eq!((world.fetches.len(), world.asked("by-pods").len()), (1, 1));
}

/// Jobs that keep images on the nodes are never over. Those that are done everywhere, or pause, keep no
/// younger job from its turn, and follow their nodes all the same.
#[test]
fn jobs_that_are_never_over_keep_nobody_waiting() {
    let mut world = World::with_nodes(MOST);
    let on = |nodes: &[&str]| json!({ "names": nodes });
    for number in 0..MOST / 2 {
        let (kept, paused) = (format!("kept-{number}"), format!("paused-{number}"));
        // What is kept takes room on its node.
        let selector = on(&[&format!("n{number}"), "late"]);
        world.job(&kept, json!({ "selector": selector, "completionPolicy": { "type": "Never" } }));
        world.succeed_all(&kept);
        world.job(&paused, json!({ "parallelism": 0 }));
        world.passed += seconds(1);
    }
    let last = format!("n{}", MOST - 1);
    for number in 0..MOST {
        let name = format!("next-{number}");
        world.job(&name, json!({ "selector": on(&[&last]) }));
        world.pass(seconds(1));
        world.succeed_all(&name);
        world.pass(seconds(600));
        assert!(world.is_over(&name), "{name}: {}", world.message(&name));
    }
    world.join("late", &[]);
    world.agent("late", None);
    world.pass(seconds(5));
    assert_eq!(world.asked("kept-0"), ["late"]);
    world.job("paused-0", json!({ "parallelism": 1 }));
    world.pass(seconds(5));
    assert_eq!(world.asked("paused-0").len(), 1);
}
