//! How many questions the runtime is asked at once, and in which order.

use std::{collections::BTreeMap, time::Duration};

use super::world::{World, pod};
use crate::{CreateContainer, Declared, Event, HoldReason, Question, Request, SandboxId, Step, Verdict};

const MOST: usize = 16;

/// The next of two levels waits in each of so many pods, and all of them wait for an answer about their
/// sandbox.
fn crowd(count: usize) -> World {
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    for number in 0..count {
        let mut pod = pod(&[("a", "2"), ("b", "1")]);
        pod.pod.uid = format!("uid-{number}").as_str().into();
        world.apply(pod.seen());
        let call = world.call(Request::CreateContainer(CreateContainer {
            sandbox: format!("sandbox-{number}").as_str().into(),
            pod: pod.pod,
            container: "b".into(),
            attempt: 0,
            declared: Declared::default(),
            images: Vec::new(),
        }));
        let verdict = world.node.admit(&call, world.now);
        assert!(matches!(verdict, Verdict::Hold { why: HoldReason::Inspection, .. }), "{verdict:?}");
    }
    world
}

fn asked(world: &mut World) -> Vec<SandboxId> {
    let steps = world.node.plan(world.now);
    let asked = steps.into_iter().map(|step| match step {
        Step::Question(Question::InspectSandbox(sandbox)) => sandbox,
        step => panic!("{step:?}"),
    });
    let asked: Vec<_> = asked.collect();
    for sandbox in &asked {
        world.apply(Event::InspectionStarted(sandbox.clone()));
    }
    asked
}

#[test]
fn few_are_all_asked_at_once() {
    let mut world = crowd(MOST);
    assert_eq!(asked(&mut world).len(), MOST);
}

#[test]
fn of_a_crowd_the_next_is_asked_when_one_has_answered() {
    let mut world = crowd(MOST + 2);
    let first = asked(&mut world);
    assert_eq!(first.len(), MOST);
    assert!(asked(&mut world).is_empty());
    // Nothing is gained by looking again before an answer.
    assert!(world.node.next_deadline().is_none_or(|deadline| deadline > world.now));
    world.apply(Event::SandboxInspected { sandbox: first[0].clone(), containers: Vec::new() });
    assert_eq!(asked(&mut world).len(), 1);
    world.apply(Event::InspectionFailed(first[1].clone()));
    assert_eq!(asked(&mut world).len(), 1);
}

/// Whatever fails and has to be asked again, nobody waits for his first answer behind it.
#[test]
fn each_has_its_turn() {
    let mut world = crowd(3 * MOST);
    let mut turns: BTreeMap<SandboxId, u32> = BTreeMap::new();
    for _ in 0..30 {
        for sandbox in asked(&mut world) {
            *turns.entry(sandbox.clone()).or_default() += 1;
            world.apply(Event::InspectionFailed(sandbox));
        }
        world.pass(Duration::from_millis(200));
    }
    assert_eq!(turns.len(), 3 * MOST);
    let (fewest, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
    assert!(*fewest >= 9 && most - fewest <= 1, "{turns:?}");
}

/// A sandbox that goes away while it is asked about leaves its place to others.
#[test]
fn what_is_gone_takes_no_room() {
    let mut world = crowd(MOST + 1);
    let first = asked(&mut world);
    world.apply(Event::SandboxRemoved(first[0].clone()));
    assert_eq!(asked(&mut world).len(), 1);
}

/// The kubelet asks about every container every ten seconds, for its log.
#[test]
fn a_question_hints_at_an_end_only_where_the_runtime_tells_of_none() {
    let pod = pod(&[("a", "1")]);
    let mut world = World::new();
    world.apply(pod.seen());
    world.launch(&pod, "a");
    world.apply(Event::ProbedPods([pod.pod.uid.clone()].into()));
    let due = |world: &mut World| {
        world.pass(Duration::from_secs(1));
        let before = world.node.plan(world.now).len();
        world.inspect();
        before
    };
    due(&mut world);
    for (told, hints) in [(false, true), (true, false), (false, true)] {
        let changes = world.node.ends_told != told;
        world.apply(Event::EndsTold(told));
        assert_eq!(due(&mut world), usize::from(changes), "what ended around that nobody told");
        let connection = world.connection;
        world.apply(Event::StatusAsked { container: "a-0".into(), connection });
        assert_eq!((world.node.is_waiting(), world.node.has_only_asked()), (hints, !hints), "{told}");
        assert_eq!(due(&mut world), usize::from(hints), "{told}");
        world.relist();
        world.apply(Event::CallEnded(crate::CallId(1_000)));
        assert!(!world.node.is_waiting() && world.node.has_only_asked(), "a look of the kubelet is no fact");
        world.apply(Event::ConnectionClosed(crate::ConnectionId(1_000)));
        assert!(!world.node.is_waiting() && world.node.has_only_asked(), "it has never said anything");
        world.apply(Event::EndHinted("a-0".into()));
        assert!(world.node.is_waiting() && !world.node.has_only_asked());
        assert_eq!(due(&mut world), 1, "the runtime's word is one");
        due(&mut world);
    }
}

/// Hints of the kubelet's questions from before were heeded by nobody.
#[test]
fn a_pod_that_is_probed_from_now_on_is_asked_about() {
    let pod = pod(&[("a", "1")]);
    let mut world = World::new();
    world.apply(pod.seen());
    world.launch(&pod, "a");
    let asked = |world: &mut World, probed: bool| {
        let pods = probed.then(|| pod.pod.uid.clone()).into_iter().collect();
        world.apply(Event::ProbedPods(pods));
        world.pass(Duration::from_secs(1));
        let due = world.node.plan(world.now).len();
        world.inspect();
        due
    };
    let due: Vec<usize> =
        [true, true, false, true, true].into_iter().map(|probed| asked(&mut world, probed)).collect();
    assert_eq!(due, [1, 0, 0, 1, 0]);
}
