//! Exited instances of a pod: which there are, and whether the kubelet has looked since they were removed.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::view::NodeView;
use crate::{
    in_place_update::Leftovers,
    instances::Moment,
    model::{ContainerId, ContainerName},
    time::later,
};

/// The kubelet lists the runtime every second; one that does not within so long is busy, or does not list
/// through the agent.
const RELIST: Duration = Duration::from_millis(1500);
/// From the list to what the kubelet makes of it.
const INSPECTION: Duration = Duration::from_millis(50);

/// A removal of exited instances of one pod.
#[derive(Debug)]
pub(crate) struct Removal {
    moment: Moment,
    /// The end of the wait for the kubelet's look.
    until: Instant,
    listed: bool,
    /// Instances that could not be removed: the worst that follows is a pause before the start.
    failed: BTreeSet<ContainerId>,
}

impl Removal {
    pub(crate) fn new(failed: BTreeSet<ContainerId>, moment: Moment, now: Instant) -> Self {
        Self { moment, until: later(now, RELIST), listed: false, failed }
    }

    /// Ends the wait soon once the kubelet has listed since.
    pub(crate) fn look(&mut self, relisted: Option<Moment>, now: Instant) {
        if !self.listed && relisted.is_some_and(|relisted| relisted > self.moment) {
            self.listed = true;
            self.until = self.until.min(later(now, INSPECTION));
        }
    }
}

/// The exited instances of a container beside its newest one.
pub(crate) fn leftovers(
    removal: Option<&Removal>,
    node: &NodeView,
    name: &ContainerName,
    newest: &ContainerId,
) -> Leftovers {
    let failed = |id: &ContainerId| removal.is_some_and(|removal| removal.failed.contains(id));
    let all = node.exited.get(name).into_iter().flatten();
    let exited: BTreeSet<ContainerId> = all.filter(|id| *id != newest && !failed(id)).cloned().collect();
    match (exited.is_empty(), removal) {
        (false, _) => Leftovers::There(exited),
        (true, Some(removal)) => Leftovers::Removed { until: removal.until },
        (true, None) => Leftovers::None,
    }
}
