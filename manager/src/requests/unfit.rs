//! Why a pod, or a container of it, cannot be asked for: the reason and the words that a request is refused
//! with, and that its status has.

use super::failure::{Failure, FailureReason};
use crate::store::PodStage;

/// Obstacle to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit<'a> {
    /// No pod of that name is in this namespace.
    NoPod(&'a str),
    /// The pod is being deleted.
    Terminating,
    /// The pod has ended.
    Finished,
    /// The pod has no node.
    NotScheduled,
    /// The pod has no container of this name.
    NoContainer(&'a str),
    /// The container runs once, before the others.
    Init(&'a str),
    /// The container is among the init containers, which no update reaches.
    NotUpdated(&'a str),
    /// The container has no instance.
    NeverStarted(&'a str),
}

impl Unfit<'_> {
    /// Obstacle of a pod at this stage.
    pub(crate) const fn of_stage(stage: PodStage) -> Option<Self> {
        match stage {
            PodStage::Active => None,
            PodStage::Terminating => Some(Self::Terminating),
            PodStage::Finished => Some(Self::Finished),
        }
    }

    /// Reason for programs.
    fn reason(self) -> FailureReason {
        match self {
            Self::NoPod(_) => FailureReason::PodNotFound,
            Self::Terminating => FailureReason::PodTerminating,
            Self::Finished => FailureReason::PodFinished,
            Self::NotScheduled => FailureReason::PodNotScheduled,
            Self::NoContainer(_) => FailureReason::ContainerNotFound,
            Self::Init(_) | Self::NotUpdated(_) => FailureReason::InitContainer,
            Self::NeverStarted(_) => FailureReason::ContainerNotStarted,
        }
    }

    /// Text for people, about the pod of this name.
    pub(crate) fn message(self, pod: &str) -> String {
        match self {
            Self::NoPod(namespace) => format!("pod {pod:?} is not in namespace {namespace:?}"),
            Self::Terminating => format!("pod {pod:?} is being deleted"),
            Self::Finished => format!("pod {pod:?} has ended: its containers stay as they are"),
            Self::NotScheduled => format!("pod {pod:?} is not scheduled to a node yet"),
            Self::NoContainer(name) => format!("container {name:?} is not in pod {pod:?}"),
            Self::Init(name) => format!(
                "container {name:?} of pod {pod:?} is an init container that runs once: only those with \
                 restartPolicy Always can be recreated"
            ),
            Self::NotUpdated(name) => format!(
                "container {name:?} of pod {pod:?} is an init container: only spec.containers are updated in \
                 place"
            ),
            Self::NeverStarted(name) => format!("container {name:?} of pod {pod:?} has never started"),
        }
    }

    /// End of the request that it stands in the way of.
    pub(super) fn failure(self, pod: &str) -> Failure {
        Failure::new(self.reason(), self.message(pod))
    }
}
