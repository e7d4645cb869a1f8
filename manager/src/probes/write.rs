//! Writes that the index wants, as values.

use std::sync::Arc;

use berth_proto::crd::PodProbeMarkerStatus;

use super::node::ProbedPod;
use crate::store::Key;

/// A write to a NodePodProbe.
#[derive(Clone, Debug)]
pub struct NodeProbesWrite {
    /// The name of the node, and of its NodePodProbe.
    pub node: Arc<str>,
    /// UID of the NodePodProbe.
    pub uid: Box<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Act to write.
    pub act: NodeAct,
}

/// Write to a NodePodProbe.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAct {
    /// All that is wanted of the node, sorted by UID: what is left out is taken back.
    Desired(Box<[Arc<ProbedPod>]>),
    /// The condition is taken back by which an earlier version said that nothing acts on the object.
    TakeNoticeBack,
}

/// A write to a PodProbeMarker.
#[derive(Clone, Debug)]
pub struct MarkerWrite {
    /// Which marker.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on.
    pub resource_version: Box<str>,
    /// Its status: every field that is the manager's.
    pub status: Box<PodProbeMarkerStatus>,
}
