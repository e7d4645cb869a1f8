//! `PersistentPodState`: where the pods of a StatefulSet ran, so that those made anew come back there.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BudgetTarget;

/// Records where the pods of a StatefulSet ran, and brings those made anew back there.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "PersistentPodState",
    plural = "persistentpodstates",
    namespaced,
    doc = "Records where the pods of a StatefulSet ran, and brings those made anew back there.",
    status = "PersistentPodStateStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"StatefulSet","type":"string","jsonPath":".spec.targetRef.name","description":"Name of the StatefulSet."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.requiredPersistentTopology) \
            || (has(self.preferredPersistentTopology) && size(self.preferredPersistentTopology) > 0)",
        "message": "has neither requiredPersistentTopology nor preferredPersistentTopology: give one of them, or both",
    },
]))]
pub struct PersistentPodStateSpec {
    /// The StatefulSet, of the same namespace. It cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "self.kind == 'StatefulSet' \
                && (self.apiVersion.startsWith('apps/') || self.apiVersion.startsWith('apps.kruise.io/'))",
            "message": "is no StatefulSet of apps or apps.kruise.io: name one",
        },
        {"rule": "self == oldSelf", "message": "is immutable: make a new PersistentPodState"},
    ]))]
    pub target_ref: BudgetTarget,
    /// Labels of nodes that a pod made anew needs to find as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_persistent_topology: Option<NodeTopologyTerm>,
    /// Labels of nodes that it prefers to find as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_persistent_topology: Vec<PreferredTopologyTerm>,
    /// Annotations of pods that are recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub persistent_pod_annotations: Vec<PersistentPodAnnotation>,
    /// End of a record: `WhenScaled` (the default) with its pod's number, `WhenDeleted` with the StatefulSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "WhenScaled", "x-kubernetes-validations" = [{
        "rule": "self in ['', 'WhenScaled', 'WhenDeleted']",
        "message": "is neither WhenScaled nor WhenDeleted: give one of them",
    }]))]
    pub persistent_pod_state_retention_policy: Option<String>,
}

/// Labels of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTopologyTerm {
    /// Keys of the labels.
    pub node_topology_keys: Vec<String>,
}

/// Labels of nodes that are preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredTopologyTerm {
    /// Weight among all preferences, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// The labels.
    pub preference: NodeTopologyTerm,
}

/// An annotation of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentPodAnnotation {
    /// Its key.
    pub key: String,
}

/// Where a PersistentPodState stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentPodStateStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Records, by the names of pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_states: BTreeMap<String, PodState>,
    /// `Accepted`: whether it is kept, or what of it cannot be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Record of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// Node that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Labels of that node, of all keys that are asked for and were there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_topology_labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
