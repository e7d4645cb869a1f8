//! The facts about a pod, as they are converted from the API server's object and from what the node knows.
//! Nothing is judged here; times of the API are durations since the epoch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    in_place_update::{EnvHash, Liveness, Metadata, MetadataKey, Presence, Records},
    instances::{InstanceView, Moment},
    model::{ContainerId, ContainerName, PodUid, RestartPolicy, RestartRule},
};

/// One version of a pod, as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// UIDs under which requests may name it: a static pod has that of its mirror as well.
    pub uids: Vec<PodUid>,
    /// `metadata.resourceVersion`, as a number that grows.
    pub version: u64,
    /// `namespace/name`, where that is known.
    pub named: Option<String>,
    /// UID of the owner that decides on it.
    pub controller: Option<Arc<str>>,
    /// Liveness of the pod: says whether it can be updated at all.
    pub liveness: Liveness,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `status.observedGeneration`. Kubelets before 1.34 do not tell.
    pub observed_generation: Option<i64>,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// It has `spec.imagePullSecrets`.
    pub has_pull_secrets: bool,
    /// Labels and annotations.
    pub metadata: Metadata,
    /// The readiness gate `InPlaceUpdateReady`.
    pub gate: GateView,
    /// The annotations with the progress of updates, by owner.
    pub records: Records,
    /// `spec.containers`, in their order.
    pub containers: Vec<DeclaredContainer>,
}

impl PodView {
    /// Tells whether the kubelet is asked for the same by both versions.
    pub(crate) fn asks_as(&self, other: &Self) -> bool {
        self.generation.is_some()
            && self.generation == other.generation
            && self.metadata == other.metadata
            && self.gate == other.gate
    }
}

/// The readiness gate and its condition, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateView {
    /// The pod has no such gate.
    Absent,
    /// Nobody has written the condition.
    Unwritten,
    /// The condition is True.
    Ready,
    /// The condition is not True.
    NotReady {
        /// Its transition time, in whole seconds.
        since: Option<Duration>,
    },
}

/// One of `spec.containers`, with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredContainer {
    /// Its name.
    pub name: ContainerName,
    /// Its image.
    pub image: Arc<str>,
    /// The kubelet's hash of a definition with this name and image.
    pub definition: u32,
    /// Its own `restartPolicy`; it takes the place of the pod's.
    pub restart_policy: Option<RestartPolicy>,
    /// Its `restartPolicyRules`: exits that are followed by a restart, against its policy.
    pub restart_rules: Vec<RestartRule>,
    /// Its launch priority; `None` in a pod without a launch order.
    pub priority: Option<i32>,
    /// Env variables that come from labels and annotations, by name.
    pub references: BTreeMap<String, EnvReference>,
    /// Hash of the values that they would have in a container created now.
    pub env: EnvHash,
    /// A probe has to succeed before it is Ready.
    pub is_probed: bool,
    /// Its postStart hook, which has to succeed before it is Ready.
    pub hook: DeclaredHook,
    /// Its entry in `status.containerStatuses`.
    pub status: Option<ContainerStatusView>,
}

/// The postStart hook of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredHook {
    /// There is none.
    #[default]
    None,
    /// A command, whose end the shim sees.
    Command,
    /// The kubelet runs it by itself.
    Other,
}

/// Source of an env variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvReference {
    /// Label or annotation that it takes its value from.
    pub key: MetadataKey,
    /// The kubelet puts the value into another variable, or into the command (`$(NAME)`).
    pub is_expanded: bool,
}

/// Status of a container, as the kubelet reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStatusView {
    /// CRI identity.
    pub id: Option<ContainerId>,
    /// `imageID`.
    pub image_id: String,
    /// `ready`.
    pub ready: bool,
    /// `restartCount`.
    pub restarts: u32,
    /// `state.running` is there.
    pub runs: bool,
    /// `state.running.startedAt`.
    pub started: Option<Duration>,
    /// `state.waiting.reason` is `CrashLoopBackOff`.
    pub backs_off: bool,
    /// `lastState.terminated.startedAt`.
    pub last_started: Option<Duration>,
}

/// Knowledge of the node about a pod, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// The newest instance of each container in the runtime.
    pub instances: BTreeMap<ContainerName, InstanceView>,
    /// All exited instances of each container.
    pub exited: BTreeMap<ContainerName, BTreeSet<ContainerId>>,
    /// When a kubelet last listed all containers through this agent; `None`: none does.
    pub relisted: Option<Moment>,
    /// The images that were wished for, with how far they are.
    pub images: BTreeMap<Arc<str>, Presence>,
}

/// Facts that a container was created with, reduced to hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWith {
    /// The kubelet's hash of its definition; `None`: nobody tells.
    pub definition: Option<u32>,
    /// The env values that come from labels and annotations; `None`: nobody tells.
    pub env: Option<EnvHash>,
    /// When its process ended; `None` while it has not.
    pub finished: Option<Duration>,
    /// It had exited when the runtime was asked: the runtime can tell no more.
    pub exited: bool,
}

/// Whether the agent may write to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UpdatePermission {
    /// Nobody knows yet.
    #[default]
    Unknown,
    /// It may.
    Given,
    /// It may not; why, and what to do about that.
    Denied(String),
}
