//! When job sidecars are ended, in which order, and what the kubelet is shown of them.

mod endless;
mod play;

use std::time::Duration;

use self::play::{Play, hooked, job};
use super::world::{KUBELET, latch};
use crate::{
    Config, Container, ContainerState, Deletion, Event, HookTurn, MarkPhase, Origin, Path, RecreateMark,
    RestartPolicy, RestartRule, Restate, Showing, SidecarMark, Turn,
};

const GRACE: u64 = 30;

const COMPLETED: Restate = Restate::Show(Showing::Completed);
const TRUTH: Restate = Restate::Show(Showing::Truth);

#[test]
fn mains_that_are_over() {
    let two = [("m1", "0"), ("m2", "0"), ("s", "0")];
    let (never, on_failure, always) = (RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always);
    // policy, exits of the mains, the sidecar is ended
    let table: [(RestartPolicy, [Option<i32>; 2], bool); 9] = [
        (never, [Some(0), None], false),
        (never, [Some(0), Some(0)], true),
        (never, [Some(3), Some(0)], true),
        (never, [Some(3), Some(137)], true),
        (on_failure, [Some(0), Some(0)], true),
        (on_failure, [Some(0), Some(1)], false),
        (on_failure, [Some(1), Some(1)], false),
        (on_failure, [None, None], false),
        (always, [Some(0), Some(0)], false),
    ];
    for (policy, exits, ended) in table {
        let mut play = Play::of(&job(policy, &two));
        for (main, code) in ["m1-0", "m2-0"].into_iter().zip(exits) {
            if let Some(code) = code {
                play.exits(main, code);
            }
        }
        play.settle();
        let expected: &[&str] = if ended { &["mark s", "stop s-0 30s"] } else { &[] };
        assert_eq!(play.done(), expected, "{policy:?} {exits:?}");
        assert_eq!(play.shown("s-0"), if ended { COMPLETED } else { TRUTH });
        assert_eq!(play.shown("m1-0"), TRUTH, "a main's code is its own");
    }
}

/// A container's own policy takes the place of the pod's, and may have rules.
#[test]
fn a_main_with_a_policy_of_its_own() {
    let mut pod = job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]);
    pod.containers.get_mut(&"m".into()).unwrap().restart_policy = Some(RestartPolicy::OnFailure);
    for (code, ended) in [(0, &["mark s", "stop s-0 30s"][..]), (1, &[])] {
        let mut play = Play::of(&pod);
        play.exits("m-0", code);
        assert_eq!(play.done(), ended);
    }
    let spec = pod.containers.get_mut(&"m".into()).unwrap();
    (spec.restart_policy, spec.restart_rules) = (Some(RestartPolicy::Never), vec![RestartRule::In(vec![42])]);
    let mut reported = pod.clone().report("m", "m-0", false);
    reported.statuses.get_mut(&"m".into()).unwrap().ended = true;
    // The kubelet says so of an exit that it answers with a restart, too, in the moment before.
    for (code, ended) in [(0, &["mark s", "stop s-0 30s"][..]), (1, &["mark s", "stop s-0 30s"]), (42, &[])] {
        let mut play = Play::of(&pod);
        play.exits("m-0", code);
        assert_eq!(play.done(), [""; 0], "the kubelet has not said that it stays so");
        play.world.pass(Duration::from_secs(1));
        play.world.apply(reported.seen());
        play.settle();
        assert_eq!(play.done(), ended);
    }
}

#[test]
fn nothing_to_end() {
    let mut native = job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]);
    native.containers.get_mut(&"s".into()).unwrap().sidecar = true;
    let table = [
        ("no mains", job(RestartPolicy::Never, &[("s1", "0"), ("s2", "0")]), "s1-0"),
        ("no sidecars", job(RestartPolicy::Never, &[("m", "0"), ("n", "0")]), "m-0"),
        ("a native sidecar is the kubelet's", native, "m-0"),
    ];
    for (what, pod, exits) in table {
        let mut play = Play::of(&pod);
        play.exits(exits, 0);
        assert_eq!(play.done(), [""; 0], "{what}");
    }
}

