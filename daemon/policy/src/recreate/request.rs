//! Request of a `ContainerRecreateRequest`, wherever it comes from, and the report on it.

use std::time::{Duration, Instant};

use super::FailureReason;
use crate::model::{ContainerId, ContainerName, PodUid, RequestId};

/// A request to recreate containers of one pod, as its source shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecreateRequest {
    /// Identity.
    pub id: RequestId,
    /// Where it comes from, and its answer goes.
    pub origin: Origin,
    /// `namespace/name`, for people and for the shared readiness gate.
    pub key: String,
    /// When it was made, for the order among requests; ties are broken by the identity.
    pub created: Instant,
    /// The pod.
    pub pod: PodUid,
    /// `namespace/name` of the pod that it names, where somebody else says which one that is.
    pub named: Option<String>,
    /// The containers, in the order they are listed.
    pub containers: Vec<RecreateTarget>,
    /// How.
    pub strategy: RecreateStrategy,
    /// It ends then, whatever was reached.
    pub deadline: Option<Instant>,
    /// How long after its end the object is to be deleted.
    pub delete_after: Option<Duration>,
    /// Status of the request: the report that was written before, by whomever.
    pub reported: RecreateReport,
    /// When it ended; `None` while it has not.
    pub ended: Option<Instant>,
    /// Since when its pod is held not Ready, as its status says.
    pub unready_since: Option<Instant>,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An object of the API server.
    Api,
    /// A file of the desired-state directory, or the admin socket.
    File,
    /// An update in place, for a container whose env has to be read anew. It sees for itself what came of it.
    Update,
}

/// Where the object of a request is kept, with its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// At the API server.
    Api,
    /// In a file.
    File,
}

impl Origin {
    /// `None`: it is kept nowhere, and has no status that could be written.
    pub(crate) const fn source(self) -> Option<Source> {
        match self {
            Self::Api => Some(Source::Api),
            Self::File => Some(Source::File),
            Self::Update => None,
        }
    }
}

/// A container of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecreateTarget {
    /// Its name.
    pub name: ContainerName,
    /// The instance to replace, as it was when the request was assigned. A newer one means that it is
    /// replaced already.
    pub instance: ContainerId,
}

/// `spec.strategy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecreateStrategy {
    /// `failurePolicy: Ignore`: a container that fails does not end the request.
    pub ignore_failures: bool,
    /// `orderedRecreate`.
    pub ordered: bool,
    /// `forceRecreate`.
    pub force: bool,
    /// `terminationGracePeriodSeconds`; the pod's own when `None`.
    pub grace: Option<Duration>,
    /// `unreadyGracePeriodSeconds`.
    pub unready_grace: Option<Duration>,
    /// `minStartedSeconds`.
    pub min_started: Duration,
}

/// Report that the status of a request is to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecreateReport {
    /// `status.phase`; `None` before the node has answered.
    pub phase: Option<RequestPhase>,
    /// `status.message`; empty when there is nothing to say.
    pub message: String,
    /// `status.containerRecreateStates`, in the order they are listed.
    pub containers: Vec<ContainerProgress>,
    /// The conditions `Complete` and `Failed`; `None` before the end.
    pub outcome: Option<Outcome>,
    /// The condition `PreRecreateGrace`: since when the pod is held not Ready. Only its age counts.
    pub unready: bool,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestPhase {
    /// Another request for one of its containers goes first.
    Pending,
    /// Begun.
    Recreating,
    /// Ended, well or not.
    Completed,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Every container was recreated, or may have failed (`failurePolicy: Ignore`).
    Complete,
    /// It was not, for this reason.
    Failed(FailureReason),
}

/// One entry of `status.containerRecreateStates`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerProgress {
    /// Name of the container.
    pub name: ContainerName,
    /// Where it stands.
    pub phase: ContainerPhase,
    /// For people; empty when there is nothing to say.
    pub message: String,
    /// `isKilled`: its old instance was told to stop.
    pub killed: bool,
}

/// Where a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerPhase {
    /// Not begun.
    Pending,
    /// Its old instance goes, or the new one comes.
    Recreating,
    /// The new instance is there.
    Succeeded,
    /// It will not be.
    Failed,
}
