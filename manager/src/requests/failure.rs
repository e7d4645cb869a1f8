//! Why the manager ends a request that no agent will end: the closed list of reasons and their texts.

use std::fmt;

use super::kind::RequestKind;

/// A request's end, written by the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs: the reason of the condition `Failed`.
    pub reason: Reason,
    /// For people: names what to look at.
    pub message: String,
}

impl Failure {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Reasons of the condition `Failed` that the manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The spec contradicts itself or the API.
    InvalidSpec,
    /// No pod of that name.
    PodNotFound,
    /// The pod has no node yet.
    PodNotScheduled,
    /// The pod is being deleted.
    PodTerminating,
    /// The pod has Succeeded or Failed.
    PodFinished,
    /// The pod has no container of that name.
    ContainerNotFound,
    /// The container runs once, before the others; or, for an update, it is any init container.
    InitContainer,
    /// The container has had no instance yet.
    ContainerNotStarted,
    /// The pod of the assignment does not exist any more.
    PodGone,
    /// The node of the assignment does not exist any more.
    NodeGone,
    /// The node's agent has not taken the request up.
    AgentSilent,
    /// The request's own deadline is over.
    DeadlineExceeded,
}

impl Reason {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::PodNotFound => "PodNotFound",
            Self::PodNotScheduled => "PodNotScheduled",
            Self::PodTerminating => "PodTerminating",
            Self::PodFinished => "PodFinished",
            Self::ContainerNotFound => "ContainerNotFound",
            Self::InitContainer => "InitContainer",
            Self::ContainerNotStarted => "ContainerNotStarted",
            Self::PodGone => "PodGone",
            Self::NodeGone => "NodeGone",
            Self::AgentSilent => "AgentSilent",
            Self::DeadlineExceeded => "DeadlineExceeded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// OpenKruise's text.
pub(super) const POD_GONE: &str = "pod has gone";
/// OpenKruise's text.
pub(super) const AGENT_SILENT: &str = "daemon has not responded for a long time";
/// OpenKruise's text, and one like it.
pub(super) const fn deadline_exceeded(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Recreate => "recreating has exceeded the activeDeadlineSeconds",
        RequestKind::Update => "updating has exceeded the activeDeadlineSeconds",
    }
}
