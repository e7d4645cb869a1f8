//! `CreateContainer` of pods the view does not show, and of pods that need none.

use std::time::Duration;

use super::world::{World, latch, pod, waiting};
use crate::{Config, Declared, HoldReason, Refusal, UnknownPods, Verdict, View};

#[test]
fn an_unknown_pod() {
    use UnknownPods::{Closed, Open};
    let hinted = Declared { hinted: true, ..Declared::default() };
    let foreign = Declared { foreign: true, ..Declared::default() };
    let both = Declared { foreign: true, ..hinted.clone() };
    let refused = Verdict::Refuse(Refusal::PodUnknown);
    let table = [
        (View::None, Open, hinted.clone(), None, Verdict::Forward),
        (View::Watched, Open, Declared::default(), Some(2), Verdict::Forward),
        (View::Watched, Open, hinted.clone(), Some(2), refused.clone()),
        (View::Watched, Closed, Declared::default(), Some(2), refused.clone()),
        (View::Watched, Open, foreign.clone(), None, Verdict::Forward),
        (View::Watched, Open, both.clone(), None, Verdict::Forward),
        (View::Watched, Closed, both, Some(2), refused.clone()),
        (View::Watched, Closed, foreign, Some(2), refused),
    ];
    for (view, unknown_pods, declared, patience, expect) in table {
        let mut world = World::with(Config { view, unknown_pods, ..Config::default() });
        let (call, mut verdict) = world.create_in(&pod(&[]), "sandbox", "a", declared);
        if let Some(seconds) = patience {
            assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodUnknown, .. }), "{verdict:?}");
            assert!(world.node.plan(world.now).contains(&crate::Question::PollKubelet.into()));
            world.pass(Duration::from_secs(seconds));
            verdict = world.node.admit(&call, world.now);
        }
        assert_eq!(verdict, expect);
    }
}

#[test]
fn an_unknown_pod_is_decided_as_soon_as_it_is_seen() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = World::new();
    let (call, verdict) = world.create(&pod, "b");
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodUnknown, .. }));
    world.apply(pod.seen());
    assert_eq!(world.ask(&call), waiting(&["a"]));
}

#[test]
fn a_plan_needs_no_view_and_running_is_ready() {
    let pod = pod(&[]);
    let plan = Declared { plan: Some(Ok(vec![("a".into(), 2), ("b".into(), 1)])), ..Declared::default() };
    for view in [View::None, View::Watched] {
        let mut world = World::with(Config { view, ..Config::default() });
        assert_eq!(world.create_in(&pod, "sandbox", "b", plan.clone()).1, waiting(&["a"]));
        let (call, verdict) = world.create_in(&pod, "sandbox", "a", plan.clone());
        assert_eq!(verdict, Verdict::Forward);
        world.start(&call, "a-0");
        assert_eq!(world.create_in(&pod, "sandbox", "b", plan.clone()).1, latch(1));
    }
}

#[test]
fn switched_off_it_lets_everything_through() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = World::with(Config { launch_order: false, ..Config::default() });
    world.apply(pod.seen());
    assert_eq!(world.create(&pod, "b").1, Verdict::Forward);
}
