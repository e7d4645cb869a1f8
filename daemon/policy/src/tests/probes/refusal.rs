//! Refusals of the runtime, which count of an instance that lives and of no other.

use std::time::Duration;

use super::play::{Play, like, no, probe, refused, secs, yes};
use crate::{ProbeLimits, ProbeState, WantedProbe};

const REFUSED: &str = "cannot exec in a stopped container";

/// A probe that succeeded once and is refused now.
fn refused_once() -> Play {
    let mut play = Play::with(vec![probe("a")]);
    play.round("a", yes("fine"));
    play.wait();
    assert_eq!(play.settle(), ["run a in p-main-0"]);
    play.ends("a", refused(REFUSED));
    assert_eq!(play.settle(), [""; 0], "nothing is said of it yet");
    assert_eq!(play.stands("a"), (ProbeState::Succeeded, "fine".to_owned()));
    play
}

/// A probe of the same name that asks something else.
fn other() -> WantedProbe {
    WantedProbe { name: "a".into(), ..probe("b") }
}

#[test]
fn a_refusal_counts_unless_the_instance_ends_within_a_second() {
    const DOWN: &str = "Container(main) is Non-running";
    const BLANK: &str = "Container(main) has no result yet since it started";
    const UNHEARD: &str = "the runtime has not told of the pod yet";
    use ProbeState::{Failed, Succeeded, Unknown};
    type Happens = fn(&mut Play);
    let (kept, counts) = ((Succeeded, "fine"), (Unknown, REFUSED));
    // Where it stands at once, and a second later.
    let table: [(&str, Happens, (ProbeState, &str), (ProbeState, &str)); 10] = [
        ("nothing", |_| {}, kept, counts),
        ("a second passes", |play| play.pass(secs(1)), counts, counts),
        ("less passes", |play| play.pass(Duration::from_millis(999)), kept, counts),
        ("it ended", |play| play.stops("p", "main", 0), (Failed, DOWN), (Failed, DOWN)),
        ("it was removed", |play| play.has_none("p"), (Failed, DOWN), (Failed, DOWN)),
        ("the next one runs", |play| play.runs("p", "main", 1), (Unknown, BLANK), (Unknown, BLANK)),
        ("the pod is gone", |play| play.gone("p"), (Unknown, UNHEARD), (Unknown, UNHEARD)),
        // A list that shows it may be older than its end.
        ("another one ended", |play| play.stops("p", "side", 0), kept, counts),
        ("its start is known better", |play| play.runs_since("p", "main", secs(20)), kept, counts),
        ("another question", |play| play.want(&[("p", vec![other()])]), (Unknown, BLANK), (Unknown, BLANK)),
    ];
    for (case, happens, at_once, later) in table {
        let mut play = refused_once();
        happens(&mut play);
        play.settle();
        assert_eq!(play.stands("a"), (at_once.0, at_once.1.to_owned()), "{case}");
        play.pass(secs(1));
        play.settle();
        assert_eq!(play.stands("a"), (later.0, later.1.to_owned()), "{case}, and a second later");
    }
}

#[test]
fn a_refusal_that_is_kept_back_holds_no_slot() {
    let limits = ProbeLimits { exec_concurrent: 1, exec_concurrent_per_pod: 1, ..ProbeLimits::default() };
    let mut play = Play::limited(limits);
    play.want(&[("p", vec![probe("a"), probe("b")])]);
    play.runs("p", "main", 0);
    assert_eq!(play.settle(), ["run a in p-main-0"]);
    play.ends("a", refused(REFUSED));
    assert_eq!(play.settle(), ["run b in p-main-0"]);
}

#[test]
fn a_probe_does_not_run_while_its_last_refusal_is_kept_back() {
    let often = || like(probe("a"), |probe| probe.period = secs(1));
    let mut play = Play::with(vec![like(often(), |probe| probe.failure_threshold = 2)]);
    play.round("a", yes("fine"));
    play.wait();
    assert_eq!(play.settle(), ["run a in p-main-0"]);
    play.pass(Duration::from_millis(700));
    play.ends("a", refused(REFUSED));
    // Nor when it is asked for with other numbers.
    play.want(&[("p", vec![often()])]);
    assert_eq!(play.settle(), [""; 0]);
    assert_eq!(play.wait(), secs(1));
    assert_eq!(play.settle_only(&["run"]), ["run a in p-main-0"]);
    assert_eq!(play.stands("a"), (ProbeState::Unknown, REFUSED.to_owned()));
}

#[test]
fn refusals_that_counted_are_results_like_others() {
    let mut play = Play::with(vec![like(probe("a"), |probe| probe.failure_threshold = 2)]);
    play.round("a", yes("fine"));
    for (result, state) in [
        (refused("x"), "Succeeded"),
        (no("y"), "Succeeded"),
        (refused("x"), "Succeeded"),
        (refused("x"), "Unknown"),
    ] {
        play.round("a", result);
        play.pass(secs(1));
        play.settle();
        assert_eq!(play.stands("a").0.name(), state);
    }
}
