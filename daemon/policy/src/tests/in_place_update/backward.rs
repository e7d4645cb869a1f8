//! The way back, who goes it, and what is left out where failures are to be ignored.

use std::time::Duration;

use super::{asking::Asking, world::World};
use crate::in_place_update::{
    ContainerUpdatePhase, FailureReason, Gate, Life, Next, UpdateOutcome, UpdatePhase, UpdateSource, Why,
};

const MINUTE: Duration = Duration::from_secs(60);
const COMPLETE: UpdateOutcome = UpdateOutcome::Complete;

fn failed(reason: FailureReason) -> UpdateOutcome {
    UpdateOutcome::Failed(reason)
}

fn ordered() -> Asking {
    Asking::of(World::of(&[("a", Some(2), &[]), ("b", Some(1), &["k"]), ("c", Some(0), &[])]))
}

/// With a way back, and a minute for the way there.
fn ask(asking: &mut Asking, id: &str, images: &[(&str, &str)], annotations: &[(&str, &str)]) {
    let deadline = Some(asking.world.now + MINUTE);
    let request = asking.ask(id, images, annotations);
    (request.rollback_on_failure, request.deadline) = (true, deadline);
}

/// Until the first request is on its way back.
fn fails(asking: &mut Asking, bad: &[&str]) {
    while asking.requests[0].reported.rolling_back.is_none() {
        asking.act();
        asking.world.settle(bad);
        asking.world.pass(MINUTE / 4);
        let planned = asking.plan();
        asking.write(&planned);
    }
}

#[test]
fn it_is_said_before_the_first_step_back() {
    let mut asking = ordered();
    ask(&mut asking, "r", &[("a", "a:2"), ("b", "bad")], &[("k", "2")]);
    asking.act();
    asking.world.settle(&["bad"]);
    asking.act();
    asking.world.settle(&["bad"]);
    asking.world.pass(MINUTE);
    let turning = asking.plan();
    assert_eq!(turning.next, None);
    assert_eq!(turning.reports[0].1.phase, Some(UpdatePhase::RollingBack));
    let version = asking.world.version;
    asking.write(&turning);
    assert_eq!(asking.world.version, version);
    asking.world.settle(&[]);
    asking.log.clear();
    asking.play(&[]);
    assert_eq!(asking.log, ["patch a:1", "patch b:1 k=1", "ready", "r: failed DeadlineExceeded"]);
    let report = asking.report("r");
    assert_eq!(
        report.message,
        "the update has exceeded its deadline: container b runs what is wanted and is not Ready (restart count \
         1); the pod is what it was before"
    );
    assert_eq!(asking.world.record.as_ref().unwrap().revision, "r-back");
    assert_eq!((asking.images(), asking.world.gate), (vec!["a:1", "b:1", "c:1"], Gate::Ready));
    assert_eq!(asking.world.restarts(), [2, 2, 0]);
}

#[test]
fn without_anything_moved_there_is_no_way_back() {
    let mut asking = ordered();
    ask(&mut asking, "r", &[("a", "a:2")], &[]);
    asking.world.refused.insert("a:2".into(), "no".to_owned());
    asking.play(&[]);
    assert_eq!(asking.log, ["r: Updating", "r: failed ImageNotPulled"]);
    assert_eq!((asking.world.version, asking.world.gate), (0, Gate::Ready));
}

#[test]
fn the_way_back_has_its_own_limit() {
    let mut asking = ordered();
    ask(&mut asking, "r", &[("a", "bad")], &[]);
    asking.requests[0].rollback_limit = MINUTE * 3;
    fails(&mut asking, &["bad", "a:1"]);
    let since = asking.report("r").rolling_back.clone().unwrap().1;
    asking.play(&["bad", "a:1"]);
    assert_eq!(asking.request("r").ended, Some(since + MINUTE * 3));
    assert_eq!(asking.outcome("r"), failed(FailureReason::DeadlineExceeded));
    assert_eq!(
        asking.report("r").message,
        "the update has exceeded its deadline: container a runs what is wanted and is not Ready (restart count \
         1); the way back failed too: the update has exceeded its deadline: container a runs what is wanted and \
         is not Ready (restart count 2)"
    );
    // Its container keeps it out.
    assert_eq!(asking.world.gate, Gate::Ready);
}