/// Its status may have been asked for before it was marked, and tell of what came after.
#[test]
fn one_that_is_ended_while_its_status_is_asked_for() {
    let mut play = Play::of(&job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]));
    assert_eq!(play.shown("s-0"), TRUTH, "it is asked for");
    play.exits("m-0", 0);
    let at_last = |id: &str| play.world.node.is_completed(&id.into());
    assert_eq!((at_last("s-0"), at_last("m-0")), (true, false));
}

#[test]
fn one_that_exited_before_its_mark_keeps_its_code() {
    let mut play = Play::of(&job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]));
    play.exits("s-0", 5);
    play.exits("m-0", 0);
    assert_eq!(play.done(), [""; 0]);
    assert_eq!(play.shown("s-0"), TRUTH);
}

#[test]
fn one_that_would_be_started_again_has_ended() {
    let mut play = Play::of(&job(RestartPolicy::OnFailure, &[("m", "0"), ("s", "0")]));
    play.exits("s-0", 5);
    assert_eq!(play.shown("s-0"), TRUTH);
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s"]);
    let nudged = |play: &mut Play, call| play.world.node.nudges(crate::CallId(call), play.world.now).len();
    assert_eq!(nudged(&mut play, 900), 1, "the kubelet has to look once more");
    assert_eq!(play.shown("s-0"), COMPLETED);
    play.looks("s-0");
    play.world.apply(Event::RelistAnswered { call: crate::CallId(900), connection: KUBELET });
    play.world.pass(Duration::from_secs(60));
    assert_eq!(nudged(&mut play, 901), 0, "it has");
}

#[test]
fn several_end_together_or_in_their_order() {
    let together = job(RestartPolicy::Never, &[("m", "0"), ("s1", "0"), ("s2", "0")]);
    let mut play = Play::of(&together);
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s1 s2", "stop s1-0 30s", "stop s2-0 30s"]);

    // The higher one was started first and ends last.
    let ordered = job(RestartPolicy::Never, &[("s1", "5"), ("s2", "3"), ("m", "0")]);
    let mut play = Play::of(&ordered);
    play.exits("m-0", 0);
    play.looks("s1-0");
    assert_eq!(play.done(), ["mark s1 s2", "stop s2-0 30s", "stop s1-0 30s"]);

    let mut play = Play::with(Config { exit_order: false, ..Config::default() }, &ordered);
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s1 s2", "stop s1-0 30s", "stop s2-0 30s"]);
}

/// It may have needed the one that is stopped before it.
#[test]
fn one_that_exits_while_another_is_stopped_has_ended_with_the_job() {
    for policy in [RestartPolicy::Never, RestartPolicy::OnFailure] {
        let mut play = Play::of(&job(policy, &[("s1", "5"), ("s2", "3"), ("m", "0")]));
        play.code = None;
        play.exits("m-0", 0);
        assert_eq!(play.done(), ["mark s1 s2", "stop s2-0 30s"]);
        play.exits("s1-0", 1);
        assert_eq!(play.shown("s1-0"), COMPLETED);
        assert_eq!(play.done(), ["stop s2-0 30s"], "tried again, and nothing else is to be done");
    }
}

#[test]
fn one_that_cannot_be_stopped_does_not_hold_up_the_next() {
    let mut play = Play::of(&job(RestartPolicy::Never, &[("s1", "5"), ("s2", "3"), ("m", "0")]));
    play.code = None;
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s1 s2", "stop s2-0 30s"]);
    let deadline = play.world.node.next_deadline().unwrap();
    assert!(deadline < play.world.now + Duration::from_secs(GRACE + 5));
    play.world.pass(Duration::from_secs(GRACE + 5));
    play.settle();
    assert_eq!(play.done(), ["stop s1-0 30s", "stop s2-0 30s"], "and the late one once more");
}

#[test]
fn a_hook_is_begun_at_most_once() {
    let pod = hooked(job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]), "s");
    let mut play = Play::of(&pod);
    play.code = None;
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s", "mark s+", "stop s-0 30s hook"]);
    assert_eq!(
        play.world.node.hook_begins(&"s-0".into()),
        Turn::Take(HookTurn::AlreadyRun),
        "by the kubelet"
    );
    play.code = Some(0);
    play.world.pass(Duration::from_secs(1));
    play.settle();
    assert_eq!(play.done(), ["stop s-0 30s"], "the stop is tried again, the hook is not");

    // After the agent's death: what the store has says whether the hook may have begun.
    for (hooked, expected) in [(false, &["mark s+", "stop s-0 30s hook"][..]), (true, &["stop s-0 30s"])] {
        let mut after = Play::of(&pod);
        let mark = SidecarMark { pod: "uid".into(), name: "s".into(), container: "s-0".into(), hooked };
        after.world.apply(Event::SidecarsLoaded(vec![mark]));
        assert_eq!(after.shown("s-0"), COMPLETED);
        after.exits("m-0", 0);
        assert_eq!(after.done(), expected);
    }
}

