//! Nodes, and the objects that their agents read and write.

use std::collections::BTreeMap;

use berth_proto::crd::{DesiredImage, DesiredPod, PodProbe, PullStatus, UpdatedPod};
use jiff::Timestamp;
use serde_json::Value;

/// A node as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A NodeImage as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodeImageSeen {
    /// The name of its node.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Its deletion has begun.
    pub deleting: bool,
    /// The UID of the Node that owns it.
    pub owner: Option<String>,
    /// Its labels, where it says that it stands without a Node.
    pub alone: Option<BTreeMap<String, String>>,
    /// `status.desiredImages`, as far as it can be read.
    pub desired: Vec<DesiredImage>,
    /// `status.pulls`, as far as it can be read.
    pub pulls: Vec<PullStatus>,
    /// `status.sealingKey`.
    pub sealing_key: Option<String>,
}

/// A NodePodProbe as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodePodProbeSeen {
    /// The name of its node.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Its deletion has begun.
    pub deleting: bool,
    /// `status.desiredPodProbes`, as far as it can be read.
    pub desired: Vec<PodProbe>,
    /// A manager of an earlier version has said on it that nothing acts on it.
    pub noticed: bool,
}

/// A NodePodUpdate as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodePodUpdateSeen {
    /// The name of its node.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Its deletion has begun.
    pub deleting: bool,
    /// `status.desiredPods`, as far as it can be read.
    pub desired: Vec<DesiredPod>,
    /// Others of its entries: which they are, and how they stand there.
    pub unreadable: Vec<(DesiredPod, Value)>,
    /// `status.pods`.
    pub pods: Vec<UpdatedPod>,
    /// Abilities of the agent, `status.features`.
    pub features: Vec<String>,
    /// Last sign of life of the agent, by its clock, `status.renewTime`.
    pub renewed: Option<Timestamp>,
}
