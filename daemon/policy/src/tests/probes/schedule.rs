//! When a probe runs.

use std::{collections::BTreeSet, time::Duration};

use super::play::{Play, http, labelled, like, no, probe, secs, yes};
use crate::{InstanceState, ProbeEvent, ProbeState, RunId};

#[test]
fn it_runs_once_the_container_has_run_for_the_delay_and_then_every_period() {
    for delay in [0, 7] {
        let mut play = Play::with(vec![like(probe("a"), |probe| probe.initial_delay = secs(delay))]);
        if delay > 0 {
            assert_eq!(play.plan(), [""; 0]);
            assert_eq!(play.wait(), secs(delay));
        }
        assert_eq!(play.plan(), ["run a in p-main-0"]);
        for _ in 0..3 {
            play.pass(Duration::from_millis(300));
            play.ends("a", yes(""));
            play.settle();
            assert_eq!(play.wait(), Duration::from_millis(9700), "counted from the begin of the last run");
            assert_eq!(play.plan(), ["run a in p-main-0"]);
        }
    }
}

#[test]
fn its_runs_do_not_overlap() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.timeout = secs(50))]);
    play.settle();
    for _ in 0..4 {
        play.pass(secs(10));
        assert_eq!(play.settle(), [""; 0]);
    }
    play.ends("a", yes(""));
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"], "the next one is overdue");
}

#[test]
fn what_a_user_wrote_cannot_make_it_spin_or_overflow() {
    let mut play = Play::with(vec![
        like(probe("a"), |probe| (probe.period, probe.timeout) = (Duration::ZERO, Duration::ZERO)),
        like(probe("b"), |probe| (probe.period, probe.timeout) = (Duration::MAX, Duration::MAX)),
        like(probe("c"), |probe| probe.initial_delay = Duration::MAX),
        like(probe("d"), |probe| (probe.success_threshold, probe.failure_threshold) = (0, 0)),
    ]);
    play.settle();
    assert_eq!(play.runs.values().map(|run| run.timeout).collect::<Vec<_>>(), [secs(1), secs(60)]);
    play.ends("a", yes(""));
    play.ends("b", yes(""));
    assert_eq!(play.settle_only(&["run"]), ["run d in p-main-0"], "two a pod");
    play.ends("d", yes(""));
    play.settle();
    assert_eq!(play.stands("d").0, ProbeState::Succeeded);
    assert_eq!(play.wait(), secs(1));
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"]);
}

/// Containers that ran before the agent began do not have all their probes at once; those that began later
/// do.
#[test]
fn after_a_restart_of_the_agent_first_runs_are_spread_over_the_period() {
    let mut play = Play::new();
    let names: Vec<String> = (0..30).map(|name| format!("probe-{name}")).collect();
    let period = |name: &str| like(probe(name), |probe| probe.period = secs(60));
    play.want(&[("p", names.iter().map(|name| period(name)).collect())]);
    play.runs_since("p", "main", secs(600));
    play.settle();
    let dues = || play.probes.explain().into_iter().filter_map(|view| view.due);
    let seconds: BTreeSet<u64> = dues().map(|due| (due - play.now).as_secs()).collect();
    assert!(seconds.len() > 15, "in one burst: {seconds:?}");
    assert!(dues().all(|due| due < play.now + secs(60)));
    // The same instance again, with a start that is known better, is no reason to wait longer.
    let before: Vec<_> = dues().collect();
    play.pass(secs(1));
    play.has("p", "main", 0, InstanceState::Running { since: play.now - secs(605) });
    let after: Vec<_> = play.probes.explain().into_iter().filter_map(|view| view.due).collect();
    assert_eq!(before, after);
}

#[test]
fn a_container_that_is_young_or_a_marker_that_comes_later_is_probed_at_once() {
    let mut young = Play::new();
    young.want(&[("p", vec![probe("a")])]);
    young.runs_since("p", "main", secs(10));
    assert_eq!(young.plan(), ["run a in p-main-0"]);

    let mut later = Play::new();
    later.runs_since("p", "main", secs(600));
    later.pass(secs(10));
    later.want(&[("p", vec![probe("a")])]);
    assert_eq!(later.plan(), ["run a in p-main-0"]);
}

