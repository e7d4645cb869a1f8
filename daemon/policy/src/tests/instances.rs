//! Instances that run for the containers of a pod, across its sandboxes.

use super::world::{KUBELET, World, pod};
use crate::{
    Call, CallId, ConnectionId, Container, ContainerId, ContainerName, ContainerState, Declared, Event,
    InstanceState, InstanceView, ListedSandbox, Moment, Pod, PodRef, SandboxId,
};

const EXITED: ContainerState = ContainerState::Exited { code: Some(0) };

fn one() -> Pod {
    pod(&[("a", "0")])
}

/// The runtime as an agent finds it that has just started, its sandboxes oldest first.
fn found(containers: &[(&str, &str, u32, ContainerState)]) -> World {
    let mut world = World::new();
    world.apply(one().seen());
    // One after the other, as they came to be.
    let mut sandboxes: Vec<ListedSandbox> = Vec::new();
    for (sandbox, ..) in containers {
        let sandbox = SandboxId::from(*sandbox);
        if sandboxes.iter().all(|known| known.sandbox != sandbox) {
            let (pod, declared) = (one().pod, Declared::default());
            let created = Event::SandboxCreated {
                sandbox: sandbox.clone(),
                pod: pod.clone(),
                declared: declared.clone(),
            };
            world.apply(created);
            sandboxes.push(ListedSandbox { sandbox, pod, declared });
        }
    }
    for (sandbox, id, attempt, state) in containers {
        let container = Container { id: (*id).into(), name: "a".into(), attempt: *attempt, state: *state };
        world.runtime.insert((*id).into(), ((*sandbox).into(), container));
    }
    for listed in sandboxes {
        let sandbox = listed.sandbox;
        let here = world.runtime.values().filter(|(home, _)| *home == sandbox);
        let containers = here.map(|(_, container)| container.clone()).collect();
        world.apply(Event::InspectionStarted(sandbox.clone()));
        world.apply(Event::SandboxInspected { sandbox, containers });
    }
    world
}

fn newest(world: &World) -> Option<InstanceView> {
    let mut instances = world.node.instances(&"uid".into());
    assert!(instances.len() <= 1);
    instances.remove(&ContainerName::from("a"))
}

#[test]
fn exit_codes_that_are_known() {
    use ContainerState::{Created, Exited, Running, Unknown};
    let world = found(&[
        ("s1", "ended", 0, Exited { code: Some(3) }),
        ("s1", "unasked", 1, Exited { code: None }),
        ("s1", "runs", 2, Running),
        ("s1", "made", 3, Created),
        ("s1", "lost", 4, Unknown),
        ("s2", "elsewhere", 0, EXITED),
    ]);
    assert_eq!(world.node.exit_codes(&"s1".into()), [(ContainerId::from("ended"), 3)].into());
    assert!(world.node.exit_codes(&"s3".into()).is_empty());
}

#[test]
fn the_newest_one_and_before_all_the_one_that_runs() {
    use ContainerState::{Created, Running};
    // Sandbox, identity, attempt and state of each instance; the one that counts.
    type Row<'a> = (&'a [(&'a str, &'a str, u32, ContainerState)], Option<&'a str>);
    let table: &[Row<'_>] = &[
        (&[], None),
        (&[("s1", "x", 0, Running)], Some("x")),
        (&[("s1", "x", 0, EXITED), ("s1", "y", 1, Running)], Some("y")),
        (&[("s1", "y", 0, EXITED), ("s1", "x", 1, EXITED)], Some("x")),
        (&[("s1", "x", 9, EXITED), ("s1", "y", 10, Created)], Some("y")),
        // One that runs goes before a newer one.
        (&[("s1", "x", 0, Running), ("s1", "y", 1, EXITED)], Some("x")),
        (&[("s1", "x", 0, Running), ("s1", "y", 1, Created)], Some("x")),
        // A newer sandbox goes before a higher attempt.
        (&[("s1", "x", 7, EXITED), ("s2", "y", 0, EXITED)], Some("y")),
        (&[("s1", "x", 7, Running), ("s2", "y", 0, Running)], Some("y")),
        (&[("s1", "x", 7, Running), ("s2", "y", 0, EXITED)], Some("x")),
    ];
    for (containers, expected) in table {
        let world = found(containers);
        let view = newest(&world);
        assert_eq!(view.as_ref().map(|view| view.id.as_str()), *expected, "{containers:?}");
        if let (Some(view), Some(expected)) = (view, expected) {
            let (_, _, attempt, state) = containers.iter().find(|(_, id, ..)| id == expected).unwrap();
            assert_eq!((view.attempt, view.state, view.stopping), (*attempt, *state, false));
        }
        assert!(world.node.instances(&"other".into()).is_empty());
    }
}

#[test]
fn those_beside_the_newest_that_have_exited() {
    let world =
        found(&[("s1", "x", 0, EXITED), ("s1", "y", 1, EXITED), ("s1", "z", 2, ContainerState::Running)]);
    let older = |name: &str| -> Vec<ContainerId> {
        world.node.older_exited(&"uid".into(), &name.into(), &"z".into()).collect()
    };
    assert_eq!((older("a"), older("b")), (vec!["x".into(), "y".into()], Vec::new()));
}

