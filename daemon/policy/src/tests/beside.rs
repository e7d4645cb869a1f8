//! Pods with an order on a node that cannot keep it.

use super::world::{World, effects, pod};
use crate::{
    About, Config, Effect, Event, Path, Pod, PodEffect, announced::Announcement, launch_priority::LaunchOrder,
};

fn told(world: &mut World) -> Vec<(About, &'static str)> {
    let steps = world.node.plan(world.now);
    effects(&steps)
        .filter_map(|effect| match effect {
            Effect::Pod(_, PodEffect::Tell(notice)) => Some((notice.about, notice.reason)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_users_of_a_pod_learn_that_its_order_is_not_kept() {
    let ordered = || pod(&[("a", "2"), ("b", "1")]);
    let two = [("a", None), ("b", None)];
    let bad = || Pod { order: LaunchOrder::declared(Some("Sideways"), two), ..ordered() };
    assert!(bad().order.is_err());
    let said = vec![(About::Pod, "LaunchOrderNotKept"), (About::Node, "LaunchOrderNotKept")];
    let table = [
        ("beside", Path::Beside, ordered(), said.clone()),
        ("an order that cannot be read", Path::Beside, bad(), said),
        ("inline", Path::Inline, ordered(), vec![]),
        ("no order", Path::Beside, pod(&[("a", "1"), ("b", "1")]), vec![]),
        ("begun", Path::Beside, ordered().report("a", "a-0", false), vec![]),
        ("going", Path::Beside, ordered().deleting(30), vec![]),
        ("over", Path::Beside, Pod { ended: true, ..ordered() }, vec![]),
    ];
    for (case, path, pod, expected) in table {
        let mut world = World::with(Config { path, ..Config::default() });
        world.apply(pod.seen());
        assert_eq!(told(&mut world), expected, "{case}");
    }
}

#[test]
fn it_is_said_once() {
    let mut world = World::with(Config { path: Path::Beside, ..Config::default() });
    let pod = pod(&[("a", "2"), ("b", "1")]);
    world.apply(pod.seen());
    world.apply(pod.seen());
    world.apply(Event::PodsListed(vec![pod.clone()]));
    assert_eq!(told(&mut world).len(), 2);
    world.apply(Event::PodGone(pod.pod.uid.clone()));
    assert!(!world.node.announced.has(&pod.pod.uid, Announcement::LostOrder));
}

/// A node with a thousand such pods says so once.
#[test]
fn the_node_says_it_once_in_a_run() {
    let mut world = World::with(Config { path: Path::Beside, ..Config::default() });
    for number in 0..3 {
        let mut pod = pod(&[("a", "2"), ("b", "1")]);
        pod.pod.uid = format!("u{number}").into();
        pod.pod.name = format!("p{number}");
        world.apply(pod.seen());
        world.apply(Event::PodGone(pod.pod.uid.clone()));
    }
    let said = told(&mut world);
    let of = |about| said.iter().filter(|(at, _)| *at == about).count();
    assert_eq!((of(About::Pod), of(About::Node)), (3, 1), "{said:?}");
}