#[test]
fn another_period_takes_effect_at_once_and_changes_no_state() {
    // (old, new, passed since the last run, the next one after)
    for (old, new, passed, next) in [(10, 30, 5, 25), (10, 3, 1, 2), (10, 3, 5, 0), (600, 5, 4, 1)] {
        let mut play = Play::with(vec![like(probe("a"), |probe| probe.period = secs(old))]);
        play.round("a", yes("fine"));
        play.pass(secs(passed));
        play.want(&[("p", vec![like(probe("a"), |probe| probe.period = secs(new))])]);
        assert_eq!(play.stands("a"), (ProbeState::Succeeded, "fine".to_owned()));
        if next > 0 {
            assert_eq!(play.settle(), [""; 0]);
            assert_eq!(play.wait(), secs(next), "{old} s to {new} s after {passed} s");
        }
        assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"], "{old} s to {new} s after {passed} s");
    }
}

#[test]
fn another_delay_counts_for_a_probe_that_has_run() {
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes(""));
    play.pass(secs(5));
    play.want(&[("p", vec![like(probe("a"), |probe| probe.initial_delay = secs(30))])]);
    play.settle();
    assert_eq!(play.wait(), secs(25));
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"]);
}

#[test]
fn another_action_begins_anew_and_at_once() {
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes("fine"));
    play.pass(secs(4));
    let action = http(probe("b")).probe.unwrap().action;
    let other = like(probe("a"), |probe| probe.action = action);
    play.want(&[("p", vec![other])]);
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
    assert_eq!(play.settle_only(&["run"]), ["run b in p-main-0"]);
}

/// The old run goes on in the container: a second one would overlap with it.
#[test]
fn a_run_for_an_older_question_is_waited_for_and_its_answer_ignored() {
    let mut play = Play::with(vec![probe("a")]);
    play.settle();
    play.want(&[("p", Vec::new())]);
    play.want(&[("p", vec![probe("a")])]);
    assert_eq!(play.settle(), [""; 0]);
    assert_eq!(play.probes.size().runs, 1);
    play.ends("a", no("late"));
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"]);
}

#[test]
fn another_instance_is_probed_at_once_and_the_old_ones_answer_ignored() {
    let mut play = Play::with(vec![probe("a")]);
    play.settle();
    let old = *play.runs.keys().next().unwrap();
    play.runs("p", "main", 1);
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-1"]);
    play.end(old, no("killed"));
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
    play.ends("a", yes("new"));
    assert_eq!(play.stands("a"), (ProbeState::Succeeded, "new".to_owned()));
}

#[test]
fn what_is_not_wanted_or_does_not_run_is_not_probed() {
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes(""));
    play.stops("p", "main", 0);
    play.settle();
    play.pass(secs(60));
    assert_eq!(play.settle_only(&["run"]), [""; 0]);
    play.runs("p", "main", 1);
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-1"]);
    play.ends("a", yes(""));
    play.want(&[]);
    play.pass(secs(1));
    play.settle();
    assert_eq!(play.probes.next_deadline(), None);
    assert_eq!(play.probes.size().pods, 0);
}

#[test]
fn a_run_that_never_ends_is_given_up_and_counted() {
    let mut play = Play::with(vec![labelled(probe("a"), &[], &[])]);
    play.settle();
    play.pass(secs(11) - Duration::from_millis(1));
    assert_eq!(play.settle(), [""; 0]);
    play.pass(Duration::from_millis(1));
    let lines = play.settle_only(&["run", "tell"]);
    assert_eq!(lines, ["run a in p-main-0", "tell p ProbeUnknown a: it is not known how the probe ended"]);
    assert_eq!((play.probes.size().lost, play.probes.size().runs), (1, 1));
    play.apply(ProbeEvent::RunEnded(RunId(1), yes("too late")));
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
}
