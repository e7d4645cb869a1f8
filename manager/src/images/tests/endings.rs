//! How jobs end: with their nodes, by their deadline, without any node; and what goes after that.

use berth_proto::crd::ImagePhase;
use serde_json::json;

use super::world::*;
use crate::{
    images::{SILENCE, UNHEARD},
    store::Kind,
};

#[test]
fn a_job_without_nodes_is_over_but_not_before_nodes_can_have_been_seen() {
    let mut world = World::with_nodes(0);
    world.pass(seconds(60));
    world.job("j", json!({}));
    world.pass(seconds(1));
    assert!(!world.is_over("j"));
    world.pass(seconds(1));
    assert_eq!((world.counts("j"), world.message("j")), ([0, 0, 0, 0], "job has completed"));
}

#[test]
fn nothing_is_over_while_a_view_is_broken() {
    let mut world = World::with_nodes(1);
    world.job("j", json!({}));
    world.index.view_broke(Kind::Node, world.now());
    world.succeed_all("j");
    assert!(!world.is_over("j"));
    world.pass(seconds(10));
    assert!(world.is_over("j"));
}

#[test]
fn a_job_that_never_ends_serves_nodes_that_come() {
    let mut world = World::with_nodes(1);
    world.job("j", json!({ "completionPolicy": { "type": "Never" } }));
    world.succeed_all("j");
    world.pass(seconds(100_000));
    assert!(!world.is_over("j"));
    world.join("late", &[]);
    assert_eq!(world.asked("j"), ["late"]);
    world.succeed_all("j");
    world.pass(seconds(1));
    assert_eq!(world.counts("j"), [2, 0, 2, 0]);
}

#[test]
fn the_deadline_fails_what_has_not_ended() {
    let mut world = World::with_nodes(4);
    let policy = json!({ "activeDeadlineSeconds": 700, "ttlSecondsAfterFinished": 1000 });
    world.job("j", json!({ "completionPolicy": policy, "pullPolicy": { "timeoutSeconds": 700 } }));
    world.succeed_all("j");
    world.answer("n1", "j", ImagePhase::Pulling);
    world.pass(seconds(699));
    assert!(!world.is_over("j"));
    world.pass(seconds(1));
    assert_eq!((world.counts("j"), world.message("j")), ([4, 0, 1, 3], "job exceeds activeDeadlineSeconds"));
    assert_eq!(world.status("j").failed_nodes, ["n1", "n2", "n3"]);
    assert_eq!(world.condition("j", "Failed").unwrap().reason, "DeadlineExceeded");
    let uid = world.jobs["j"].uid.clone();
    assert_eq!(world.placed(&uid), ["n0"], "what goes on is taken back at once, what ended stays a while");
    world.pass(seconds(299));
    assert_eq!(world.placed(&uid), ["n0"]);
    world.pass(seconds(1));
    assert!(world.placed(&uid).is_empty());
    world.pass(seconds(699));
    assert!(world.jobs.contains_key("j"));
    world.pass(seconds(1));
    assert!(!world.jobs.contains_key("j"), "its time after its end has passed");
}

#[test]
fn an_agent_that_says_nothing_is_given_up() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({}));
    world.pass(UNHEARD - seconds(1));
    assert_eq!(world.asked("j"), ["n0"]);
    world.pass(seconds(1));
    assert!(world.asked("j").contains(&"n1".to_owned()), "the next one is asked");
    world.answer("n1", "j", ImagePhase::Pulling);
    // Four attempts of 600 s, and the same patience again.
    world.pass(seconds(2400) + SILENCE - seconds(1));
    world.answer("n1", "j", ImagePhase::Waiting);
    world.pass(seconds(2400) + SILENCE - seconds(1));
    assert!(!world.asked("j").contains(&"n2".to_owned()));
    world.pass(seconds(1));
    assert!(world.asked("j").contains(&"n2".to_owned()));
    world.answer("n2", "j", ImagePhase::Succeeded);
    assert_eq!(world.counts("j"), [3, 0, 1, 2]);
    let failed = world.condition("j", "Failed").unwrap();
    assert_eq!(failed.message, "2 of 3 nodes failed; 2 of them: node has not responded");
}

#[test]
fn a_write_that_never_shows_does_not_hold_up_the_job_for_ever() {
    let mut world = World::with_nodes(2);
    world.waits = true;
    world.job("j", json!({}));
    world.orders.clear();
    world.waits = false;
    world.pass(UNHEARD);
    assert_eq!(world.asked("j"), ["n1"]);
    world.succeed_all("j");
    assert_eq!(world.counts("j"), [2, 0, 1, 1]);
}

#[test]
fn what_found_no_room_is_owed_again() {
    let mut world = World::with_nodes(1);
    world.waits = true;
    world.job("j", json!({}));
    for order in std::mem::take(&mut world.orders) {
        let now = world.now();
        world.index.lost(&order.target(), now);
    }
    world.waits = false;
    world.pass(seconds(5));
    assert_eq!((world.asked("j"), world.counts("j")), (vec!["n0".to_owned()], [1, 1, 0, 0]));
}

#[test]
fn a_deleted_job_takes_its_entries_with_it() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "parallelism": 2 }));
    world.job("k", json!({ "parallelism": 1 }));
    world.answer("n0", "j", ImagePhase::Succeeded);
    let uid = world.jobs["j"].uid.clone();
    assert_eq!(world.placed(&uid), ["n0", "n1", "n2"]);
    world.no_job("j");
    assert!(world.placed(&uid).is_empty());
    assert_eq!(world.asked("k"), ["n0"], "those of others stay");
    assert_eq!(world.index.size().asked, 1);
}

/// Not by turning round until it lands: `pass` sees to it that every deadline passes.
#[test]
fn a_removal_that_does_not_land_is_waited_for() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "parallelism": 2 }));
    let uid = world.jobs["j"].uid.clone();
    world.waits = true;
    world.no_job("j");
    world.pass(seconds(1));
    assert_eq!((world.placed(&uid).len(), world.index.next_deadline()), (2, None));
    world.waits = false;
    world.carry_out(Vec::new());
    assert!(world.placed(&uid).is_empty());
}

#[test]
fn a_job_of_the_same_name_is_another_one() {
    let mut world = World::with_nodes(1);
    world.job("j", json!({}));
    world.succeed_all("j");
    let uid = world.jobs["j"].uid.clone();
    world.jobs.remove("j");
    world.job("j", json!({}));
    assert_ne!(world.jobs["j"].uid, uid);
    assert_eq!((world.asked("j"), world.placed(&uid).len()), (vec!["n0".to_owned()], 0));
}

/// Numbers that a definition without bounds lets in: nothing is added up that has no sum.
#[test]
fn the_largest_numbers_overflow_nothing() {
    let mut world = World::with_nodes(1);
    let policy = json!({ "activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i32::MAX });
    let limits = json!({ "timeoutSeconds": i32::MAX, "backoffLimit": i32::MAX });
    world.job("j", json!({ "completionPolicy": policy, "pullPolicy": limits, "parallelism": i32::MAX }));
    world.answer("n0", "j", ImagePhase::Pulling);
    world.pass(seconds(3600));
    world.answer("n0", "j", ImagePhase::Succeeded);
    world.pass(seconds(3600));
    assert!(world.is_over("j"));
}
