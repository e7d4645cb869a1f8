//! When a pod is written to.

use std::time::Duration;

use super::play::{Play, labelled, like, no, probe, secs, told, yes};
use crate::{ProbeEvent, ProbeLimits, ProbeOutcome, WantedProbe};

fn idle(name: &str) -> WantedProbe {
    labelled(told(probe(name), "idle"), &[("x", "1")], &[("x", "0")])
}

/// Goes on until something of this kind is owed, and says after how long. Looks show the pod as it is.
fn until(play: &mut Play, word: &str) -> (Duration, String) {
    let start = play.now;
    for _ in 0..1000 {
        let lines = play.plan();
        if let Some(line) = lines.iter().find(|line| line.starts_with(word)) {
            return (play.now - start, line.clone());
        }
        if !play.looks.is_empty() {
            play.answer(ProbeOutcome::Done);
            continue;
        }
        for run in play.runs.keys().copied().collect::<Vec<_>>() {
            play.end(run, yes(""));
        }
        play.wait();
    }
    panic!("no {word}");
}

#[test]
fn a_pod_is_looked_at_before_it_is_written_to_and_a_look_is_repeated() {
    let mut play = Play::with(vec![idle("a")]);
    assert_eq!(play.plan(), ["run a in p-main-0", "look p"]);
    play.ends("a", yes(""));
    play.answer(ProbeOutcome::Failed);
    play.plan();
    play.answer(ProbeOutcome::Done);
    for pause in [100, 200, 400] {
        assert_eq!(until(&mut play, "look").0, Duration::from_millis(pause));
        play.looks.clear();
        // Somebody says it looked, and shows nothing.
        play.apply(ProbeEvent::LookEnded("p".into(), ProbeOutcome::Done));
    }
    until(&mut play, "look");
    play.answer(ProbeOutcome::Done);
    assert_eq!(play.plan(), ["mark p idle=True() x=1"]);
}

#[test]
fn what_is_shown_unasked_needs_no_look() {
    let mut play = Play::with(vec![idle("a")]);
    play.show("p");
    assert_eq!(play.plan(), ["run a in p-main-0"]);
}

#[test]
fn few_pods_are_looked_at_at_once() {
    let mut play = Play::new();
    let pods: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| (name, vec![idle(name)])).into();
    play.want(&pods);
    pods.iter().for_each(|(pod, _)| play.runs(pod, "main", 0));
    let looks = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("look")).count();
    assert_eq!(looks(play.plan()), 4);
    play.answer(ProbeOutcome::Done);
    assert_eq!(looks(play.plan()), 2);
}

/// A probe that prints the time.
#[test]
fn words_alone_are_written_every_ten_seconds_and_states_at_once() {
    let every_second = like(idle("a"), |probe| probe.period = secs(1));
    let mut play = Play::with(vec![every_second]);
    let mut writes = Vec::new();
    for second in 0..60_u64 {
        let before = play.settle_only(&["mark"]);
        let failed = (33..40).contains(&second);
        play.ends("a", if failed { no(&second.to_string()) } else { yes(&second.to_string()) });
        writes.extend(before.iter().chain(&play.settle_only(&["mark"])).map(|_| second));
        play.pass(secs(1));
    }
    assert_eq!(writes, [0, 10, 20, 30, 33, 40, 50]);
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut play = Play::with(vec![idle("a")]);
    play.round("a", yes("same"));
    for _ in 0..500 {
        assert_eq!(play.round("a", yes("same")), [""; 0]);
    }
}

#[test]
fn a_write_that_failed_is_made_again_after_pauses_that_double() {
    let mut play = Play::with(vec![idle("a")]);
    play.settle();
    play.ends("a", yes(""));
    let mut pauses = Vec::new();
    for _ in 0..11 {
        pauses.push(until(&mut play, "mark").0.as_millis());
        play.report = None;
        play.answer(ProbeOutcome::Failed);
    }
    assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000]);
    until(&mut play, "mark");
    play.answer(ProbeOutcome::Done);
    play.settle();
    play.runs("p", "main", 1);
    assert_eq!(until(&mut play, "mark").0, Duration::ZERO, "it works again");
}

