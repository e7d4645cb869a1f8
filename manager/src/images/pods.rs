//! The pods that count for a `podSelector`: scheduled, not finished, not being deleted. A job sees only those
//! of its namespace.

use std::sync::Arc;

use crate::store::{Labels, Pod, PodStage};

/// A pod that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodAt<'a> {
    pub(super) node: &'a Arc<str>,
    pub(super) labels: &'a Labels,
}

/// The pod, if it counts.
pub(super) fn counts(pod: Option<&Arc<Pod>>) -> Option<PodAt<'_>> {
    let pod = pod.filter(|pod| pod.stage == PodStage::Active)?;
    Some(PodAt { node: pod.node.as_ref()?, labels: &pod.labels })
}
