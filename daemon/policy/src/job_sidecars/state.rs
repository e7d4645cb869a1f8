//! Memory of job sidecars.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::SidecarMark;
use crate::{
    model::{ContainerId, Pod, PodUid, RestartPolicy},
    step::DirectStop,
};

/// The pods that have job sidecars, and the sidecars that are marked.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobSidecars {
    /// Pods with mains and sidecars, which may end.
    pub(super) pods: BTreeSet<PodUid>,
    /// A mark is here once it is durable.
    pub(super) marks: BTreeMap<ContainerId, Marked>,
}

/// A mark, and what this process knows about it.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) mark: SidecarMark,
    /// When it was made, or read from the store.
    pub(super) since: Instant,
    /// The hook, if it has one, is still to be run.
    pub(super) hook_due: bool,
    /// When its stop began for the first time.
    pub(super) stop_began: Option<Instant>,
    /// It was made for an instance that had exited already, and the kubelet has not asked about that since.
    pub(super) unseen: bool,
}

impl JobSidecars {
    /// The pod view shows this pod.
    pub(crate) fn pod_seen(&mut self, pod: &Pod) {
        if is_job(pod) {
            self.pods.insert(pod.pod.uid.clone());
        } else {
            self.pods.remove(&pod.pod.uid);
        }
    }

    /// It does not any more.
    pub(crate) fn pod_gone(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
    }

    /// Takes over the sidecars that were marked by an earlier process.
    pub(crate) fn loaded(&mut self, marks: Vec<SidecarMark>, now: Instant) {
        for mark in marks {
            let marked = Marked { since: now, hook_due: !mark.hooked, stop_began: None, unseen: true, mark };
            // Read late, it knows less than what was marked since.
            self.marks.entry(marked.mark.container.clone()).or_insert(marked);
        }
    }

    /// Its stop begins. The hook that it has is due until that is durable.
    pub(crate) fn stop_began(&mut self, stop: &DirectStop, now: Instant) {
        if let Some(marked) = self.marks.get_mut(&stop.container) {
            marked.hook_due &= stop.mark.is_some();
            marked.stop_began.get_or_insert(now);
        }
    }

    /// Its hook begins, and is not begun again.
    pub(crate) fn hook_begins(&mut self, container: &ContainerId) {
        if let Some(marked) = self.marks.get_mut(container) {
            (marked.hook_due, marked.mark.hooked) = (false, true);
        }
    }

    /// The marks of these containers are not in the store any more.
    pub(crate) fn forgotten(&mut self, containers: &[ContainerId]) {
        self.marks.retain(|id, _| !containers.contains(id));
    }

    /// The kubelet asks about this container: from now on it knows.
    pub(crate) fn status_asked(&mut self, container: &ContainerId) {
        if let Some(marked) = self.marks.get_mut(container) {
            marked.unseen = false;
        }
    }

    /// Tells whether it ends when its mains end, and has sidecars.
    pub(crate) fn has(&self, pod: &PodUid) -> bool {
        self.pods.contains(pod)
    }

    /// Tells whether there is any such pod.
    pub(crate) fn has_any(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Its end was made sure of: whatever it exits with does not count.
    pub(crate) fn is_marked(&self, container: &ContainerId) -> bool {
        self.marks.contains_key(container)
    }

    /// Time since which it is being ended.
    pub(crate) fn ending_since(&self, container: &ContainerId) -> Option<Instant> {
        self.marks.get(container).map(|marked| marked.since)
    }

    /// The agent has begun its hook, or is about to.
    pub(crate) fn is_hooked(&self, container: &ContainerId) -> bool {
        self.marks.get(container).is_some_and(|marked| marked.mark.hooked)
    }

    /// A pod may end.
    pub(super) fn is_active(&self) -> bool {
        !self.pods.is_empty()
    }
}

/// A pod that ends when its mains end, and has sidecars that would keep it from that.
pub(crate) fn is_job(pod: &Pod) -> bool {
    let regular = || pod.containers.values().filter(|container| !container.sidecar);
    pod.restart_policy != RestartPolicy::Always
        && pod.deletion.is_none()
        && !pod.ended
        && regular().any(|container| container.ends_with_job)
        && regular().any(|container| !container.ends_with_job)
}
