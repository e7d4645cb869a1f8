//! Durable mark of a recreate: which instance it asked the kubelet to replace, for which request, and how far
//! that got.

use crate::model::{ContainerId, ContainerName, RequestId};

/// A container instance that is to be replaced. Written before anything happens to the container, and removed
/// when the request is over: so nothing is done twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecreateMark {
    /// For this request.
    pub request: RequestId,
    /// The container's name.
    pub name: ContainerName,
    /// The instance.
    pub container: ContainerId,
    /// How far it got.
    pub phase: MarkPhase,
}

/// How far the replacement of an instance got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkPhase {
    /// The kubelet is to see a changed definition.
    Armed,
    /// It may have seen it, and may have begun to stop the container.
    Shown,
    /// Its preStop hook was begun, through the agent: it is not asked for again.
    Hooked,
    /// The agent stops it itself, the hook included.
    Stopping,
}
