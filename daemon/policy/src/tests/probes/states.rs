//! States that follow from a probe's results.

use super::play::{Play, like, no, probe, secs, unable, yes};
use crate::{ProbeResult, ProbeState};

#[test]
fn a_state_changes_after_as_many_equal_results_as_its_threshold() {
    use ProbeState::{Failed, Succeeded, Unknown};
    let (s, f, u) = (|| yes(""), || no(""), || unable("no such file"));
    // Success counts from 2, failure from 3.
    let table: [(&[(ProbeResult, ProbeState)], &str); 5] = [
        (&[(s(), Unknown), (s(), Succeeded), (s(), Succeeded)], "success"),
        (&[(f(), Unknown), (f(), Unknown), (f(), Failed)], "failure"),
        (&[(s(), Unknown), (f(), Unknown), (s(), Unknown), (s(), Succeeded), (f(), Succeeded)], "mixed"),
        (&[(s(), Unknown), (s(), Succeeded), (f(), Succeeded), (f(), Succeeded), (f(), Failed)], "turns"),
        (&[(s(), Unknown), (s(), Succeeded), (u(), Succeeded), (u(), Succeeded), (u(), Unknown)], "unable"),
    ];
    for (results, case) in table {
        let mut play = Play::with(vec![like(probe("a"), |probe| {
            (probe.success_threshold, probe.failure_threshold) = (2, 3);
        })]);
        for (round, (result, state)) in results.iter().enumerate() {
            play.round("a", result.clone());
            assert_eq!(play.stands("a").0, *state, "{case}, round {round}");
        }
    }
}

#[test]
fn what_cannot_be_carried_out_is_said_at_once_where_nothing_else_is_known() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.failure_threshold = 3)]);
    play.round("a", unable("no such file"));
    assert_eq!(play.stands("a"), (ProbeState::Unknown, "no such file".to_owned()));
    play.round("a", unable(""));
    assert_eq!(play.stands("a").1, "the probe could not be carried out");
}

#[test]
fn a_new_instance_and_new_thresholds_count_anew() {
    let twice = || like(probe("a"), |probe| (probe.success_threshold, probe.failure_threshold) = (2, 2));
    let mut play = Play::with(vec![twice()]);
    play.round("a", yes(""));
    play.runs("p", "main", 1);
    play.round("a", yes(""));
    assert_eq!(play.stands("a").0, ProbeState::Unknown, "one of each instance");
    play.round("a", yes(""));
    assert_eq!(play.stands("a").0, ProbeState::Succeeded);
    play.round("a", no(""));
    play.want(&[("p", vec![like(twice(), |probe| probe.timeout = secs(5))])]);
    play.round("a", no(""));
    assert_eq!(play.stands("a").0, ProbeState::Succeeded, "one of each spec");
    play.round("a", no(""));
    assert_eq!(play.stands("a").0, ProbeState::Failed);
}

#[test]
fn a_container_that_does_not_run_has_failed_at_once() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.failure_threshold = 3)]);
    play.round("a", yes(""));
    play.stops("p", "main", 0);
    let non_running = (ProbeState::Failed, "Container(main) is Non-running".to_owned());
    assert_eq!(play.stands("a"), non_running);
    // The runtime removes what has ended; it still does not run.
    play.has_none("p");
    assert_eq!(play.stands("a"), non_running);
    play.runs("p", "main", 1);
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
    // The same instance runs again only if somebody was wrong about it.
    play.stops("p", "main", 1);
    play.runs("p", "main", 1);
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
}

#[test]
fn one_that_was_never_created_has_not_failed() {
    let mut play = Play::new();
    play.want(&[("p", vec![probe("a")])]);
    assert_eq!(play.stands("a").1, "the runtime has not told of the pod yet");
    play.has_none("p");
    assert_eq!(play.stands("a"), (ProbeState::Unknown, "Container(main) has not been created".to_owned()));
    assert_eq!(play.settle(), [""; 0], "nor is there anything to say about it");
}

/// OpenKruise keeps results by container alone, so two probes of one container overwrite each other.
#[test]
fn two_probes_of_one_container_have_nothing_to_do_with_each_other() {
    let mut play = Play::with(vec![probe("a"), probe("b")]);
    play.round("a", yes("first"));
    play.round("b", no("second"));
    for _ in 0..5 {
        assert_eq!(play.round("a", yes("first")), ["run b in p-main-0"; 0]);
        assert_eq!(play.round("b", no("second")), [""; 0]);
    }
    assert_eq!(play.stands("a"), (ProbeState::Succeeded, "first".to_owned()));
    assert_eq!(play.stands("b"), (ProbeState::Failed, "second".to_owned()));
}

#[test]
fn what_cannot_be_read_is_unknown_and_says_why() {
    let unreadable = || crate::WantedProbe { probe: Err("two handlers".to_owned()), ..probe("a") };
    let mut play = Play::with(vec![unreadable()]);
    let lines = play.settle_only(&["run", "tell"]);
    assert_eq!(lines, ["tell p ProbeUnknown a: the probe is not run: two handlers"]);
    play.stops("p", "main", 0);
    assert_eq!(play.stands("a").1, "the probe is not run: two handlers");
    play.runs("p", "main", 1);
    play.want(&[("p", vec![probe("a")])]);
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-1"]);
    play.want(&[("p", vec![unreadable()])]);
    assert_eq!(play.stands("a"), (ProbeState::Unknown, "the probe is not run: two handlers".to_owned()));
}

/// A run under way when it is paused does not count, and nothing it found is taken back.
#[test]
fn a_paused_probe_stands_still_and_keeps_what_it_found() {
    let paused = || crate::WantedProbe { paused: true, ..probe("a") };
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes("fine"));
    play.wait();
    assert_eq!(play.settle(), ["run a in p-main-0"]);
    play.want(&[("p", vec![paused()])]);
    play.ends("a", no("late"));
    play.settle();
    play.pass(secs(60));
    assert_eq!(play.settle(), [""; 0]);
    assert_eq!(play.stands("a"), (ProbeState::Succeeded, "fine".to_owned()));
    play.want(&[("p", vec![probe("a")])]);
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"]);
}

#[test]
fn messages_are_cut_between_two_characters() {
    // As JSON of the API server's no message is longer than 1024 bytes.
    let table = [("é", 1023), ("x", 1024), ("\"", 512), ("\n", 512), ("<", 171), ("\u{2028}", 511)];
    for (character, bytes) in table {
        let mut play = Play::with(vec![probe("a")]);
        let text = format!("x{}", character.repeat(2000));
        play.round("a", yes(&text));
        let message = play.stands("a").1;
        assert_eq!(message.len(), bytes, "{character:?}");
        assert!(text.starts_with(&message));
    }
}

#[test]
fn of_two_with_one_name_the_first_counts() {
    let other = like(probe("a"), |probe| probe.period = secs(1));
    let mut play = Play::with(vec![probe("a"), other]);
    assert_eq!(play.settle(), ["run a in p-main-0"]);
    play.ends("a", yes(""));
    play.settle();
    assert_eq!(play.wait(), secs(10));
}
