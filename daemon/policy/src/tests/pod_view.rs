//! `CreateContainer` of pods the view does not show, and of pods that need none.

use std::time::Duration;

use super::world::{World, latch, pod, waiting};
use crate::{Config, Declared, Event, HoldReason, Pod, Refusal, UnknownPods, Verdict, View};

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

/// Nobody but the kubelet can show more of it, and nothing that it declares is passed over.
#[test]
fn a_pod_that_cannot_be_read() {
    use UnknownPods::{Closed, Open};
    let hinted = Declared { hinted: true, ..Declared::default() };
    let refused = Verdict::Refuse(Refusal::PodUnknown);
    let table = [
        (Open, false, Declared::default(), false, Verdict::Forward),
        (Open, false, hinted.clone(), false, refused.clone()),
        (Closed, false, Declared::default(), false, refused.clone()),
        (Open, true, Declared::default(), true, Verdict::Forward),
        (Open, true, hinted, true, refused),
    ];
    for (unknown_pods, kubelet_poll, declared, waits, expect) in table {
        let row = format!("{unknown_pods:?} {kubelet_poll} {}", declared.hinted);
        let ordered = pod(&[("b", "1"), ("a", "2")]);
        let mut world = World::with(Config { unknown_pods, kubelet_poll, ..Config::default() });
        // It could be read before.
        world.apply(ordered.seen());
        world.apply(Event::PodsUnread(vec![ordered.pod.clone()]));
        world.apply(Event::PodsListed(Vec::new()));
        let (call, mut verdict) = world.create_in(&ordered, "sandbox", "b", declared);
        assert_eq!(matches!(verdict, Verdict::Hold { .. }), waits, "{row}");
        if waits {
            world.pass(Duration::from_secs(2));
            verdict = world.node.admit(&call, world.now);
        }
        assert_eq!(verdict, expect, "{row}");
    }
}

/// Otherwise each of its many containers is held for seconds, and the kubelet is asked for all its pods
/// meanwhile.
#[test]
fn a_pod_that_the_kubelet_does_not_show_whole_either_waits_for_one_question() {
    let ordered = pod(&[("b", "1"), ("a", "2")]);
    let config = Config { unknown_pods: UnknownPods::Open, kubelet_poll: true, ..Config::default() };
    let mut world = World::with(config);
    world.apply(Event::PodsUnread(vec![ordered.pod.clone()]));
    world.apply(Event::PodsListed(Vec::new()));
    let (call, verdict) = world.create(&ordered, "b");
    assert!(matches!(verdict, Verdict::Hold { why: HoldReason::PodUnknown, .. }), "{verdict:?}");
    world.apply(Event::KubeletPollStarted);
    world.pass(Duration::from_millis(10));
    assert!(matches!(world.node.admit(&call, world.now), Verdict::Hold { .. }));
    world.apply(Event::KubeletPollEnded);
    assert_eq!(world.node.admit(&call, world.now), Verdict::Forward);
}

#[test]
fn the_end_of_a_pod_that_cannot_be_read() {
    let ordered = pod(&[("b", "1"), ("a", "2")]);
    let mut world = World::new();
    world.apply(ordered.seen());
    world.launch(&ordered, "a");
    world.launch(&ordered, "b");
    world.apply(Event::PodsUnread(vec![ordered.pod.clone()]));
    world.apply(Event::PodsListed(Vec::new()));
    for name in ["a-0", "b-0"] {
        let (_, verdict) = world.stop(name, 30);
        assert_eq!(verdict, Verdict::Forward, "{name}");
    }
    world.apply(Event::PodGone(ordered.pod.uid.clone()));
    world.apply(Event::PodsUnread(Vec::new()));
    assert_eq!(world.node.size().pods, 0);
}

#[test]
fn of_a_pod_that_cannot_be_read_its_users_are_told_once() {
    let (one, mut other) = (pod(&[]), pod(&[]));
    other.pod.uid = "other".into();
    let mut world = World::new();
    let told = |world: &mut World, pods: &[&Pod]| {
        world.apply(Event::PodsUnread(pods.iter().map(|pod| pod.pod.clone()).collect()));
        let notices = world.node.notices.drain(..);
        notices.map(|(pod, notice)| format!("{} {}", pod.uid, notice.reason)).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world, &[&one]), [format!("{} SetAside", one.pod.uid)]);
    world.apply(Event::PodsListed(Vec::new()));
    assert_eq!(told(&mut world, &[&one, &other]), ["other SetAside"]);
    assert!(told(&mut world, &[&other]).is_empty());
    assert_eq!(told(&mut world, &[&one]).len(), 1, "it was read in between");
}

/// Authors of pods write objects that say to mirror a static pod of somebody else.
#[test]
fn a_static_pod_is_not_mirrored_under_another_name() {
    let static_pod = pod(&[("b", "1"), ("a", "2")]);
    let mirror = Pod { mirror: Some("mirror".into()), ..static_pod.clone() };
    let mut thief = Pod { mirror: Some("thief".into()), ..pod(&[]) };
    thief.pod.namespace = "thiefs".to_owned();
    let begins = |world: &mut World| {
        let (sandbox, pod, declared) = ("sandbox".into(), static_pod.pod.clone(), Declared::default());
        world.apply(Event::SandboxCreated { sandbox, pod, declared });
    };
    let known = |world: &World| {
        let [of_mirror, of_thief] = ["mirror", "thief"].map(|uid| world.node.local_uid(&uid.into()));
        (of_mirror == static_pod.pod.uid, of_thief == static_pod.pod.uid)
    };

    let mut world = World::new();
    world.apply(thief.seen());
    assert!(!world.node.is_of_another_name(&thief.pod), "nothing speaks against it yet");
    assert_eq!(known(&world), (false, true));
    begins(&mut world);
    assert_eq!(known(&world), (false, false));
    assert!(world.node.is_of_another_name(&thief.pod) && !world.node.is_of_another_name(&mirror.pod));

    let mut world = World::new();
    world.apply(mirror.seen());
    begins(&mut world);
    assert_eq!(known(&world), (true, false));
    assert_eq!(world.create(&static_pod, "b").1, waiting(&["a"]));
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
