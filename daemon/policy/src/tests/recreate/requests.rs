//! Requests, and the order in which what they ask for is done.

use std::time::Duration;

use crate::tests::world::pod;
use crate::{
    Amendment, CallId, ContainerId, ContainerPhase, Event, FailureReason, MarkPhase, Outcome, Readiness,
    RecreateStrategy, RequestPhase, Verdict,
};

use super::play::{Play, one, strategy};

#[test]
fn the_kubelet_is_asked_once() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    assert_eq!(play.relist(), 1);
    assert_eq!(play.relist(), 0, "one nudge");
    assert!(play.looks("a-1"));
    assert_eq!(play.store[0].phase, MarkPhase::Shown);
    assert_eq!(play.stop("a-1", 30), Verdict::Forward);
    assert!(!play.looks("other"));
    play.start("a");
    play.succeeded("r");
    assert_eq!(play.effects, ["mark a-1 Armed", "forget r"]);
    assert!(play.store.is_empty());
    // Recreating, killed, completed: one write for each change of state.
    assert_eq!(play.reports.len(), 3, "{:#?}", play.reports);
    assert!(!play.looks("a-2"));
    assert_eq!(play.relist(), 0);
}

/// Statuses of requests have the UID of any pod of the node that their writer likes. Rows: the pod that the
/// request names, and whether it is carried out on pod `ns/pod`.
#[test]
fn a_request_is_about_the_pod_that_it_names() {
    for (named, goes) in [
        (None, true),
        (Some("ns/pod"), true),
        (Some("ns/other"), false),
        (Some("other/pod"), false),
        (Some("pod"), false),
    ] {
        let mut play = Play::new(one());
        let mut request = play.asks("r", &["a"], strategy());
        request.named = named.map(str::to_owned);
        play.world.apply(Event::RecreateSeen(Box::new(request)));
        play.settle();
        assert_eq!(play.effects.iter().any(|effect| effect == "mark a-1 Armed"), goes, "{named:?}");
        if !goes {
            let refused = Some(Outcome::Failed(FailureReason::InvalidRequest));
            assert_eq!(play.last("r").outcome, refused, "{named:?}");
            assert!(!play.looks("a-1"), "{named:?}");
        }
    }
}

#[test]
fn a_kubelet_that_did_not_look_is_nudged_again() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.relist(), 1);
    play.world.pass(Duration::from_secs(1));
    assert_eq!(play.relist(), 0);
    play.world.pass(Duration::from_secs(2));
    assert_eq!(play.relist(), 1);
}

/// Rows: seconds from which on the kubelet lists each second, the second that is looked at, how often the
/// status was written, and what it says then.
#[test]
fn a_kubelet_that_stops_nothing_is_told_once() {
    const NEVER: u64 = 100;
    let asks = "is its containerRuntimeEndpoint the socket of berthd?";
    let points = "look into the kubelet's log";
    for (lists_from, second, written, says) in [
        (NEVER, 9, 1, ""),
        (NEVER, 11, 2, asks),
        (NEVER, 60, 2, asks),
        (0, 11, 1, ""),
        (0, 29, 1, ""),
        (0, 31, 2, points),
        (12, 20, 2, asks),
        (12, 31, 3, points),
    ] {
        let row = format!("lists from {lists_from}, second {second}");
        let mut play = Play::new(one());
        play.request("r", &["a"], strategy());
        for passed in 1..=second {
            play.world.pass(Duration::from_secs(1));
            if passed >= lists_from {
                play.relist();
            }
            play.settle();
        }
        let message = &play.last("r").containers[0].message;
        assert!(message.ends_with(says) && message.is_empty() == says.is_empty(), "{row}: {message}");
        assert_eq!(play.reports.len(), written, "{row}: {:#?}", play.reports);
    }
}

#[test]
fn nudges_are_remembered_no_longer_than_they_count() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.relist(), 1);
    let is_forgotten = |play: &Play| format!("{:?}", play.world.node).contains("nudged: {}");
    assert!(!is_forgotten(&play));
    play.world.apply(crate::Event::RecreateGone("r".into()));
    play.world.pass(Duration::from_secs(10));
    assert_eq!(play.relist(), 0);
    assert!(is_forgotten(&play));
}

#[test]
fn a_mark_made_after_a_nudge_gets_its_own() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    play.request("r1", &["a"], strategy());
    assert_eq!(play.relist(), 1);
    play.world.pass(Duration::from_millis(500));
    assert_eq!(play.relist(), 0, "the same mark");
    play.request("r2", &["b"], strategy());
    assert_eq!(play.relist(), 1, "at once");
    play.world.pass(Duration::from_millis(500));
    assert_eq!(play.relist(), 0, "and once");
}

#[test]
fn a_mark_that_was_looked_at_gets_no_second_nudge_for_that() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    assert_eq!(play.relist(), 1);
    play.world.pass(Duration::from_millis(500));
    assert!(play.looks("a-1"));
    play.world.pass(Duration::from_millis(500));
    assert_eq!(play.relist(), 0, "the kubelet is about to stop it");
    play.world.pass(Duration::from_millis(2500));
    assert_eq!(play.relist(), 1, "or is not");
}

