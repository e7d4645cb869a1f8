//! `ContainerRecreateRequest`: restart containers of a running pod in place.

use k8s_openapi::{
    api::core::v1::{ContainerPort, LifecycleHandler},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::IntoDeserializer};

use super::invalid::{Invalid, distinct_containers, seconds_within};

/// The shortest `activeDeadlineSeconds`: OpenKruise's, which its users' manifests know.
const SHORTEST_DEADLINE: i64 = 3;

/// Restarts containers of a running pod in place, each exactly once.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ContainerRecreateRequest",
    plural = "containerrecreaterequests",
    shortname = "crr",
    namespaced,
    doc = "Restarts containers of a running pod in place, each exactly once.",
    status = "ContainerRecreateRequestStatus",
    derive = "PartialEq",
    selectable = ".status.nodeName",
    printcolumn = r#"{"name":"PHASE","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"RESULT","type":"string","jsonPath":".status.conditions[?(@.type!=\"PreRecreateGrace\")].type","description":"Complete or Failed, once it has ended."}"#,
    printcolumn = r#"{"name":"REASON","type":"string","jsonPath":".status.conditions[?(@.type!=\"PreRecreateGrace\")].reason"}"#,
    printcolumn = r#"{"name":"POD","type":"string","jsonPath":".spec.podName"}"#,
    printcolumn = r#"{"name":"NODE","type":"string","jsonPath":".status.nodeName"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","priority":1,"jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "spec is immutable: make a new request"},
]))]
pub struct ContainerRecreateRequestSpec {
    /// Name of the pod, in the same namespace.
    #[schemars(length(min = 1))]
    pub pod_name: String,
    /// Which containers; at least one, each once.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<RecreateContainer>,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RecreateStrategy>,
    /// Seconds from the creation of this object after which it ends, whatever was reached. At least 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end until this object is deleted; kept for ever when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

impl ContainerRecreateRequestSpec {
    /// Names the first flaw: admission may be absent, so everybody who carries out a part of a request asks
    /// again.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.pod_name.is_empty() {
            return Err(Invalid::new("spec.podName", "is empty: name a pod of this namespace"));
        }
        if self.pod_name.contains('/') {
            let flaw = "has a slash: give the name alone, the namespace is metadata.namespace";
            return Err(Invalid::new("spec.podName", flaw));
        }
        if self.containers.is_empty() {
            return Err(Invalid::new("spec.containers", "is empty: list at least one"));
        }
        let names = self.containers.iter().map(|container| container.name.as_str());
        distinct_containers("spec.containers", names)?;
        seconds_within("spec.activeDeadlineSeconds", self.active_deadline_seconds, SHORTEST_DEADLINE)?;
        seconds_within("spec.ttlSecondsAfterFinished", self.ttl_seconds_after_finished, 0)?;
        let Some(strategy) = &self.strategy else { return Ok(()) };
        let grace = strategy.termination_grace_period_seconds;
        seconds_within("spec.strategy.terminationGracePeriodSeconds", grace, 0)?;
        let unready = strategy.unready_grace_period_seconds;
        seconds_within("spec.strategy.unreadyGracePeriodSeconds", unready, 0)?;
        seconds_within("spec.strategy.minStartedSeconds", strategy.min_started_seconds, 0)
    }

    /// Names the first field that OpenKruise's webhook would fill in, and somebody has. With an API server
    /// admission refuses it.
    pub fn filled_in(&self) -> Option<String> {
        let filled = |container: &RecreateContainer| {
            [
                ("preStop", container.pre_stop.is_some()),
                ("ports", container.ports.as_ref().is_some_and(|ports| !ports.is_empty())),
                ("statusContext", container.status_context.is_some()),
            ]
            .into_iter()
            .find_map(|(name, there)| there.then_some(name))
        };
        let mut containers = self.containers.iter().enumerate();
        containers.find_map(|(index, one)| Some(format!("spec.containers[{index}].{}", filled(one)?)))
    }
}

/// One container to restart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateContainer {
    /// Its name in the pod; an init container that restarts always is one too.
    pub name: String,
    /// Not for users: a webhook fills it in, the manager's or OpenKruise's. Berth reads the pod itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_stop: Option<LifecycleHandler>,
    /// Not for users, as `preStop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<ContainerPort>>,
    /// Not for users, as `preStop`: instance that the container had when the request was made, which is the
    /// one to replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_context: Option<SpecStatusContext>,
}

/// Record of a container that a webhook writes at admission, the manager's or OpenKruise's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpecStatusContext {
    /// With the scheme of its runtime: `containerd://...`.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// `restartCount` of that instance.
    pub restart_count: i32,
}

/// How the containers are restarted. Zero values are defaults of the schema: a client with Go types leaves
/// them out when it writes back a spec that had them, and the spec must not be another one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateStrategy {
    /// `Fail` (the default): the first container that fails ends the request. `Ignore`: the others go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The next container only after the one before it is Ready again; the order is the pod's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub ordered_recreate: bool,
    /// Restart also a container that was replaced since this request was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub force_recreate: bool,
    /// Seconds from the beginning of preStop to SIGKILL; the pod's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Make the pod not Ready (where it has the readiness gate KruisePodReady) and wait so many seconds
    /// first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub unready_grace_period_seconds: Option<i64>,
    /// Seconds a new instance must have run before it counts as recreated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 0))]
    pub min_started_seconds: Option<i32>,
}

/// Effect of a failed container on the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum FailurePolicy {
    /// It ends the request.
    #[default]
    Fail,
    /// The others go on.
    Ignore,
}

/// Where a request stands. The manager writes the assignment (`nodeName`, `podUID`,
/// `containerStatusContexts`), the agent of that node everything else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecreateRequestStatus {
    /// `Pending`, `Recreating` or `Completed`; `Completed` says only that it ended, `conditions` and
    /// `containerRecreateStates` say how.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub phase: Option<RecreatePhase>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where each container stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub container_recreate_states: Vec<RecreateState>,
    /// The node of the pod, as the manager saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod of that name when the request was assigned.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The instances to replace: those of `spec.containers[].statusContext`, or those that ran when the
    /// request was assigned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub container_status_contexts: Vec<StatusContext>,
    /// `Complete` or `Failed`, with a reason; `PreRecreateGrace` since the pod was made not Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where one container stands.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecreateState {
    /// Its name.
    pub name: String,
    /// `Pending`, `Recreating`, `Succeeded` or `Failed`.
    pub phase: RecreatePhase,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its old instance was told to stop for this request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_killed: bool,
}

/// The instance a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusContext {
    /// Name of the container.
    pub name: String,
    /// With the scheme of its runtime, as in the pod's status: `containerd://...`.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// `restartCount` of that instance.
    pub restart_count: i32,
}

/// Reads a phase. Clients whose types have no pointer there write the empty text for none.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RecreatePhase>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| RecreatePhase::deserialize(text.into_deserializer())).transpose()
}

impl RecreatePhase {
    /// Name of it, as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Recreating => "Recreating",
            Self::Completed => "Completed",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// Phases of a request and of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RecreatePhase {
    /// Not begun.
    Pending,
    /// Begun.
    Recreating,
    /// The request ended; only requests have this.
    Completed,
    /// Recreated; only containers have this.
    Succeeded,
    /// Not recreated; only containers have this.
    Failed,
}
