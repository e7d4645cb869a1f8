//! How requests end: well, badly, and after a death at each step of the way.

use std::time::Duration;

use crate::tests::world::{World, effects, pod};
use crate::{
    ContainerPhase, Effect, Event, FailureReason, Origin, Outcome, Path, RecreateRequest, RecreateStrategy,
    RequestId, RequestPhase, RestartPolicy, SandboxId, Showing, Step, StepOutcome, StoreEffect,
};

use super::play::{Play, exec, http, one, strategy, with_hook};

#[test]
fn the_deadline_ends_what_was_not_shown() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.deadline = Some(play.world.now + Duration::from_secs(3));
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    assert_eq!(play.effects, ["mark a-1 Armed"]);
    play.world.pass(Duration::from_secs(3));
    play.settle();
    let report = play.last("r");
    assert_eq!(report.outcome, Some(Outcome::Failed(FailureReason::DeadlineExceeded)));
    assert_eq!(report.message, "recreating has exceeded the activeDeadlineSeconds");
    assert!(!play.looks("a-1"), "nothing is done after the end");
    assert!(play.store.is_empty());
}

#[test]
fn a_finished_request_is_deleted_after_its_time() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.delete_after = Some(Duration::from_secs(10));
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    play.replaced_by_kubelet("a", "a-1");
    assert!(!play.effects.contains(&"delete r".to_owned()));
    play.world.pass(Duration::from_secs(10));
    play.settle();
    assert!(play.effects.contains(&"delete r".to_owned()));
}

/// On a quiet node nothing else wakes whoever waits for the next deadline.
#[test]
fn a_new_time_to_delete_one_is_worth_a_look() {
    let mut play = Play::new(one());
    play.settle();
    assert!(!play.world.node.is_waiting());
    let mut request = play.asks("r", &["a"], strategy());
    request.delete_after = Some(Duration::from_secs(10));
    (request.reported.phase, request.reported.outcome) =
        (Some(RequestPhase::Completed), Some(Outcome::Complete));
    request.ended = Some(play.world.now);
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    assert!(play.world.node.is_waiting());
    play.settle();
    assert!(!play.world.node.is_waiting(), "its time is known");
    assert_eq!(play.world.node.next_deadline(), Some(play.world.now + Duration::from_secs(10)));
    play.world.apply(Event::RecreateGone("r".into()));
    play.settle();
    assert_eq!((play.world.node.is_waiting(), play.world.node.next_deadline()), (false, None));
}

/// Requests are counted once, at their end.
#[test]
fn a_request_is_open_until_its_source_shows_an_end() {
    let mut play = Play::new(one());
    let open = |play: &Play, id: &str| play.world.node.open_since(&id.into(), play.world.now);
    assert_eq!(open(&play, "r"), None, "nobody knows it");
    play.request("r", &["a"], strategy());
    play.world.pass(Duration::from_secs(7));
    assert_eq!(open(&play, "r"), Some(Duration::from_secs(7)));
    play.replaced_by_kubelet("a", "a-1");
    assert_eq!(play.last("r").outcome, Some(Outcome::Complete));
    assert_eq!(open(&play, "r"), None, "it was reported");
}

#[test]
fn a_pod_that_goes_ends_the_request() {
    for gone in ["deleted", "removed", "ended", "cannot be read"] {
        let mut play = Play::new(one());
        play.request("r", &["a"], strategy());
        match gone {
            "deleted" => play.pod = play.pod.clone().deleting(30),
            "ended" => play.pod.ended = true,
            _ => {}
        }
        let event = match gone {
            "removed" => Event::PodGone(play.pod.pod.uid.clone()),
            "cannot be read" => Event::PodsUnread(vec![play.pod.pod.clone()]),
            _ => play.pod.seen(),
        };
        play.world.apply(event);
        assert!(!play.looks("a-1"), "{gone}");
        play.settle();
        assert_eq!(play.last("r").outcome, Some(Outcome::Failed(FailureReason::PodGone)), "{gone}");
        assert_eq!(play.last("r").message.contains("cannot be read"), gone == "cannot be read");
    }
}

