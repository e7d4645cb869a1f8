//! `StopContainer`: who waits, for how long, and with how much of its grace it goes on.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    Amendment, Call, CallId, Config, Container, ContainerState, Declared, Event, HoldReason, Hook,
    ListedSandbox, Pod, Question, Verdict, View,
};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn three() -> Pod {
    pod(&[("a", "3"), ("b", "2"), ("c", "1")])
}

/// Three containers run, c the lowest.
fn running(pod: &Pod) -> World {
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(pod.seen());
    for name in ["a", "b", "c"] {
        world.launch(pod, name);
    }
    world
}

#[track_caller]
fn assert_waits(verdict: &Verdict, names: &[&str]) {
    let Verdict::Hold { why: HoldReason::StillRunning(running), .. } = verdict else {
        panic!("expected to wait for {names:?}, got {verdict:?}");
    };
    assert_eq!(running.iter().map(crate::ContainerName::as_str).collect::<Vec<_>>(), names);
}

fn stopped(world: &mut World, call: &Call, id: &str) {
    world.apply(Event::ContainerStopped(id.into()));
    world.exit(id, 143);
    world.end(call);
}

#[test]
fn a_deleted_pod_stops_lowest_first_and_the_time_waited_is_taken_off() {
    let mut world = running(&three());
    world.apply(three().deleting(30).seen());
    let (a, verdict) = world.stop("a-0", 30);
    assert_waits(&verdict, &["b", "c"]);
    let (b, verdict) = world.stop("b-0", 30);
    assert_waits(&verdict, &["c"]);
    let (c, verdict) = world.stop("c-0", 30);
    assert_eq!(verdict, Verdict::Forward);

    world.pass(Duration::from_millis(4100));
    stopped(&mut world, &c, "c-0");
    assert_waits(&world.node.admit(&a, world.now), &["b"]);
    assert_eq!(world.ask(&b), Verdict::Amend(Amendment::StopTimeout(secs(26))));
    world.pass(secs(1));
    stopped(&mut world, &b, "b-0");
    assert_eq!(world.ask(&a), Verdict::Amend(Amendment::StopTimeout(secs(25))));
}

#[test]
fn a_container_that_ignores_sigterm_leaves_the_others_two_seconds() {
    let mut world = running(&three());
    world.apply(three().deleting(10).seen());
    let (a, _) = world.stop("a-0", 10);
    world.stop("c-0", 10);
    world.pass(secs(8));
    assert_eq!(world.ask(&a), Verdict::Amend(Amendment::StopTimeout(secs(2))));
}

#[test]
fn without_a_deletion_a_second_stop_tells_a_pod_kill() {
    let mut world = running(&three());
    let (a, verdict) = world.stop("a-0", 30);
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodKillUnclear, .. }), "{verdict:?}");
    world.stop("c-0", 30);
    assert_waits(&world.ask(&a), &["b", "c"]);
}

/// Rows: the graces that a stop of a alone may have, whether the client lists pods, the grace that it comes
/// with, and whether that tells.
#[test]
fn less_grace_than_any_stop_of_one_container_has_tells_a_pod_kill() {
    for (graces, lists, timeout, tells) in [
        (vec![30], true, 15, true),
        (vec![30], true, 30, false),
        (vec![30], true, 45, false),
        // A probe that has failed.
        (vec![30, 15], true, 15, false),
        // A hook has taken of it.
        (vec![], true, 15, false),
        // Somebody stops it by hand.
        (vec![30], false, 15, false),
    ] {
        let what = format!("{graces:?} {lists} {timeout}");
        let mut pod = three();
        pod.containers.get_mut(&"a".into()).unwrap().graces = graces.into_iter().map(secs).collect();
        let mut world = running(&pod);
        let (call, connection) = (CallId(1001), super::world::KUBELET);
        if lists {
            world.apply(Event::RelistAsked { call, connection });
            world.apply(Event::RelistAnswered { call, connection });
        }
        let (a, verdict) = world.stop("a-0", timeout);
        if tells {
            assert_waits(&verdict, &["b", "c"]);
        } else {
            let unclear = matches!(verdict, Verdict::Hold { why: HoldReason::PodKillUnclear, .. });
            assert!(unclear, "{what}: {verdict:?}");
            world.pass(Duration::from_millis(100));
            assert_eq!(world.ask(&a), Verdict::Forward, "{what}");
        }
    }
}

