//! A runtime that takes its time for each answer.

use std::time::Duration;

use super::world;
use crate::{
    Call, Container, CreateContainer, Declared, Event, HoldReason, Pod, Question, Readiness, Request,
    SandboxId, Step, Verdict,
    tests::world::{World, latch, pod, waiting},
};

/// The runtime is asked what is due now, and answers so much later how it was then.
fn answer_after(world: &mut World, trip: Duration) {
    let steps = world.node.plan(world.now).into_iter();
    let asked: Vec<SandboxId> = steps
        .filter_map(|step| match step {
            Step::Question(Question::InspectSandbox(sandbox)) => Some(sandbox),
            _ => None,
        })
        .collect();
    assert_eq!(asked.len(), 1, "it is asked as soon as it has answered");
    let containers: Vec<Container> = world.runtime.values().map(|(_, container)| container.clone()).collect();
    world.apply(Event::InspectionStarted(asked[0].clone()));
    world.pass(trip);
    world.apply(Event::SandboxInspected { sandbox: asked[0].clone(), containers });
}

/// The creation of b, whose pod has nothing above it but a, which runs.
fn turn_of_b(pod: &Pod) -> (World, Call) {
    let mut world = world(pod);
    world.launch(pod, "a");
    world.relist();
    let call = world.call(Request::CreateContainer(CreateContainer {
        sandbox: "sandbox".into(),
        pod: pod.pod.clone(),
        container: "b".into(),
        attempt: 0,
        declared: Declared::default(),
        images: Vec::new(),
    }));
    (world, call)
}

fn is_inspection(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Hold { why: HoldReason::Inspection, .. })
}

/// Rows: milliseconds to each answer, and how many it takes.
#[test]
fn a_barrier_opens_however_slowly_it_answers() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    for (trip, questions) in [(1, 1), (50, 1), (51, 2), (500, 2), (5_000, 2), (15_000, 2)] {
        let (mut world, call) = turn_of_b(&pod);
        let mut asked = 0;
        let mut verdict = world.node.admit(&call, world.now);
        while is_inspection(&verdict) {
            answer_after(&mut world, Duration::from_millis(trip));
            asked += 1;
            verdict = world.node.admit(&call, world.now);
        }
        assert_eq!((verdict, asked), (latch(1), questions), "{trip} ms");
    }
}

#[test]
fn what_ends_before_the_last_question_keeps_it_closed() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let (mut world, call) = turn_of_b(&pod);
    assert!(is_inspection(&world.node.admit(&call, world.now)));
    answer_after(&mut world, Duration::from_secs(1));
    assert!(is_inspection(&world.node.admit(&call, world.now)), "that was a second ago");
    world.exit("a-0", 1);
    answer_after(&mut world, Duration::from_secs(1));
    assert_eq!(world.node.admit(&call, world.now), waiting(&["a"]));
}

/// An answer that was asked for while something else was missing says nothing of what came since.
#[test]
fn an_answer_from_before_confirms_nothing() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let (mut world, call) = turn_of_b(&pod);
    assert!(is_inspection(&world.node.admit(&call, world.now)));
    answer_after(&mut world, Duration::from_secs(1));
    let verdict = world.node.admit(&call, world.now);
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::NotReady(_), .. }), "{verdict:?}");
    world.apply(pod.clone().report("a", "a-0", true).seen());
    assert!(is_inspection(&world.node.admit(&call, world.now)));
    answer_after(&mut world, Duration::from_secs(1));
    assert_eq!(world.node.admit(&call, world.now), latch(1));
}
