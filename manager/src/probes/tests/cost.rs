//! Cost: selectors that are looked at, and bytes that are kept.

use std::sync::Arc;

use super::world::*;
use crate::{
    probes::node::ProbedPod,
    store::{Object, PodSeen},
};

/// Only the markers of its namespace look at a pod, and only when something that counts has changed.
#[test]
fn an_event_of_a_pod() {
    let mut world = World::with_nodes(1);
    for number in 0..5 {
        world.marker(&format!("m{number}"), spec(&[idle()]));
    }
    for number in 0..50 {
        world.pod(pod(&format!("p{number}"), "n0", GAME));
    }
    world.index.evaluations = 0;
    world.pod(pod("p0", "n0", GAME));
    assert_eq!(world.index.evaluations, 0, "nothing has changed");
    world.pod(PodSeen { namespace: "other".to_owned(), ..pod("p0", "n0", GAME) });
    assert_eq!(world.index.evaluations, 0, "no marker is there");
    world.pod(PodSeen { ip: None, ..pod("p0", "n0", GAME) });
    assert_eq!(world.index.evaluations, 5);
    world.index.evaluations = 0;
    world.disturb("n0");
    world.pass(millis(10_000));
    assert_eq!(world.index.evaluations, 0, "nor does a node look at pods");
}

/// A marker that comes concerns itself, however many others select the same pods.
#[test]
fn an_event_of_a_marker() {
    let mut world = World::with_nodes(1);
    for number in 0..8 {
        world.pod(pod(&format!("p{number}"), "n0", GAME));
    }
    let probe = |number: usize| {
        let mut probe = idle();
        probe["podConditionType"] = format!("game.io/{number}").into();
        spec(&[probe])
    };
    for number in 0..40 {
        world.marker(&format!("m{number:03}"), probe(number));
    }
    world.pass(millis(1000));
    world.index.looked_at = 0;
    world.marker("m040", probe(40));
    world.pass(millis(1000));
    assert!((1..=4).contains(&world.index.looked_at), "{}", world.index.looked_at);
}

/// The pods of a workload have one shape, one set of labels and one list of probes.
#[test]
fn what_a_pod_takes() {
    assert_eq!(size_of::<ProbedPod>(), 88);
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    for number in 0..1000 {
        let seen = pod(&format!("p{number}"), "n0", GAME);
        let orders = world.index.apply(Object::Pod(seen), world.now());
        drop(orders);
    }
    let pods: Vec<_> = world.index.pods.of_namespace(NAMESPACE).map(|(_, pod)| pod).collect();
    for pod in &pods {
        assert!(Arc::ptr_eq(&pod.labels, &pods[0].labels) && Arc::ptr_eq(&pod.shape, &pods[0].shape));
    }
    let wanted: Vec<_> = world.index.spaces[NAMESPACE].wanted.values().collect();
    assert_eq!((pods.len(), wanted.len()), (1000, 1000));
    assert!(wanted.iter().all(|wanted_of| Arc::ptr_eq(&wanted_of.resolved, &wanted[0].resolved)));
}

/// Checks that shown probes that are the same as the wanted ones are kept once: the pod's, the node's and the
/// shown one.
#[test]
fn what_is_shown_is_not_kept_twice() {
    let mut world = World::with_nodes(1);
    world.marker("m", spec(&[idle()]));
    world.pod(pod("a", "n0", GAME));
    world.pass(millis(1000));
    world.disturb("n0");
    let wanted = &world.index.spaces[NAMESPACE].wanted["a"];
    assert_eq!(Arc::strong_count(wanted), 3);
}
