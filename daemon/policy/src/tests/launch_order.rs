//! `CreateContainer`: refuse, hold or forward.

mod begins_anew;
mod next_sandbox;
mod restarted_kubelet;
mod slow_runtime;

use std::time::Duration;

use super::world::{World, latch, pod, waiting};
use crate::{
    Container, ContainerName, ContainerState, Declared, Event, HoldReason, Latch, ListedSandbox, Pod,
    Readiness, Refusal, RestartPolicy, Verdict,
};

#[track_caller]
fn assert_held(verdict: &Verdict, names: &[&str]) {
    let Verdict::Hold { why: HoldReason::NotReady(waiting_for), .. } = verdict else {
        panic!("expected a hold for {names:?}, got {verdict:?}");
    };
    assert_eq!(waiting_for.iter().map(ContainerName::as_str).collect::<Vec<_>>(), names);
}

/// A node that sees `pod`.
fn world(pod: &Pod) -> World {
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(pod.seen());
    world
}

fn probed() -> Pod {
    pod(&[("c", "1"), ("b", "2"), ("a", "3")])
        .becomes_ready_by("a", Readiness::ReadinessProbe)
        .becomes_ready_by("b", Readiness::ReadinessProbe)
        .becomes_ready_by("c", Readiness::ReadinessProbe)
}

#[test]
fn lowest_first_without_probes_takes_one_pass_per_level() {
    let pod = pod(&[("c", "1"), ("b", "2"), ("a", "3")]);
    let mut world = world(&pod);
    assert_eq!(world.create(&pod, "c").1, waiting(&["a", "b"]));
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.launch(&pod, "a");
    world.relist();
    assert_eq!(world.create(&pod, "c").1, waiting(&["b"]));
    let (call, verdict) = world.create(&pod, "b");
    assert_eq!(verdict, latch(2));
    world.start(&call, "b-0");
    world.relist();
    assert_eq!(world.create(&pod, "c").1, latch(1));
}

#[test]
fn highest_first_without_probes_takes_one_pass() {
    let pod = pod(&[("a", "3"), ("b", "2"), ("c", "1")]);
    let mut world = world(&pod);
    for name in ["a", "b", "c"] {
        world.launch(&pod, name);
    }
}

#[test]
fn a_probed_container_is_refused_in_the_pass_that_started_it_and_held_in_the_next() {
    let pod = probed();
    let mut world = world(&pod);
    assert_eq!(world.create(&pod, "c").1, waiting(&["a", "b"]));
    world.launch(&pod, "a");
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]), "first attempt in this pass, a was started in it");
    world.relist();
    assert_eq!(world.create(&pod, "c").1, waiting(&["a", "b"]), "b does not even run");
    let (call, verdict) = world.create(&pod, "b");
    assert_held(&verdict, &["a"]);
    world.pass(Duration::from_millis(300));
    let pod = pod.report("a", "a-0", true);
    world.apply(pod.seen());
    assert_eq!(world.ask(&call), latch(2));
}

#[test]
fn a_relist_in_the_middle_of_a_pass_is_no_new_pass() {
    // The kubelet pulls b's image for seconds in the same SyncPod: PLEG relists meanwhile, but a's container
    // ID is not in the kubelet's status before the worker returns.
    let pod = pod(&[("a", "2"), ("b", "1")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    world.pass(Duration::from_secs(20));
    world.relist();
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.relist();
    assert_held(&world.create(&pod, "b").1, &["a"]);
}

#[test]
fn without_a_relist_a_new_pass_is_not_enough_but_the_kubelets_own_status_call_is() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    let (call, _) = world.create(&pod, "b");
    world.end(&call);
    world.launch(&pod, "a");
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.apply(Event::StatusAsked { container: "a-0".into(), connection: super::world::KUBELET });
    assert_held(&world.create(&pod, "b").1, &["a"]);
}

#[test]
fn a_relist_of_someone_else_does_not_count() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.create(&pod, "b");
    world.launch(&pod, "a");
    world.connection = crate::ConnectionId(9);
    world.relist();
    world.connection = super::world::KUBELET;
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
}

