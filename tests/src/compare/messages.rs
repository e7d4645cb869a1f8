//! Messages of CRI v1 that Berth itself never reads: they pass as bytes, and only this suite has to know what
//! is in them. Field numbers are those of k8s.io/cri-api; fields that no case looks at are left out.

use std::collections::HashMap;

use berth_proto::cri::{ContainerMetadata, ImageSpec, LinuxContainerResources, PodSandboxMetadata};
use prost::Message;

/// `UpdateContainerResourcesRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct UpdateContainerResourcesRequest {
    /// ID of the container that is updated.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// Only what is set changes.
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerResources>,
}

/// `ReopenContainerLogRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ReopenContainerLogRequest {
    /// Whose log.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// `ExecRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ExecRequest {
    /// Where.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// Command to run.
    #[prost(string, repeated, tag = "2")]
    pub cmd: Vec<String>,
    /// On a terminal.
    #[prost(bool, tag = "3")]
    pub tty: bool,
    /// With a channel to its input.
    #[prost(bool, tag = "4")]
    pub stdin: bool,
    /// With its output.
    #[prost(bool, tag = "5")]
    pub stdout: bool,
    /// With its other output; never together with a terminal.
    #[prost(bool, tag = "6")]
    pub stderr: bool,
}

/// `AttachRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct AttachRequest {
    /// Where.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// With a channel to its input.
    #[prost(bool, tag = "2")]
    pub stdin: bool,
    /// It runs on a terminal.
    #[prost(bool, tag = "3")]
    pub tty: bool,
    /// With its output.
    #[prost(bool, tag = "4")]
    pub stdout: bool,
    /// With its other output; never together with a terminal.
    #[prost(bool, tag = "5")]
    pub stderr: bool,
}

/// `PortForwardRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct PortForwardRequest {
    /// To which sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    /// Ports in its network namespace.
    #[prost(int32, repeated, tag = "2")]
    pub port: Vec<i32>,
}

/// `ExecResponse`, `AttachResponse` and `PortForwardResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct StreamingResponse {
    /// Where the runtime's streaming server waits for whoever has it.
    #[prost(string, tag = "1")]
    pub url: String,
}

/// `ContainerStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatsRequest {
    /// ID of the container.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// `ContainerStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatsResponse {
    /// How it is.
    #[prost(message, optional, tag = "1")]
    pub stats: Option<ContainerStats>,
}

/// `ContainerStatsFilter`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatsFilter {
    /// One container.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Containers of one sandbox.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// Containers with all of these labels.
    #[prost(map = "string, string", tag = "3")]
    pub label_selector: HashMap<String, String>,
}

/// `ListContainerStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListContainerStatsRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerStatsFilter>,
}

/// `ListContainerStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListContainerStatsResponse {
    /// Statistics of each container that runs.
    #[prost(message, repeated, tag = "1")]
    pub stats: Vec<ContainerStats>,
}

/// `ContainerAttributes`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerAttributes {
    /// The runtime's ID.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its name.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    /// As it was created.
    #[prost(map = "string, string", tag = "3")]
    pub labels: HashMap<String, String>,
    /// As it was created.
    #[prost(map = "string, string", tag = "4")]
    pub annotations: HashMap<String, String>,
}

/// `ContainerStats`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStats {
    /// Attributes of the container.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<ContainerAttributes>,
    /// CPU usage of the container.
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<CpuUsage>,
    /// Memory usage of the container.
    #[prost(message, optional, tag = "3")]
    pub memory: Option<MemoryUsage>,
}

/// `CpuUsage`.
#[derive(Clone, PartialEq, Message)]
pub struct CpuUsage {
    /// When it was read, in ns since the epoch.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// All so far, in ns of one core.
    #[prost(message, optional, tag = "2")]
    pub usage_core_nano_seconds: Option<UInt64Value>,
}

/// `MemoryUsage`.
#[derive(Clone, PartialEq, Message)]
pub struct MemoryUsage {
    /// When it was read, in ns since the epoch.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// Bytes.
    #[prost(message, optional, tag = "2")]
    pub working_set_bytes: Option<UInt64Value>,
}

/// `UInt64Value`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct UInt64Value {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// `PodSandboxStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatsRequest {
    /// ID of the sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// `PodSandboxStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatsResponse {
    /// How it is.
    #[prost(message, optional, tag = "1")]
    pub stats: Option<PodSandboxStats>,
}

/// `PodSandboxAttributes`.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxAttributes {
    /// The runtime's ID.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whose it is.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
}

/// `PodSandboxStats`.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStats {
    /// Attributes of the sandbox.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<PodSandboxAttributes>,
    /// The numbers.
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxPodSandboxStats>,
}

/// `LinuxPodSandboxStats`.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxPodSandboxStats {
    /// CPU usage of the whole sandbox.
    #[prost(message, optional, tag = "1")]
    pub cpu: Option<CpuUsage>,
    /// Memory usage of the whole sandbox.
    #[prost(message, optional, tag = "2")]
    pub memory: Option<MemoryUsage>,
    /// Each container.
    #[prost(message, repeated, tag = "5")]
    pub containers: Vec<ContainerStats>,
}

/// `PodSandboxStatsFilter`.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatsFilter {
    /// One sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
}

/// `ListPodSandboxStatsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxStatsRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<PodSandboxStatsFilter>,
}

/// `ListPodSandboxStatsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListPodSandboxStatsResponse {
    /// Statistics of each sandbox that runs.
    #[prost(message, repeated, tag = "1")]
    pub stats: Vec<PodSandboxStats>,
}

/// `RemoveImageRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct RemoveImageRequest {
    /// By name, digest or ID.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// `UpdateRuntimeConfigRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct UpdateRuntimeConfigRequest {
    /// Configuration that the kubelet learnt from the API server.
    #[prost(message, optional, tag = "1")]
    pub runtime_config: Option<RuntimeConfig>,
}

/// `RuntimeConfig`.
#[derive(Clone, PartialEq, Message)]
pub struct RuntimeConfig {
    /// Configuration of the pods' network.
    #[prost(message, optional, tag = "1")]
    pub network_config: Option<NetworkConfig>,
}

/// `NetworkConfig`.
#[derive(Clone, PartialEq, Message)]
pub struct NetworkConfig {
    /// The node's share of the pods' addresses.
    #[prost(string, tag = "1")]
    pub pod_cidr: String,
}

/// `CheckpointContainerRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct CheckpointContainerRequest {
    /// ID of the container to checkpoint.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// The archive to write.
    #[prost(string, tag = "2")]
    pub location: String,
}

/// Any message without a field: requests without a question, answers without a word.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

/// `GetEventsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct GetEventsRequest {}

/// `RuntimeConfigRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct RuntimeConfigRequest {}

/// `ListMetricDescriptorsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListMetricDescriptorsRequest {}
