//! The sandbox after one that died: levels begin anew, and nobody waits for what has succeeded before.

use super::world;
use crate::{
    Container, ContainerState, Declared, Event, Latch, ListedSandbox, RestartPolicy, SidecarMark, Verdict,
    tests::world::{World, pod, waiting},
};

fn next() -> Verdict {
    Verdict::Latch(Latch { sandbox: "next".into(), priority: 1 })
}

#[test]
fn nobody_waits_for_what_has_succeeded_in_the_sandbox_before() {
    let (always, on_failure) = (RestartPolicy::Always, RestartPolicy::OnFailure);
    // The policy of the pod, what the higher container exits with, and the answer to the lower one.
    let table = [
        (on_failure, 0, next()),
        (on_failure, 1, waiting(&["a"])),
        (always, 0, waiting(&["a"])),
        (always, 1, waiting(&["a"])),
    ];
    for (policy, code, expected) in table {
        for is_new in [false, true] {
            let pod = pod(&[("a", "2"), ("b", "1")]).restarts(policy);
            let mut world = world(&pod);
            world.launch(&pod, "a");
            world.launch(&pod, "b");
            world.exit("a-0", code);
            world.exit("b-0", 137);
            if is_new {
                // The node was started anew: what the runtime lists has no exit codes.
                let before = std::mem::replace(&mut world, super::world(&pod));
                world.runtime = before.runtime;
                lists(&mut world);
            }
            let (_, verdict) = world.create_in(&pod, "next", "b", Declared::default());
            assert_eq!(verdict, expected, "{policy:?} {code} {is_new}");
        }
    }
}

/// Whatever it exited with, it counts as the kubelet is shown it.
#[test]
fn nobody_waits_for_a_job_sidecar_that_was_ended_in_the_sandbox_before() {
    for is_marked in [true, false] {
        let pod = pod(&[("a", "2"), ("b", "1")]).restarts(RestartPolicy::OnFailure);
        let mut world = world(&pod);
        world.launch(&pod, "a");
        world.exit("a-0", 143);
        let mark =
            SidecarMark { pod: "uid".into(), name: "a".into(), container: "a-0".into(), hooked: false };
        world.apply(Event::SidecarsLoaded(if is_marked { vec![mark] } else { Vec::new() }));
        let (_, verdict) = world.create_in(&pod, "next", "b", Declared::default());
        assert_eq!(verdict, if is_marked { next() } else { waiting(&["a"]) });
    }
}

fn lists(world: &mut World) {
    world.apply(Event::ListingStarted);
    let sandbox =
        ListedSandbox { sandbox: "sandbox".into(), pod: pod(&[]).pod, declared: Declared::default() };
    let containers = world.runtime.values().map(|(home, container)| {
        let state = ContainerState::Exited { code: None };
        (home.clone(), Container { state, ..container.clone() })
    });
    let containers = containers.collect();
    world.apply(Event::RuntimeListed { sandboxes: vec![sandbox], containers });
}