#[test]
fn a_container_the_pod_does_not_keep_running_fails() {
    for (ignore, outcome) in
        [(false, Outcome::Failed(FailureReason::ContainerFailed)), (true, Outcome::Complete)]
    {
        let mut play = Play::new(one());
        let asked = RecreateStrategy { ignore_failures: ignore, ..strategy() };
        play.request("r", &["nobody", "a"], asked);
        if ignore {
            play.replaced_by_kubelet("a", "a-1");
        }
        let report = play.last("r");
        assert_eq!(report.outcome, Some(outcome));
        assert!(report.message.contains("nobody"), "{}", report.message);
        assert_eq!(report.containers[0].phase, ContainerPhase::Failed);
    }
}

#[test]
fn an_exited_container_that_is_not_restarted_fails() {
    let table = [
        (RestartPolicy::Never, 1, false),
        (RestartPolicy::OnFailure, 0, false),
        (RestartPolicy::OnFailure, 1, true),
        (RestartPolicy::Always, 0, true),
    ];
    for (policy, code, waits) in table {
        let mut own = one().restarts(if policy == RestartPolicy::Never {
            RestartPolicy::Always
        } else {
            RestartPolicy::Never
        });
        own.containers.get_mut(&"a".into()).unwrap().restart_policy = Some(policy);
        for pod in [one().restarts(policy), own] {
            let mut play = Play::new(pod);
            play.world.exit("a-1", code);
            play.request("r", &["a"], strategy());
            play.world.pass(Duration::from_secs(2));
            play.settle();
            assert_eq!(play.last("r").outcome.is_none(), waits, "{policy:?} {code}");
        }
    }
}

#[test]
fn a_request_that_is_kept_nowhere_has_no_status_to_write() {
    let mut play = Play::new(one());
    let request = RecreateRequest { origin: Origin::Update, ..play.asks("r", &["a"], strategy()) };
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    assert!(play.looks("a-1"), "it is carried out as any other");
    play.world.apply(Event::PodSeen(Box::new(play.pod.clone().deleting(30))));
    play.settle();
    assert!(play.reports.is_empty(), "{:?}", play.reports);
    assert!(!play.world.node.is_waiting(), "and nothing of its end is still to be told");
}

#[test]
fn a_request_that_goes_away_is_forgotten() {
    let mut play = Play::new(one());
    play.request("r", &["a"], strategy());
    play.world.apply(Event::RecreateGone(RequestId::from("r")));
    play.settle();
    assert!(!play.looks("a-1"));
    assert_eq!(play.effects.last().unwrap(), "forget r");
    assert!(!play.world.node.is_waiting());
}

#[test]
fn a_step_that_fails_is_tried_again_later() {
    let mut play = Play::new(one());
    let request = play.asks("r", &["a"], strategy());
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    let steps = play.world.node.plan(play.world.now);
    let is_write = |effect: &&Effect| matches!(effect, Effect::Store(StoreEffect::WriteMarks(_)));
    let effect = effects(&steps).find(is_write).unwrap().clone();
    let write = Step::Effect(effect.clone());
    play.world.apply(Event::EffectBegan(effect.clone()));
    assert!(!play.world.node.plan(play.world.now).contains(&write), "under way");
    play.world.apply(Event::EffectEnded(effect, StepOutcome::Failed));
    assert!(!play.world.node.plan(play.world.now).contains(&write), "paused");
    assert!(!play.looks("a-1"), "what is not durable is not shown");
    play.world.pass(Duration::from_secs(1));
    assert!(play.world.node.plan(play.world.now).contains(&write));
}

#[test]
fn a_change_of_the_request_later_changes_nothing() {
    let mut play = Play::new(pod(&[("a", "0"), ("b", "0")]));
    play.request("r", &["a"], strategy());
    play.request("r", &["a", "b"], strategy());
    assert_eq!(play.effects, ["mark a-1 Armed"]);
}

