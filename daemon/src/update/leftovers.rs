//! Exited instances of pods that are updated: which there are, and whether the kubelet has looked since they were removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerId, ContainerName, InstanceView, Moment, PodRef, PodUid, in_place_update::Leftovers, time::later,
};

use super::{Parts, drive::Driver, jobs::Done};
use crate::agent::now;

/// The kubelet lists the runtime every second; one that does not within so long is busy, or does not list through the agent.
const RELIST: Duration = Duration::from_millis(1500);
/// From the list to what the kubelet makes of it.
const INSPECTION: Duration = Duration::from_millis(50);

/// A removal of exited instances of one pod.
#[derive(Debug)]
pub(super) struct Removal {
    moment: Moment,
    /// The end of the wait for the kubelet's look.
    until: Instant,
    listed: bool,
    /// Instances that could not be removed: the worst that follows is a pause before the start.
    failed: BTreeSet<ContainerId>,
}

impl Driver {
    /// Names the instances that are left beside the newest instances of a pod.
    pub(super) fn leftovers(
        &mut self,
        pod: &PodUid,
        instances: &BTreeMap<ContainerName, InstanceView>,
        now: Instant,
    ) -> BTreeMap<ContainerName, Leftovers> {
        let removal = self.removals.get_mut(pod);
        let until = removal.map(|removal| {
            let looked =
                || self.parts.agent.read(|node, _| node.relisted_since(removal.moment)) == Some(true);
            if !removal.listed && looked() {
                removal.listed = true;
                removal.until = removal.until.min(later(now, INSPECTION));
            }
            removal.until
        });
        let none = BTreeSet::new();
        let failed = self.removals.get(pod).map_or(&none, |removal| &removal.failed);
        let of = |name: &ContainerName, newest: &ContainerId| {
            let exited = self.parts.agent.read(|node, _| node.exited_before(pod, name, newest));
            let exited: BTreeSet<ContainerId> =
                exited.into_iter().filter(|id| !failed.contains(id)).collect();
            match (exited.is_empty(), until) {
                (false, _) => Leftovers::There(exited),
                (true, Some(until)) => Leftovers::Removed { until },
                (true, None) => Leftovers::None,
            }
        };
        instances.iter().map(|(name, view)| (name.clone(), of(name, &view.id))).collect()
    }

    /// Takes what came of a removal.
    pub(super) fn removed(&mut self, pod: PodUid, failed: BTreeSet<ContainerId>, moment: Moment) {
        let until = later(now(), RELIST);
        self.removals.insert(pod, Removal { moment, until, listed: false, failed });
    }
}

impl Parts {
    /// Removes exited instances.
    pub(super) async fn clear(self: Arc<Self>, pod: PodRef, exited: BTreeSet<ContainerId>) -> Done {
        let failed = self.agent.remove_exited(&self.runtime, exited).await;
        let moment = self.agent.read(|node, _| node.moment());
        Done::Cleared(pod, failed, moment)
    }
}
