//! Writes that are not taken: refused, held, outdated, or without an answer.

use super::*;
use crate::in_place_update::{Fetched, WriteOutcome};

#[test]
fn pauses_after_failures_grow_and_end_with_success() {
    let mut play = one();
    play.ask(&[("a", "a:2")], &[]);
    until(&mut play, "close");
    for pause in [200, 500, 1000, 2000, 5000, 5000] {
        play.answer_step(Some(WriteOutcome::Failed));
        assert_eq!(plan(&mut play), Vec::<String>::new());
        assert_eq!(play.updates.next_deadline(), Some(play.world.now + pause * MILLI));
        play.pass(pause * MILLI);
        assert_eq!(plan(&mut play), ["fetch"], "it may have been written");
        play.answer_fetch(true);
        assert_eq!(plan(&mut play), ["close"]);
    }
    play.answer_step(None);
    assert_eq!(plan(&mut play), ["patch"]);
    play.answer_step(Some(WriteOutcome::Failed));
    plan(&mut play);
    assert_eq!(play.updates.next_deadline(), Some(play.world.now + 200 * MILLI));
}

#[test]
fn a_refusal_that_may_pass_is_meant_only_when_it_comes_again_and_again() {
    for (for_good, attempts) in [(true, 1), (false, 7)] {
        let mut play = one();
        play.ask(&[("a", "a:2")], &[]);
        until(&mut play, "patch");
        for attempt in 1..=attempts {
            assert!(play.step.is_some(), "{for_good} {attempt}");
            play.answer_step(Some(WriteOutcome::Refused { why: "not so".to_owned(), for_good }));
            plan(&mut play);
            play.pass(5000 * MILLI);
            plan(&mut play);
        }
        assert!(!matches!(&play.step, Some(UpdateAction::Write { write: PodWrite::Patch(_), .. })));
        until(&mut play, "delete");
        let (_, request) = play.requests.first_key_value().unwrap();
        assert!(request.reported.message.contains("not so"), "{}", request.reported.message);
    }
}

/// A budget lets no more pods be unavailable, or the API server has too much to do.
#[test]
fn what_is_not_let_for_now_waits_and_says_so() {
    let held = || WriteOutcome::Held { why: "the budget lets none go".to_owned() };
    for step in ["close", "patch"] {
        let mut play = one();
        let id = play.ask(&[("a", "a:2")], &[]);
        until(&mut play, step);
        for _ in 0..3 {
            (0..play.reports.len()).for_each(|_| play.answer_report(0, StepOutcome::Done));
            play.answer_step(Some(held()));
            plan(&mut play);
            (0..play.reports.len()).for_each(|_| play.answer_report(0, StepOutcome::Done));
            let report = &play.requests[&id].reported;
            assert!(report.message.contains("the budget lets none go"), "{step}: {report:?}");
            assert_eq!(report.outcome, None, "{step}");
            play.pass(5000 * MILLI);
            assert!(plan(&mut play).contains(&step.to_owned()), "{step}");
        }
        until(&mut play, "delete");
        let report = &play.requests[&id].reported;
        assert_eq!((report.outcome, &*report.message), (Some(UpdateOutcome::Complete), ""), "{step}");
    }
}

/// Its deadline goes on.
#[test]
fn a_deadline_tells_what_held_it_back() {
    let mut play = one();
    let id = play.ask(&[("a", "a:2")], &[]);
    let deadline = play.world.now + Duration::from_secs(60);
    play.requests.get_mut(&id).unwrap().deadline = Some(deadline);
    let entry = StoredRequest { request: play.requests[&id].clone(), flaw: None, version: 1 };
    play.apply(UpdateEvent::RequestSeen(Box::new(entry)));
    until(&mut play, "close");
    play.answer_step(Some(WriteOutcome::Held { why: "the budget lets none go".to_owned() }));
    play.pass(Duration::from_secs(60));
    until(&mut play, "delete");
    let report = &play.requests[&id].reported;
    assert_eq!(report.outcome, Some(UpdateOutcome::Failed(FailureReason::DeadlineExceeded)));
    assert!(report.message.ends_with("the budget lets none go"), "{}", report.message);
}

#[test]
fn an_outdated_write_is_looked_at_before_the_next() {
    let mut play = one();
    play.ask(&[("a", "a:2")], &[]);
    until(&mut play, "close");
    play.answer_step(Some(WriteOutcome::Outdated));
    assert_eq!(plan(&mut play), ["fetch"]);
    play.answer_fetch(true);
    assert_eq!(plan(&mut play), ["close"]);
}

/// A write was outdated because the pod goes, or the right to write goes: its request ends all the same.
#[test]
fn a_request_ends_though_its_last_write_is_in_doubt() {
    let gone: fn() -> UpdateEvent = || UpdateEvent::PodGone(Play::uid());
    let denied: fn() -> UpdateEvent =
        || UpdateEvent::PermissionKnown(UpdatePermission::Denied("no".to_owned()));
    let fetched: fn() -> UpdateEvent = || UpdateEvent::Fetched(Play::uid(), Fetched::Gone);
    for (event, reason) in [
        (gone, FailureReason::PodGone),
        (fetched, FailureReason::PodGone),
        (denied, FailureReason::NotPermitted),
    ] {
        let mut play = one();
        play.ask(&[("a", "a:2")], &[]);
        until(&mut play, "close");
        (0..play.reports.len()).for_each(|_| play.answer_report(0, StepOutcome::Done));
        play.answer_step(Some(WriteOutcome::Outdated));
        plan(&mut play);
        play.apply(event());
        plan(&mut play);
        let ends: Vec<_> = play.reports.iter().filter_map(|(_, report)| report.outcome).collect();
        assert_eq!(ends, [UpdateOutcome::Failed(reason)], "{reason:?}");
    }
}

#[test]
fn a_status_that_cannot_be_written_is_written_later() {
    let mut play = one();
    play.ask(&[("a", "a:2")], &[]);
    until(&mut play, "report");
    play.answer_report(0, StepOutcome::Failed);
    assert_eq!(plan(&mut play), Vec::<String>::new());
    play.pass(200 * MILLI);
    assert_eq!(plan(&mut play), ["report"]);
}
