//! `WorkloadSpread`: the pods of one workload, spread over subsets in an order.
//!
//! The patch of a subset is kept as it was given: it is a piece of a core/v1 Pod, of a Kubernetes that may be
//! newer than these types.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{NodeSelectorTerm, PreferredSchedulingTerm, Toleration},
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Spreads the pods of one workload over subsets in an order.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "WorkloadSpread",
    plural = "workloadspreads",
    shortname = "ws",
    namespaced,
    doc = "Spreads the pods of one workload over subsets in an order.",
    status = "WorkloadSpreadStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"WorkloadName","type":"string","jsonPath":".spec.targetRef.name","description":"Name of the workload."}"#,
    printcolumn = r#"{"name":"WorkloadKind","type":"string","jsonPath":".spec.targetRef.kind","description":"Kind of the workload."}"#,
    printcolumn = r#"{"name":"Adaptive","type":"boolean","jsonPath":".spec.scheduleStrategy.type[?(@ == \"Adaptive\")]","description":"Whether pods that cannot be scheduled move on."}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == int) || self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == string)",
        "message": "subsets[].maxReplicas: some are numbers and some are shares: give only numbers, or only shares"},
    {"rule": "self.targetRef.kind != 'StatefulSet' || self.subsets.all(s, !has(s.maxReplicas) || type(s.maxReplicas) == int)",
        "message": "subsets[].maxReplicas: the subsets of a StatefulSet are by number: give no shares"},
    {"rule": "!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || (has(self.scheduleStrategy.type) && self.scheduleStrategy.type == 'Adaptive')",
        "message": "scheduleStrategy.adaptive is of type Adaptive: set scheduleStrategy.type to Adaptive, or leave adaptive out"},
    {"rule": "!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || size(self.subsets) == 1 || !has(self.subsets[size(self.subsets) - 1].maxReplicas)",
        "message": "subsets: with scheduleStrategy.adaptive the last one takes what the others cannot: leave out its maxReplicas"},
    {"rule": "!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || !has(self.scheduleStrategy.adaptive.rescheduleCriticalSeconds) || size(self.subsets) == 1 || self.scheduleStrategy.adaptive.rescheduleCriticalSeconds <= 295 / (size(self.subsets) - 1)",
        "message": "scheduleStrategy.adaptive.rescheduleCriticalSeconds: at most 295 s, divided by the number of subsets but the last one: make it smaller"},
]))]
pub struct WorkloadSpreadSpec {
    /// The workload, of the same namespace. It has one WorkloadSpread, and cannot be changed
    /// but for the version of `apps.kruise.io`.
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self.kind == oldSelf.kind && self.name == oldSelf.name \
            && (self.apiVersion == oldSelf.apiVersion || self.apiVersion.startsWith('apps.kruise.io/') \
            && oldSelf.apiVersion.startsWith('apps.kruise.io/'))",
        "message": "targetRef is immutable, but for the version of apps.kruise.io: make a new WorkloadSpread",
    }]))]
    pub target_ref: SpreadTarget,
    /// The subsets, in their order; names are unique.
    #[schemars(length(min = 1), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub subsets: Vec<SpreadSubset>,
    /// Fate of pods that cannot be scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_strategy: Option<SpreadScheduleStrategy>,
    /// Leave it out: all pods of the workload are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "!has(self.selector) && (!has(self.replicasPathList) || size(self.replicasPathList) == 0)",
            "message": "targetFilter would leave pods out, and all pods of the workload are spread: leave it out, and give the others a workload of their own"},
    ]))]
    pub target_filter: Option<SpreadTargetFilter>,
}

/// Pods of a workload that OpenKruise spreads from 1.8 on, where it does not spread all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadTargetFilter {
    /// Leave it out: it would select the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Leave it out: fields of the workload that would say together how many pods it wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas_path_list: Vec<String>,
}

/// A workload of a kind that can be spread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[['apps.kruise.io/', ['CloneSet', 'StatefulSet']], ['apps/', ['Deployment', 'ReplicaSet', 'StatefulSet']], ['batch/', ['Job']]].exists(one, self.apiVersion.startsWith(one[0]) && self.kind in one[1])",
        "message": "targetRef: give a CloneSet or StatefulSet of apps.kruise.io, a Deployment, ReplicaSet or StatefulSet of apps, or a Job of batch"},
]))]
pub struct SpreadTarget {
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

/// One subset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadSubset {
    /// Its name, which no other one has.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// A rule for nodes, added to each required one of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_node_selector_term: Option<NodeSelectorTerm>,
    /// Nodes that its pods would rather have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred_node_selector_terms: Vec<PreferredSchedulingTerm>,
    /// Taints that its pods bear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// The most pods, or the largest share of all; without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "type(self) == int || self.matches('^0*(100|[1-9]?[0-9])%$')",
            "message": "a number of pods from 0, or a share from 0% to 100%"},
    ]))]
    pub max_replicas: Option<IntOrString>,
    /// A piece of a pod, merged into the pods of the subset as `kubectl patch` does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<SpreadPatch>,
}

/// A piece of a core/v1 Pod as it was given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct SpreadPatch(pub Map<String, Value>);

/// Fate of pods that cannot be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadScheduleStrategy {
    /// `Fixed` (the default): they wait. `Adaptive`: they move on to the next subset.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "self in ['', 'Fixed', 'Adaptive']", "message": "scheduleStrategy.type is neither Fixed nor Adaptive: give one of them"},
    ]))]
    pub type_: Option<String>,
    /// How they move on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<SpreadAdaptive>,
}

/// How pods move on that cannot be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadAdaptive {
    /// Kept for clients of OpenKruise, where nothing reads it either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_simulation_schedule: bool,
    /// Seconds after which a pod that cannot be scheduled moves on; without it none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_critical_seconds: Option<i32>,
}

/// Where the pods of a WorkloadSpread are. What later versions of OpenKruise keep there stays as long as
/// OpenKruise carries the kind out: Berth's manager writes all of the status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct WorkloadSpreadStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods the workload wanted when they were counted, where a share follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_replicas: Option<i32>,
    /// One entry for each subset, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subset_statuses: Vec<SpreadSubsetStatus>,
    /// `Accepted`: whether it is carried out, or what of it cannot be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Where the pods of a subset are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadSubsetStatus {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How many pods it has.
    #[serde(default)]
    pub replicas: i32,
    /// How many pods it may still have; -1: as many as come.
    #[serde(default)]
    pub missing_replicas: i32,
    /// `Schedulable`: whether it takes new pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SpreadSubsetCondition>,
    /// Pods that were let in and have not been seen yet, and since when; by name, or by the `uid` of their
    /// annotation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub creating_pods: BTreeMap<String, Time>,
    /// Pods whose deletion was let through and has not been seen yet, and since when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deleting_pods: BTreeMap<String, Time>,
}

/// One condition of a subset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadSubsetCondition {
    /// Which one.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// `True` or `False`.
    #[serde(default)]
    pub status: String,
    /// When the status changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

// === impl SpreadPatch ===

impl JsonSchema for SpreadPatch {
    fn schema_name() -> Cow<'static, str> {
        "SpreadPatch".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A piece of a core/v1 Pod.",
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Metadata that the pods of the subset get.",
                    "type": "object",
                    "properties": {
                        "name": {
                            "description": "Leave it out: the workload names its pods.",
                            "type": "string", "maxLength": 253,
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
