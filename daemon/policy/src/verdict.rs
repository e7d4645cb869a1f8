//! Verdicts on a call, and why. Closed lists: an edge that turns them into a gRPC status or a metric label
//! matches all of them.

use std::time::{Duration, Instant};

use crate::{
    launch_priority::OrderError,
    model::{ContainerId, ContainerName, PodRef, SandboxId},
};

/// The answer to [`crate::Node::admit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send the original bytes on.
    Forward,
    /// Write this down durably, then send the original bytes on.
    Latch(Latch),
    /// Change the request in this way, and nothing else, and send it on.
    Amend(Amendment),
    /// Ask again after the next change, and at the latest then.
    Hold {
        /// The end of this hold; asked at or after it, the verdict is another one.
        until: Instant,
        /// For people and metrics.
        why: HoldReason,
    },
    /// Answer with an error; the runtime never sees the call.
    Refuse(Refusal),
}

/// The barrier of a launch level was passed in this sandbox; it never closes again, whatever happens to the
/// containers above it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Latch {
    /// The sandbox it belongs to; it goes when the sandbox goes.
    pub sandbox: SandboxId,
    /// The launch priority whose containers may start.
    pub priority: i32,
}

/// A change of a request on its way to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amendment {
    /// Set `StopContainerRequest.timeout`, in whole seconds.
    StopTimeout(Duration),
}

/// State of a container that the kubelet is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// State as the runtime reports it.
    Truth,
    /// Made from another definition than the pod's: the kubelet stops it and starts it anew.
    OtherDefinition,
    /// The same, and running: the kubelet does so whatever the restart policy. Only of a container that has
    /// exited because the agent asked for it, at a moment when nobody could tell the kubelet to go on.
    StillRunning,
    /// Created and not started. Only of such a container beside its successor, which was created and not
    /// started: the kubelet would take the exit for the pod's end.
    NotStarted,
    /// With the exit code 0, should it have exited. Only of a job sidecar that was marked before the agent
    /// stopped it.
    Completed,
}

/// Outcome for a lifecycle hook that the kubelet begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTurn {
    /// It runs.
    Run,
    /// It was begun before, for the same stop of the same container: it is answered as done.
    AlreadyRun,
}

/// One made-up entry in one list of containers, so that the kubelet looks at this pod again (PLEG re-inspects
/// a pod only when its part of the list changed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudge {
    /// Whose pod.
    pub pod: PodRef,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// The identity of the container that is not there; never used twice.
    pub container: ContainerId,
}

/// Why a call waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The pod view has not shown this pod yet.
    PodUnknown,
    /// The runtime is being asked what runs in the sandbox.
    Inspection,
    /// These containers, and perhaps others, run and are not Ready yet.
    NotReady(Vec<ContainerName>),
    /// These containers were started in this second of the wall clock.
    SameSecond(Vec<ContainerName>),
    /// It is not clear yet whether the whole pod is being stopped.
    PodKillUnclear,
    /// These lower containers, and perhaps others, have not exited yet.
    StillRunning(Vec<ContainerName>),
    /// The agent, a process of its own, is away. Only the data path says so.
    AgentAway,
}

impl HoldReason {
    /// A constant word for logs and metric labels.
    pub fn label(&self) -> &'static str {
        match self {
            Self::PodUnknown => "pod-unknown",
            Self::Inspection => "inspection",
            Self::NotReady(_) => "not-ready",
            Self::SameSecond(_) => "same-second",
            Self::PodKillUnclear => "pod-kill-unclear",
            Self::StillRunning(_) => "still-running",
            Self::AgentAway => "agent-away",
        }
    }

    /// The containers waited for; empty when it is not containers that are waited for.
    pub fn waiting_for(&self) -> &[ContainerName] {
        match self {
            Self::NotReady(names) | Self::SameSecond(names) | Self::StillRunning(names) => names,
            Self::PodUnknown | Self::Inspection | Self::PodKillUnclear | Self::AgentAway => &[],
        }
    }
}

/// Why a call is not let through. `Display` is what the user reads in the pod's status, so the same cause
/// always gives the same text: the kubelet merges equal events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Containers of a higher priority are not there yet: the first of them.
    #[error("launch order: waiting for container(s) {}", join(.0))]
    Waiting(Vec<ContainerName>),
    /// The declared order cannot be read.
    #[error("launch order: {0}")]
    BadOrder(OrderError),
    /// The pod is being deleted: nothing new starts in it.
    #[error("launch order: the pod is terminating")]
    Terminating,
    /// The pod declares an order, but the pod view does not show the pod.
    #[error(
        "launch order: the agent does not see the pod yet; the kubelet asks again, and on the node berthctl status says \
         why (Pod view)"
    )]
    PodUnknown,
    /// The runtime did not say what runs in the sandbox.
    #[error(
        "launch order: the runtime does not tell which containers of the pod run; the kubelet asks again, and on the node \
         berthctl status says why (Runtime)"
    )]
    RuntimeSilent,
    /// The agent is going away; the kubelet asks again.
    #[error("launch order: the agent is restarting")]
    Draining,
    /// The agent, a process of its own, is away, and nobody else knows whether the container's turn has come.
    #[error(
        "launch order: not ready, the agent is away; the kubelet asks again, and on the node journalctl -u berthd, or the \
         log of its pod, says why"
    )]
    AgentAway,
}

impl Refusal {
    /// A constant word for logs and metric labels.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting",
            Self::BadOrder(_) => "bad-order",
            Self::Terminating => "terminating",
            Self::PodUnknown => "pod-unknown",
            Self::RuntimeSilent => "runtime-silent",
            Self::Draining => "draining",
            Self::AgentAway => "agent-away",
        }
    }
}

/// Names that a reason has room for. The author of a pod with thousands of containers must not have each of
/// them remember the names of all others.
const MOST_NAMED: usize = 16;

/// The first of these containers, and one more than a text has room for where there are more.
pub(crate) fn named<'a>(containers: impl IntoIterator<Item = &'a ContainerName>) -> Vec<ContainerName> {
    containers.into_iter().take(MOST_NAMED.saturating_add(1)).cloned().collect()
}

/// A text with these names, as [`named`] takes them.
pub(crate) fn join(names: &[ContainerName]) -> String {
    let mut text = names.iter().take(MOST_NAMED).map(ContainerName::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMED {
        text.push_str(" and others");
    }
    text
}
