//! Marks that a pod shows of its probes.

use std::sync::Arc;

use super::play::{Play, condition, labelled, no, probe, secs, told, unable, yes};
use crate::{ConditionStatus, Markers, WantedProbe};

fn idle() -> WantedProbe {
    labelled(
        told(probe("a"), "idle"),
        &[("cost", "low"), ("both", "1"), ("idle", "")],
        &[("cost", "high"), ("both", "1")],
    )
}

#[test]
fn each_state_has_its_condition_and_its_labels() {
    let mut play = Play::with(vec![idle()]);
    assert_eq!(play.settle_only(&["look", "mark"]), ["look p"], "nothing is known yet, nor said");
    let marks = |play: &mut Play, result| {
        let mut lines = play.round("a", result);
        lines.retain(|line| line.starts_with("mark"));
        lines
    };
    assert_eq!(marks(&mut play, yes("empty")), ["mark p idle=True(empty) both=1 cost=low idle="]);
    assert_eq!(marks(&mut play, no("3 players")), ["mark p idle=False(3 players) cost=high -idle"]);
    assert_eq!(marks(&mut play, yes("")), ["mark p idle=True() cost=low idle="]);
    // There is no way to say it in labels.
    assert_eq!(marks(&mut play, unable("no such file")), ["mark p idle=Unknown(no such file)"]);
    assert_eq!(marks(&mut play, no("")), ["mark p idle=False() cost=high -idle"]);
}

/// OpenKruise says False at each start of a container.
#[test]
fn a_restart_of_the_container_is_unknown_and_leaves_the_labels() {
    let mut play = Play::with(vec![idle()]);
    play.round("a", yes("empty"));
    play.runs("p", "main", 1);
    assert_eq!(
        play.settle_only(&["mark"]),
        ["mark p idle=Unknown(Container(main) has no result yet since it started)"]
    );
    play.stops("p", "main", 1);
    assert_eq!(
        play.settle_only(&["mark"]),
        ["mark p idle=False(Container(main) is Non-running) cost=high -idle"]
    );
}

#[test]
fn the_condition_tells_when_it_changed_and_when_it_was_looked_at() {
    let mut play = Play::with(vec![told(probe("a"), "idle")]);
    play.round("a", yes(""));
    let changed = play.now;
    for text in ["one", "two"] {
        play.pass(secs(10));
        play.settle();
        play.pass(secs(1));
        play.ends("a", yes(text));
        play.pass(secs(10));
        play.plan();
        let marks = play.marks.values().next().unwrap().conditions["idle"].clone();
        assert_eq!((marks.last_transition, marks.last_probe), (changed, Some(play.now - secs(10))));
        assert_eq!(&*marks.message, text);
        play.answer(crate::ProbeOutcome::Done);
    }
}

#[test]
fn one_write_for_all_probes_of_a_pod_and_none_where_the_pod_shows_it_already() {
    let mut play = Play::with(vec![
        labelled(told(probe("a"), "A"), &[("x", "1")], &[]),
        labelled(told(probe("b"), "B"), &[("y", "1")], &[]),
    ]);
    play.settle();
    play.shown("p").labels.insert("x".into(), "1".into());
    play.shown("p").conditions.insert("A".into(), condition(ConditionStatus::True, "fine"));
    play.shown("p").version += 1;
    play.show("p");
    play.ends("a", yes("fine"));
    assert_eq!(play.settle_only(&["mark"]), [""; 0]);
    play.ends("b", yes("fine"));
    assert_eq!(play.settle_only(&["mark"]), ["mark p B=True(fine) y=1"]);
}

#[test]
fn annotations_are_marks_like_labels() {
    let annotations = |value: &str| Markers {
        annotations: [(Arc::from("deletion-cost"), Arc::from(value))].into(),
        ..Markers::default()
    };
    let wanted = WantedProbe { succeeded: annotations("-10"), failed: annotations("10"), ..probe("a") };
    let mut play = Play::with(vec![wanted]);
    play.settle();
    play.ends("a", no(""));
    play.plan();
    let marks = play.marks.values().next().unwrap();
    assert_eq!(marks.annotations["deletion-cost"].as_deref(), Some("10"));
    assert!(marks.labels.is_empty() && marks.conditions.is_empty());
}