#[test]
fn two_go_back_together() {
    let mut asking = ordered();
    ask(&mut asking, "r1", &[("a", "a:2")], &[]);
    asking.act();
    asking.world.settle(&[]);
    ask(&mut asking, "r2", &[("b", "bad")], &[]);
    asking.requests[0].deadline = None;
    fails(&mut asking, &["bad"]);
    asking.play(&[]);
    for id in ["r1", "r2"] {
        assert_eq!(asking.outcome(id), failed(FailureReason::DeadlineExceeded));
        assert!(asking.report(id).message.ends_with("the pod is what it was before"), "{id}");
    }
    assert_eq!(asking.images(), ["a:1", "b:1", "c:1"]);
}

/// The agent dies between the two reports.
#[test]
fn one_that_was_not_told_goes_back_with_the_other() {
    for told in ["r1", "r2"] {
        let mut asking = ordered();
        ask(&mut asking, "r1", &[("a", "a:2")], &[]);
        asking.requests[0].deadline = None;
        asking.act();
        asking.world.settle(&[]);
        ask(&mut asking, "r2", &[("b", "bad")], &[]);
        asking.act();
        asking.world.settle(&["bad"]);
        asking.world.pass(MINUTE * 2);
        let mut turning = asking.plan();
        assert_eq!(turning.reports.len(), 2);
        turning.reports.retain(|(id, _)| id.as_str() == told);
        asking.write(&turning);
        asking.world.pass(MINUTE / 6);
        let since = asking.report(told).rolling_back.clone();
        asking.play(&[]);
        for id in ["r1", "r2"] {
            assert_eq!(asking.outcome(id), failed(FailureReason::DeadlineExceeded), "{told}");
            let message = &asking.report(id).message;
            assert!(message.ends_with("the pod is what it was before"), "{told} {id}: {message}");
        }
        assert_eq!(asking.report(told).rolling_back, since);
        assert_eq!(asking.images(), ["a:1", "b:1", "c:1"], "{told}");
    }
}

#[test]
fn a_new_one_on_the_way_back_returns_to_before_the_first() {
    let mut asking = ordered();
    ask(&mut asking, "r1", &[("a", "a:2"), ("b", "bad")], &[("k", "2")]);
    fails(&mut asking, &["bad"]);
    let first = asking.report("r1").rolling_back.clone().unwrap().0;
    ask(&mut asking, "r2", &[("c", "worse")], &[]);
    asking.play(&["bad", "worse"]);
    assert_eq!(asking.outcome("r1"), failed(first.reason));
    assert!(asking.report("r1").message.starts_with(&first.message), "{}", asking.report("r1").message);
    assert_eq!(asking.outcome("r2"), failed(FailureReason::DeadlineExceeded));
    assert_eq!(asking.images(), ["a:1", "b:1", "c:1"]);
    assert_eq!(asking.world.metadata, ordered().world.metadata);
    assert_eq!(asking.world.gate, Gate::Ready);
}

#[test]
fn what_a_workload_wants_goes_over_the_way_back_of_a_person() {
    let mut asking = ordered();
    ask(&mut asking, "r1", &[("a", "a:2"), ("b", "bad")], &[]);
    asking.requests[0].source = UpdateSource::Admin;
    fails(&mut asking, &["bad"]);
    asking.ask("r2", &[("a", "a:3")], &[]).source = UpdateSource::NodePodUpdate;
    asking.play(&["bad"]);
    assert_eq!(
        (asking.outcome("r1"), asking.outcome("r2")),
        (failed(FailureReason::DeadlineExceeded), COMPLETE)
    );
    assert_eq!(asking.images(), ["a:3", "b:1", "c:1"]);
}