#[test]
fn a_pod_that_has_ended_stops_in_order_however_late_the_second_stop_comes() {
    let mut world = running(&three());
    world.apply(Pod { ended: true, ..three() }.seen());
    let (a, verdict) = world.stop("a-0", 30);
    assert_waits(&verdict, &["b", "c"]);
    world.pass(secs(20));
    let (c, verdict) = world.stop("c-0", 10);
    assert_eq!(verdict, Verdict::Forward);
    stopped(&mut world, &c, "c-0");
    assert_waits(&world.ask(&a), &["b"]);
}

/// Such as in an eviction: its hook runs, so that the stop of the lowest comes seconds after the others.
#[test]
fn a_hook_that_runs_in_another_container_tells_a_pod_kill() {
    type Change = fn(&mut World);
    let hook = || Some(Hook::Exec { command: vec!["drain".to_owned()] });
    let nothing: Change = |_| {};
    let table: [(&str, Option<Hook>, &str, Change, bool); 5] = [
        ("the preStop of a lower one", hook(), "c-0", nothing, true),
        ("its own", hook(), "a-0", nothing, false),
        ("a command in one without such a hook", None, "c-0", nothing, false),
        ("one elsewhere", hook(), "unknown", nothing, false),
        ("one that is over", hook(), "c-0", |world| world.apply(Event::CallEnded(CallId(1001))), false),
    ];
    for (what, pre_stop, container, change, tells) in table {
        let mut pod = three();
        pod.containers.get_mut(&"c".into()).unwrap().pre_stop = pre_stop;
        let mut world = running(&pod);
        let (a, verdict) = world.stop("a-0", 30);
        let unclear = matches!(verdict, Verdict::Hold { why: HoldReason::PodKillUnclear, .. });
        assert!(unclear, "{what}: {verdict:?}");
        let (call, connection) = (CallId(1001), super::world::KUBELET);
        world.apply(Event::HookAsked { call, container: container.into(), connection });
        change(&mut world);
        world.pass(Duration::from_millis(100));
        if !tells {
            assert_eq!(world.ask(&a), Verdict::Forward, "{what}");
            continue;
        }
        assert_waits(&world.ask(&a), &["b", "c"]);
        // It is known from then on: the stop comes after the hook.
        world.apply(Event::CallEnded(CallId(1001)));
        world.pass(secs(5));
        assert_waits(&world.ask(&a), &["b", "c"]);
        let (c, verdict) = world.stop("c-0", 25);
        assert_eq!(verdict, Verdict::Forward, "{what}");
        stopped(&mut world, &c, "c-0");
        assert_waits(&world.ask(&a), &["b"]);
    }
}

/// Its pod is not in the view: the plan of the sandbox says the order, and nothing says what hooks there are.
#[test]
fn a_hook_in_a_pod_that_only_its_plan_describes_tells_a_pod_kill() {
    let plan = vec![("a".into(), 2), ("b".into(), 1)];
    let mut world = unseen(Config::default(), Declared { plan: Some(Ok(plan)), ..Declared::default() });
    let (a, verdict) = world.stop("a-0", 30);
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodKillUnclear, .. }), "{verdict:?}");
    let (call, connection) = (CallId(1001), super::world::KUBELET);
    world.apply(Event::HookAsked { call, container: "b-0".into(), connection });
    assert_waits(&world.ask(&a), &["b"]);
}

#[test]
fn a_single_stop_goes_on_after_a_tenth_of_a_second_with_its_whole_grace() {
    let mut world = running(&three());
    let (a, _) = world.stop("a-0", 30);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ask(&a), Verdict::Forward);
}

#[test]
fn the_lowest_never_waits() {
    let mut world = running(&three());
    assert_eq!(world.stop("c-0", 30).1, Verdict::Forward);
}

