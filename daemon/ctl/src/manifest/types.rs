//! The v1 Pod as `berthctl play` reads it: strictly, so that a misspelt field is an error and not a surprise.
//!
//! Three kinds of fields: those that are played, [`Refused`] ones that would need a kubelet or a cluster and
//! change what the containers see, and [`Ignored`] ones that mean nothing on a single node. `check` speaks
//! about the latter two.

#![allow(missing_docs, reason = "fields of the Kubernetes API, which its reference documents")]

use std::collections::BTreeMap;

use berthd::base::quantity::Quantity;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::scalar::IntOrName;

/// Present means an error.
pub(crate) type Refused = Option<IgnoredAny>;
/// Present means a remark on stderr.
pub(crate) type Ignored = Option<IgnoredAny>;

/// A whole manifest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pod {
    pub api_version: String,
    pub kind: String,
    pub metadata: Metadata,
    pub spec: PodSpec,
    #[serde(default, rename = "status")]
    pub _status: Ignored,
}

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Metadata {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub generate_name: Refused,
    #[serde(rename = "creationTimestamp")]
    pub _creation_timestamp: Ignored,
    #[serde(rename = "deletionTimestamp")]
    pub _deletion_timestamp: Ignored,
    #[serde(rename = "deletionGracePeriodSeconds")]
    pub _deletion_grace_period_seconds: Ignored,
    #[serde(rename = "resourceVersion")]
    pub _resource_version: Ignored,
    #[serde(rename = "generation")]
    pub _generation: Ignored,
    #[serde(rename = "managedFields")]
    pub _managed_fields: Ignored,
    #[serde(rename = "ownerReferences")]
    pub _owner_references: Ignored,
    #[serde(rename = "finalizers")]
    pub _finalizers: Ignored,
    #[serde(rename = "selfLink")]
    pub _self_link: Ignored,
}

/// `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PodSpec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub restart_policy: Option<String>,
    pub termination_grace_period_seconds: Option<i64>,
    pub host_network: bool,
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    pub host_users: Option<bool>,
    pub share_process_namespace: bool,
    pub hostname: Option<String>,
    pub dns_config: Option<DnsConfig>,
    pub dns_policy: Option<String>,
    pub security_context: Option<PodSecurityContext>,
    pub node_name: Option<String>,
    pub service_account_name: Option<String>,

    pub ephemeral_containers: Refused,
    pub host_aliases: Refused,
    pub image_pull_secrets: Refused,
    pub resource_claims: Refused,
    pub resources: Refused,
    pub runtime_class_name: Refused,
    #[serde(rename = "setHostnameAsFQDN")]
    pub set_hostname_as_fqdn: Refused,

    pub active_deadline_seconds: Ignored,
    pub affinity: Ignored,
    pub automount_service_account_token: Ignored,
    pub enable_service_links: Ignored,
    pub node_selector: Ignored,
    pub os: Ignored,
    pub overhead: Ignored,
    pub preemption_policy: Ignored,
    pub priority: Ignored,
    pub priority_class_name: Ignored,
    pub readiness_gates: Ignored,
    pub scheduler_name: Ignored,
    pub scheduling_gates: Ignored,
    pub service_account: Ignored,
    pub subdomain: Ignored,
    pub tolerations: Ignored,
    pub topology_spread_constraints: Ignored,
}

/// `spec.dnsConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct DnsConfig {
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<DnsOption>,
}

/// One of `spec.dnsConfig.options`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DnsOption {
    pub name: String,
    pub value: Option<String>,
}

/// `spec.securityContext`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PodSecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub fs_group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    pub fs_group_change_policy: Ignored,
    pub supplemental_groups_policy: Refused,
    pub seccomp_profile: Option<SeccompProfile>,
    pub app_armor_profile: Refused,
    pub se_linux_options: Refused,
    pub se_linux_change_policy: Refused,
    pub sysctls: Refused,
    pub windows_options: Refused,
}

/// `seccompProfile`: only `Unconfined` is played.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SeccompProfile {
    pub r#type: String,
    #[serde(default, rename = "localhostProfile")]
    pub _localhost_profile: Ignored,
}