#[test]
fn one_that_gives_way_is_taken_back_too() {
    // The entry comes second and is below; only what it asks for was moved.
    let mut asking = ordered();
    ask(&mut asking, "r1", &[("c", "c:2")], &[]);
    asking.requests[0].source = UpdateSource::Admin;
    asking.act();
    asking.world.gate = Gate::NotReady { since: asking.world.now };
    let mut late = ordered();
    late.requests = asking.requests.clone();
    ask(&mut late, "r2", &[("a", "bad")], &[]);
    late.requests[1].source = UpdateSource::NodePodUpdate;
    late.act();
    assert_eq!(late.images(), ["bad", "b:1", "c:1"]);
    late.play(&["bad"]);
    assert_eq!(late.images(), ["a:1", "b:1", "c:1"]);
}

#[test]
fn one_that_is_late_beside_a_newer_one_goes_back_alone() {
    let mut asking = ordered();
    ask(&mut asking, "r1", &[("a", "bad"), ("c", "c:2")], &[]);
    asking.act();
    asking.ask("r2", &[("b", "b:2")], &[]);
    asking.play(&["bad"]);
    assert_eq!(asking.outcome("r1"), failed(FailureReason::DeadlineExceeded));
    assert!(asking.report("r1").message.ends_with("the pod is what it was before"));
    assert_eq!(asking.outcome("r2"), COMPLETE);
    assert_eq!(asking.images(), ["a:1", "b:2", "c:1"]);
    assert_eq!(asking.world.gate, Gate::Ready);
}

#[test]
fn failures_that_are_ignored_are_left_out() {
    let mut asking = ordered();
    asking.ask("r", &[("a", "no"), ("b", "b:2"), ("d", "d:2")], &[]).ignore_failures = true;
    asking.world.refused.insert("no".into(), "manifest unknown".to_owned());
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), COMPLETE);
    assert_eq!(asking.images(), ["a:1", "b:2", "c:1"]);
    let told: Vec<_> = asking
        .report("r")
        .containers
        .iter()
        .map(|state| (state.name.as_str(), state.phase, state.message.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("a", ContainerUpdatePhase::Failed, "image no could not be pulled: manifest unknown"),
            ("b", ContainerUpdatePhase::Succeeded, ""),
            ("d", ContainerUpdatePhase::Failed, "the pod has no container d"),
        ]
    );
}

#[test]
fn where_all_is_left_out_the_pod_is_not_touched() {
    let mut asking = ordered();
    asking.ask("r", &[("a", "no"), ("b", "b:2"), ("d", "d:2")], &[]).ignore_failures = true;
    asking.world.refused.insert("no".into(), "manifest unknown".to_owned());
    asking.world.container("b").instance.life = Life::Ended;
    asking.play(&[]);
    assert_eq!(asking.outcome("r"), COMPLETE);
    assert_eq!((asking.world.version, asking.world.gate), (0, Gate::Ready));
    let states = &asking.report("r").containers;
    assert_eq!(states.len(), 3);
    assert!(states.iter().all(|state| state.phase == ContainerUpdatePhase::Failed), "{states:?}");
}

#[test]
fn one_that_has_ended_is_left_out_with_the_values_it_reads() {
    let mut asking = ordered();
    asking.ask("r", &[("c", "c:2")], &[("k", "2")]).ignore_failures = true;
    asking.world.container("b").instance.life = Life::Ended;
    asking.play(&[]);
    assert_eq!((asking.outcome("r"), asking.images()), (COMPLETE, vec!["a:1", "b:1", "c:2"]));
    let states = &asking.report("r").containers;
    assert_eq!(states[0].phase, ContainerUpdatePhase::Failed, "{states:?}");
    assert_eq!(asking.world.restarts(), [0, 0, 1]);
}

#[test]
fn what_is_waited_for_after_the_deadline_is_waited_for_without_one() {
    let mut asking = ordered();
    let deadline = Some(asking.world.now + MINUTE);
    asking.ask("r", &[], &[("unread", "2")]).deadline = deadline;
    asking.world.gate = Gate::NotReady { since: asking.world.now };
    asking.act();
    assert_eq!(asking.world.version, 1);
    asking.world.pass(MINUTE * 2);
    let next = asking.plan().next;
    assert_eq!(next, Some(Next::Wait { until: None, why: Why::Kubelet }));
    asking.play(&[]);
    assert_eq!(asking.world.gate, Gate::Ready);
}
