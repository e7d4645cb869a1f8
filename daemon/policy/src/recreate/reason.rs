//! Why a request failed: the closed list of words in the condition `Failed`.

/// Reason of a request that failed. The node writes the first ones; the manager writes the others, which a
/// node reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureReason {
    /// The request makes no sense.
    InvalidRequest,
    /// A container was not recreated.
    ContainerFailed,
    /// The deadline of the request is over.
    DeadlineExceeded,
    /// The pod is being deleted, or is gone.
    PodGone,
    /// The node of the request is gone.
    NodeGone,
    /// The agent of the node has not taken the request up.
    AgentSilent,
    /// The spec contradicts itself or the API.
    InvalidSpec,
    /// There was no pod of that name.
    PodNotFound,
    /// The pod had no node yet.
    PodNotScheduled,
    /// The pod was being deleted.
    PodTerminating,
    /// The pod had run to its end.
    PodFinished,
    /// The pod had no container of that name.
    ContainerNotFound,
    /// The container runs once, before the others.
    InitContainer,
    /// The container had no instance yet.
    ContainerNotStarted,
    /// A word that this version does not know.
    Unknown,
}

impl FailureReason {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::InvalidRequest,
        Self::ContainerFailed,
        Self::DeadlineExceeded,
        Self::PodGone,
        Self::NodeGone,
        Self::AgentSilent,
        Self::InvalidSpec,
        Self::PodNotFound,
        Self::PodNotScheduled,
        Self::PodTerminating,
        Self::PodFinished,
        Self::ContainerNotFound,
        Self::InitContainer,
        Self::ContainerNotStarted,
        Self::Unknown,
    ];

    /// The CamelCase word of conditions.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "InvalidRequest",
            Self::ContainerFailed => "ContainerFailed",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::PodGone => "PodGone",
            Self::NodeGone => "NodeGone",
            Self::AgentSilent => "AgentSilent",
            Self::InvalidSpec => "InvalidSpec",
            Self::PodNotFound => "PodNotFound",
            Self::PodNotScheduled => "PodNotScheduled",
            Self::PodTerminating => "PodTerminating",
            Self::PodFinished => "PodFinished",
            Self::ContainerNotFound => "ContainerNotFound",
            Self::InitContainer => "InitContainer",
            Self::ContainerNotStarted => "ContainerNotStarted",
            Self::Unknown => "Failed",
        }
    }

    /// The reason of this word.
    pub fn named(word: &str) -> Self {
        Self::ALL.into_iter().find(|reason| reason.name() == word).unwrap_or(Self::Unknown)
    }
}
