//! Owners beside each other whose words differ: each keeps its own.

use std::time::Duration;

use super::{asking::Asking, world::World};
use crate::in_place_update::{FailureReason, Life, Next, UpdateOutcome, UpdateOwner, UpdateSource, Why};

const GRACE: Duration = Duration::from_secs(30);

fn pod() -> Asking {
    Asking::of(World::of(&[("a", None, &[]), ("b", None, &[])]))
}

/// An entry of a SidecarSet, which keeps the pod in service.
fn set(asking: &mut Asking) {
    let request = asking.ask("s", &[("b", "b:2")], &[]);
    request.source = UpdateSource::NodePodUpdate;
    (request.owner, request.keeps_service) = (UpdateOwner::SidecarSet("s".to_owned()), true);
}

/// An entry of a workload, which asks for a grace.
fn workload(asking: &mut Asking) {
    let request = asking.ask("w", &[("a", "a:2")], &[]);
    (request.source, request.grace) = (UpdateSource::NodePodUpdate, GRACE);
}

#[test]
fn who_needs_no_grace_takes_none_from_another() {
    for later_is_set in [true, false] {
        let mut asking = pod();
        let entries = if later_is_set { [workload, set] } else { [set, workload] };
        entries.iter().for_each(|entry| entry(&mut asking));
        asking.act();
        let planned = asking.plan();
        let waits = matches!(planned.next, Some(Next::Wait { why: Why::Grace, .. }));
        assert!(waits, "{later_is_set} {planned:?}");
        assert_eq!(asking.images(), ["a:1", "b:1"], "{later_is_set}");
        asking.world.pass(GRACE);
        asking.play(&[]);
        assert_eq!(asking.images(), ["a:2", "b:2"], "{later_is_set}");
        for id in ["s", "w"] {
            assert_eq!(asking.outcome(id), UpdateOutcome::Complete, "{later_is_set} {id}");
        }
    }
}

/// A person's request counts before all entries, and ignores failures of its own alone.
#[test]
fn what_a_request_leaves_out_fails_the_entry_that_asks_for_it() {
    let mut asking = pod();
    asking.world.refused.insert("b:2".into(), "no".to_owned());
    set(&mut asking);
    asking.ask("r", &[("a", "a:2")], &[]).ignore_failures = true;
    asking.play(&[]);
    assert_eq!(asking.outcome("s"), UpdateOutcome::Failed(FailureReason::ImageNotPulled));
    assert_eq!((asking.outcome("r"), asking.images()), (UpdateOutcome::Complete, vec!["a:2", "b:1"]));
}

/// The kubelet may pull what a workload leaves to it, with the credentials of the pod, whoever is beside it.
#[test]
fn an_image_is_left_to_the_kubelet_unless_somebody_insists_on_it() {
    // The image that the agent cannot pull, and the outcome of the one that insists on its own.
    let table = [
        ("a:2", UpdateOutcome::Complete, ["a:2", "b:2"]),
        ("b:2", UpdateOutcome::Failed(FailureReason::ImageNotPulled), ["a:2", "b:1"]),
    ];
    for (refused, outcome, images) in table {
        for later_is_set in [true, false] {
            let mut asking = pod();
            asking.world.refused.insert(refused.into(), "no".to_owned());
            let entries = if later_is_set { [workload, set] } else { [set, workload] };
            entries.iter().for_each(|entry| entry(&mut asking));
            for request in asking.requests.iter_mut().filter(|request| request.id.as_str() == "w") {
                (request.leaves_pull, request.grace) = (true, Duration::ZERO);
            }
            asking.act();
            assert_eq!(asking.images(), images, "{refused} {later_is_set}");
            asking.world.on_node.insert("a:2".into());
            asking.play(&[]);
            assert_eq!(asking.outcome("w"), UpdateOutcome::Complete, "{refused} {later_is_set}");
            assert_eq!(asking.outcome("s"), outcome, "{refused} {later_is_set}");
        }
    }
}

/// A workload waits for its container as long as it takes; the sidecar has its new image all the same.
#[test]
fn what_a_workload_bears_fails_no_set_beside_it() {
    for later_is_set in [true, false] {
        let mut asking = pod();
        workload(&mut asking);
        (asking.requests[0].leaves_pull, asking.requests[0].grace) = (true, Duration::ZERO);
        asking.act();
        asking.world.settle(&["a:2"]);
        asking.world.container("a").instance.life = Life::Crashing;
        asking.world.pass(2 * GRACE);
        set(&mut asking);
        asking.requests[1].rollback_on_failure = true;
        if !later_is_set {
            asking.requests[1].created -= 10 * GRACE;
        }
        for _ in 0..10 {
            asking.act();
            asking.world.settle(&["a:2"]);
        }
        assert_eq!(asking.report("s").outcome, Some(UpdateOutcome::Complete), "{later_is_set}");
        assert_eq!((asking.report("w").outcome, asking.images()), (None, vec!["a:2", "b:2"]));
        assert_eq!(asking.world.restarts()[1], 1, "{later_is_set}");
    }
}
