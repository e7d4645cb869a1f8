//! Events on pods.

use super::play::{Play, like, no, probe, secs, unable, yes};
use crate::{ProbeLimits, ProbeReason};

fn tells(mut lines: Vec<String>) -> Vec<String> {
    lines.retain(|line| line.starts_with("tell"));
    lines
}

#[test]
fn one_event_for_each_change_of_state() {
    let mut play = Play::with(vec![probe("a")]);
    for (result, expect) in [
        (yes("1"), Some("tell p KruiseProbeSucceeded a: 1")),
        (yes("2"), None),
        (no("3"), Some("tell p KruiseProbeFailed a: 3")),
        (no("4"), None),
        (yes("5"), Some("tell p KruiseProbeSucceeded a: 5")),
        (unable("6"), Some("tell p ProbeUnknown a: 6")),
        (yes("7"), Some("tell p KruiseProbeSucceeded a: 7")),
    ] {
        assert_eq!(tells(play.round("a", result)), expect.into_iter().collect::<Vec<_>>());
    }
    play.stops("p", "main", 0);
    assert_eq!(tells(play.settle()), ["tell p KruiseProbeFailed a: Container(main) is Non-running"]);
    play.runs("p", "main", 1);
    assert_eq!(tells(play.settle()), [""; 0], "that nothing is known yet is no news");
}

#[test]
fn why_it_cannot_be_carried_out_is_told_once_and_at_most_once_a_minute() {
    let mut play = Play::with(vec![probe("a")]);
    // One every 10 s.
    for (text, expect) in [
        ("x", vec!["tell p ProbeUnknown a: x"]),
        ("x", vec![]),
        ("y", vec![]),
        ("z", vec![]),
        ("z", vec![]),
        ("z", vec![]),
        ("z", vec!["tell p ProbeUnknown a: z"]),
        ("z", vec![]),
    ] {
        play.pass(secs(10));
        let mut lines = tells(play.settle());
        play.ends("a", unable(text));
        lines.extend(tells(play.settle()));
        assert_eq!(lines, expect, "{text} after {:?}", play.now - play.start);
    }
    // A result in between makes it news again.
    play.pass(secs(100));
    play.settle();
    play.ends("a", yes(""));
    play.settle();
    play.pass(secs(10));
    play.settle();
    play.ends("a", unable("z"));
    assert_eq!(tells(play.settle()), ["tell p ProbeUnknown a: z"]);
}

#[test]
fn only_what_could_not_be_carried_out_is_a_warning() {
    let warns =
        [ProbeReason::Succeeded, ProbeReason::Failed, ProbeReason::Unknown].map(ProbeReason::is_warning);
    assert_eq!(warns, [false, false, true]);
}

#[test]
fn the_node_tells_so_much_and_no_more_and_only_the_latest() {
    let mut play =
        Play::limited(ProbeLimits { write_every: secs(5), write_burst: 1, ..ProbeLimits::default() });
    let often = |name| like(probe(name), |probe| probe.period = secs(1));
    play.want(&[("p", vec![often("a"), often("b")])]);
    play.runs("p", "main", 0);
    play.settle();
    play.ends("b", yes(""));
    assert_eq!(tells(play.settle()), ["tell p KruiseProbeSucceeded b: "]);
    play.ends("a", yes("1"));
    assert_eq!(tells(play.settle()), [""; 0]);
    play.pass(secs(1));
    play.settle();
    play.ends("a", no("2"));
    assert_eq!(tells(play.settle()), [""; 0]);
    assert!(play.probes.next_deadline().is_some_and(|next| next <= play.now + secs(4)));
    play.pass(secs(4));
    assert_eq!(tells(play.settle()), ["tell p KruiseProbeFailed a: 2"]);
}

#[test]
fn the_text_is_cut() {
    let mut play = Play::with(vec![probe("a")]);
    let lines = tells(play.round("a", no(&"x".repeat(5000))));
    assert_eq!(lines[0].len(), "tell p KruiseProbeFailed ".len() + 1024);
}
