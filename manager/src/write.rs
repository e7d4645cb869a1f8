//! A write as a value: what the indexes decide, what waits in the queue, and what the writer carries out.

use std::{sync::Arc, time::Instant};

use crate::{
    images::{JobAct, JobWrite, NodeImageWrite},
    pod_updates::PodUpdateWrite,
    probes::{MarkerWrite, NodeAct, NodeProbesWrite},
    requests::{RequestAct, StatusPatch},
    sidecarsets::SetWrite,
    store::{Key, Kind},
};

/// One write to one object. It names the UID and the version it was decided on, and must fail on any other:
/// what happened since is not known here.
#[derive(Clone, Debug)]
pub enum Write {
    /// To the status of a request.
    Request(StatusPatch),
    /// Write for a node's NodeImage.
    Node(NodeImageWrite),
    /// To the status of a job, or its deletion.
    Job(JobWrite),
    /// Write for a node's probes.
    NodeProbes(NodeProbesWrite),
    /// To the status of a PodProbeMarker.
    Marker(MarkerWrite),
    /// To the status of a SidecarSet.
    SidecarSet(SetWrite),
    /// Entries of pods in the object of their node.
    PodUpdates(PodUpdateWrite),
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub key: Key,
}

impl Write {
    /// The object.
    pub fn target(&self) -> Target {
        match self {
            Self::Request(patch) => Target { kind: patch.id.kind.object(), key: patch.id.key.clone() },
            Self::Node(order) => of_cluster(Kind::NodeImage, &order.node),
            Self::Job(order) => Target { kind: Kind::ImagePullJob, key: order.key.clone() },
            Self::NodeProbes(order) => of_cluster(Kind::NodePodProbe, &order.node),
            Self::Marker(order) => Target { kind: Kind::PodProbeMarker, key: order.key.clone() },
            Self::SidecarSet(order) => of_cluster(Kind::SidecarSet, &order.name),
            Self::PodUpdates(order) => of_cluster(Kind::NodePodUpdate, &order.node),
        }
    }

    /// UID: which object of that name it is.
    pub fn uid(&self) -> &str {
        match self {
            Self::Request(patch) => &patch.uid,
            Self::Node(order) => &order.uid,
            Self::Job(order) => &order.uid,
            Self::NodeProbes(order) => &order.uid,
            Self::Marker(order) => &order.uid,
            Self::SidecarSet(order) => &order.uid,
            Self::PodUpdates(order) => &order.uid,
        }
    }

    /// The version it was decided on.
    pub fn resource_version(&self) -> &str {
        match self {
            Self::Request(patch) => &patch.resource_version,
            Self::Node(order) => &order.resource_version,
            Self::Job(order) => &order.resource_version,
            Self::NodeProbes(order) => &order.resource_version,
            Self::Marker(order) => &order.resource_version,
            Self::SidecarSet(order) => &order.resource_version,
            Self::PodUpdates(order) => &order.resource_version,
        }
    }

    /// Time by which it is written, or not at all.
    pub fn by(&self) -> Option<Instant> {
        match self {
            Self::Request(patch) => patch.by,
            _ => None,
        }
    }

    /// Name of it for metrics and logs.
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Request(patch) => match patch.write {
                RequestAct::Assign(_) => "assign",
                RequestAct::Wait(_) => "wait",
                RequestAct::Fail(..) => "fail",
                RequestAct::Delete => "request_delete",
            },
            Self::Node(_) => "desired_images",
            Self::Job(order) => match order.act {
                JobAct::Status(_) => "job_status",
                JobAct::Delete => "job_delete",
            },
            Self::NodeProbes(order) => match order.act {
                NodeAct::Desired(_) => "desired_probes",
                NodeAct::TakeNoticeBack => "notice",
            },
            Self::Marker(_) => "marker_status",
            Self::SidecarSet(_) => "sidecarset_status",
            Self::PodUpdates(_) => "desired_pods",
        }
    }
}

/// An object without a namespace.
fn of_cluster(kind: Kind, name: &Arc<str>) -> Target {
    Target { kind, key: Key::of_cluster(name) }
}

impl From<StatusPatch> for Write {
    fn from(patch: StatusPatch) -> Self {
        Self::Request(patch)
    }
}
