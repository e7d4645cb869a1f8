//! The pods that count: scheduled, Initialized, not finished, not being deleted. By namespace, with its
//! markers: neither sees those of another.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    marker::Marker,
    node::ProbedPod,
    pace::{Line, Pace},
    queue::MarkerQueue,
    resolve::Selecting,
};
use crate::store::{Labels, Pod, PodStage};

/// A namespace.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Probes that its node is to have for a pod that markers select, by the pod's name.
    pub(super) wanted: HashMap<Arc<str>, Arc<ProbedPod>>,
    /// By name.
    pub(super) markers: BTreeMap<Arc<str>, Marker>,
    pub(super) turns: MarkerQueue,
    pub(super) pace: Pace,
    /// Markers whose status is owed.
    pub(super) line: Line,
}

/// The pod and its node, if it counts.
pub(super) fn counts(pod: &Pod) -> Option<&Arc<str>> {
    pod.node.as_ref().filter(|_| pod.initialized && pod.stage == PodStage::Active)
}

/// Tells whether nothing that counts differs.
pub(super) fn are_same(one: &Pod, other: &Pod) -> bool {
    // Both sets and shapes are there once.
    one.uid == other.uid
        && one.node == other.node
        && Arc::ptr_eq(&one.labels, &other.labels)
        && Arc::ptr_eq(&one.shape, &other.shape)
        && one.ip == other.ip
}

impl Space {
    /// The markers that select these labels, the first made first.
    pub(super) fn selecting(&self, labels: &Labels) -> Vec<Selecting> {
        let matches = |marker: &&Marker| marker.active().is_some_and(|plan| plan.selector.matches(labels));
        let carried = self.turns.carried().filter_map(|(_, name)| self.markers.get(name));
        carried.filter(matches).filter_map(Marker::selecting).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.markers.is_empty()
    }
}