/// One held call and what ends it.
#[test]
fn a_hold_ends() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    type Change = fn(&mut World, &Pod);
    let table: &[(&str, Change, Verdict)] = &[
        ("Ready", |world, pod| world.apply(pod.clone().report("a", "a-0", true).seen()), latch(1)),
        (
            "deadline",
            |world, _| {
                world.pass(Duration::from_secs(5));
                world.inspect();
            },
            waiting(&["a"]),
        ),
        (
            "deletion",
            |world, pod| world.apply(pod.clone().deleting(30).seen()),
            Verdict::Refuse(Refusal::Terminating),
        ),
        (
            "sandbox stop",
            |world, _| world.apply(Event::SandboxStopping("sandbox".into())),
            Verdict::Refuse(Refusal::Terminating),
        ),
        (
            "exit, seen in passing",
            |world, _| world.apply(Event::ContainerStopped("a-0".into())),
            waiting(&["a"]),
        ),
        (
            "exit, seen by inspection",
            |world, _| {
                world.exit("a-0", 1);
                world.pass(Duration::from_millis(200));
                world.inspect();
            },
            waiting(&["a"]),
        ),
        (
            "the report of another instance",
            |world, pod| world.apply(pod.clone().report("a", "a-9", true).seen()),
            {
                Verdict::Forward // stands for: still held
            },
        ),
    ];
    for (what, change, expect) in table {
        let mut world = world(&pod);
        world.create(&pod, "b");
        world.launch(&pod, "a");
        world.relist();
        let (call, verdict) = world.create(&pod, "b");
        assert_held(&verdict, &["a"]);
        change(&mut world, &pod);
        let verdict = world.node.admit(&call, world.now);
        match expect {
            Verdict::Forward => assert_held(&verdict, &["a"]),
            expect => assert_eq!(verdict, *expect, "{what}"),
        }
    }
}

#[test]
fn a_hold_ends_well_before_the_calls_own_deadline() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.create(&pod, "b");
    world.launch(&pod, "a");
    world.relist();
    let (mut call, _) = world.create(&pod, "b");
    call.id = crate::CallId(77);
    call.deadline = Some(call.arrived + Duration::from_secs(4));
    let Verdict::Hold { until, .. } = world.ask(&call) else { panic!("not held") };
    assert_eq!(until, call.arrived + Duration::from_secs(2));
}

#[test]
fn who_satisfies_the_ones_below() {
    use ContainerState::{Created, Exited, Running, Unknown};
    use Readiness::{PostStart, ReadinessProbe, StartupProbe};
    use RestartPolicy::{Always, Never, OnFailure};
    let exited = |code| Exited { code: Some(code) };
    let table = [
        (Readiness::Running, Always, Running, false, true),
        (ReadinessProbe, Always, Running, false, false),
        (ReadinessProbe, Always, Running, true, true),
        (StartupProbe, Always, Running, true, true),
        (StartupProbe, Always, Running, false, false),
        (PostStart, Always, Running, false, false),
        (PostStart, Always, Running, true, true),
        (Readiness::Running, Always, Created, true, false),
        (Readiness::Running, Always, Unknown, true, false),
        // Ready in the API and dead in the runtime: the API is behind.
        (ReadinessProbe, Always, exited(0), true, false),
        (Readiness::Running, Always, exited(0), false, false),
        (Readiness::Running, OnFailure, exited(0), false, true),
        (Readiness::Running, OnFailure, exited(1), false, false),
        (Readiness::Running, OnFailure, Exited { code: None }, false, false),
        (Readiness::Running, Never, exited(1), false, true),
        (ReadinessProbe, Never, exited(0), false, true),
    ];
    for (readiness, policy, state, ready, satisfied) in table {
        let pod = pod(&[("b", "1"), ("a", "2")])
            .becomes_ready_by("a", readiness)
            .restarts(policy)
            .report("a", "a-0", ready);
        let mut world = world(&pod);
        let container = Container { id: "a-0".into(), name: "a".into(), attempt: 0, state };
        world.runtime.insert("a-0".into(), ("sandbox".into(), container));
        let (_, verdict) = world.create(&pod, "b");
        let row = format!("{readiness:?} {policy:?} {state:?} ready={ready}");
        assert_eq!(verdict == latch(1), satisfied, "{row}: {verdict:?}");
    }
}