/// One of `spec.containers` or `spec.initContainers`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Container {
    pub name: String,
    pub image: String,
    pub image_pull_policy: Option<String>,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub working_dir: Option<String>,
    pub env: Vec<EnvVar>,
    pub ports: Vec<ContainerPort>,
    pub volume_mounts: Vec<VolumeMount>,
    pub resources: Resources,
    pub security_context: Option<SecurityContext>,
    pub lifecycle: Lifecycle,
    pub readiness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
    pub liveness_probe: Option<Probe>,
    pub termination_message_path: Option<String>,
    pub termination_message_policy: Option<String>,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,

    pub env_from: Refused,
    pub restart_policy: Refused,
    pub restart_policy_rules: Refused,
    pub volume_devices: Refused,
    pub resize_policy: Ignored,
}

/// One of a container's `env`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnvVar {
    pub name: String,
    pub value: Option<String>,
    pub value_from: Option<EnvVarSource>,
}

/// `valueFrom`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EnvVarSource {
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Refused,
    pub config_map_key_ref: Refused,
    pub secret_key_ref: Refused,
    pub file_key_ref: Refused,
}

/// `fieldRef`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FieldRef {
    pub field_path: String,
    #[serde(default, rename = "apiVersion")]
    pub _api_version: Ignored,
}

/// One of a container's `ports`.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ContainerPort {
    pub name: Option<String>,
    pub container_port: i32,
    pub host_port: Option<i32>,
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    pub protocol: Option<String>,
}

/// One of a container's `volumeMounts`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct VolumeMount {
    pub name: String,
    pub mount_path: String,
    pub read_only: bool,
    pub mount_propagation: Option<String>,
    pub sub_path: Refused,
    pub sub_path_expr: Refused,
    pub recursive_read_only: Refused,
}

/// `resources` of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Resources {
    pub limits: BTreeMap<String, Quantity>,
    pub requests: BTreeMap<String, Quantity>,
    pub claims: Refused,
}

/// `securityContext` of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SecurityContext {
    pub privileged: bool,
    pub allow_privilege_escalation: Option<bool>,
    pub read_only_root_filesystem: bool,
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub capabilities: Capabilities,
    pub proc_mount: Refused,
    pub seccomp_profile: Option<SeccompProfile>,
    pub app_armor_profile: Refused,
    pub se_linux_options: Refused,
    pub windows_options: Refused,
}

/// `capabilities`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
}

/// `lifecycle`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Lifecycle {
    pub post_start: Option<Handler>,
    pub pre_stop: Option<Handler>,
    pub stop_signal: Refused,
}

/// A hook.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Handler {
    pub exec: Option<Exec>,
    pub sleep: Option<Sleep>,
    pub http_get: Refused,
    pub tcp_socket: Refused,
}

/// `exec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Exec {
    pub command: Vec<String>,
}

/// `sleep`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sleep {
    pub seconds: u64,
}

/// A probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Probe {
    pub exec: Option<Exec>,
    pub http_get: Option<HttpGet>,
    pub tcp_socket: Option<TcpSocket>,
    pub grpc: Refused,
    pub initial_delay_seconds: Option<u32>,
    pub period_seconds: Option<u32>,
    pub timeout_seconds: Option<u32>,
    pub success_threshold: Option<u32>,
    pub failure_threshold: Option<u32>,
    #[serde(rename = "terminationGracePeriodSeconds")]
    pub _termination_grace_period_seconds: Ignored,
}

/// `httpGet`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HttpGet {
    pub port: IntOrName,
    pub path: Option<String>,
    pub host: Option<String>,
    pub scheme: Option<String>,
    #[serde(default)]
    pub http_headers: Vec<HttpHeader>,
}

/// One of `httpHeaders`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpHeader {
    pub name: String,
    pub value: String,
}

/// `tcpSocket`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpSocket {
    pub port: IntOrName,
    pub host: Option<String>,
}

/// One of `spec.volumes`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Volume {
    pub name: String,
    pub empty_dir: Option<EmptyDir>,
    pub host_path: Option<HostPath>,
    pub config_map: Refused,
    pub secret: Refused,
    pub projected: Refused,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Refused,
    pub persistent_volume_claim: Refused,
    pub csi: Refused,
    pub ephemeral: Refused,
    pub image: Refused,
    pub nfs: Refused,
    pub iscsi: Refused,
    pub fc: Refused,
}

/// `emptyDir`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EmptyDir {
    pub medium: Option<String>,
    pub size_limit: Ignored,
}

/// `hostPath`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostPath {
    pub path: String,
    pub r#type: Option<String>,
}
