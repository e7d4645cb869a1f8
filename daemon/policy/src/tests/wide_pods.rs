//! Pods of so many containers that each must not remember the names of all others.

use super::world::{World, pod};
use crate::{ContainerName, Event, HoldReason, Pod, Readiness, Refusal, Verdict};

/// Containers of the pod, in the order of their launch: `c000` first.
const COUNT: usize = 40;
/// Containers that a reason names: as many as a text has room for, and one more.
const NAMED: usize = 17;

fn name(number: usize) -> String {
    format!("c{number:0>3}")
}

fn wide() -> Pod {
    let priorities: Vec<(String, String)> =
        (0..COUNT).map(|number| (name(number), (COUNT - number).to_string())).collect();
    let declared: Vec<(&str, &str)> =
        priorities.iter().map(|(name, priority)| (name.as_str(), priority.as_str())).collect();
    pod(&declared)
}

fn world(pod: &Pod) -> World {
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(pod.seen());
    world
}

#[track_caller]
fn assert_named(names: &[ContainerName], first: usize) {
    let expected: Vec<String> = (first..first + NAMED).map(name).collect();
    assert_eq!(names.iter().map(ContainerName::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn who_waits_for_many_is_told_the_first_of_them() {
    let pod = wide();
    let mut world = world(&pod);
    let (call, verdict) = world.create(&pod, &name(COUNT - 1));
    let Verdict::Refuse(Refusal::Waiting(names)) = &verdict else { panic!("{verdict:?}") };
    assert_named(names, 0);
    let text = Refusal::Waiting(names.clone()).to_string();
    assert!(text.starts_with("launch order: waiting for container(s) c000, c001, "), "{text}");
    assert!(text.ends_with(", c015 and others"), "{text}");
    world.end(&call);
    // Seventeen are the first sixteen and another one, and sixteen are all.
    let few = Refusal::Waiting((0..NAMED - 1).map(|number| name(number).as_str().into()).collect());
    assert!(few.to_string().ends_with(", c014, c015"), "{few}");
}

#[test]
fn stops_of_many_name_the_first_that_still_run() {
    let pod = wide();
    let mut world = world(&pod);
    for number in 0..COUNT {
        world.launch(&pod, &name(number));
    }
    world.apply(pod.clone().deleting(30).seen());
    let (_, verdict) = world.stop("c000-0", 30);
    let Verdict::Hold { why: HoldReason::StillRunning(names), .. } = &verdict else { panic!("{verdict:?}") };
    assert_named(names, 1);
}

/// The status of a pod can name any instance, as its writer likes.
#[test]
fn a_status_says_nothing_of_another_pods_instances() {
    let own = pod(&[("a", "2"), ("b", "1")]).becomes_ready_by("a", Readiness::ReadinessProbe);
    let mut other = pod(&[("x", "0")]);
    (other.pod.uid, other.pod.name) = ("thief".into(), "thief".to_owned());
    let mut world = world(&own);
    world.launch(&own, "a");
    let ready_since = |world: &World| world.node.instance(&"a-0".into()).and_then(|a| a.ready_since);
    world.apply(other.clone().report("x", "a-0", true).seen());
    assert_eq!(ready_since(&world), None);
    world.apply(own.clone().report("a", "a-0", true).seen());
    let since = ready_since(&world);
    assert_eq!(since, Some(world.now));
    world.apply(other.report("x", "a-0", false).seen());
    assert_eq!(ready_since(&world), since);
}
