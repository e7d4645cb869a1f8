//! Objects of the cluster that the indexes are told, cut down to what they decide by.
//!
//! The adapter (`crate::watch`) turns what the API server sends into these; nothing here knows how it looked
//! on the wire.

mod aside;
mod node;
mod pod;

use std::collections::BTreeMap;

use berth_proto::crd::{
    ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, ContainerUpdateRequestSpec,
    ContainerUpdateRequestStatus, ImagePullJobSpec, ImagePullJobStatus, Numbers, PersistentPodStateSpec,
    PersistentPodStateStatus, PodProbeMarkerSpec, PodProbeMarkerStatus, PodUnavailableBudgetSpec,
    PodUnavailableBudgetStatus, SidecarSetSpec, SidecarSetStatus, WorkloadSpreadSpec, WorkloadSpreadStatus,
};
use jiff::Timestamp;

pub(crate) use self::aside::Weighed;
pub use self::{
    aside::Weight,
    node::{NodeImageSeen, NodePodProbeSeen, NodePodUpdateSeen, NodeSeen},
    pod::{ContainerSeen, Owner, Phase, PodSeen, PodSpread, PodStage, Role, SidecarsSeen},
};

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

    /// Name of it for logs and metrics.
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

/// A ContainerRecreateRequest as it is now.
pub type RecreateSeen = CustomSeen<ContainerRecreateRequestSpec, ContainerRecreateRequestStatus>;
/// A ContainerUpdateRequest as it is now.
pub type UpdateSeen = CustomSeen<ContainerUpdateRequestSpec, ContainerUpdateRequestStatus>;
/// An ImagePullJob as it is now.
pub type JobSeen = CustomSeen<ImagePullJobSpec, ImagePullJobStatus>;
/// A PodProbeMarker as it is now.
pub type MarkerSeen = CustomSeen<PodProbeMarkerSpec, PodProbeMarkerStatus>;
/// A PodUnavailableBudget as it is now.
pub type BudgetSeen = CustomSeen<PodUnavailableBudgetSpec, PodUnavailableBudgetStatus>;
/// A WorkloadSpread as it is now.
pub type SpreadSeen = CustomSeen<WorkloadSpreadSpec, WorkloadSpreadStatus>;
/// A PersistentPodState as it is now.
pub type PodStateSeen = CustomSeen<PersistentPodStateSpec, PersistentPodStateStatus>;

/// An object of a custom kind as it is now.
#[derive(Clone, Debug)]
pub struct CustomSeen<S, T> {
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
    /// Annotations of it that are read.
    pub annotations: BTreeMap<String, String>,
    /// UID of the pod that a request was made for, if a webhook said so in its label.
    pub pod_uid: Option<String>,
    /// Its spec, or why it is none: a CRD of another version may let through what this one would not.
    pub spec: Result<S, String>,
    /// Its status, or why it is none.
    pub status: Result<T, String>,
    /// Size of its spec, as far as it can be read.
    pub spec_weight: Weight,
    /// Size of its status, as far as it can be read.
    pub status_weight: Weight,
    /// There is no room for it, and nothing is known of it but what tells it from others.
    pub is_aside: bool,
}

#[cfg(test)]
impl<S, T: Default> CustomSeen<S, T> {
    /// Makes one in its first version, of which nobody has said anything yet.
    pub(crate) fn of_test(namespace: &str, name: &str, spec: Result<S, String>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            resource_version: "1".to_owned(),
            generation: Some(1),
            created: None,
            deleting: false,
            annotations: BTreeMap::new(),
            pod_uid: None,
            spec,
            status: Ok(T::default()),
            spec_weight: Weight::default(),
            status_weight: Weight::default(),
            is_aside: false,
        }
    }
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
    /// Size of its spec, as far as it can be read.
    pub spec_weight: Weight,
    /// Size of its status, as far as it can be read.
    pub status_weight: Weight,
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
    pub reserved: Numbers,
}