#[test]
fn a_hard_eviction_is_not_delayed() {
    for timeout in [0, 1, 2] {
        let mut world = running(&three());
        world.apply(three().deleting(timeout).seen());
        assert_eq!(world.stop("a-0", timeout).1, Verdict::Forward, "timeout {timeout}");
    }
}

#[test]
fn an_absurd_timeout_is_harmless() {
    let mut world = running(&three());
    world.apply(three().deleting(u64::MAX).seen());
    assert_waits(&world.stop("a-0", u64::MAX).1, &["b", "c"]);
}

#[test]
fn a_repeated_stop_of_the_same_container_is_no_pod_kill() {
    let mut world = running(&three());
    world.stop("a-0", 30);
    let (again, _) = world.stop("a-0", 30);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.ask(&again), Verdict::Forward);
}

#[test]
fn what_releases_a_held_stop() {
    type Change = fn(&mut World);
    let table: &[(&str, Change, u64)] = &[
        ("StopPodSandbox", |world| world.apply(Event::SandboxStopping("sandbox".into())), 27),
        ("a shorter grace", |world| world.apply(three().deleting(5).seen()), 2),
        ("the pod is gone from the view", |world| world.apply(Event::PodGone("uid".into())), 27),
        ("the sandbox is gone", |world| world.apply(Event::SandboxRemoved("sandbox".into())), 30),
        (
            "the lower ones exit by themselves",
            |world| {
                world.exit("b-0", 0);
                world.exit("c-0", 0);
                world.inspect();
            },
            27,
        ),
    ];
    for (what, change, left) in table {
        let mut world = running(&three());
        world.apply(three().deleting(30).seen());
        let (a, verdict) = world.stop("a-0", 30);
        assert_waits(&verdict, &["b", "c"]);
        world.pass(secs(3));
        change(&mut world);
        let expect = match left {
            30 => Verdict::Forward,
            left => Verdict::Amend(Amendment::StopTimeout(secs(*left))),
        };
        assert_eq!(world.node.admit(&a, world.now), expect, "{what}");
    }
}

#[test]
fn a_longer_grace_releases_nothing() {
    let mut world = running(&three());
    let (a, _) = world.stop("a-0", 30);
    world.apply(three().deleting(30).seen());
    assert_waits(&world.ask(&a), &["b", "c"]);
    world.apply(three().deleting(60).seen());
    assert_waits(&world.ask(&a), &["b", "c"]);
}

#[test]
fn what_is_not_ordered_passes() {
    let pod = three();
    let mut world = running(&pod);
    assert_eq!(world.stop("never-seen", 30).1, Verdict::Forward);
    world.apply(super::world::pod(&[("a", "1"), ("b", "1")]).deleting(30).seen());
    assert_eq!(world.stop("a-0", 30).1, Verdict::Forward);
    world.node.config = Config { exit_order: false, ..Config::default() };
    world.apply(pod.deleting(30).seen());
    assert_eq!(world.stop("a-0", 30).1, Verdict::Forward);
}

#[test]
fn exit_order_needs_no_launch_order() {
    let pod = three();
    let mut world = World::with(Config { launch_order: false, ..Config::default() });
    world.apply(pod.seen());
    for name in ["c", "b", "a"] {
        world.launch(&pod, name);
    }
    world.apply(pod.deleting(30).seen());
    assert_waits(&world.stop("a-0", 30).1, &["b", "c"]);
}

/// An agent that has just begun: the runtime shows a and b, and nobody has shown their pod.
fn unseen(config: Config, declared: Declared) -> World {
    let mut world = World::with(config);
    let pod = three().pod;
    world.apply(Event::ListingStarted);
    let container = |name: &str| {
        let (id, state) = (format!("{name}-0").as_str().into(), ContainerState::Running);
        ("sandbox".into(), Container { id, name: name.into(), attempt: 0, state })
    };
    for (sandbox, container) in [container("a"), container("b")] {
        world.runtime.insert(container.id.clone(), (sandbox, container));
    }
    let containers = world.runtime.values().cloned().collect();
    let sandboxes = vec![ListedSandbox { sandbox: "sandbox".into(), pod, declared }];
    world.apply(Event::RuntimeListed { sandboxes, containers });
    world
}

