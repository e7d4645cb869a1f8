//! Answers of the agent.

use prost::{Message, Oneof};

use super::{BadOrder, Nothing, Pod};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnswerTo {
    #[prost(uint64, tag = "1")]
    pub(crate) question: u64,
    #[prost(oneof = "Answers", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub(crate) answer: Option<Answers>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Answers {
    #[prost(message, tag = "2")]
    Pass(Nothing),
    /// `StopContainerRequest.timeout`, in seconds.
    #[prost(uint64, tag = "3")]
    StopTimeout(u64),
    #[prost(message, tag = "4")]
    Refuse(Refused),
    /// The number of a [`berth_policy::Showing`].
    #[prost(uint32, tag = "5")]
    Shown(u32),
    #[prost(message, tag = "6")]
    Done(Nothing),
    #[prost(message, tag = "7")]
    Nudged(Nudges),
    /// The image's `image_ref`.
    #[prost(string, tag = "8")]
    Pulled(String),
}

/// `kind` is the number of the refusal.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Refused {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    #[prost(string, repeated, tag = "2")]
    pub(crate) containers: Vec<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) order: Option<BadOrder>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nudges {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nudges: Vec<NudgeOf>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NudgeOf {
    #[prost(message, optional, tag = "1")]
    pub(crate) pod: Option<Pod>,
    #[prost(string, tag = "2")]
    pub(crate) sandbox: String,
    #[prost(string, tag = "3")]
    pub(crate) container: String,
}

/// `why` is the number of the reason.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeldCall {
    #[prost(uint64, tag = "1")]
    pub(crate) question: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) why: u32,
    #[prost(string, repeated, tag = "3")]
    pub(crate) containers: Vec<String>,
}