#[test]
fn it_is_being_stopped_as_long_as_the_call_lasts() {
    let mut world = World::new();
    let pod = one();
    world.apply(pod.seen());
    world.launch(&pod, "a");
    assert!(!newest(&world).unwrap().stopping);
    let (call, _) = world.stop("a-0", 30);
    assert!(newest(&world).unwrap().stopping);
    // Given up: it may run on.
    world.end(&call);
    assert!(!newest(&world).unwrap().stopping);
    let (call, _) = world.stop("a-0", 30);
    world.exit("a-0", 0);
    world.apply(Event::ContainerStopped("a-0".into()));
    world.end(&call);
    let view = newest(&world).unwrap();
    assert!(!view.stopping && matches!(view.state, ContainerState::Exited { .. }), "{view:?}");
    // A kubelet that is gone stops nothing.
    let (call, verdict) = world.create(&pod, "a");
    assert!(matches!(verdict, crate::Verdict::Forward | crate::Verdict::Latch(_)), "{verdict:?}");
    world.start(&call, "a-1");
    world.stop("a-1", 30);
    assert!(newest(&world).unwrap().stopping);
    world.apply(Event::ConnectionClosed(world.connection));
    assert!(!newest(&world).unwrap().stopping);
}

#[test]
fn the_next_one_counts_as_soon_as_it_runs() {
    let mut world = World::new();
    let pod = one();
    world.apply(pod.seen());
    world.launch(&pod, "a");
    world.exit("a-0", 1);
    world.apply(Event::ContainerStopped("a-0".into()));
    let (call, _): (Call, _) = world.create(&pod, "a");
    world.start(&call, "a-1");
    let view = newest(&world).unwrap();
    assert_eq!((view.id.as_str(), view.state), ("a-1", ContainerState::Running));
}

/// Rows: whether the pod view shows the pod of a UID, and whether the runtime has it.
#[test]
fn a_pod_that_is_known_has_its_own_name() {
    let own = one().pod;
    let given = PodRef { name: "other".to_owned(), ..own.clone() };
    for (is_shown, runs) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new();
        if is_shown {
            world.apply(one().seen());
        }
        if runs {
            let (sandbox, declared) = ("sandbox".into(), Declared::default());
            world.apply(Event::SandboxCreated { sandbox, pod: own.clone(), declared });
        }
        let expected = if is_shown || runs { &own } else { &given };
        assert_eq!(world.node.by_own_name(given.clone()), *expected, "{is_shown} {runs}");
    }
}

#[test]
fn a_relist_counts_from_when_it_was_asked() {
    let mut world = World::new();
    let relisted_since =
        |world: &World, moment: Moment| world.node.relisted().map(|relisted| relisted > moment);
    let start = world.node.moment();
    assert_eq!(relisted_since(&world, start), None, "no kubelet");
    let (call, connection) = (CallId(100), KUBELET);
    world.apply(Event::RelistAsked { call, connection });
    let between = world.node.moment();
    assert_ne!(relisted_since(&world, start), Some(true), "asked, not answered");
    world.apply(Event::RelistAnswered { call, connection });
    assert_eq!(relisted_since(&world, start), Some(true));
    assert_eq!(relisted_since(&world, between), Some(false), "it may have been listed before that");
    let (call, connection) = (CallId(101), ConnectionId(2));
    world.apply(Event::RelistAsked { call, connection });
    world.apply(Event::RelistAnswered { call, connection });
    assert_eq!(relisted_since(&world, between), Some(true), "another connection will do");
    world.apply(Event::ConnectionClosed(ConnectionId(2)));
    assert_eq!(relisted_since(&world, between), Some(false));
    world.apply(Event::ConnectionClosed(KUBELET));
    assert_eq!(relisted_since(&world, between), None);
}

/// All that is asked for by one look, and nothing of a pod that is not here or that nobody asked for.
#[test]
fn probed_instances_are_the_newest_that_have_started() {
    use ContainerState::{Created, Running};
    type Row<'a> = (&'a [(&'a str, &'a str, u32, ContainerState)], Option<Option<(&'a str, bool)>>);
    let table: &[Row<'_>] = &[
        (&[], None),
        (&[("s1", "x", 0, Created)], Some(None)),
        (&[("s1", "x", 0, Running)], Some(Some(("x", true)))),
        (&[("s1", "x", 0, Running), ("s1", "y", 1, Created)], Some(Some(("x", true)))),
        (&[("s1", "x", 0, EXITED), ("s1", "y", 1, EXITED)], Some(Some(("y", false)))),
        (&[("s1", "x", 7, EXITED), ("s2", "y", 0, Running)], Some(Some(("y", true)))),
    ];
    for (containers, expected) in table {
        let world = found(containers);
        let mut all = world.node.probed_instances(&["elsewhere".into(), "uid".into()].into());
        let of_pod = all.remove(&"uid".into());
        assert!(all.is_empty(), "{all:?}");
        assert!(world.node.probed_instances(&["elsewhere".into()].into()).is_empty());
        let shown = of_pod.as_ref().map(|of_pod| {
            let found = of_pod.get(&ContainerName::from("a"))?;
            Some((found.id.as_str(), matches!(found.state, InstanceState::Running { .. })))
        });
        assert_eq!(shown, *expected, "{containers:?}");
    }
}
