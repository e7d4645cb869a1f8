//! `NodePodProbe`: the probes one node runs, and what came out of them.

use k8s_openapi::{
    api::core::v1::Probe,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pod_probe_marker::ProbeMarkerPolicy;

/// Probes that users and OpenKruise's controllers ask of one node. Where none do, it shows those of
/// `status.desiredPodProbes`, without marks: the agent copies them for readers, and nobody acts on the copy.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "NodePodProbe",
    plural = "nodepodprobes",
    doc = "The probes one node runs. It has the name of its node.",
    status = "NodePodProbeStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"VERIFIED","type":"string","jsonPath":".status.conditions[?(@.type==\"Verified\")].status","description":"False: a marker does not ask for what is listed."}"#,
    printcolumn = r#"{"name":"ON-TIME","type":"string","jsonPath":".status.conditions[?(@.type==\"OnTime\")].status","description":"False: probes are run later than they should."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodePodProbeSpec {
    /// One entry a pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_probes: Vec<PodProbe>,
}

/// The probes of one pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProbe {
    /// Name of the pod.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID, which a pod of the same name made later does not have.
    pub uid: String,
    /// Its address; clients of OpenKruise 1.4 know no such field.
    #[serde(default, rename = "IP", skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// Probes of the pod's containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ContainerProbe>,
}

/// One probe of one container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProbe {
    /// `<PodProbeMarker>#<its probe>`.
    pub name: String,
    /// The container that is probed.
    pub container_name: String,
    /// One handler of exec, httpGet, tcpSocket and grpc.
    pub probe: Probe,
    /// The pod condition that says the outcome. OpenKruise's controllers leave it out and write the pod
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_condition_type: Option<String>,
    /// Markers that each outcome writes on the pod. OpenKruise's controllers leave it out and write the pod
    /// themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["state"]))]
    pub marker_policy: Vec<ProbeMarkerPolicy>,
}

/// The probes of the node. The manager writes `desiredPodProbes`, the agent of the node everything else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePodProbeStatus {
    /// Probes that `PodProbeMarker`s ask of this node now; the manager's. Each of the two lists has one
    /// writer, which writes all of it, as in a `NodeImage`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub desired_pod_probes: Vec<PodProbe>,
    /// Results of the probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pod_probe_statuses: Vec<PodProbeStatus>,
    /// Conditions that name what is not, or not yet, acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Results of the probes of one pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProbeStatus {
    /// Name of the pod.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// One entry a probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub probe_states: Vec<ContainerProbeState>,
}

/// Result of one probe.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProbeState {
    /// `<PodProbeMarker>#<its probe>`.
    pub name: String,
    /// `Succeeded`, `Failed` or `Unknown`.
    pub state: ProbeState,
    /// When it last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Message of the probe, cut to size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// States of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ProbeState {
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// It did not run since the container started.
    Unknown,
}
