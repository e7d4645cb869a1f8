//! Objects of the cluster that the indexes are told, cut down to what they decide by.
//!
//! The adapter (`crate::watch`) turns what the API server sends into these; nothing here knows how it looked
//! on the wire.

use std::{collections::BTreeMap, net::IpAddr};

use berth_proto::crd::{
    ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, ContainerUpdateRequestSpec,
    ContainerUpdateRequestStatus, DesiredImage, DesiredPod, ImagePullJobSpec, ImagePullJobStatus,
    PersistentPodStateSpec, PersistentPodStateStatus, PodProbe, PodProbeMarkerSpec, PodProbeMarkerStatus,
    PodUnavailableBudgetSpec, PodUnavailableBudgetStatus, PullStatus, SidecarSetSpec, SidecarSetStatus,
    UpdatedPod, WorkloadSpreadSpec, WorkloadSpreadStatus,
};
use jiff::Timestamp;

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Pods, trimmed.
    Pod,
    /// Nodes: metadata.
    Node,
    /// ContainerRecreateRequests.
    Request,
    /// ContainerUpdateRequests.
    Update,
    /// NodeImages, trimmed.
    NodeImage,
    /// ImagePullJobs.
    ImagePullJob,
    /// PodProbeMarkers.
    PodProbeMarker,
    /// NodePodProbes, trimmed.
    NodePodProbe,
    /// Namespaces: metadata.
    Namespace,
    /// SidecarSets.
    SidecarSet,
    /// NodePodUpdates.
    NodePodUpdate,
    /// PodUnavailableBudgets.
    Budget,
    /// WorkloadSpreads.
    Spread,
    /// PersistentPodStates.
    PodState,
    /// StatefulSets of Kubernetes, trimmed.
    StatefulSet,
    /// Advanced StatefulSets, trimmed.
    AdvancedSet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Pod,
        Self::Node,
        Self::Request,
        Self::Update,
        Self::NodeImage,
        Self::ImagePullJob,
        Self::PodProbeMarker,
        Self::NodePodProbe,
        Self::Namespace,
        Self::SidecarSet,
        Self::NodePodUpdate,
        Self::Budget,
        Self::Spread,
        Self::PodState,
        Self::StatefulSet,
        Self::AdvancedSet,
    ];

    /// For logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::Request => "containerrecreaterequests",
            Self::Update => "containerupdaterequests",
            Self::NodeImage => "nodeimages",
            Self::ImagePullJob => "imagepulljobs",
            Self::PodProbeMarker => "podprobemarkers",
            Self::NodePodProbe => "nodepodprobes",
            Self::Namespace => "namespaces",
            Self::SidecarSet => "sidecarsets",
            Self::NodePodUpdate => "nodepodupdates",
            Self::Budget => "podunavailablebudgets",
            Self::Spread => "workloadspreads",
            Self::PodState => "persistentpodstates",
            Self::StatefulSet => "statefulsets",
            Self::AdvancedSet => "statefulsets.apps.kruise.io",
        }
    }
}

/// An object as it is now.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(PodSeen),
    /// A node.
    Node(NodeSeen),
    /// A request to recreate containers.
    Request(Box<RecreateSeen>),
    /// A request to update a pod.
    Update(Box<UpdateSeen>),
    /// The images of a node.
    NodeImage(Box<NodeImageSeen>),
    /// A job.
    ImagePullJob(Box<JobSeen>),
    /// Probes of one's own.
    PodProbeMarker(Box<MarkerSeen>),
    /// The probes of a node.
    NodePodProbe(Box<NodePodProbeSeen>),
    /// A namespace.
    Namespace(NamespaceSeen),
    /// Sidecars of pods.
    SidecarSet(Box<SidecarSetSeen>),
    /// The updates of a node.
    NodePodUpdate(Box<NodePodUpdateSeen>),
    /// A limit of how many pods are unavailable.
    Budget(Box<BudgetSeen>),
    /// A spread of a workload's pods.
    Spread(Box<SpreadSeen>),
    /// Records of where pods ran.
    PodState(Box<PodStateSeen>),
    /// A StatefulSet of either group.
    StatefulSet(SetSeen),
}

