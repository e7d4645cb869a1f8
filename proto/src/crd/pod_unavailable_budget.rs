//! `PodUnavailableBudget`: how many pods may be unavailable at once by anybody's will.

use std::collections::BTreeMap;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SAME_SELECTOR;

/// Limits how many pods are unavailable at once by eviction, deletion and update in place.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "policy.kruise.io",
    version = "v1alpha1",
    kind = "PodUnavailableBudget",
    plural = "podunavailablebudgets",
    shortname = "pub",
    namespaced,
    doc = "Limits how many pods are unavailable at once by eviction, deletion and update in place.",
    status = "PodUnavailableBudgetStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Allowed","type":"integer","jsonPath":".status.unavailableAllowed","description":"Pods that may become unavailable now."}"#,
    printcolumn = r#"{"name":"Current","type":"integer","jsonPath":".status.currentAvailable","description":"Pods that are available."}"#,
    printcolumn = r#"{"name":"Desired","type":"integer","jsonPath":".status.desiredAvailable","description":"Pods that stay available."}"#,
    printcolumn = r#"{"name":"Total","type":"integer","jsonPath":".status.totalReplicas","description":"Pods that the workloads want."}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.selector) != has(self.targetRef)",
        "message": "exactly one of selector and targetRef says which pods: give one of them"},
    {"rule": "has(self.maxUnavailable) != has(self.minAvailable)",
        "message": "exactly one of maxUnavailable and minAvailable is the limit: give one of them"},
    {"rule": "has(self.selector) == has(oldSelf.selector) && has(self.targetRef) == has(oldSelf.targetRef)",
        "message": "selector and targetRef are immutable: make a new budget"},
]))]
pub struct PodUnavailableBudgetSpec {
    /// The pods, of the same namespace, by their labels. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": SAME_SELECTOR, "message": "selector is immutable: make a new budget"},
        {"rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "message": "an empty selector selects nothing: name labels"},
    ]))]
    pub selector: Option<LabelSelector>,
    /// The workload, of the same namespace, whose pods they are. It cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "targetRef is immutable: make a new budget"},
    ]))]
    pub target_ref: Option<BudgetTarget>,
    /// How many of them, or which share, may be unavailable; a share is rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "type(self) == int || self.matches('^0*(100|[1-9]?[0-9])%$')",
            "message": "a number of pods from 0, or a share from 0% to 100%"},
    ]))]
    pub max_unavailable: Option<IntOrString>,
    /// How many of them, or which share, stay available; a share is rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "type(self) == int || self.matches('^0*(100|[1-9]?[0-9])%$')",
            "message": "a number of pods from 0, or a share from 0% to 100%"},
    ]))]
    pub min_available: Option<IntOrString>,
}

/// A workload of any kind that has a scale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetTarget {
    /// Its API version, with the group.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Its kind.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Where a budget stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodUnavailableBudgetStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods whose eviction or deletion was let through and has not been seen yet, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Time>,
    /// Pods whose update was let through and has not been seen yet, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_pods: BTreeMap<String, Time>,
    /// How many pods may become unavailable now.
    #[serde(default)]
    pub unavailable_allowed: i32,
    /// How many pods are available, those left out that are in one of the two maps.
    #[serde(default)]
    pub current_available: i32,
    /// How many pods stay available.
    #[serde(default)]
    pub desired_available: i32,
    /// How many pods the workloads want.
    #[serde(default)]
    pub total_replicas: i32,
    /// `Accepted`: whether it is kept, or what of it cannot be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
