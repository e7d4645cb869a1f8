//! The one next step of an update, or how it ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Instant,
};

use crate::{
    in_place_update::{FailureReason, Metadata, Record, Records, Stage, Update},
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
    /// Stop these instances without the kubelet: it is held by their hooks, and nobody wants them.
    Stop(BTreeMap<ContainerName, ContainerId>),
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
    /// The state annotation, of all owners together.
    pub record: Record,
    /// Stage of a swap that begins with it.
    pub stage: Option<Stage>,
    /// Twins that it makes empty, as far as users of the pod are told of it.
    pub resets: Vec<Reset>,
    /// The records to be written, by owner; [`super::plan`] fills it in.
    pub records: Records,
}

/// A twin that gets the empty image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The twin.
    pub twin: ContainerName,
    /// The one that serves.
    pub serving: ContainerName,
    /// It has the new version, which has not taken over.
    pub gave_up: bool,
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
    /// The new version of twins, in this container, has to take over.
    Migration(ContainerName),
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
            Self::Migration(container) => {
                write!(f, "the new version in container {container} has not taken over yet")
            }
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
    pub reason: FailureReason,
    /// For people.
    pub message: String,
}

impl Failure {
    /// Failure of a request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { reason: FailureReason::InvalidRequest, message: message.into() }
    }
}