#[test]
fn a_nudge_that_was_not_delivered_is_none() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    let (call, connection) = (CallId(1), play.world.connection);
    play.world.apply(Event::RelistAsked { call, connection });
    assert_eq!(play.world.node.nudges(call, play.world.now).len(), 1);
    let second = CallId(2);
    assert!(play.world.node.nudges(second, play.world.now).is_empty(), "it is on its way");
    play.world.apply(Event::CallEnded(call));
    assert_eq!(play.relist(), 1);
}

#[test]
fn eight_in_a_row_without_a_trace_of_the_earlier_ones() {
    let mut play = Play::new(one());
    let mut id = "a-1".to_owned();
    for round in 0..8 {
        play.effects.clear();
        let request = format!("r{round}");
        play.request(&request, &["a"], strategy());
        if round > 0 {
            assert!(play.effects[0].starts_with("remove a-"), "{:?}", play.effects);
        }
        id = play.replaced_by_kubelet("a", &id);
        play.succeeded(&request);
    }
}

#[test]
fn containers_of_an_unordered_request_are_stopped_one_after_another() {
    let mut play = Play::new(
        pod(&[("a", "0"), ("b", "0"), ("c", "0")]).becomes_ready_by("c", Readiness::ReadinessProbe),
    );
    play.request("r", &["c", "a"], strategy());
    assert_eq!(play.effects, ["mark c-3 Armed"], "the order of the list");
    assert!(play.looks("c-3") && !play.looks("a-1") && !play.looks("b-2"));
    play.stop("c-3", 30);
    play.settle();
    assert_eq!(play.effects.last().unwrap(), "mark a-1 Armed", "nobody waits until the other is Ready");
    assert!(play.looks("a-1"));
    play.stop("a-1", 30);
    play.start("a");
    assert_eq!(play.phases("r"), [("c", ContainerPhase::Recreating), ("a", ContainerPhase::Succeeded)]);
    let id = play.start("c");
    play.reports_ready("c", &id, true);
    play.succeeded("r");
}

#[test]
fn an_ordered_request_waits_for_ready() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]).becomes_ready_by("a", Readiness::ReadinessProbe));
    play.request("r", &["b", "a"], RecreateStrategy { ordered: true, ..strategy() });
    assert_eq!(play.effects, ["mark a-1 Armed"], "the order of the pod, not of the list");
    let id = play.replaced_by_kubelet("a", "a-1");
    assert_eq!(play.effects.last().unwrap(), "mark b-2 Armed");
    play.reports_ready("a", &id, false);
    play.replaced_by_kubelet("b", "b-2");
    play.succeeded("r");
}

#[test]
fn an_ordered_request_does_not_go_on_before_ready() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]).becomes_ready_by("a", Readiness::ReadinessProbe));
    play.request("r", &["a", "b"], RecreateStrategy { ordered: true, ..strategy() });
    play.relist();
    play.looks("a-1");
    play.stop("a-1", 30);
    let (call, _) = play.world.create(&play.pod.clone(), "a");
    play.world.start(&call, "a-9");
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    play.reports_ready("a", "a-9", true);
    assert_eq!(play.effects.last().unwrap(), "mark b-2 Armed");
}

#[test]
fn min_started_is_counted_from_the_start() {
    let mut play = Play::new(one());
    play.request("r", &["a"], RecreateStrategy { min_started: Duration::from_secs(5), ..strategy() });
    play.replaced_by_kubelet("a", "a-1");
    assert_eq!(play.last("r").phase, Some(RequestPhase::Recreating));
    let due = play.world.node.next_deadline().unwrap();
    assert!(due <= play.world.now + Duration::from_secs(5));
    play.world.pass(Duration::from_secs(5));
    play.settle();
    play.succeeded("r");
}

#[test]
fn the_grace_of_the_request_takes_the_place_of_the_pods() {
    // (grace asked for, timeout the kubelet passes, what goes on): the pod's grace is 30 s.
    let amended = |seconds| Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(seconds)));
    let table = [
        (None, 30, Verdict::Forward),
        (Some(5), 30, amended(5)),
        (Some(5), 28, amended(3)),
        (Some(5), 2, Verdict::Forward),
        (Some(0), 30, amended(2)),
        (Some(60), 30, amended(60)),
        (Some(60), 20, amended(50)),
        (Some(30), 30, Verdict::Forward),
    ];
    for (grace, timeout, expected) in table {
        let mut play = Play::new(one());
        let grace = grace.map(Duration::from_secs);
        play.request("r", &["a"], RecreateStrategy { grace, ..strategy() });
        play.relist();
        play.looks("a-1");
        assert_eq!(play.stop("a-1", timeout), expected, "{grace:?} {timeout}");
    }
}

