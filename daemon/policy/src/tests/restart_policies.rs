//! Exited containers that are started again: by their own rules and restart policy, a sidecar's, the pod's,
//! and where a rule is unknown by the kubelet's word. All who ask go by the same.

use super::world::{World, latch, pod, waiting};
use crate::{ContainerName, Event, Pod, RestartPolicy, RestartPolicy::*, RestartRule};

/// The exit of container `a`.
struct Exit {
    pods: RestartPolicy,
    own: Option<RestartPolicy>,
    sidecar: bool,
    rules: Vec<RestartRule>,
    /// The kubelet has said that it has ended.
    told: bool,
    code: i32,
}

impl Exit {
    fn pod(&self) -> Pod {
        let mut pod = pod(&[("a", "2"), ("b", "1")]).restarts(self.pods).report("a", "a-0", false);
        let spec = pod.containers.get_mut(&ContainerName::from("a")).unwrap();
        (spec.restart_policy, spec.sidecar) = (self.own, self.sidecar);
        spec.restart_rules.clone_from(&self.rules);
        pod.statuses.get_mut(&ContainerName::from("a")).unwrap().ended = self.told;
        pod
    }
}

#[test]
fn of_every_kind() {
    let plain = |pods, own, code| Exit { pods, own, sidecar: false, rules: Vec::new(), told: false, code };
    let with = |rules, own, told, code| Exit { rules, told, ..plain(Always, Some(own), code) };
    let ruled = |own, told, code| with(vec![RestartRule::In(vec![42])], own, told, code);
    let others = |own, told, code| with(vec![RestartRule::NotIn(vec![0, 3])], own, told, code);
    let unknown = |own, told, code| with(vec![RestartRule::Unknown], own, told, code);
    let table = [
        (plain(Always, None, 0), false),
        (plain(OnFailure, None, 0), true),
        (plain(OnFailure, None, 1), false),
        (plain(Never, None, 1), true),
        // Its own takes the place of the pod's, either way.
        (plain(Always, Some(Never), 1), true),
        (plain(Always, Some(OnFailure), 0), true),
        (plain(Always, Some(OnFailure), 1), false),
        (plain(Never, Some(Always), 0), false),
        (plain(Never, Some(OnFailure), 1), false),
        (Exit { sidecar: true, ..plain(Never, None, 0) }, false),
        (ruled(Never, false, 1), false),
        (ruled(Never, true, 1), true),
        (ruled(OnFailure, true, 0), true),
        (ruled(OnFailure, false, 0), false),
        (ruled(OnFailure, true, 1), false),
        // The kubelet says that it has ended, and starts it again in the same SyncPod.
        (ruled(Never, true, 42), false),
        (others(Never, true, 42), false),
        (others(Never, true, 3), true),
        (others(OnFailure, true, 3), false),
        (unknown(Never, false, 42), false),
        (unknown(Never, true, 42), true),
    ];
    for (number, (exit, stays)) in table.iter().enumerate() {
        let pod = exit.pod();
        let row = format!("row {number}: {:?} {:?} {}", exit.pods, exit.own, exit.code);
        assert_eq!(pod.leaves_exited(&"a".into(), &"a-0".into(), Some(exit.code)), *stays, "{row}");
        let mut world = World::new();
        world.apply(Event::ViewFresh(true));
        world.apply(pod.seen());
        world.launch(&pod, "a");
        world.exit("a-0", exit.code);
        world.relist();
        // The launch order waits for what is started again, and not for what has done its work.
        let expected = if *stays { latch(1) } else { waiting(&["a"]) };
        assert_eq!(world.create(&pod, "b").1, expected, "{row}");
        // And what people are told is the same.
        let facts = world.node.facts(world.now, |_, _| true);
        let a = facts[0].containers.iter().find(|container| container.name.as_str() == "a").unwrap();
        assert_eq!(a.restarts, !stays, "{row}");
    }
}
