//! Facts about a pod, at the moments in which somebody asks for them.

use std::time::Duration;

use super::world::{World, pod};
use crate::{
    ContainerFacts, ContainerState, Event, HeldFacts, Pod, PodFacts, Readiness, RestartPolicy, Unready,
};

fn of(world: &World) -> PodFacts {
    let mut all = world.node.facts(world.now, |_, _| true);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn container<'a>(facts: &'a PodFacts, name: &str) -> &'a ContainerFacts {
    facts.containers.iter().find(|container| container.name.as_str() == name).unwrap()
}

#[test]
fn a_container_that_waits_and_the_one_it_waits_for() {
    let pod = pod(&[("web", "1"), ("db", "2")]).becomes_ready_by("db", Readiness::ReadinessProbe);
    let mut world = World::new();
    world.apply(Event::ViewFresh(true));
    world.apply(pod.seen());
    let (call, _) = world.create(&pod, "web");
    world.end(&call);
    world.launch(&pod, "db");
    world.relist();
    world.create(&pod, "web");
    world.pass(Duration::from_secs(2));
    let facts = of(&world);
    assert_eq!(facts.sandbox.as_ref().unwrap().as_str(), "sandbox");
    assert!(facts.seen && facts.order_error.is_none());
    let names: Vec<&str> = facts.containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["db", "web"], "highest priority first");
    let db = container(&facts, "db");
    assert_eq!((db.priority, db.running, db.ready), (Some(2), Some(Duration::from_secs(2)), false));
    assert_eq!(db.readiness, Some(Readiness::ReadinessProbe));
    assert_eq!(db.instance.as_ref().unwrap().2, ContainerState::Running);
    let web = container(&facts, "web");
    assert_eq!(web.instance, None);
    assert_eq!(web.waiting, Some((vec!["db".into()], Duration::from_secs(2))));
    let HeldFacts { rpc, why, held, .. } = web.held.clone().unwrap();
    assert_eq!((rpc, why, held), ("CreateContainer", "not-ready", Duration::from_secs(2)));
    world.apply(pod.report("db", "db-0", true).seen());
    assert!(container(&of(&world), "db").ready);
}

#[test]
fn a_pod_without_an_order_has_its_containers_as_the_spec_has_them() {
    let mut world = World::new();
    let unready = Unready { unwritten: false, requests: vec!["ns/again".to_owned()] };
    let pod = Pod { unready: Some(unready), ..pod(&[("b", "0"), ("a", "0")]).deleting(7) };
    world.apply(pod.seen());
    let facts = of(&world);
    assert_eq!(facts.containers.len(), 2);
    assert_eq!((facts.containers[0].name.as_str(), facts.containers[0].priority), ("b", None));
    assert_eq!((facts.deleting, facts.sandbox), (Some(Duration::from_secs(7)), None));
    assert_eq!(facts.held_unready, ["ns/again"]);
}

#[test]
fn whether_one_that_exited_is_started_again() {
    let table = [
        (RestartPolicy::Always, 0, true),
        (RestartPolicy::OnFailure, 0, false),
        (RestartPolicy::OnFailure, 1, true),
        (RestartPolicy::Never, 1, false),
    ];
    for (policy, code, expected) in table {
        let mut world = World::new();
        let pod = pod(&[("a", "0")]).restarts(policy);
        world.apply(pod.seen());
        world.launch(&pod, "a");
        world.exit("a-0", code);
        world.apply(Event::InspectionStarted("sandbox".into()));
        let containers = world.runtime.values().map(|(_, container)| container.clone()).collect();
        world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers });
        let facts = of(&world);
        let a = container(&facts, "a");
        assert_eq!((a.restarts, a.running), (expected, None), "{policy:?} {code}");
        assert_eq!(a.instance.as_ref().unwrap().2, ContainerState::Exited { code: Some(code) });
    }
}

#[test]
fn a_pod_that_the_view_does_not_show_has_what_runs_in_it() {
    let mut world = World::new();
    let pod = pod(&[("a", "0")]);
    world.apply(Event::SandboxCreated {
        sandbox: "sandbox".into(),
        pod: pod.pod.clone(),
        declared: crate::Declared::default(),
    });
    world.apply(pod.seen());
    world.launch(&pod, "a");
    world.apply(Event::PodGone(pod.pod.uid.clone()));
    let facts = of(&world);
    assert!(!facts.seen);
    assert_eq!(facts.containers.len(), 1);
}
