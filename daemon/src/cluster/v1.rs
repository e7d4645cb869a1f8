//! The fields of a v1 Pod that the agent reads, under the names that Kubernetes' own types have.
//!
//! A pod has more than a thousand fields, and the code that reads them all would be in memory on every node.
//! Other fields are skipped. Nothing of it is ever written back as a whole: writes are patches of
//! single fields.

pub(crate) use k8s_openapi::api::core::v1::{HTTPGetAction, LifecycleHandler, LocalObjectReference, Probe};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, Deserializer, Serialize};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<PodSpec>,
    pub(crate) status: Option<PodStatus>,
}

/// The spec of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Option<Vec<Container>>,
    pub(crate) image_pull_secrets: Option<Vec<LocalObjectReference>>,
    pub(crate) readiness_gates: Option<Vec<PodReadinessGate>>,
    pub(crate) restart_policy: Option<String>,
    pub(crate) termination_grace_period_seconds: Option<i64>,
}

/// A readiness gate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodReadinessGate {
    #[serde(deserialize_with = "or_default")]
    pub(crate) condition_type: String,
}

/// A container, or an init container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    pub(crate) image: Option<String>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) args: Option<Vec<String>>,
    pub(crate) env: Option<Vec<EnvVar>>,
    pub(crate) ports: Option<Vec<ContainerPort>>,
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) readiness_probe: Option<Probe>,
    pub(crate) startup_probe: Option<Probe>,
    pub(crate) liveness_probe: Option<LivenessProbe>,
    pub(crate) restart_policy: Option<String>,
    pub(crate) restart_policy_rules: Option<Vec<RestartRule>>,
}

/// A probe by which the kubelet stops a container. Only the grace of that stop is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LivenessProbe {
    pub(crate) termination_grace_period_seconds: Option<i64>,
}

/// A rule about exits of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RestartRule {
    #[serde(deserialize_with = "or_default")]
    pub(crate) action: String,
    pub(crate) exit_codes: Option<ExitCodes>,
}

/// The exits that a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ExitCodes {
    #[serde(deserialize_with = "or_default")]
    pub(crate) operator: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) values: Vec<i32>,
}

/// An env variable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EnvVar {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) value_from: Option<EnvVarSource>,
}

/// Where the value of an env variable comes from; empty for what is no field.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EnvVarSource {
    pub(crate) field_ref: Option<ObjectFieldSelector>,
}

/// A field of the pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectFieldSelector {
    #[serde(deserialize_with = "or_default")]
    pub(crate) field_path: String,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    pub(crate) name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) container_port: i32,
}

/// The hooks of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Lifecycle {
    pub(crate) post_start: Option<LifecycleHandler>,
    pub(crate) pre_stop: Option<LifecycleHandler>,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) conditions: Option<Vec<PodCondition>>,
    pub(crate) container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) init_container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) phase: Option<String>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Option<String>,
}

/// A condition of a pod; the only part that is written, too.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodCondition {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) type_: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_probe_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Time>,
}

/// The status of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    #[serde(rename = "containerID")]
    pub(crate) container_id: Option<String>,
    #[serde(rename = "imageID", deserialize_with = "or_default")]
    pub(crate) image_id: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ready: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) restart_count: i32,
    pub(crate) state: Option<ContainerState>,
    pub(crate) last_state: Option<ContainerState>,
}

/// The state of a container: one of these.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<ContainerStateRunning>,
    pub(crate) terminated: Option<ContainerStateTerminated>,
    pub(crate) waiting: Option<ContainerStateWaiting>,
}

/// State of a container that runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStateRunning {
    pub(crate) started_at: Option<Time>,
}

/// State of a container that has ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStateTerminated {
    pub(crate) started_at: Option<Time>,
}

/// State of a container that does not run yet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStateWaiting {
    pub(crate) reason: Option<String>,
}

impl k8s_openapi::Resource for Pod {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Pod";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "pods";
    type Scope = NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Pod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &Self::Ty {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut Self::Ty {
        &mut self.metadata
    }
}

/// Go writes `null` for a value that is empty.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