/// Its mark may not be written, or the agent be stopped before.
#[test]
fn a_hook_that_did_not_begin_is_begun_later() {
    let pod = hooked(job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]), "s");
    let mut play = Play::of(&pod);
    play.is_full = true;
    play.exits("m-0", 0);
    assert_eq!(play.done(), ["mark s", "no mark of s-0"]);
    assert_eq!(play.world.node.hook_begins(&"s-0".into()), Turn::Take(HookTurn::Run), "by the kubelet");
    play.is_full = false;
    play.world.pass(Duration::from_secs(1));
    play.settle();
    assert_eq!(play.done(), ["mark s+", "stop s-0 30s hook"]);
}

/// A stop may have to wait for the shim; until it is marked a sidecar has the code that it exits with.
#[test]
fn one_that_comes_up_late_is_marked_beside_the_stop_of_another() {
    let pod = hooked(job(RestartPolicy::Never, &[("m", "0"), ("s1", "0"), ("s2", "0")]), "s1");
    let mut play = Play::of(&pod);
    play.exits("s2-0", 1);
    let (call, _) = play.world.create(&pod, "s2");
    play.world.apply(Event::ContainerCreated { call: call.id, container: "s2-1".into() });
    play.world.end(&call);
    let state = ContainerState::Created;
    let again = Container { id: "s2-1".into(), name: "s2".into(), attempt: 1, state };
    play.world.runtime.insert("s2-1".into(), ("sandbox".into(), again));
    play.world.exit("m-0", 0);
    play.world.pass(Duration::from_millis(100));
    play.world.apply(Event::StatusAsked { container: "m-0".into(), connection: KUBELET });
    play.world.inspect();
    let steps = |play: &mut Play| {
        let steps = play.world.node.plan(play.world.now);
        steps.into_iter().for_each(|step| play.carry_out(step));
        play.done()
    };
    assert_eq!(steps(&mut play), ["mark s1"]);
    play.world.apply(Event::ContainerStarted("s2-1".into()));
    play.world.runtime.get_mut(&"s2-1".into()).unwrap().1.state = ContainerState::Running;
    assert_eq!(steps(&mut play), ["mark s1+", "stop s1-0 30s hook", "mark s2"]);
    assert_eq!(steps(&mut play), ["stop s2-1 30s"]);
}

/// Its image was still being pulled. Under `OnFailure`, too, the one above it is not started again.
#[test]
fn one_that_is_created_late_does_not_wait_for_one_that_has_ended_with_the_job() {
    for policy in [RestartPolicy::Never, RestartPolicy::OnFailure] {
        let mut play = Play::of(&job(policy, &[("m", "9"), ("s1", "5")]));
        let pod = job(policy, &[("m", "9"), ("s1", "5"), ("s2", "0")]);
        play.world.apply(pod.seen());
        play.exits("m-0", 0);
        assert_eq!(play.done(), ["mark s1", "stop s1-0 30s"]);
        let facts = play.world.node.facts(play.world.now, |_, _| true);
        let above = facts[0].containers.iter().find(|container| container.name.as_str() == "s1").unwrap();
        assert!(!above.restarts, "{policy:?}");
        let (call, verdict) = play.world.create(&pod, "s2");
        assert_eq!(verdict, latch(0), "{policy:?}");
        play.world.start(&call, "s2-0");
        play.looks("s2-0");
        assert_eq!(play.done(), ["mark s2", "stop s2-0 30s"], "{policy:?}");
        assert_eq!(play.shown("s2-0"), COMPLETED);
    }
}