/// A label that the API server does not take keeps no condition from the pod.
#[test]
fn a_write_that_was_refused_is_tried_in_parts() {
    let mut play = Play::with(vec![idle("a")]);
    play.settle();
    play.ends("a", yes(""));
    let refuse = |play: &mut Play| {
        let (pause, line) = until(play, "mark");
        play.report = None;
        play.answer(if line.contains("x=") { ProbeOutcome::Refused } else { ProbeOutcome::Done });
        (pause, line)
    };
    let (soon, later) = (Duration::from_millis(100), secs(30));
    for (pause, line) in [
        (Duration::ZERO, "mark p idle=True() x=1"),
        (soon, "mark p idle=True()"),
        (Duration::ZERO, "mark p x=1"),
        (later, "mark p x=1"),
    ] {
        assert_eq!(refuse(&mut play), (pause, line.to_owned()));
    }
    // States are written at once all the same, and words no oftener than otherwise.
    play.stops("p", "main", 0);
    let failed = "mark p idle=False(Container(main) is Non-running)".to_owned();
    assert_eq!(refuse(&mut play), (Duration::ZERO, failed));
    let (pause, line) = refuse(&mut play);
    assert!(pause > secs(29) && pause <= later && line == "mark p x=0", "{pause:?} {line}");
    // It is taken at last.
    until(&mut play, "mark");
    play.answer(ProbeOutcome::Done);
    play.settle();
    play.runs("p", "main", 1);
    play.round("a", yes(""));
    assert_eq!(play.shown("p").labels["x"].as_ref(), "1");
}

/// Its labels are refused for good, and it prints the time.
#[test]
fn words_wait_while_labels_are_refused() {
    let mut play = Play::with(vec![like(idle("a"), |probe| probe.period = secs(1))]);
    let mut writes = Vec::new();
    for second in 0..40_u64 {
        while !play.plan().is_empty() {
            if let Some(marks) = play.marks.values().next() {
                writes.push((second, marks.conditions.len(), marks.labels.len()));
            }
            let refused = play.marks.values().any(|marks| !marks.labels.is_empty());
            play.answer(if refused { ProbeOutcome::Refused } else { ProbeOutcome::Done });
            if let Some(run) = play.runs.keys().next().copied() {
                play.end(run, yes(&second.to_string()));
            }
        }
        play.pass(secs(1));
    }
    let of_words: Vec<u64> = writes.iter().filter(|write| write.2 == 0).map(|write| write.0).collect();
    assert_eq!(of_words, [1, 11, 21], "{writes:?}");
    let of_labels: Vec<u64> = writes.iter().filter(|write| write.2 > 0).map(|write| write.0).collect();
    assert_eq!(of_labels, [0, 1, 31], "{writes:?}");
}

#[test]
fn a_pod_that_is_not_there_is_left_alone() {
    let mut play = Play::with(vec![idle("a")]);
    play.settle();
    play.ends("a", yes(""));
    play.plan();
    play.answer(ProbeOutcome::Gone);
    for _ in 0..5 {
        let lines = play.round("a", no(""));
        assert!(!lines.iter().any(|line| line.starts_with("mark") || line.starts_with("look")), "{lines:?}");
    }
    play.want(&[]);
    play.settle();
    assert_eq!(play.probes.size().pods, 0);
}

#[test]
fn one_write_at_a_time_and_the_latest_after_it() {
    let mut play = Play::with(vec![like(idle("a"), |probe| probe.period = secs(1))]);
    play.settle();
    play.ends("a", yes(""));
    assert!(play.plan().contains(&"mark p idle=True() x=1".to_owned()));
    for result in [no("1"), yes("2"), no("3")] {
        play.pass(secs(1));
        play.plan();
        play.ends("a", result);
        assert!(!play.plan().iter().any(|line| line.starts_with("mark")));
    }
    play.answer(ProbeOutcome::Done);
    assert_eq!(play.settle_only(&["mark"]), ["mark p idle=False(3) x=0"]);
}