impl Object {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Pod(_) => Kind::Pod,
            Self::Node(_) => Kind::Node,
            Self::Request(_) => Kind::Request,
            Self::Update(_) => Kind::Update,
            Self::NodeImage(_) => Kind::NodeImage,
            Self::ImagePullJob(_) => Kind::ImagePullJob,
            Self::PodProbeMarker(_) => Kind::PodProbeMarker,
            Self::NodePodProbe(_) => Kind::NodePodProbe,
            Self::Namespace(_) => Kind::Namespace,
            Self::SidecarSet(_) => Kind::SidecarSet,
            Self::NodePodUpdate(_) => Kind::NodePodUpdate,
            Self::Budget(_) => Kind::Budget,
            Self::Spread(_) => Kind::Spread,
            Self::PodState(_) => Kind::PodState,
            Self::StatefulSet(seen) if seen.advanced => Kind::AdvancedSet,
            Self::StatefulSet(_) => Kind::StatefulSet,
        }
    }
}

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

/// A pod as it is now.
#[derive(Clone, Debug)]
pub struct PodSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its `resourceVersion`; 0 if it is no number.
    pub version: u64,
    /// Where it is scheduled to.
    pub node: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How far through its life it is.
    pub stage: PodStage,
    /// Its condition `Initialized` is True.
    pub initialized: bool,
    /// `status.podIP`, once there is one that can be read.
    pub ip: Option<IpAddr>,
    /// Init containers and containers of its spec, with what its status says of them.
    pub containers: Vec<ContainerSeen>,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// It is the API's copy of a static pod.
    pub mirror: bool,
    /// Sidecars that SidecarSets have put into it; none for a pod without them.
    pub sidecars: Option<Box<SidecarsSeen>>,
    /// Its subset of a WorkloadSpread; none for a pod without one.
    pub spread: Option<Box<PodSpread>>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// It runs, is ready, runs what its spec says, and nobody marked it as unavailable.
    pub available: bool,
    /// Its condition `Ready` is True.
    pub ready: bool,
}

/// Subset of a pod as its annotation has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpread {
    /// Name of the WorkloadSpread.
    pub name: String,
    /// Name of the subset.
    pub subset: String,
    /// Name that it was let in by, where it had none of its own.
    pub entry: Option<String>,
    /// The scheduler finds no node for it.
    pub unschedulable: bool,
}

/// Controller of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its API version, with the group.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
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
    /// Role of the container in its pod.
    pub role: Role,
    /// Its newest instance, with the scheme of its runtime; `None` while there was none.
    pub id: Option<String>,
    /// `restartCount` of that instance.
    pub restarts: i32,
    /// Its ports that have a name.
    pub ports: Vec<(String, u16)>,
}

/// Role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// One of `spec.containers`.
    Regular,
    /// An init container that restarts always.
    Sidecar,
    /// An init container that runs once.
    Init,
}

/// A ContainerRecreateRequest as it is now.
pub type RecreateSeen = RequestSeen<ContainerRecreateRequestSpec, ContainerRecreateRequestStatus>;
/// A ContainerUpdateRequest as it is now.
pub type UpdateSeen = RequestSeen<ContainerUpdateRequestSpec, ContainerUpdateRequestStatus>;

/// A request as it is now, of either kind.
#[derive(Clone, Debug)]
pub struct RequestSeen<S, T> {
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
    pub spec: Result<S, String>,
    /// Its status, or why it is none.
    pub status: Result<T, String>,
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
    /// `status.desiredImages`, as far as it can be read.
    pub desired: Vec<DesiredImage>,
    /// `status.pulls`, as far as it can be read.
    pub pulls: Vec<PullStatus>,
    /// `status.sealingKey`.
    pub sealing_key: Option<String>,
}

