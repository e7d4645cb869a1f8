//! `PodProbeMarker`: probes of one's own that become conditions, labels and annotations of pods.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Probe,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SAME_SELECTOR;

/// Probes pods and writes on them what came out.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "PodProbeMarker",
    plural = "podprobemarkers",
    namespaced,
    doc = "Probes pods and marks them with the results.",
    status = "PodProbeMarkerStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"MATCHED","type":"integer","jsonPath":".status.matchedPods","description":"Pods that it selects."}"#,
    printcolumn = r#"{"name":"ACCEPTED","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].status","description":"Whether it is carried out."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PodProbeMarkerSpec {
    /// The pods, of the same namespace. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": SAME_SELECTOR, "message": "selector is immutable: make a new marker"},
    ]))]
    pub selector: LabelSelector,
    /// At least one, each name once.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub probes: Vec<PodContainerProbe>,
}

/// One probe of one container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodContainerProbe {
    /// Its name, without `#`.
    #[schemars(regex(pattern = "^[^#]+$"))]
    pub name: String,
    /// The container that is probed.
    #[schemars(length(min = 1))]
    pub container_name: String,
    /// One handler of exec, httpGet, tcpSocket and grpc.
    pub probe: Probe,
    /// Markers that each outcome writes on the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["state"]))]
    pub marker_policy: Vec<ProbeMarkerPolicy>,
    /// The pod condition that says the outcome; none of Kubernetes' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_condition_type: Option<String>,
}

/// Markers that one outcome writes on the pod.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeMarkerPolicy {
    /// The outcome.
    pub state: MarkerState,
    /// Labels the pod has in that state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations the pod has in that state.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An outcome that marks a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum MarkerState {
    /// The probe succeeded.
    Succeeded,
    /// The probe failed.
    Failed,
}

/// Where a marker stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProbeMarkerStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods it selects: scheduled ones that are Initialized and have not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_pods: Option<i64>,
    /// `Accepted`: whether it is carried out, and what of it is not on which pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