#[test]
fn the_node_writes_so_much_and_no_more_states_before_words() {
    let limits = ProbeLimits {
        write_every: secs(2),
        write_burst: 2,
        exec_every: Duration::ZERO,
        ..ProbeLimits::default()
    };
    let mut play = Play::limited(ProbeLimits { exec_concurrent: 10, ..limits });
    let names = ["a", "b", "c", "d"];
    let pods = names.map(|name| (name, vec![idle(name)]));
    play.want(&pods);
    names.iter().for_each(|pod| play.runs(pod, "main", 0));
    play.settle();
    names.iter().for_each(|name| play.ends(name, yes("")));
    let marks = |play: &mut Play| play.settle_only(&["mark"]);
    assert_eq!(marks(&mut play), ["mark a idle=True() x=1", "mark b idle=True() x=1"]);
    for pod in ["c", "d"] {
        play.pass(secs(2));
        assert_eq!(marks(&mut play), [format!("mark {pod} idle=True() x=1")]);
    }
    play.pass(secs(100));
    play.settle();
    play.ends("a", yes("words"));
    play.ends("d", no("words"));
    play.ends("b", no("words"));
    play.ends("c", no("words"));
    assert_eq!(marks(&mut play), ["mark b idle=False(words) x=0", "mark c idle=False(words) x=0"]);
    play.pass(secs(2));
    assert_eq!(marks(&mut play), ["mark d idle=False(words) x=0"]);
    play.pass(secs(2));
    assert_eq!(marks(&mut play), ["mark a idle=True(words)"]);
}

#[test]
fn it_does_not_fight_at_full_speed() {
    let mut play = Play::with(vec![like(idle("a"), |probe| probe.period = secs(3600))]);
    play.round("a", yes(""));
    let mut pauses = Vec::new();
    for _ in 0..9 {
        play.label("p", "x", Some("theirs"));
        let (pause, line) = until(&mut play, "mark");
        assert_eq!(line, "mark p x=1");
        pauses.push(pause.as_secs());
        play.answer(ProbeOutcome::Done);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    // A state of the probe goes at once all the same.
    play.label("p", "x", Some("theirs"));
    play.plan();
    play.stops("p", "main", 0);
    assert_eq!(until(&mut play, "mark").0, Duration::ZERO);
    play.answer(ProbeOutcome::Done);
    play.settle();
    // After some quiet the pauses are short again.
    play.pass(secs(200));
    play.label("p", "x", Some("theirs"));
    assert_eq!(until(&mut play, "mark").0, secs(1));
}

#[test]
fn an_older_state_of_the_pod_is_no_news() {
    let mut play = Play::with(vec![idle("a")]);
    play.settle();
    let before = play.shown("p").clone();
    play.ends("a", yes(""));
    play.settle();
    play.apply(ProbeEvent::Shown(before));
    assert_eq!(play.settle(), [""; 0]);
}

/// Then it is taken for written, until something newer is shown.
#[test]
fn a_write_whose_answer_shows_nothing_is_not_made_again() {
    let mut play = Play::with(vec![idle("a")]);
    play.settle();
    let before = play.shown("p").clone();
    play.ends("a", yes(""));
    play.plan();
    play.marks.clear();
    play.report = None;
    play.apply(ProbeEvent::MarkEnded("p".into(), ProbeOutcome::Done));
    play.apply(ProbeEvent::Shown(before.clone()));
    assert_eq!(play.plan(), [""; 0]);
    play.pass(secs(1));
    play.apply(ProbeEvent::Shown(crate::Shown { version: before.version + 1, ..before }));
    assert_eq!(
        until(&mut play, "mark"),
        (secs(1), "mark p idle=True() x=1".to_owned()),
        "somebody took it back"
    );
}
