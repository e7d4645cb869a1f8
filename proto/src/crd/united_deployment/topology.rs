//! Subsets of a UnitedDeployment.

use k8s_openapi::{
    api::core::v1::{NodeSelectorTerm, Toleration},
    apimachinery::pkg::util::intstr::IntOrString,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PodTemplatePatch;

/// Subsets of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// One after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [{
            "rule": "self.all(one, self.exists_one(other, other.name == one.name))",
            "message": "two subsets have one name: give each a name of its own",
        }],
    ))]
    pub subsets: Vec<Subset>,
    /// Fate of pods that cannot be scheduled: they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_strategy: Option<UnitedScheduleStrategy>,
}

/// Fate of pods that cannot be scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedScheduleStrategy {
    /// `Fixed`: they wait.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self in ['', 'Fixed']",
        "message": "scheduleStrategy.type is not Fixed, and pods of a UnitedDeployment stay in their subset: leave it out, or spread one \
                    CloneSet by a WorkloadSpread of type Adaptive",
    }]))]
    pub type_: Option<String>,
    /// Kept for clients of OpenKruise; it is of the type `Adaptive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<UnitedAdaptive>,
}

/// Kept for clients of OpenKruise: nothing reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedAdaptive {
    /// Seconds after which a pod that cannot be scheduled would move on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_critical_seconds: Option<i32>,
    /// Seconds for which a subset would get no pods then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable_duration: Option<i32>,
    /// The name of `unschedulableDuration` until OpenKruise 1.8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable_last_seconds: Option<i32>,
    /// Keeps pods that cannot be scheduled beside those in their place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserve_unschedulable_pods: bool,
}

/// One subset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "message": "name is no DNS label: give small letters, digits and dashes, 63 at most",
    },
    {
        "rule": "!has(self.replicas) || type(self.replicas) == int || self.replicas.matches('^(100|[0-9]{1,2})%$')",
        "message": "replicas is neither a number nor a share from 0% to 100%: give one of them, such as 3 or 30%",
    },
    {
        "rule": "!has(self.minReplicas) || type(self.minReplicas) == int || self.minReplicas.matches('^(100|[0-9]{1,2})%$')",
        "message": "minReplicas is neither a number nor a share from 0% to 100%: give one of them, such as 3 or 30%",
    },
    {
        "rule": "!has(self.maxReplicas) || type(self.maxReplicas) == int || self.maxReplicas.matches('^(100|[0-9]{1,2})%$')",
        "message": "maxReplicas is neither a number nor a share from 0% to 100%: give one of them, such as 3 or 30%",
    },
    {
        "rule": "!has(self.nodeSelectorTerm) || !has(self.nodeSelectorTerm.matchExpressions) \
                 || self.nodeSelectorTerm.matchExpressions.all(e, \
                 e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt'])",
        "message": "nodeSelectorTerm has an operator that is none of In, NotIn, Exists, DoesNotExist, Gt and Lt: give one of them",
    },
    {
        "rule": "!has(self.tolerations) || self.tolerations.all(t, (!has(t.operator) \
                 || t.operator in ['', 'Equal', 'Exists']) && (!has(t.effect) \
                 || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']))",
        "message": "tolerations have an operator or an effect that is none: give Equal or Exists, and NoSchedule, PreferNoSchedule or NoExecute",
    },
    {
        "rule": "(has(self.nodeSelectorTerm) && has(self.nodeSelectorTerm.matchExpressions) \
                 ? self.nodeSelectorTerm.matchExpressions : []) \
                 == (has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchExpressions) \
                 ? oldSelf.nodeSelectorTerm.matchExpressions : []) \
                 && (has(self.nodeSelectorTerm) && has(self.nodeSelectorTerm.matchFields) \
                 ? self.nodeSelectorTerm.matchFields : []) \
                 == (has(oldSelf.nodeSelectorTerm) && has(oldSelf.nodeSelectorTerm.matchFields) \
                 ? oldSelf.nodeSelectorTerm.matchFields : [])",
        "message": "nodeSelectorTerm is immutable: make a new subset",
    },
    {
        "rule": "(has(self.tolerations) ? self.tolerations : []) == (has(oldSelf.tolerations) ? oldSelf.tolerations : [])",
        "message": "tolerations are immutable: make a new subset",
    },
]))]
pub struct Subset {
    /// Its name: part of the name of its workload.
    pub name: String,
    /// Nodes of its pods, beside what the template says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector_term: Option<NodeSelectorTerm>,
    /// Taints that its pods bear, beside what the template says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How many pods it has, or which share of all; an even part of the rest when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<IntOrString>,
    /// Least number of its pods, or share of all, as far as there are as many, in the order of the list; no
    /// subset has `replicas` then. 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<IntOrString>,
    /// Largest number of its pods, or share of all: the next one in the list gets those that are over. No
    /// limit when left out, as in one subset at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<IntOrString>,
    /// Differences of its pods from the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PodTemplatePatch>,
}
