//! The one next step of an update, or how it ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Instant,
};

use crate::{
    in_place_update::{Metadata, Record, Update},
    model::{ContainerId, ContainerName},
};

/// Step that is to be done now. Its executor decides nothing, and asks again when something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// See to it that these images are on the node and stay there.
    Pull(BTreeSet<Arc<str>>),
    /// Write the condition `InPlaceUpdateReady` False, reason `StartInPlaceUpdate`.
    SetNotReady,
    /// Nothing, until something changes or `until` has come.
    Wait {
        /// Ask again by then; `None`: the update has no deadline.
        until: Option<Instant>,
        /// Reason of the wait.
        why: Why,
    },
    /// Remove these exited instances.
    Clear(BTreeSet<ContainerId>),
    /// Write all of this with one patch, for exactly the version of the pod that was observed.
    Patch(PodPatch),
    /// Restart these instances of these containers, each once however often it is said.
    Recreate(BTreeMap<ContainerName, ContainerId>),
    /// Write the condition `InPlaceUpdateReady` True.
    SetReady,
    /// The pod is what is wanted, and all of it that was asked for is Ready.
    Done,
    /// It failed, and this is wanted from now on instead. The caller gives it a revision of its own if the
    /// one it returns to could be mistaken for this one, and a deadline.
    RollBack(Update, Failure),
    /// It failed, and nothing further is done.
    Failed(Failure),
}

/// One patch of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPatch {
    /// New images.
    pub images: BTreeMap<ContainerName, Arc<str>>,
    /// New values of labels and annotations.
    pub metadata: Metadata,
    /// The state annotation.
    pub record: Record,
}

/// Reason for which an update waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Senders of traffic have to learn that the pod is not ready.
    Grace,
    /// The kubelet has to look at the runtime again, where exited instances were removed.
    Relist,
    /// The kubelet has to learn what the pod is now.
    Kubelet,
    /// The container has to be started with what is wanted.
    Restart(ContainerName),
    /// The container runs what is wanted, and has to become Ready.
    Ready {
        /// Which one.
        container: ContainerName,
        /// Its restarts so far, which say whether it is slow or falls over.
        restarts: u32,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grace => f.write_str("the grace period after the pod was set not ready has not passed"),
            Self::Relist => f.write_str("the kubelet has not looked since exited instances were removed"),
            Self::Kubelet => f.write_str("the kubelet does not know the updated pod yet"),
            Self::Restart(container) => write!(f, "container {container} does not run what is wanted yet"),
            Self::Ready { container, restarts } => {
                write!(
                    f,
                    "container {container} runs what is wanted and is not Ready (restart count {restarts})"
                )
            }
        }
    }
}

/// Why an update failed. `message` is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// The ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kubelet replaces a static pod as a whole whenever its manifest changes.
    StaticPod,
    /// The pod is being deleted, or is gone.
    PodGone,
    /// The pod has run to its end.
    PodEnded,
    /// The update names a container that is not in `spec.containers`.
    NoSuchContainer,
    /// A container that would have to be restarted has ended for good.
    ContainerEnded,
    /// An image could not be pulled.
    ImageNotPulled,
    /// The API server does not take what is asked for.
    Refused,
    /// Crash loop: the wanted version falls over whenever it is started.
    CrashLoop,
    /// It took longer than allowed.
    DeadlineExceeded,
    /// Newer requests ask for something else of all that it names.
    Replaced,
    /// The agent's identity may not write to pods.
    NotPermitted,
    /// The request makes no sense.
    Invalid,
}

impl Reason {
    const ALL: [Self; 12] = [
        Self::StaticPod,
        Self::PodGone,
        Self::PodEnded,
        Self::NoSuchContainer,
        Self::ContainerEnded,
        Self::ImageNotPulled,
        Self::Refused,
        Self::CrashLoop,
        Self::DeadlineExceeded,
        Self::Replaced,
        Self::NotPermitted,
        Self::Invalid,
    ];

    /// The CamelCase word of conditions.
    pub fn name(self) -> &'static str {
        match self {
            Self::StaticPod => "StaticPod",
            Self::PodGone => "PodGone",
            Self::PodEnded => "PodEnded",
            Self::NoSuchContainer => "ContainerNotFound",
            Self::ContainerEnded => "ContainerEnded",
            Self::ImageNotPulled => "ImageNotPulled",
            Self::Refused => "Refused",
            Self::CrashLoop => "CrashLoop",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::Replaced => "Replaced",
            Self::NotPermitted => "NotPermitted",
            Self::Invalid => "InvalidRequest",
        }
    }

    /// The reason of this name, as it was written before; `None` for one that is written by others only.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
