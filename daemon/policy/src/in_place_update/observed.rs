//! The facts about one pod, as the pod view, the shim and the state annotation give them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    in_place_update::{Before, Record, Records},
    model::{ContainerId, ContainerName},
};

/// Part of `metadata` that an env entry can refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataKey {
    /// `metadata.labels['…']`.
    Label(String),
    /// `metadata.annotations['…']`.
    Annotation(String),
}

/// Values of labels and annotations.
pub type Metadata = BTreeMap<MetadataKey, String>;

/// Stands for the env values that come from labels and annotations. Equal means equal values; the values
/// themselves may be secret and never get here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvHash(pub u64);

/// One pod. Spec, metadata, gate and record are of one and the same version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Liveness of the pod: says whether it can be updated at all.
    pub liveness: Liveness,
    /// `namespace/name` of the pod, where that is known.
    pub named: Option<String>,
    /// UID of the owner that decides on the pod.
    pub controller: Option<Arc<str>>,
    /// `spec.containers`, in their order.
    pub containers: Vec<ContainerView>,
    /// Its labels and annotations.
    pub metadata: Metadata,
    /// The readiness gate `InPlaceUpdateReady`.
    pub gate: Gate,
    /// The record that the decision goes by: the annotation `apps.kruise.io/inplace-update-state`, or what
    /// the records of several owners say together. [`super::plan`] fills it in.
    pub record: Option<Record>,
    /// The records of all owners.
    pub records: Records,
    /// A record of one of several owners says something old.
    pub is_record_old: bool,
    /// The kubelet knows this version of the pod, or a later one. As long as it does not, a container may be
    /// started with the images and values of an older one, so none is restarted and nothing is called
    /// complete.
    pub kubelet_knows: bool,
    /// The kubelet was told of this version of the pod; its worker may be busy with an older one.
    pub kubelet_told: bool,
    /// Known presence of images on the node; an image that is not in it is unknown.
    pub images: BTreeMap<Arc<str>, Presence>,
    /// The API server refuses what this revision would write next, in its words.
    pub refused: Option<(String, String)>,
    /// The API server does not take the next write for now, in its words.
    pub held: Option<String>,
    /// When this is so, in seconds since the epoch: the times of records are compared with it.
    pub wall: i64,
    /// State of the pod before the update; needed only to return to it.
    pub before: Option<Before>,
}

/// Liveness of a pod, which says whether it can be updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It can.
    Alive,
    /// It is being deleted, or is gone already.
    Gone,
    /// `status.phase` is Succeeded or Failed.
    Ended,
    /// It comes from a manifest of the kubelet.
    Static,
}

/// The readiness gate `InPlaceUpdateReady` and its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The pod has no such gate: nobody can be told, so there is no grace either.
    Absent,
    /// The pod has the gate, and nobody has written the condition yet.
    Unwritten,
    /// The condition is True.
    Ready,
    /// The condition is False.
    NotReady {
        /// Its transition time.
        since: Instant,
    },
}

/// Whether an image is on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Not known, or its pull goes on.
    Unknown,
    /// It is there.
    Present,
    /// It could not be pulled, for this reason, and nobody tries any more.
    Failed(String),
}

/// One of `spec.containers`, and what runs for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Its name.
    pub name: ContainerName,
    /// Its image in the spec.
    pub image: Arc<str>,
    /// Its launch priority; `None` in a pod without a launch order.
    pub priority: Option<i32>,
    /// The labels and annotations that its env refers to. Entries with a literal value of the same name are
    /// not in it.
    pub reads: BTreeSet<MetadataKey>,
    /// Hash of the env values that the container would have if it were created with the present metadata.
    pub env: EnvHash,
    /// Its newest instance.
    pub instance: Option<Instance>,
    /// Its exited instances beside that one.
    pub leftovers: Leftovers,
}

/// Exited instances of a container, from which the kubelet computes how long it holds back the next one: it
/// takes them as a sign that the image keeps crashing, if it started that image before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// There are none, as far as anybody can tell.
    None,
    /// The runtime has these.
    There(BTreeSet<ContainerId>),
    /// They were removed, and the kubelet, which looks once a second, may believe them to be there until
    /// then.
    Removed {
        /// The end of the wait, which is bounded: where the kubelet does not list through the agent nobody
        /// sees it look.
        until: Instant,
    },
}

/// A container of the runtime, with what its CreateContainer call said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its CRI identity.
    pub id: ContainerId,
    /// Whether it was created for the image that the spec names now.
    pub image: ImageMatch,
    /// The `imageID` the pod status reports of it.
    pub image_id: String,
    /// The env values it was created with; `None` when nobody saw that, which counts as other ones.
    pub env: Option<EnvHash>,
    /// Life of the instance: says whether it runs.
    pub life: Life,
    /// It runs, steadily, and nothing has to succeed any more before the kubelet calls it Ready, which it
    /// does with its next look.
    pub early_ready: bool,
    /// It has a postStart hook, whether that has ended or not.
    pub hooked: bool,
    /// It has a postStart hook, and as far as anybody can tell that has not ended.
    pub in_hook: bool,
    /// `restartCount`, for people.
    pub restarts: u32,
}

/// Relation of an instance's image to the one that the spec names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageMatch {
    /// Not known: nobody tells what it was created for. It counts as another one, as the kubelet takes it.
    Unknown,
    /// The same, by the kubelet's hash of the container's definition.
    Wanted,
    /// Another one; by which name does not matter.
    Other,
}

/// Whether an instance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, and nobody is stopping it.
    Running {
        /// The kubelet calls it Ready.
        ready: bool,
    },
    /// It does not run yet, is being stopped, or has exited and is started again.
    Restarting,
    /// It has exited because the kubelet stopped it for what is wanted now, and starts the next one in the
    /// same pass; or it is the next one, just before that. The kubelet tells nothing of the pod before it is
    /// through.
    Stopped,
    /// It has exited again and again, and the kubelet waits before it starts it once more
    /// (`CrashLoopBackOff`).
    Crashing,
    /// It has exited, and the restart policy leaves it so.
    Ended,
}

impl Observed {
    /// Returns how long ago a time of a record is.
    pub(super) fn since(&self, at: i64) -> Duration {
        Duration::from_secs(self.wall.saturating_sub(at).try_into().unwrap_or(0))
    }

    /// Words for a write that is not taken for now.
    pub(super) fn held_back(&self) -> Option<String> {
        self.held.as_ref().map(|why| format!("waits until the API server takes the next step: {why}"))
    }
}

impl ContainerView {
    /// The kubelet owes its restart: it runs for another image than the spec names.
    pub(super) fn is_image_stale(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.image != ImageMatch::Wanted)
    }

    /// Reports whether the existing instance was created with other values than it would be now.
    pub(super) fn is_env_stale(&self) -> bool {
        !self.reads.is_empty()
            && self.instance.as_ref().is_some_and(|instance| instance.env != Some(self.env))
    }

    pub(super) fn is_running(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| matches!(instance.life, Life::Running { .. }))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.life == Life::Running { ready: true })
    }

    /// The kubelet is about to call it Ready, if it has not done so.
    pub(super) fn is_early_ready(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.early_ready) && self.is_running()
    }

    /// It has a postStart hook, whether that has ended or not.
    pub(super) fn is_hooked(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.hooked)
    }

    /// The kubelet's worker may be held by its hook.
    pub(super) fn is_in_hook(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.in_hook) && self.is_running()
    }

    pub(super) fn was_stopped(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.life == Life::Stopped)
    }

    pub(super) fn is_crashing(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.life == Life::Crashing)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.life == Life::Ended)
    }
}