#[test]
fn a_second_request_for_the_container_waits_and_finds_it_replaced() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    play.request("r1", &["a"], strategy());
    play.request("r2", &["a"], strategy());
    play.request("r3", &["b"], strategy());
    assert_eq!(play.last("r2").phase, Some(RequestPhase::Pending));
    assert_eq!(play.last("r2").containers[0].message, "waits for request ns/r1");
    assert_eq!(play.effects, ["mark a-1 Armed", "mark b-2 Armed"], "disjoint containers do not wait");
    play.replaced_by_kubelet("a", "a-1");
    play.succeeded("r1");
    play.succeeded("r2");
    assert_eq!(play.last("r3").phase, Some(RequestPhase::Recreating));
}

#[test]
fn force_restarts_also_what_was_replaced_and_once() {
    let mut play = Play::new(one());
    play.request("r1", &["a"], strategy());
    play.request("r2", &["a"], RecreateStrategy { force: true, ..strategy() });
    // Created and not started yet is the moment in which it must not count as done.
    play.relist();
    play.looks("a-1");
    play.stop("a-1", 30);
    let (call, _) = play.world.create(&play.pod.clone(), "a");
    play.world.apply(Event::ContainerCreated { call: call.id, container: "a-x".into() });
    play.settle();
    play.world.start(&call, "a-x");
    play.reports_ready("a", "a-x", true);
    let id = "a-x".to_owned();
    play.succeeded("r1");
    assert_eq!(play.last("r2").phase, Some(RequestPhase::Recreating));
    assert_eq!(play.store.last().unwrap().container, ContainerId::from(id.as_str()));
    play.replaced_by_kubelet("a", &id);
    play.succeeded("r2");
}

/// `isKilled` says what was stopped for this request, and not what it found replaced.
#[test]
fn killed_is_what_was_stopped_for_this_request() {
    type Way = fn(&mut Play);
    let fell_over = |play: &mut Play| {
        play.world.exit("a-1", 1);
        play.world.pass(Duration::from_secs(1));
        play.settle();
        play.start("a");
    };
    let table: [(&str, Way, bool); 5] = [
        (
            "stopped for it",
            |play| {
                play.request("r", &["a"], strategy());
                play.replaced_by_kubelet("a", "a-1");
            },
            true,
        ),
        (
            "replaced for an earlier one",
            |play| {
                play.request("earlier", &["a"], strategy());
                play.request("r", &["a"], strategy());
                play.replaced_by_kubelet("a", "a-1");
            },
            false,
        ),
        (
            "forced after an earlier one",
            |play| {
                play.request("earlier", &["a"], strategy());
                play.request("r", &["a"], RecreateStrategy { force: true, ..strategy() });
                let id = play.replaced_by_kubelet("a", "a-1");
                play.replaced_by_kubelet("a", &id);
            },
            true,
        ),
        ("fell over before the kubelet was shown it", |play| play.request("r", &["a"], strategy()), false),
        (
            "fell over when the kubelet had been shown it",
            |play| {
                play.request("r", &["a"], strategy());
                play.relist();
                assert!(play.looks("a-1"));
            },
            true,
        ),
    ];
    for (what, way, killed) in table {
        let mut play = Play::new(one());
        way(&mut play);
        if what.starts_with("fell over") {
            fell_over(&mut play);
        }
        play.succeeded("r");
        assert_eq!(play.last("r").containers[0].killed, killed, "{what}");
    }
}

#[test]
fn the_pod_is_drained_first() {
    let mut gated = one();
    gated.unready = Some(crate::Unready::default());
    let mut play = Play::new(gated);
    let strategy = RecreateStrategy { unready_grace: Some(Duration::from_secs(3)), ..strategy() };
    play.request("r", &["a"], strategy);
    assert_eq!(play.effects, ["hold ns/r"]);
    assert!(play.last("r").unready);
    play.pod.unready.as_mut().unwrap().requests.push("ns/r".to_owned());
    play.world.apply(play.pod.seen());
    play.world.pass(Duration::from_secs(2));
    play.settle();
    assert_eq!(play.effects, ["hold ns/r"]);
    play.world.pass(Duration::from_secs(1));
    play.settle();
    assert_eq!(play.effects, ["hold ns/r", "mark a-1 Armed"]);
    play.replaced_by_kubelet("a", "a-1");
    assert!(play.effects.contains(&"release ns/r".to_owned()), "{:?}", play.effects);
    play.succeeded("r");
}

#[test]
fn a_pod_without_the_gate_waits_and_is_not_touched() {
    let mut play = Play::new(one());
    let strategy = RecreateStrategy { unready_grace: Some(Duration::from_secs(3)), ..strategy() };
    play.request("r", &["a"], strategy);
    assert!(play.effects.is_empty());
    play.world.pass(Duration::from_secs(3));
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
}

#[test]
fn what_a_request_left_in_the_gate_is_taken_away() {
    let mut gated = one();
    gated.unready = Some(crate::Unready { requests: vec!["ns/forgotten".to_owned()], unwritten: false });
    let play = Play::new(gated);
    let mut play = play;
    play.settle();
    assert_eq!(play.effects, ["release ns/forgotten"]);
}

#[test]
fn a_gate_that_nobody_wrote_is_opened() {
    let mut gated = one();
    gated.unready = Some(crate::Unready { requests: Vec::new(), unwritten: true });
    let mut play = Play::new(gated);
    play.settle();
    assert_eq!(play.effects, ["open pod"]);
}