#[test]
fn of_two_that_want_one_mark_the_first_by_name_has_it_and_setting_beats_removing() {
    let a = || labelled(told(probe("a"), "C"), &[("x", "a")], &[]);
    let b = || labelled(told(probe("b"), "C"), &[("x", "b")], &[]);
    for (of_a, of_b, expect) in [
        (yes("from a"), yes("from b"), "mark p C=True(from a) x=a"),
        (no("from a"), yes("from b"), "mark p C=False(from a) x=b"),
        (yes("from a"), no("from b"), "mark p C=True(from a) x=a"),
        (no("from a"), no("from b"), "mark p C=False(from a)"),
        (unable("from a"), yes("from b"), "mark p C=Unknown(from a) x=b"),
    ] {
        let mut play = Play::with(vec![b(), a()]);
        play.settle();
        play.ends("a", of_a);
        play.ends("b", of_b);
        assert_eq!(play.settle_only(&["mark"]), [expect]);
    }
}

#[test]
fn what_nobody_asks_for_any_more_is_taken_away() {
    let mut play = Play::with(vec![idle(), told(probe("b"), "other")]);
    play.settle();
    play.ends("a", yes("empty"));
    play.ends("b", yes(""));
    play.settle();
    play.want(&[("p", vec![told(probe("b"), "other")])]);
    assert_eq!(
        play.settle_only(&["mark"]),
        ["mark p idle=Unknown(no probe asks for this condition any more) -both -cost -idle"]
    );
    play.want(&[]);
    assert_eq!(
        play.settle_only(&["mark"]),
        ["mark p other=Unknown(no probe asks for this condition any more)"]
    );
    assert_eq!(play.probes.size().pods, 0);
}

#[test]
fn what_somebody_else_wrote_or_another_probe_asks_for_stays() {
    let mut play = Play::with(vec![idle()]);
    play.round("a", yes("empty"));
    play.label("p", "both", Some("mine"));
    play.settle();
    // Taken back by now, so that it is somebody else's.
    play.shown("p").labels.insert("both".into(), "mine".into());
    play.shown("p").version += 1;
    play.show("p");
    let successor = labelled(told(probe("z"), "idle"), &[], &[("cost", "high")]);
    play.want(&[("p", vec![successor])]);
    assert_eq!(
        play.settle_only(&["mark"]),
        ["mark p idle=Unknown(Container(main) has no result yet since it started) -idle"]
    );
    assert_eq!(play.shown("p").labels[&Arc::from("cost")].as_ref(), "low");
}

#[test]
fn a_changed_policy_is_followed_at_once() {
    let mut play = Play::with(vec![labelled(told(probe("a"), "old"), &[("x", "1"), ("y", "1")], &[])]);
    play.round("a", yes(""));
    play.want(&[("p", vec![labelled(told(probe("a"), "new"), &[("x", "2"), ("z", "1")], &[])])]);
    let lines = play.settle_only(&["look", "mark", "run"]);
    let mark = "mark p new=True() old=Unknown(no probe asks for this condition any more) x=2 -y z=1";
    assert_eq!(lines, ["look p", mark]);
}

#[test]
fn of_a_pod_that_is_not_there_nothing_is_said() {
    let mut play = Play::with(vec![idle()]);
    play.round("a", yes("empty"));
    play.gone("p");
    assert_eq!(play.settle_only(&["mark", "look", "run"]), [""; 0]);
    play.want(&[]);
    assert_eq!(play.settle_only(&["mark", "look", "run"]), [""; 0]);
    assert_eq!(play.probes.size(), crate::ProbesSize::default());
}

#[test]
fn a_pod_without_marks_is_not_looked_at() {
    let mut play = Play::with(vec![probe("a")]);
    let lines = play.round("a", yes(""));
    assert_eq!(lines, ["report p:a=Succeeded()", "tell p KruiseProbeSucceeded a: "]);
    assert_eq!(play.probes.asked(&"p".into()), crate::AskedMarks::default());
}

#[test]
fn it_says_which_marks_it_wants_to_be_shown() {
    let mut play = Play::with(vec![idle()]);
    let asked = play.probes.asked(&"p".into());
    assert_eq!(asked.conditions.into_iter().collect::<Vec<_>>(), ["idle".into()]);
    assert_eq!(asked.labels.into_iter().collect::<Vec<_>>(), ["both".into(), "cost".into(), "idle".into()]);
    play.round("a", yes(""));
    play.want(&[]);
    assert!(play.probes.asked(&"p".into()).labels.contains("cost"), "as long as it is there");
}
