//! Memory of the node, and what it forgets.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    Call, CallId, Container, ContainerState, Declared, Event, Latch, ListedSandbox, Origin, Size, Step,
    StepOutcome, Unready, Verdict,
};

const NOTHING: Size = Size { pods: 0, sandboxes: 0, containers: 0, calls: 0, latches: 0, connections: 0 };

fn listed(world: &mut World, sandboxes: &[&str]) {
    world.apply(Event::ListingStarted);
    let sandboxes = sandboxes
        .iter()
        .map(|id| ListedSandbox { sandbox: (*id).into(), pod: pod(&[]).pod, declared: Declared::default() })
        .collect();
    world.apply(Event::RuntimeListed { sandboxes, containers: vec![] });
}

#[test]
fn nothing_stays_of_a_pod_that_came_and_went() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    world.apply(pod.seen());
    let sandbox = Event::SandboxCreated {
        sandbox: "sandbox".into(),
        pod: pod.pod.clone(),
        declared: Declared::default(),
    };
    world.apply(sandbox);
    world.launch(&pod, "a");
    let (call, verdict) = world.create(&pod, "b");
    assert!(matches!(verdict, Verdict::Latch(_)));
    world.start(&call, "b-0");
    world.relist();
    let (call, _) = world.stop("a-0", 30);
    world.end(&call);
    for id in ["a-0", "b-0"] {
        world.apply(Event::ContainerRemoved(id.into()));
    }
    world.apply(Event::SandboxRemoved("sandbox".into()));
    world.apply(Event::PodGone("uid".into()));
    world.apply(Event::ConnectionClosed(world.connection));
    assert_eq!(world.node.size(), NOTHING);
    assert_eq!(world.node.plan(world.now), [Step::ForgetLatches("sandbox".into())]);
    world.apply(Event::LatchesForgotten("sandbox".into()));
    assert!(world.node.plan(world.now).is_empty());
    assert_eq!(world.node.next_deadline(), None);
}

#[test]
fn a_sandbox_that_only_requests_speak_of_goes_with_them() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    let calls: Vec<Call> = (0..100).map(|_| world.create(&pod, "b").0).collect();
    assert_eq!(world.node.size().sandboxes, 1);
    calls.iter().for_each(|call| world.end(call));
    world.apply(Event::ConnectionClosed(world.connection));
    assert_eq!(world.node.size(), NOTHING);
}

#[test]
fn a_closed_connection_ends_its_calls() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut world = World::new();
    world.create(&pod, "b");
    world.apply(Event::RelistAsked { call: CallId(900), connection: world.connection });
    world.apply(Event::ConnectionClosed(world.connection));
    assert_eq!(world.node.size(), NOTHING);
}

#[test]
fn what_the_runtime_does_not_list_is_forgotten_unless_it_is_newer_than_the_question() {
    let pod = pod(&[]);
    let mut world = World::new();
    listed(&mut world, &["old", "kept"]);
    world.apply(Event::ListingStarted);
    world.apply(Event::SandboxCreated {
        sandbox: "new".into(),
        pod: pod.pod.clone(),
        declared: Declared::default(),
    });
    let kept = ListedSandbox { sandbox: "kept".into(), pod: pod.pod, declared: Declared::default() };
    world.apply(Event::RuntimeListed { sandboxes: vec![kept], containers: vec![] });
    let left: Vec<_> = world.node.sandboxes.keys().map(crate::SandboxId::as_str).collect();
    assert_eq!(left, ["kept", "new"]);
}

#[test]
fn latches_without_a_sandbox_are_removed_from_the_store() {
    let mut world = World::new();
    let latch = |sandbox: &str| Latch { sandbox: sandbox.into(), priority: 1 };
    world.apply(Event::LatchesLoaded(vec![latch("here"), latch("gone")]));
    world.apply(Event::ListingStarted);
    let (id, name) = ("a-0".into(), "a".into());
    let container = Container { id, name, attempt: 0, state: ContainerState::Running };
    let here = ListedSandbox { sandbox: "here".into(), pod: pod(&[]).pod, declared: Declared::default() };
    let containers = vec![("here".into(), container)];
    world.apply(Event::RuntimeListed { sandboxes: vec![here], containers });
    assert_eq!(world.node.size().latches, 1);
    assert_eq!(world.node.plan(world.now), [Step::ForgetLatches("gone".into())]);
}

