//! Entries of workloads that ask for an image which does not come up.

use std::time::Duration;

use super::{asking::Asking, world::World};
use crate::in_place_update::{Gate, Life, UpdateOutcome, UpdateSource};

fn entry(asking: &mut Asking, id: &str, image: &str) {
    let request = asking.ask(id, &[("a", image), ("b", "b:2")], &[]);
    request.source = UpdateSource::NodePodUpdate;
    request.leaves_pull = true;
}

/// A bad image is a state of the pod of a workload, whether it cannot be pulled or falls over: the entry goes
/// on for ever, and the one of the next revision takes its place and brings the pod up.
#[test]
fn a_workload_goes_from_a_bad_image_to_a_good_one_in_place() {
    for falls_over in [true, false] {
        let mut asking = Asking::of(World::of(&[("a", None, &[]), ("b", None, &[]), ("c", None, &[])]));
        if !falls_over {
            asking.world.refused.insert("a:bad".into(), "no such image".to_owned());
        }
        entry(&mut asking, "first", "a:bad");
        asking.act();
        asking.world.kubelet_learns();
        asking.world.settle(&["a:1", "a:bad"]);
        if falls_over {
            asking.world.container("a").instance.life = Life::Crashing;
        }
        asking.world.pass(Duration::from_secs(3600));
        asking.act();
        assert_eq!(asking.images(), ["a:bad", "b:2", "c:1"], "{:?}", asking.log);
        assert_eq!(asking.report("first").outcome, None, "{:?}", asking.log);
        // The object of the node has one entry of the workload for the pod.
        asking.requests.clear();
        entry(&mut asking, "next", "a:3");
        asking.play(&[]);
        assert_eq!(
            (asking.outcome("next"), asking.images()),
            (UpdateOutcome::Complete, vec!["a:3", "b:2", "c:1"])
        );
        assert_eq!(asking.world.gate, Gate::Ready);
    }
}