#[test]
fn beside_the_kubelet_the_agent_stops_it_with_its_hook() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config, with_hook(one(), "a", exec()));
    play.request("r", &["a"], RecreateStrategy { grace: Some(Duration::from_secs(7)), ..strategy() });
    assert_eq!(play.effects, ["mark a-1 Stopping", "stop a-1 7s with hook"]);
    assert_eq!(play.relist(), 0, "nobody is nudged");
    play.start("a");
    play.succeeded("r");
}

#[test]
fn beside_the_kubelet_a_pod_that_never_restarts_is_not_stopped() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config, one().restarts(RestartPolicy::Never));
    play.request("r", &["a"], strategy());
    assert_eq!(play.last("r").outcome, Some(Outcome::Failed(FailureReason::ContainerFailed)));
    assert!(play.last("r").message.contains("restartPolicy is Never"));
    assert_eq!(play.effects, Vec::<String>::new());
}

#[test]
fn beside_the_kubelet_what_was_made_since_the_last_list_is_listed_first() {
    let config = crate::Config { path: Path::Beside, ..crate::Config::default() };
    let mut play = Play::on(config.clone(), one().restarts(RestartPolicy::Never));
    let mut world = World::with(config);
    std::mem::swap(&mut world.runtime, &mut play.world.runtime);
    play.world = world;
    play.world.apply(Event::ListingStarted);
    play.world.apply(Event::RuntimeListed { sandboxes: Vec::new(), containers: Vec::new() });
    play.world.apply(Event::ViewFresh(true));
    play.world.apply(Event::PodsListed(vec![play.pod.clone()]));
    play.world.apply(Event::RecreatesListed(Origin::Api, Vec::new()));
    assert!(!play.world.node.misses_container(), "nobody asks for it");

    play.request("r", &["a"], strategy());
    assert!(play.world.node.misses_container());
    play.world.apply(Event::ListingStarted);
    play.world.apply(Event::RuntimeListed {
        sandboxes: vec![crate::ListedSandbox {
            sandbox: SandboxId::from("sandbox"),
            pod: play.pod.pod.clone(),
            declared: crate::Declared::default(),
        }],
        containers: play.world.runtime.values().cloned().collect(),
    });
    play.settle();
    assert!(!play.world.node.misses_container());
    // Not taken for one that is under way: whether it may be stopped is still asked.
    assert!(play.last("r").message.contains("restartPolicy is Never"), "{:?}", play.last("r"));
    assert_eq!(play.effects, Vec::<String>::new());
}

#[test]
fn a_pod_that_is_seen_later_is_waited_for() {
    let mut play = Play::new(one());
    let mut request = play.asks("r", &["a"], strategy());
    request.pod = "later".into();
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.world.pass(Duration::from_secs(2));
    play.settle();
    assert!(play.reports.iter().all(|(_, report)| report.outcome.is_none()));
    play.world.pass(Duration::from_secs(3));
    play.settle();
    assert_eq!(play.last("r").outcome, Some(Outcome::Failed(FailureReason::PodGone)));
}

/// The runtime shows that it is there: the pod view is behind.
#[test]
fn a_pod_that_runs_is_waited_for_longer() {
    let mut play = Play::new(one());
    let request = play.asks("r", &["a"], strategy());
    play.world.apply(Event::PodGone(play.pod.pod.uid.clone()));
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    for (seconds, is_over) in [(29, false), (1, true)] {
        play.world.pass(Duration::from_secs(seconds));
        play.settle();
        let ends = play.reports.iter().filter(|(_, report)| report.outcome.is_some());
        assert_eq!(ends.count() > 0, is_over, "{seconds}");
    }
    assert_eq!(play.last("r").outcome, Some(Outcome::Failed(FailureReason::PodGone)));
}

#[test]
fn a_static_pod_is_known_by_its_mirror_too() {
    let mut pod = one();
    pod.mirror = Some("mirror".into());
    let mut play = Play::new(pod);
    let mut request = play.asks("r", &["a"], strategy());
    request.pod = "mirror".into();
    play.world.apply(Event::RecreateSeen(Box::new(request)));
    play.settle();
    play.replaced_by_kubelet("a", "a-1");
    play.succeeded("r");
}