#[test]
fn an_inspection_does_not_undo_what_happened_after_it_was_asked() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = World::new();
    world.apply(pod.seen());
    let (call, _) = world.create(&pod, "a");
    world.apply(Event::InspectionStarted("sandbox".into()));
    world.start(&call, "a-0");
    world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers: vec![] });
    assert_eq!(world.node.size().containers, 1);
}

/// A node that opens the gates of pods.
fn gated() -> World {
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    for origin in [Origin::Api, Origin::File] {
        world.apply(Event::RecreatesListed(origin, Vec::new()));
    }
    world
}

#[test]
fn a_pause_is_kept_for_a_while_and_not_for_the_life_of_the_agent() {
    let mut world = gated();
    for number in 0..500 {
        let mut pod = pod(&[("a", "0")]);
        pod.pod.uid = number.to_string().into();
        pod.unready = Some(Unready { requests: Vec::new(), unwritten: true });
        world.apply(pod.seen());
        let owed = world.node.plan(world.now);
        let [Step::Effect(effect)] = &owed[..] else { panic!("{owed:?}") };
        // Every other one fails, and its pod is gone before it is tried again.
        let outcome = if number % 2 == 0 { StepOutcome::Done } else { StepOutcome::Failed };
        world.apply(Event::EffectBegan(effect.clone()));
        world.apply(Event::EffectEnded(effect.clone(), outcome));
        assert_eq!(world.node.plan(world.now), [], "it rests");
        world.apply(Event::PodGone(pod.pod.uid));
        world.pass(Duration::from_secs(1));
        let kept = world.node.effects_in_flight.pauses();
        assert!((1..10).contains(&kept), "{kept}");
    }
    world.pass(Duration::from_secs(10));
    assert!(world.node.plan(world.now).is_empty());
    assert_eq!((world.node.effects_in_flight.pauses(), world.node.next_deadline()), (0, None));
}

/// The pauses of one that fails again and again grow, although the ones before are over.
#[test]
fn a_pause_that_is_used_again_is_not_forgotten() {
    let mut world = gated();
    let mut pod = pod(&[("a", "0")]);
    pod.unready = Some(Unready { requests: Vec::new(), unwritten: true });
    world.apply(pod.seen());
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let owed = world.node.plan(world.now);
        let [Step::Effect(effect)] = &owed[..] else { panic!("{owed:?}") };
        world.apply(Event::EffectBegan(effect.clone()));
        // It takes longer than an unused pause is kept.
        world.pass(Duration::from_secs(60));
        world.node.plan(world.now);
        world.apply(Event::EffectEnded(effect.clone(), StepOutcome::Failed));
        let pause = world.node.next_deadline().unwrap() - world.now;
        pauses.push(pause.as_millis());
        world.pass(pause);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000]);
}

#[test]
fn events_about_unknown_things_are_harmless() {
    let mut world = World::new();
    let events = [
        Event::PodGone("x".into()),
        Event::SandboxStopping("x".into()),
        Event::SandboxRemoved("x".into()),
        Event::ContainerCreated { call: CallId(1), container: "x".into() },
        Event::ContainerStarted("x".into()),
        Event::ContainerStopped("x".into()),
        Event::ContainerRemoved("x".into()),
        Event::RelistAnswered { call: CallId(1), connection: world.connection },
        Event::StatusAsked { container: "x".into(), connection: world.connection },
        Event::HookAsked { call: CallId(2), container: "x".into(), connection: world.connection },
        Event::HookEnded("x".into(), true),
        Event::CallEnded(CallId(2)),
        Event::CallEnded(CallId(1)),
        Event::InspectionStarted("x".into()),
        Event::SandboxInspected { sandbox: "x".into(), containers: vec![] },
        Event::InspectionFailed("x".into()),
        Event::LatchesForgotten("x".into()),
        Event::KubeletPollEnded,
        Event::ConnectionClosed(world.connection),
    ];
    events.into_iter().for_each(|event| world.apply(event));
    assert_eq!(world.node.size(), NOTHING);
}

#[test]
fn nobody_is_woken_on_a_quiet_node() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", crate::Readiness::ReadinessProbe);
    let mut world = World::new();
    world.apply(pod.seen());
    world.create(&pod, "b");
    world.launch(&pod, "a");
    world.relist();
    assert!(!world.node.is_waiting());
    let (call, verdict) = world.create(&pod, "b");
    assert!(matches!(verdict, Verdict::Hold { .. }) && world.node.is_waiting());
    world.end(&call);
    assert!(!world.node.is_waiting());
}
