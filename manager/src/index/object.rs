//! What the index is told: objects of the cluster, cut down to what it decides by.
//!
//! The adapter (`crate::watch`) turns what the API server sends into these; nothing here knows how it looked on the wire.

use berth_proto::crd::{ContainerRecreateRequestSpec, ContainerRecreateRequestStatus};
use jiff::Timestamp;

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pods, trimmed.
    Pod,
    /// Nodes, of which only the existence counts.
    Node,
    /// ContainerRecreateRequests.
    Request,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pod, Self::Node, Self::Request];

    /// For logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::Request => "containerrecreaterequests",
        }
    }
}

/// An object as it is now.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(PodSeen),
    /// A node, by its name.
    Node(String),
    /// A request.
    Request(Box<RequestSeen>),
}

/// A pod as it is now.
#[derive(Clone, Debug)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Where it is scheduled to.
    pub node: Option<String>,
    /// How far through its life it is.
    pub stage: PodStage,
    /// Init containers and containers of its spec, with what its status says of them.
    pub containers: Vec<ContainerSeen>,
}

/// How far through its life a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// Not yet at its end.
    Active,
    /// Its deletion has begun.
    Terminating,
    /// Its phase is Succeeded or Failed.
    Finished,
}

/// A container of a pod.
#[derive(Clone, Debug)]
pub struct ContainerSeen {
    /// Its name.
    pub name: String,
    /// What it is to its pod.
    pub role: Role,
    /// Its newest instance, with the scheme of its runtime; `None` while there was none.
    pub id: Option<String>,
    /// `restartCount` of that instance.
    pub restarts: i32,
}

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of `spec.containers`.
    Regular,
    /// An init container that restarts always.
    Sidecar,
    /// An init container that runs once.
    Init,
}

/// A ContainerRecreateRequest as it is now.
#[derive(Clone, Debug)]
pub struct RequestSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Its spec, or why it is none: a CRD of another version may let through what this one would not.
    pub spec: Result<ContainerRecreateRequestSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<ContainerRecreateRequestStatus, String>,
}