/// berthd is killed at each step of the way; the hook runs once and the container is replaced once.
#[test]
fn killed_at_every_step() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum At {
        Requested,
        Nudged,
        Shown,
        Hooked,
        Stopped,
        Started,
    }
    let all = [At::Requested, At::Nudged, At::Shown, At::Hooked, At::Stopped, At::Started];
    let policies = [RestartPolicy::Always, RestartPolicy::OnFailure, RestartPolicy::Never];
    for (name, hook) in [("none", None), ("exec", Some(exec())), ("http", Some(http()))] {
        for policy in policies {
            for at in all {
                let pod = one().restarts(policy);
                let pod = match &hook {
                    Some(hook) => with_hook(pod, "a", hook.clone()),
                    None => pod,
                };
                let row = format!("hook {name}, {policy:?}, {at:?}");
                let mut play = Play::new(pod);
                play.request("r", &["a"], strategy());
                let mut hooks = 0;
                // A hook that is no command does not pass through the agent: it runs whenever the kubelet
                // begins it while there is somebody to answer.
                let mut begun = |play: &mut Play| {
                    let runs = match name {
                        "none" => false,
                        "exec" => play.hook("a-1"),
                        _ => play.runs("a-1"),
                    };
                    hooks += u32::from(runs);
                };
                // As far as it gets before the kill.
                if at != At::Requested {
                    assert_eq!(play.relist(), 1, "{row}");
                }
                if !matches!(at, At::Requested | At::Nudged) {
                    assert!(play.looks("a-1"), "{row}");
                }
                let by_kubelet = matches!(at, At::Hooked | At::Stopped | At::Started);
                if by_kubelet {
                    begun(&mut play);
                }
                if matches!(at, At::Stopped | At::Started) {
                    play.stop("a-1", 30);
                }
                if at == At::Started {
                    play.start("a");
                }
                play.dies();

                // The kubelet relists, looks at what it is nudged to, and retries what failed; up to two
                // minutes.
                for _ in 0..120 {
                    play.world.pass(Duration::from_secs(1));
                    play.settle();
                    if play.last("r").outcome.is_some() {
                        break;
                    }
                    let running = play.runs("a-1");
                    let exited = play.world.runtime.contains_key(&"a-1".into()) && !running;
                    let newer = play.world.runtime.keys().any(|id| id.as_str() != "a-1");
                    if running && play.relist() > 0 && play.looks("a-1") {
                        begun(&mut play);
                        play.stop("a-1", 30);
                        play.start("a");
                    } else if exited && !newer {
                        play.relist();
                        match play.sees("a-1") {
                            Showing::StillRunning => {
                                begun(&mut play);
                                play.stop("a-1", 30);
                                assert_eq!(play.sees("a-1"), Showing::Truth, "{row}");
                                play.start("a");
                            }
                            _ if policy == RestartPolicy::Always => drop(play.start("a")),
                            shown => assert_eq!(shown, Showing::Truth, "{row}"),
                        }
                    }
                }
                play.succeeded("r");
                assert!(play.last("r").containers[0].killed, "{row}");
                let always = policy == RestartPolicy::Always;
                let expected = match (name, at) {
                    ("none", _) => 0,
                    // Nobody can tell whether a hook that does not pass through the agent was begun. Where
                    // the container comes back in any case it is not begun again.
                    ("http", At::Shown) if always => 0,
                    ("http", At::Hooked) if !always => 2,
                    _ => 1,
                };
                assert_eq!(hooks, expected, "{row}: {:?}", play.effects);
                let live: Vec<_> = play
                    .world
                    .runtime
                    .values()
                    .filter(|(_, container)| container.state == crate::ContainerState::Running)
                    .collect();
                assert_eq!(live.len(), 1, "{row}");
                assert!(play.instances == 2, "{row}: restarted {} times", play.instances - 1);
            }
        }
    }
}
