//! Pods of which no container is left: `RestartAllContainers` (KEP-5532) removes all of them, and keeps the
//! sandbox.

use super::world;
use crate::{
    Container, Declared, Event, Latch, ListedSandbox, Pod, Verdict,
    tests::world::{World, latch, pod, waiting},
};

#[test]
fn a_pod_without_any_container_left_begins_in_its_order_again() {
    ["removal", "inspection", "list"].into_iter().for_each(begins_in_its_order_again);
}

fn begins_in_its_order_again(told_by: &str) {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = world(&pod);
    world.launch(&pod, "a");
    world.relist();
    world.launch(&pod, "b");
    let remove = |world: &mut World, id: &str| {
        world.runtime.remove(&id.into());
        world.apply(Event::ContainerRemoved(id.into()));
    };
    remove(&mut world, "b-0");
    assert_eq!(world.create(&pod, "b").1, Verdict::Forward, "one container is restarted whenever");
    match told_by {
        "removal" => remove(&mut world, "a-0"),
        // The runtime has lost it, and says so before its answer to the removal has passed.
        "inspection" => {
            world.runtime.remove(&"a-0".into());
            world.apply(Event::InspectionStarted("sandbox".into()));
            world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers: Vec::new() });
        }
        _ => {
            world.runtime.remove(&"a-0".into());
            list(&mut world, &pod);
        }
    }
    let forgets = world.node.plan(world.now).contains(&crate::Step::ForgetLatches("sandbox".into()));
    assert!(forgets, "{told_by}");
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]), "{told_by}");
    world.launch(&pod, "a");
    world.relist();
    assert_eq!(world.create(&pod, "b").1, latch(1));
}

/// `RestartAllContainers` leaves ephemeral containers where they are.
#[test]
fn an_ephemeral_container_keeps_no_level_open() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = world(&pod);
    for name in ["a", "b", "debugger"] {
        world.launch(&pod, name);
        world.relist();
    }
    for (id, forgets) in [("b-0", false), ("a-0", true)] {
        world.runtime.remove(&id.into());
        world.apply(Event::ContainerRemoved(id.into()));
        let steps = world.node.plan(world.now);
        assert_eq!(steps.contains(&crate::Step::ForgetLatches("sandbox".into())), forgets, "{id}");
    }
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
    world.launch(&pod, "a");
    world.relist();
    assert_eq!(world.create(&pod, "b").1, latch(1));
}

/// The runtime is listed: the sandbox has no container.
fn list(world: &mut World, pod: &Pod) {
    world.apply(Event::ListingStarted);
    listed(world, pod, Vec::new());
}

/// The answer to that question: these containers.
fn listed(world: &mut World, pod: &Pod, containers: Vec<Container>) {
    let (sandbox, pod) = ("sandbox".into(), pod.pod.clone());
    let sandboxes = vec![ListedSandbox { sandbox, pod, declared: Declared::default() }];
    let containers = containers.into_iter().map(|container| ("sandbox".into(), container)).collect();
    world.apply(Event::RuntimeListed { sandboxes, containers });
}

/// Containers of a sandbox that both run.
fn launched(pod: &Pod) -> (World, Vec<Container>) {
    let mut world = world(pod);
    world.launch(pod, "a");
    world.relist();
    world.launch(pod, "b");
    let containers = world.runtime.values().map(|(_, container)| container.clone()).collect();
    (world, containers)
}

/// The runtime was asked before they were removed, and its answer comes after.
#[test]
fn an_answer_that_is_older_brings_nothing_back_that_was_removed() {
    type Answers = fn(&mut World, &Pod, Vec<Container>);
    let list_starts: fn(&mut World) = |world| world.apply(Event::ListingStarted);
    let inspection_starts: fn(&mut World) = |world| world.apply(Event::InspectionStarted("sandbox".into()));
    let lists: Answers = listed;
    let inspects: Answers = |world, _, containers| {
        world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers });
    };
    // A list in between does not make the answer about the sandbox younger.
    let inspects_after_a_list: Answers = |world, pod, containers| {
        list(world, pod);
        world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers });
    };
    for (what, starts, answers) in [
        ("list", list_starts, lists),
        ("inspection", inspection_starts, inspects),
        ("inspection around a list", inspection_starts, inspects_after_a_list),
    ] {
        let pod = pod(&[("b", "1"), ("a", "2")]);
        let (mut world, containers) = launched(&pod);
        starts(&mut world);
        for id in ["b-0", "a-0"] {
            world.runtime.remove(&id.into());
            world.apply(Event::ContainerRemoved(id.into()));
        }
        answers(&mut world, &pod, containers);
        assert_eq!(world.node.size().containers, 0, "{what}");
        assert_eq!(world.create(&pod, "b").1, waiting(&["a"]), "{what}");
    }
}

/// One that has gone with its containers, and one whose containers nobody knew.
#[test]
fn a_list_that_is_older_brings_no_sandbox_back() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    for known in [true, false] {
        let (mut world, containers) = if known {
            launched(&pod)
        } else {
            let (_, containers) = launched(&pod);
            (World::new(), containers)
        };
        world.apply(Event::ListingStarted);
        world.apply(Event::SandboxRemoved("sandbox".into()));
        listed(&mut world, &pod, containers.clone());
        let size = world.node.size();
        assert_eq!((size.sandboxes, size.containers), (0, 0), "known: {known}");
        // What is asked from now on counts.
        world.apply(Event::ListingStarted);
        listed(&mut world, &pod, containers);
        let size = world.node.size();
        assert_eq!((size.sandboxes, size.containers), (1, 2), "known: {known}");
    }
}

/// The answer shows it and another one; only the removed one is left out.
#[test]
fn a_removal_during_a_question_concerns_its_container_only() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let (mut world, containers) = launched(&pod);
    for started in [Event::ListingStarted, Event::InspectionStarted("sandbox".into())] {
        world.apply(started);
    }
    world.apply(Event::ContainerRemoved("b-0".into()));
    listed(&mut world, &pod, containers.clone());
    world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers: containers.clone() });
    assert_eq!(world.node.containers.keys().map(|id| id.as_str()).collect::<Vec<_>>(), ["a-0"]);
    // A client that makes it again under the same name would have the runtime show it.
    world.apply(Event::InspectionStarted("sandbox".into()));
    world.apply(Event::SandboxInspected { sandbox: "sandbox".into(), containers });
    assert_eq!(world.node.size().containers, 2);
}

/// All were removed while the agent was away.
#[test]
fn latches_of_a_pod_without_containers_are_forgotten() {
    let pod = pod(&[("b", "1"), ("a", "2")]);
    let mut world = world(&pod);
    world.apply(Event::LatchesLoaded(vec![Latch { sandbox: "sandbox".into(), priority: 1 }]));
    list(&mut world, &pod);
    assert!(world.node.plan(world.now).contains(&crate::Step::ForgetLatches("sandbox".into())));
    assert_eq!(world.create(&pod, "b").1, waiting(&["a"]));
}
