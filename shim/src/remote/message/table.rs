//! The table: what the agent says before it is asked.

use prost::Message;

/// A part of the table that has changed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TableChange {
    /// A table anew begins with this, and is in force with the one that is `complete`.
    #[prost(bool, tag = "1")]
    pub(crate) reset: bool,
    #[prost(message, repeated, tag = "2")]
    pub(crate) sandboxes: Vec<SandboxRow>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) containers: Vec<ContainerRow>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) pods: Vec<PodRow>,
    #[prost(bool, tag = "5")]
    pub(crate) nudges: bool,
    /// Nothing is missing after this.
    #[prost(bool, tag = "6")]
    pub(crate) complete: bool,
    #[prost(uint64, tag = "7")]
    pub(crate) version: u64,
    /// The agent wants to know the traces of the calls that it is asked about.
    #[prost(bool, tag = "8")]
    pub(crate) traces: bool,
    /// Nobody need be asked about a pull. A shim of before asks, and an agent of before never says it.
    #[prost(bool, tag = "9")]
    pub(crate) pulls_pass: bool,
    /// Nobody need be asked about a creation in a sandbox that is not the kubelet's and has no plan. A shim
    /// of before asks, and an agent of before never says it.
    #[prost(bool, tag = "10")]
    pub(crate) strangers_pass: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxRow {
    #[prost(string, tag = "1")]
    pub(crate) sandbox: String,
    #[prost(bool, tag = "2")]
    pub(crate) gone: bool,
    #[prost(bool, tag = "3")]
    pub(crate) all: bool,
    #[prost(string, repeated, tag = "4")]
    pub(crate) open: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerRow {
    #[prost(string, tag = "1")]
    pub(crate) container: String,
    #[prost(bool, tag = "2")]
    pub(crate) gone: bool,
    #[prost(bool, tag = "3")]
    pub(crate) stop_passes: bool,
    /// The number of a [`berth_policy::Showing`]; 0 where it has to be asked.
    #[prost(uint32, tag = "4")]
    pub(crate) status: u32,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) only_to: Option<u64>,
    /// 1: it runs; 2: it counts as done; 0: it has to be asked.
    #[prost(uint32, tag = "6")]
    pub(crate) hook: u32,
    #[prost(bool, tag = "7")]
    pub(crate) changing: bool,
    /// Nobody need be told of a look at it. A shim of before tells.
    #[prost(bool, tag = "8")]
    pub(crate) quiet: bool,
}

/// The env values of a pod; without any, as the kubelet says.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodRow {
    #[prost(string, tag = "1")]
    pub(crate) pod: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<EnvOf>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EnvOf {
    #[prost(string, tag = "1")]
    pub(crate) container: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) values: Vec<EnvValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EnvValue {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}