#[test]
fn a_pod_may_have_an_order_until_it_is_shown_or_all_pods_are_listed() {
    type Shows = fn(&mut World);
    let nothing: Shows = |_| {};
    let plain = Declared::default();
    let foreign = Declared { foreign: true, ..Declared::default() };
    let plan = Declared { plan: Some(Ok(vec![("a".into(), 1), ("b".into(), 1)])), ..Declared::default() };
    let on = Config::default();
    let (off, blind) =
        (Config { exit_order: false, ..on.clone() }, Config { view: View::None, ..on.clone() });
    let table: [(&str, &Config, &Declared, Shows, bool); 8] = [
        ("nothing is shown", &on, &plain, nothing, true),
        ("another one is shown", &on, &plain, |world| world.apply(other().seen()), true),
        ("it is shown", &on, &plain, |world| world.apply(pod(&[("a", "1"), ("b", "1")]).seen()), false),
        ("all are listed", &on, &plain, |world| world.apply(Event::PodsListed(vec![other()])), false),
        ("no view will show it", &on, &foreign, nothing, false),
        ("it says its order itself", &on, &plan, nothing, false),
        ("there is no view", &blind, &plain, nothing, false),
        ("no order counts", &off, &plain, nothing, false),
    ];
    for (what, config, declared, shows, waits) in table {
        let mut world = unseen(config.clone(), declared.clone());
        shows(&mut world);
        let known = world.node.in_advance(world.now);
        assert_eq!(known.containers[&"a-0".into()].stop_passes, !waits, "{what}");
        let (a, verdict) = world.stop("a-0", 30);
        if !waits {
            assert_eq!(verdict, Verdict::Forward, "{what}");
            continue;
        }
        let until = world.now + secs(2);
        assert_eq!(verdict, Verdict::Hold { until, why: HoldReason::PodUnknown }, "{what}");
        assert!(world.node.plan(world.now).contains(&Question::PollKubelet.into()), "{what}");
        world.pass(secs(2));
        assert_eq!(world.ask(&a), Verdict::Amend(Amendment::StopTimeout(secs(28))), "{what}");
    }
}

fn other() -> Pod {
    let mut other = three();
    other.pod.uid = "other".into();
    other
}

#[test]
fn what_becomes_of_a_stop_that_waits_for_its_pod() {
    type Change = fn(&mut World);
    // what happens, and whom it waits for then; no name: it goes on
    let table: [(&str, Change, &[&str]); 5] = [
        ("it is being deleted", |world| world.apply(three().deleting(30).seen()), &["b"]),
        ("so says the list", |world| world.apply(Event::PodsListed(vec![three().deleting(30)])), &["b"]),
        ("it has no order", |world| world.apply(pod(&[("a", "1"), ("b", "1")]).seen()), &[]),
        ("it is not there any more", |world| world.apply(Event::PodsListed(Vec::new())), &[]),
        ("its sandbox is stopped", |world| world.apply(Event::SandboxStopping("sandbox".into())), &[]),
    ];
    for (what, change, waits_for) in table {
        let mut world = unseen(Config::default(), Declared::default());
        let (a, verdict) = world.stop("a-0", 30);
        assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodUnknown, .. }), "{what}: {verdict:?}");
        world.pass(secs(1));
        change(&mut world);
        world.node.admit(&a, world.now);
        world.inspect();
        let verdict = world.node.admit(&a, world.now);
        match waits_for {
            [] => assert_eq!(verdict, Verdict::Amend(Amendment::StopTimeout(secs(29))), "{what}"),
            names => assert_waits(&verdict, names),
        }
    }
    // The grace of the container comes first.
    for (grace, waits) in [(0, None), (2, None), (3, Some(1)), (10, Some(2))] {
        let mut world = unseen(Config::default(), Declared::default());
        let why = HoldReason::PodUnknown;
        let held = |wait| Verdict::Hold { until: world.now + secs(wait), why };
        let expect = waits.map_or(Verdict::Forward, held);
        assert_eq!(world.stop("a-0", grace).1, expect, "{grace} s");
    }
}
