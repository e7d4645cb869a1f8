//! Events at the shim.

use prost::{Message, Oneof};

use super::{Declares, OfContainer, Pod, PullMade};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EventTold {
    #[prost(oneof = "Happened", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15")]
    pub(crate) happened: Option<Happened>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Happened {
    #[prost(message, tag = "1")]
    SandboxCreated(SandboxMade),
    #[prost(string, tag = "2")]
    SandboxStopping(String),
    #[prost(string, tag = "3")]
    SandboxRemoved(String),
    #[prost(message, tag = "4")]
    ContainerCreated(ContainerMade),
    #[prost(string, tag = "5")]
    ContainerStarted(String),
    #[prost(string, tag = "6")]
    ContainerStopped(String),
    #[prost(string, tag = "7")]
    ContainerRemoved(String),
    #[prost(message, tag = "8")]
    RelistAsked(Relist),
    #[prost(message, tag = "9")]
    RelistAnswered(Relist),
    #[prost(message, tag = "10")]
    StatusAsked(OfContainer),
    #[prost(message, tag = "11")]
    PullPassed(PullMade),
    #[prost(uint64, tag = "12")]
    CallEnded(u64),
    #[prost(uint64, tag = "13")]
    ConnectionClosed(u64),
    #[prost(message, tag = "14")]
    HookEnded(HookOver),
    #[prost(message, tag = "15")]
    HookAsked(HookMade),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxMade {
    #[prost(string, tag = "1")]
    pub(crate) sandbox: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub(crate) declared: Option<Declares>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerMade {
    #[prost(uint64, tag = "1")]
    pub(crate) call: u64,
    #[prost(string, tag = "2")]
    pub(crate) container: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Relist {
    #[prost(uint64, tag = "1")]
    pub(crate) call: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) connection: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HookOver {
    #[prost(string, tag = "1")]
    pub(crate) container: String,
    #[prost(bool, tag = "2")]
    pub(crate) well: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HookMade {
    #[prost(uint64, tag = "1")]
    pub(crate) call: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) connection: u64,
    #[prost(string, tag = "3")]
    pub(crate) container: String,
}
