//! `ContainerUpdateRequest`: change images, labels and annotations of a running pod in place, in the order of
//! its launch priorities.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FailurePolicy, TwinSwap, TwinSwapState};

/// Updates a running pod in place. Its shape is that of `ContainerRecreateRequest`, which its users know.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "ContainerUpdateRequest",
    plural = "containerupdaterequests",
    shortname = "cur",
    namespaced,
    doc = "Updates images, labels and annotations of a running pod in place, in the order of its launch priorities.",
    status = "ContainerUpdateRequestStatus",
    derive = "PartialEq",
    selectable = ".status.nodeName",
    printcolumn = r#"{"name":"PHASE","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"RESULT","type":"string","jsonPath":".status.conditions[?(@.type!=\"RollingBack\")].type","description":"Complete or Failed, once it has ended."}"#,
    printcolumn = r#"{"name":"REASON","type":"string","jsonPath":".status.conditions[?(@.type!=\"RollingBack\")].reason"}"#,
    printcolumn = r#"{"name":"POD","type":"string","jsonPath":".spec.podName"}"#,
    printcolumn = r#"{"name":"NODE","type":"string","jsonPath":".status.nodeName"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","priority":1,"jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self == oldSelf", "message": "spec is immutable: make a new request"},
    {
        "rule": "(has(self.containers) && self.containers.size() > 0) || has(self.metadata)",
        "message": "nothing is asked for: give containers with images, or metadata with labels or annotations",
    },
]))]
pub struct ContainerUpdateRequestSpec {
    /// Name of the pod, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pod_name: String,
    /// The containers that get another image, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<UpdateContainer>,
    /// The sidecars with twins that get another version. Of `berthctl swap` alone: the API server's requests
    /// have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub swaps: Vec<TwinSwap>,
    /// Labels and annotations to set; a container whose env reads one of them is restarted with the new
    /// value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<UpdateMetadata>,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<UpdateStrategy>,
    /// When the update fails, return to what the pod was before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback_on_failure: bool,
    /// Seconds from the creation of this object after which it fails unless everything is Ready. At least 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end until this object is deleted; kept for ever when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// One container and its new image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateContainer {
    /// One of `spec.containers` of the pod.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Image, as in the spec of a pod.
    #[schemars(length(min = 1, max = 4096))]
    pub image: String,
}

/// Metadata to set. None is ever removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How a pod is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Seconds between the pod being made not Ready (where it has the readiness gate InPlaceUpdateReady) and
    /// the first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub grace_period_seconds: Option<i32>,
    /// `Fail` (the default): a container that cannot be updated ends the request. `Ignore`: it is left as it
    /// is, and the others go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

/// Where a request stands. The manager writes the assignment (`nodeName`, `podUID`), the agent of that node
/// everything else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerUpdateRequestStatus {
    /// `Pending`, `Updating`, `RollingBack` or `Completed`; `Completed` says only that it ended, `conditions`
    /// and `containerUpdateStates` say how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<UpdatePhase>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where each container stands whose image is changed, or whose env is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub container_update_states: Vec<UpdateState>,
    /// How far each swap is; of `berthctl swap` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub swaps: Vec<TwinSwapState>,
    /// The node of the pod, as the manager saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod of that name when the request was assigned.
    #[serde(default, rename = "podUID", skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// State of the pod before the first change; the state to which `rollbackOnFailure` returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousState>,
    /// `Complete` or `Failed`, with a reason; `RollingBack` since the way back was begun, with the reason of
    /// the failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// State of a pod before an update, as far as the update names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousState {
    /// The revision of the update before; empty when there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<UpdateContainer>,
    /// Labels that were there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that were there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels that were not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_labels: Vec<String>,
    /// Annotations that were not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_annotations: Vec<String>,
}

/// Where one container stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateState {
    /// Its name.
    pub name: String,
    /// `Pending`, `Updating`, `Succeeded` or `Failed`.
    pub phase: UpdatePhase,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Phases of an update and of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum UpdatePhase {
    /// Not begun.
    Pending,
    /// Begun.
    Updating,
    /// It failed, and the pod returns to what it was; only requests have this.
    RollingBack,
    /// The request ended; only requests have this.
    Completed,
    /// As wanted; only containers and the pods of a NodePodUpdate have this.
    Succeeded,
    /// Not as wanted; only containers and the pods of a NodePodUpdate have this.
    Failed,
}
