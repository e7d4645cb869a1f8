//! The timeline: what it says, and that it is bounded.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    ContainerName, Event, PodRef, Readiness,
    timeline::{MOST, OF_ONE_POD, Timeline, What},
};

fn told(world: &World) -> Vec<String> {
    let entries = world.node.timeline(|_| true);
    entries
        .map(|entry| {
            let container = entry.container.as_ref().map_or("-", ContainerName::as_str);
            let times = if entry.times > 1 { format!(" x{}", entry.times) } else { String::new() };
            format!("{} {container}: {}{times}", entry.what.name(), entry.text)
        })
        .collect()
}

#[test]
fn a_launch_and_its_end() {
    let pod = pod(&[("web", "1"), ("db", "2")]).becomes_ready_by("db", Readiness::ReadinessProbe);
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(pod.seen());
    for _ in 0..2 {
        let (call, _) = world.create(&pod, "web");
        world.end(&call);
    }
    let (call, _) = world.create(&pod, "db");
    world.start(&call, "db-0");
    world.relist();
    let (held, _) = world.create(&pod, "web");
    world.pass(Duration::from_millis(1500));
    world.apply(pod.clone().report("db", "db-0", true).seen());
    world.ask(&held);
    world.start(&held, "web-0");
    world.exit("web-0", 3);
    world.apply(Event::StatusAsked { container: "web-0".into(), connection: world.connection });
    world.apply(Event::InspectionStarted("sandbox".into()));
    let containers = world.runtime.values().map(|(_, container)| container.clone()).collect();
    world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers });
    world.apply(Event::SandboxStopping("sandbox".into()));
    world.apply(Event::SandboxStopping("sandbox".into()));
    let expected = [
        "Refused web: its creation is refused: launch order: waiting for container(s) db x2",
        "Created db: instance 0 was created",
        "Started db: was started",
        "Held web: its creation is held: db not Ready yet",
        "Ready db: is Ready",
        "Opened -: containers of priority 1 may start",
        "Created web: instance 0 was created",
        "Started web: was started",
        "Stopped web: exited with code 3",
        "Stopped -: its sandbox is being stopped",
    ];
    assert_eq!(told(&world), expected);
}

#[test]
fn it_is_bounded_by_pod_and_as_a_whole() {
    let world = World::new();
    let named = |number: usize| PodRef {
        uid: format!("u-{number}").into(),
        namespace: "ns".to_owned(),
        name: format!("pod-{number}"),
    };
    let mut timeline = Timeline::default();
    let mut note = |pod: usize, text: String| {
        timeline.note(world.now, &named(pod), None, What::Told, text);
        timeline.clone()
    };
    note(0, "the first".to_owned());
    // One that talks all the time loses its own past, and nobody else's.
    for number in 0..3 * MOST {
        note(1, number.to_string());
    }
    let long = note(2, "ä".repeat(10_000));
    let of = |pod: usize| long.of(&named(pod).uid).count();
    assert_eq!((of(0), of(1), of(2)), (1, OF_ONE_POD, 1));
    let text = &long.of(&named(2).uid).next().unwrap().text;
    assert!(text.len() <= 300 && text.ends_with('…'), "{text}");
    for pod in 3..2 * MOST {
        note(pod, "one".to_owned());
    }
    let full = note(0, "the last".to_owned());
    assert_eq!(full.len(), MOST);
}