#[test]
fn equal_priorities_pass_the_barrier_together_and_it_never_closes() {
    let pod = pod(&[("a", "2"), ("b1", "1"), ("b2", "1")]);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    assert_eq!(world.create(&pod, "b1").1, latch(1));
    world.exit("a-0", 1);
    assert_eq!(world.create(&pod, "b2").1, Verdict::Forward);
}

#[test]
fn restarts_are_never_gated() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    world.launch(&pod, "b");
    world.exit("a-0", 1);
    world.exit("b-0", 1);
    for name in ["b", "a"] {
        assert_eq!(world.create(&pod, name).1, Verdict::Forward, "{name}");
    }
}

#[test]
fn a_restart_is_not_gated_either_when_the_agent_was_restarted_and_no_view_is_there() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    world.apply(Event::ListingStarted);
    let container = Container {
        id: "b-0".into(),
        name: "b".into(),
        attempt: 0,
        state: ContainerState::Exited { code: Some(1) },
    };
    world.apply(Event::RuntimeListed {
        sandboxes: vec![ListedSandbox {
            sandbox: "sandbox".into(),
            pod: pod.pod.clone(),
            declared: Declared::default(),
        }],
        containers: vec![("sandbox".into(), container)],
    });
    assert_eq!(world.create(&pod, "b").1, Verdict::Forward);
}

#[test]
fn a_new_sandbox_has_its_own_barrier() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    world.launch(&pod, "b");
    assert_eq!(world.create_in(&pod, "second", "b", Declared::default()).1, waiting(&["a"]));
}

#[test]
fn containers_without_a_priority_pass() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = world(&pod);
    for name in ["init", "sidecar", "ephemeral"] {
        assert_eq!(world.create(&pod, name).1, Verdict::Forward, "{name}");
    }
}

#[test]
fn a_bad_order_is_refused_for_regular_containers_only() {
    let pod = pod(&[("a", "high"), ("b", "1")]);
    let mut world = world(&pod);
    assert!(matches!(world.create(&pod, "b").1, Verdict::Refuse(Refusal::BadOrder(_))));
    assert_eq!(world.create(&pod, "init").1, Verdict::Forward);
}

#[test]
fn an_unordered_pod_passes_without_a_question_to_the_runtime() {
    let pod = pod(&[("a", "1"), ("b", "1")]);
    let mut world = world(&pod);
    assert_eq!(world.create(&pod, "b").1, Verdict::Forward);
    assert!(world.node.plan(world.now).is_empty());
}

#[test]
fn a_silent_runtime_refuses_in_the_end() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = world(&pod);
    let call = {
        let (call, _) = world.create(&pod, "b");
        world.end(&call);
        crate::Call { id: crate::CallId(50), ..call }
    };
    assert!(matches!(world.node.admit(&call, world.now), Verdict::Hold { why: HoldReason::Inspection, .. }));
    world.apply(Event::InspectionStarted("sandbox".into()));
    world.apply(Event::InspectionFailed("sandbox".into()));
    assert!(world.node.plan(world.now).is_empty(), "a failed question is repeated after a pause");
    world.pass(Duration::from_secs(19));
    assert!(matches!(world.node.admit(&call, world.now), Verdict::Hold { why: HoldReason::Inspection, .. }));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.node.admit(&call, world.now), Verdict::Refuse(Refusal::RuntimeSilent));
}

#[test]
fn latches_survive_a_restart() {
    let pod = pod(&[("a", "2"), ("b1", "1"), ("b2", "1")]);
    let mut world = world(&pod);
    world.apply(Event::LatchesLoaded(vec![Latch { sandbox: "sandbox".into(), priority: 1 }]));
    world.apply(Event::ListingStarted);
    let state = ContainerState::Exited { code: Some(1) };
    let container = Container { id: "a-0".into(), name: "a".into(), attempt: 0, state };
    world.apply(Event::RuntimeListed {
        sandboxes: vec![ListedSandbox {
            sandbox: "sandbox".into(),
            pod: pod.pod.clone(),
            declared: Declared::default(),
        }],
        containers: vec![("sandbox".into(), container)],
    });
    assert_eq!(world.create(&pod, "b2").1, Verdict::Forward);
}

#[test]
fn the_refusal_is_a_constant_text() {
    assert_eq!(
        Refusal::Waiting(vec!["a".into(), "b".into()]).to_string(),
        "launch order: waiting for container(s) a, b"
    );
}