/// An ImagePullJob as it is now.
#[derive(Clone, Debug)]
pub struct JobSeen {
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
    /// Its spec, or why it is none.
    pub spec: Result<ImagePullJobSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<ImagePullJobStatus, String>,
}

/// A PodProbeMarker as it is now.
#[derive(Clone, Debug)]
pub struct MarkerSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Counts its specs.
    pub generation: Option<i64>,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Its spec, or why it is none.
    pub spec: Result<PodProbeMarkerSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<PodProbeMarkerStatus, String>,
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

/// Sidecars of a pod as its annotations, its spec and its status have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarsSeen {
    /// Names of the sets that the pod says it has.
    pub listed: Vec<String>,
    /// Hash of the sidecars that it has, by set.
    pub hashes: BTreeMap<String, String>,
    /// The same without images.
    pub without_image: BTreeMap<String, String>,
    /// Name of the revision that it has, by set.
    pub revisions: BTreeMap<String, String>,
    /// Twin that works, by sidecar.
    pub working: BTreeMap<String, String>,
    /// Images of its containers, by name.
    pub images: BTreeMap<String, String>,
    /// Containers that do not run yet what the pod's spec says.
    pub unsettled: Vec<String>,
    /// Its phase.
    pub phase: Phase,
    /// Its condition `Ready` is True.
    pub ready: bool,
    /// When that condition last changed.
    pub ready_since: Option<Timestamp>,
}

/// Phase of a pod that has not ended, in the order in which an upgrade comes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing runs yet.
    #[default]
    Pending,
    /// Its node is silent.
    Unknown,
    /// It runs.
    Running,
}

/// A namespace as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSeen {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A SidecarSet as it is now.
#[derive(Clone, Debug)]
pub struct SidecarSetSeen {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Counts its specs.
    pub generation: Option<i64>,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Version that its author gave the sidecars.
    pub custom_version: Option<String>,
    /// Annotations of it that are read.
    pub annotations: BTreeMap<String, String>,
    /// Its spec, or why it is none.
    pub spec: Result<SidecarSetSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<SidecarSetStatus, String>,
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
    /// `status.desiredPods`.
    pub desired: Vec<DesiredPod>,
    /// `status.pods`.
    pub pods: Vec<UpdatedPod>,
    /// Abilities of the agent, `status.features`.
    pub features: Vec<String>,
}

/// A PodUnavailableBudget as it is now.
#[derive(Clone, Debug)]
pub struct BudgetSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Counts its specs.
    pub generation: Option<i64>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Annotations of it that are read.
    pub annotations: BTreeMap<String, String>,
    /// Its spec, or why it is none.
    pub spec: Result<PodUnavailableBudgetSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<PodUnavailableBudgetStatus, String>,
}

/// A WorkloadSpread as it is now.
#[derive(Clone, Debug)]
pub struct SpreadSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Counts its specs.
    pub generation: Option<i64>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Its spec, or why it is none.
    pub spec: Result<WorkloadSpreadSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<WorkloadSpreadStatus, String>,
}

/// A PersistentPodState as it is now.
#[derive(Clone, Debug)]
pub struct PodStateSeen {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Counts its specs.
    pub generation: Option<i64>,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Its spec, or why it is none.
    pub spec: Result<PersistentPodStateSpec, String>,
    /// Its status, or why it is none.
    pub status: Result<PersistentPodStateStatus, String>,
}

/// A StatefulSet of either group as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSeen {
    /// It is one of `apps.kruise.io`.
    pub advanced: bool,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its deletion has begun.
    pub deleting: bool,
    /// Pods that it wants.
    pub replicas: i32,
    /// Number of its first pod.
    pub start: i32,
    /// Numbers that it leaves out.
    pub reserved: Vec<i32>,
}
