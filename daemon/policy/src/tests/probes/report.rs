//! Content of `NodePodProbe.status`.

use std::time::Duration;

use super::play::{Play, like, no, probe, secs, yes};
use crate::{ProbeOutcome, ProbeState};

fn reports(play: &mut Play) -> Vec<String> {
    play.settle_only(&["report"])
}

#[test]
fn the_whole_list_when_a_state_changes_at_most_once_a_second() {
    let mut play = Play::new();
    play.want(&[("p", vec![probe("a"), probe("b")]), ("q", vec![probe("c")])]);
    play.runs("p", "main", 0);
    play.runs("q", "main", 0);
    assert_eq!(reports(&mut play), [""; 0], "nobody has anything to say");
    play.ends("a", yes("fine"));
    assert_eq!(reports(&mut play), ["report p:a=Succeeded(fine)"]);
    play.ends("b", no("bad"));
    play.pass(Duration::from_millis(900));
    play.ends("c", yes(""));
    assert_eq!(reports(&mut play), [""; 0]);
    assert_eq!(play.wait(), Duration::from_millis(100));
    assert_eq!(reports(&mut play), ["report p:a=Succeeded(fine) p:b=Failed(bad) q:c=Succeeded()"]);
    play.runs("q", "main", 1);
    play.pass(secs(1));
    assert_eq!(reports(&mut play), ["report p:a=Succeeded(fine) p:b=Failed(bad) q:c=Unknown()"]);
    play.want(&[("q", vec![probe("c")])]);
    play.pass(secs(1));
    assert_eq!(reports(&mut play), ["report q:c=Unknown()"]);
    play.gone("q");
    play.pass(secs(1));
    assert_eq!(reports(&mut play), ["report"]);
}

#[test]
fn words_alone_wait_for_ten_seconds() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.period = secs(1))]);
    let mut writes = Vec::new();
    for second in 0..35_u64 {
        let before = reports(&mut play);
        play.ends("a", yes(&second.to_string()));
        writes.extend(before.iter().chain(&reports(&mut play)).map(|_| second));
        play.pass(secs(1));
    }
    assert_eq!(writes, [0, 10, 20, 30]);
}

/// OpenKruise writes at each flush.
#[test]
fn that_a_probe_ran_again_is_not_written() {
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes("same"));
    for _ in 0..200 {
        assert_eq!(play.round("a", yes("same")), [""; 0]);
    }
}

#[test]
fn it_carries_the_times() {
    let mut play = Play::with(vec![probe("a")]);
    play.settle();
    play.pass(Duration::from_millis(300));
    let changed = play.now;
    play.ends("a", yes(""));
    play.settle();
    play.pass(secs(20));
    play.settle();
    play.ends("a", yes("more"));
    play.plan();
    let report = play.report.clone().unwrap();
    let probe = &report[0].probes[0];
    assert_eq!(
        (probe.state, probe.last_transition, probe.last_probe),
        (ProbeState::Succeeded, Some(changed), Some(play.now))
    );
}

#[test]
fn one_that_was_not_written_is_written_again() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.period = secs(3600))]);
    play.settle();
    play.ends("a", yes(""));
    let owed = |play: &mut Play| play.plan().into_iter().filter(|line| line.starts_with("report")).count();
    assert_eq!(owed(&mut play), 1);
    // (how it ended, when the next one is made): a second passes in any case.
    for (outcome, next) in [
        (ProbeOutcome::Failed, 1000),
        (ProbeOutcome::Failed, 1000),
        (ProbeOutcome::Refused, 30_000),
        (ProbeOutcome::Gone, 30_000),
    ] {
        play.answer(outcome);
        assert_eq!(owed(&mut play), 0);
        play.pass(Duration::from_millis(next - 1));
        assert_eq!(owed(&mut play), 0, "{outcome:?}");
        play.pass(Duration::from_millis(1));
        assert_eq!(owed(&mut play), 1, "{outcome:?}");
    }
    play.answer(ProbeOutcome::Done);
    play.pass(secs(100));
    assert_eq!(owed(&mut play), 0);
}