/// By the runtime's own word; without it, in a while. The kubelet learns of both ends at once if the sidecar
/// is down when it looks.
#[test]
fn an_exit_is_noticed_without_the_kubelet() {
    for hinted in [true, false] {
        let mut play = Play::of(&job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]));
        play.settle();
        play.world.pass(Duration::from_millis(100));
        if hinted {
            play.world.apply(Event::EndHinted("m-0".into()));
        }
        play.settle();
        assert_eq!(play.done(), [""; 0], "it is said before it is listed");
        play.world.exit("m-0", 0);
        play.world.pass(Duration::from_millis(100));
        play.settle();
        let ended = ["mark s", "stop s-0 30s"];
        assert_eq!(play.done(), if hinted { &ended[..] } else { &[] });
        play.world.pass(Duration::from_secs(30));
        play.settle();
        assert_eq!(play.done(), if hinted { &[][..] } else { &ended });
    }
}

#[test]
fn a_main_that_is_stopped_may_come_again() {
    let pod = job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]);
    let mut play = Play::of(&pod);
    let (call, _) = play.world.stop("m-0", 30);
    play.world.exit("m-0", 0);
    play.world.apply(Event::ContainerStopped("m-0".into()));
    play.world.end(&call);
    play.looks("m-0");
    assert_eq!(play.done(), [""; 0], "its image may have been changed");
    let mut reported = pod.clone().report("m", "m-0", false);
    reported.statuses.get_mut(&"m".into()).unwrap().ended = true;
    play.world.apply(reported.seen());
    play.settle();
    assert_eq!(play.done(), ["mark s", "stop s-0 30s"], "the kubelet says that it does not");

    let mut play = Play::of(&pod);
    let (name, container) = ("m".into(), "m-0".into());
    let mark = RecreateMark { request: "r".into(), name, container, phase: MarkPhase::Shown };
    play.world.apply(Event::MarkWritten(mark, KUBELET));
    play.exits("m-0", 0);
    assert_eq!(play.done(), [""; 0], "its request is not known yet");
    play.world.apply(Event::RecreatesListed(Origin::Api, Vec::new()));
    play.settle();
    assert_eq!(play.done(), ["forget r", "mark s", "stop s-0 30s"], "nor will it be");
}

#[test]
fn a_pod_that_is_deleted_is_left_to_the_kubelet() {
    let pod = job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]);
    let mut play = Play::of(&pod);
    let mut deleted = pod;
    deleted.deletion = Some(Deletion { grace: Duration::from_secs(GRACE) });
    play.world.apply(deleted.seen());
    play.exits("m-0", 0);
    assert_eq!(play.done(), [""; 0]);
}

#[test]
fn a_mark_goes_with_its_container() {
    let pod = job(RestartPolicy::Never, &[("m", "0"), ("s", "0")]);
    let mut play = Play::of(&pod);
    play.exits("m-0", 0);
    let mut ended = pod;
    ended.ended = true;
    play.world.apply(ended.seen());
    play.looks("s-0");
    assert_eq!(play.done(), ["mark s", "stop s-0 30s"]);
    assert_eq!(play.shown("s-0"), COMPLETED, "for as long as it is there");
    play.world.apply(Event::ListingStarted);
    let sandbox = crate::ListedSandbox {
        sandbox: "sandbox".into(),
        pod: crate::PodRef { uid: "uid".into(), namespace: "ns".into(), name: "pod".into() },
        declared: crate::Declared::default(),
    };
    play.world.apply(Event::RuntimeListed { sandboxes: vec![sandbox], containers: Vec::new() });
    play.settle();
    assert_eq!(play.done(), ["forget [\"s-0\"]"]);
    assert_eq!(play.shown("s-0"), TRUTH);
}

#[test]
fn beside_the_kubelet_an_event_says_what_the_code_means() {
    let config = Config { path: Path::Beside, ..Config::default() };
    for (policy, means) in
        [(RestartPolicy::Never, "fails the pod"), (RestartPolicy::OnFailure, "does not complete")]
    {
        let pod = job(policy, &[("m", "0"), ("s", "0")]);
        let mut play = Play::with(config.clone(), &pod);
        let mut reported = pod.report("m", "m-0", false);
        reported.statuses.get_mut(&"m".into()).unwrap().ended = true;
        play.world.exit("m-0", 0);
        play.world.pass(Duration::from_millis(100));
        play.world.apply(reported.seen());
        play.settle();
        let told = play.did.iter().find(|did| did.starts_with("tell!")).unwrap();
        assert!(told.contains(means), "{told}");
    }
}
