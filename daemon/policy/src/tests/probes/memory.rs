//! Findings of an earlier process, as `NodePodProbe.status` remembers them.

use super::play::{Play, condition, labelled, no, pod, probe, secs, told, yes};
use crate::{ConditionStatus, InstanceState, PodReport, ProbeEvent, ProbeReport, ProbeState};

/// An agent that begins, in a cluster where an earlier one reported this, so long ago.
fn begins(state: ProbeState, message: &str, probed_ago: Option<u64>) -> Play {
    let mut play = Play::new();
    let report = ProbeReport {
        name: "a".into(),
        state,
        last_probe: probed_ago.map(|ago| play.now - secs(ago)),
        last_transition: Some(play.now - secs(5000)),
        message: message.into(),
    };
    play.apply(ProbeEvent::Reported(vec![PodReport { pod: pod("p"), probes: vec![report] }]));
    let status = match state {
        ProbeState::Succeeded => ConditionStatus::True,
        ProbeState::Failed => ConditionStatus::False,
        ProbeState::Unknown => ConditionStatus::Unknown,
    };
    play.shown("p").conditions.insert("idle".into(), condition(status, message));
    play.shown("p").labels.insert("x".into(), "1".into());
    play.want(&[("p", vec![labelled(told(probe("a"), "idle"), &[("x", "1")], &[])])]);
    play
}

/// The container never noticed, so neither does the pod.
#[test]
fn a_restart_of_the_agent_changes_and_tells_nothing() {
    let mut play = begins(ProbeState::Succeeded, "empty", Some(4000));
    assert_eq!(play.settle(), [""; 0], "nothing is known of the containers yet");
    play.runs_since("p", "main", secs(6000));
    assert_eq!(play.settle(), ["look p"]);
    assert_eq!(play.stands("a"), (ProbeState::Succeeded, "empty".to_owned()));
    assert_eq!(play.view("a").since, play.now - secs(5000));
    assert_eq!(play.round("a", yes("empty")), [""; 0]);
    let lines = play.round("a", no("3 players"));
    assert_eq!(
        lines,
        [
            "mark p idle=False(3 players) -x",
            "report p:a=Failed(3 players)",
            "tell p KruiseProbeFailed a: 3 players"
        ]
    );
}

/// The agent asks whether each probe may run before it wants it, so the list comes later than what was
/// reported.
#[test]
fn before_it_is_known_what_is_wanted_the_old_report_stands() {
    let mut play = Play::new();
    let report = ProbeReport {
        name: "a".into(),
        state: ProbeState::Succeeded,
        last_probe: Some(play.now - secs(1)),
        last_transition: Some(play.now - secs(5000)),
        message: "empty".into(),
    };
    play.apply(ProbeEvent::Reported(vec![PodReport { pod: pod("p"), probes: vec![report] }]));
    assert_eq!(play.settle(), [""; 0]);
    play.want(&[]);
    assert_eq!(play.settle(), ["report"], "nothing is wanted: so nothing is reported");
}

#[test]
fn what_was_found_out_about_another_instance_is_not_taken_over() {
    for probed_ago in [Some(4000), None] {
        let mut play = begins(ProbeState::Succeeded, "empty", probed_ago);
        play.runs_since("p", "main", secs(3000));
        assert_eq!(
            play.settle(),
            [
                "look p",
                "report p:a=Unknown()",
                "mark p idle=Unknown(Container(main) has no result yet since it started)"
            ]
        );
    }
}

#[test]
fn a_container_that_ended_meanwhile_has_failed() {
    let failed = "Container(main) is Non-running";
    let mut ended = begins(ProbeState::Succeeded, "empty", Some(4000));
    ended.has("p", "main", 0, InstanceState::NotRunning);
    let marks = ended.settle_only(&["mark", "tell"]);
    assert_eq!(
        marks,
        [format!("tell p KruiseProbeFailed a: {failed}"), format!("mark p idle=False({failed}) -x")]
    );
    // One that had ended before, or was removed since, is no news.
    for removed in [false, true] {
        let mut ended = begins(ProbeState::Failed, failed, Some(4000));
        ended.shown("p").labels.clear();
        if removed {
            ended.has_none("p");
        } else {
            ended.stops("p", "main", 0);
        }
        assert_eq!(ended.settle(), ["look p"]);
    }
}

#[test]
fn why_it_could_not_be_carried_out_is_not_told_again() {
    let mut play = begins(ProbeState::Unknown, "no such file", Some(4000));
    play.runs_since("p", "main", secs(6000));
    assert_eq!(play.settle(), ["look p"]);
    assert_eq!(play.round("a", super::play::unable("no such file")), [""; 0]);
}

#[test]
fn what_is_not_wanted_any_more_leaves_the_report() {
    let mut play = begins(ProbeState::Succeeded, "", Some(10));
    play.want(&[]);
    assert_eq!(play.settle(), ["report"]);
    // And is not remembered for the next one of that name.
    play.want(&[("p", vec![probe("a")])]);
    play.runs_since("p", "main", secs(6000));
    assert_eq!(play.stands("a").0, ProbeState::Unknown);
}

#[test]
fn what_the_first_list_does_not_want_is_forgotten() {
    let mut play = begins(ProbeState::Succeeded, "", Some(10));
    let report = ProbeReport {
        name: "late".into(),
        state: ProbeState::Succeeded,
        last_probe: Some(play.now),
        last_transition: None,
        message: "".into(),
    };
    play.apply(ProbeEvent::Reported(vec![PodReport { pod: pod("p"), probes: vec![report] }]));
    play.want(&[("p", Vec::new())]);
    play.want(&[("p", vec![probe("late")])]);
    play.runs_since("p", "main", secs(6000));
    assert_eq!(play.stands("late").0, ProbeState::Unknown);
}

#[test]
fn said_after_what_is_wanted_it_counts_all_the_same() {
    let mut play = Play::new();
    play.want(&[("p", vec![probe("a"), probe("b")])]);
    let report = |name: &str| ProbeReport {
        name: name.into(),
        state: ProbeState::Succeeded,
        last_probe: Some(play.now - secs(10)),
        last_transition: None,
        message: "".into(),
    };
    let probes = vec![report("b"), report("a")];
    let reported = ProbeEvent::Reported(vec![PodReport { pod: pod("p"), probes }]);
    play.apply(reported.clone());
    play.runs_since("p", "main", secs(6000));
    assert_eq!(play.settle(), [""; 0]);
    assert_eq!(play.stands("a").0, ProbeState::Succeeded);
    // What was found out since is newer.
    play.round("a", no(""));
    play.apply(reported);
    assert_eq!(play.stands("a").0, ProbeState::Failed);
    play.pass(secs(1));
    assert_eq!(play.settle_only(&["report"]), ["report p:a=Failed() p:b=Succeeded()"]);
}
