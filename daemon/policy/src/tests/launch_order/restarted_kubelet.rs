//! Words of a kubelet about a container right after its own restart.

use std::time::Duration;

use super::{assert_held, world};
use crate::{
    Event, Readiness,
    tests::world::{latch, pod, waiting},
};

/// A restarted kubelet calls a probed container Ready before its probes run, and takes it back with its next
/// SyncPod.
#[test]
fn the_ready_of_a_restarted_kubelet_is_doubted() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.create(&pod, "b");
    world.launch(&pod, "a");
    world.relist();
    world.apply(Event::ConnectionClosed(world.connection));
    world.connection.0 += 1;
    world.relist();
    world.pass(Duration::from_secs(3));
    world.apply(pod.clone().report("a", "a-0", true).seen());
    let (call, verdict) = world.create(&pod, "b");
    assert_eq!(verdict, waiting(&["a"]), "the first pass of a new kubelet");
    world.end(&call);
    world.apply(pod.clone().report("a", "a-0", false).seen());
    world.pass(Duration::from_secs(1));
    world.apply(pod.clone().report("a", "a-0", true).seen());
    let (call, verdict) = world.create(&pod, "b");
    assert_held(&verdict, &["a"]);
    world.pass(Duration::from_secs(1));
    world.inspect();
    assert_eq!(world.ask(&call), latch(1), "it stayed Ready");
}

#[test]
fn a_hold_of_a_restarted_kubelets_first_pass_ends_with_its_false_ready() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.create(&pod, "b");
    world.launch(&pod, "a");
    world.connection.0 += 1;
    world.relist();
    let (call, verdict) = world.create(&pod, "b");
    assert_held(&verdict, &["a"]);
    world.apply(pod.clone().report("a", "a-0", true).seen());
    assert_eq!(world.ask(&call), waiting(&["a"]));
}

#[test]
fn a_ready_from_before_the_kubelets_restart_counts() {
    let pod = pod(&[("b", "1"), ("a", "2")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    let pod = pod.report("a", "a-0", true);
    world.apply(pod.seen());
    world.pass(Duration::from_secs(3));
    world.apply(Event::ConnectionClosed(world.connection));
    world.connection.0 += 1;
    assert_eq!(world.create(&pod, "b").1, latch(1));
}
