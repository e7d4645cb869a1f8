//! `StatefulSet` of `apps.kruise.io`: pods with a number and claims of their own.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::LabelSelector, apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClaimTemplate, InPlaceUpdateStrategy, PodTemplate, SAME_SELECTOR, UpdatePriorityStrategy,
    WorkloadCondition, WorkloadLifecycle,
};

/// The most pods that a StatefulSet may have; no cluster has as many.
pub const MOST_NUMBERED_PODS: i64 = 100_000;
/// The largest number that the first pod may have: those after it have no more digits.
pub const MOST_ORDINAL_START: i64 = 2_000_000_000;

/// Runs pods with a number each, which keep their names and claims.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1beta1",
    kind = "StatefulSet",
    root = "AdvancedStatefulSet",
    plural = "statefulsets",
    shortname = "sts",
    shortname = "asts",
    namespaced,
    doc = "Runs pods with a number each, which keep their names and claims.",
    status = "AdvancedStatefulSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".spec.replicas","description":"Pods that are wanted."}"#,
    printcolumn = r#"{"name":"CURRENT","type":"integer","jsonPath":".status.replicas","description":"Pods that there are."}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedReplicas","description":"Pods of the newest revision."}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyReplicas","description":"Pods that are ready."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"CONTAINERS","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].name"}"#,
    printcolumn = r#"{"name":"IMAGES","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].image"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) \
                 || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",
        "message": "selector selects all pods: give it labels of the template",
    },
    {
        "rule": "!has(self.selector.matchLabels) || (has(self.template.metadata) \
                 && has(self.template.metadata.labels) && self.selector.matchLabels.all(key, \
                 key in self.template.metadata.labels \
                 && self.template.metadata.labels[key] == self.selector.matchLabels[key]))",
        "message": "template.metadata.labels are not those of selector: give the template the labels that are selected",
    },
    {
        "rule": "!has(self.template.spec) || !has(self.template.spec.restartPolicy) \
                 || self.template.spec.restartPolicy in ['', 'Always']",
        "message": "template.spec.restartPolicy is not Always, and these pods run on and on: leave it out",
    },
    {
        "rule": "!has(self.template.spec) || !has(self.template.spec.activeDeadlineSeconds)",
        "message": "template.spec.activeDeadlineSeconds would end pods that run on and on: leave it out",
    },
    {
        "rule": "(has(self.serviceName) ? self.serviceName : '') \
                 == (has(oldSelf.serviceName) ? oldSelf.serviceName : '')",
        "message": "serviceName is immutable: make a new StatefulSet",
    },
    {
        "rule": "(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') \
                 || !has(self.scaleStrategy) || !has(self.scaleStrategy.maxUnavailable) \
                 || self.scaleStrategy.maxUnavailable == 1",
        "message": "scaleStrategy.maxUnavailable goes with podManagementPolicy Parallel: leave it out, or give Parallel",
    },
    {
        "rule": "(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') \
                 || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) \
                 || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",
        "message": "unorderedUpdate goes with podManagementPolicy Parallel: leave it out, or give Parallel",
    },
]))]
pub struct AdvancedStatefulSetSpec {
    /// How many pods; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MOST_NUMBERED_PODS), extend("default" = 1))]
    pub replicas: Option<i32>,
    /// The pods; it must select the template's labels, and cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": SAME_SELECTOR, "message": "selector is immutable: make a new StatefulSet"},
    ]))]
    pub selector: LabelSelector,
    /// Template of the pods.
    pub template: PodTemplate,
    /// Templates of claims that each pod has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// Service of the pods' names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// `OrderedReady` (the default): one pod after the other; or `Parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "OrderedReady", "x-kubernetes-validations" = [
        {"rule": "self == oldSelf", "message": "podManagementPolicy is immutable: make a new StatefulSet"},
        {
            "rule": "self in ['OrderedReady', 'Parallel']",
            "message": "podManagementPolicy is neither OrderedReady nor Parallel: give one of them",
        },
    ]))]
    pub pod_management_policy: Option<String>,
    /// How pods get a new template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = { "type": "RollingUpdate", "rollingUpdate": {} }))]
    pub update_strategy: Option<AdvancedStatefulSetUpdateStrategy>,
    /// How many old revisions are kept; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 10))]
    pub revision_history_limit: Option<i32>,
    /// Numbers that no pod gets: single ones, and ranges such as `3-7`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {
        "description": "A number, or the first and the last one of a range.",
        "x-kubernetes-int-or-string": true,
    }, "x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = [
        {
            "rule": "self.all(one, type(one) == int || one.matches('^[0-9]{1,10}(-[0-9]{1,10})?$'))",
            "message": "reserveOrdinals has one that is neither a number nor a range: give numbers \
                        such as 5, and ranges such as 3-7",
        },
        {
            "rule": "self.all(one, type(one) == int || !one.matches('^[0-9]{1,10}(-[0-9]{1,10})?$') \
                     || (int(one.split('-')[0]) <= int(one.split('-')[size(one.split('-')) - 1]) \
                     && int(one.split('-')[size(one.split('-')) - 1]) <= 2147483647))",
            "message": "reserveOrdinals has a range that ends before it begins, or beyond 2147483647: \
                        give the lower number first, such as 3-7",
        },
    ]))]
    pub reserve_ordinals: Vec<IntOrString>,
    /// Numbers of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<OrdinalRange>,
    /// Points at which pods are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<WorkloadLifecycle>,
    /// How pods are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<AdvancedStatefulSetScaleStrategy>,
    /// Whether claims go with their pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetentionPolicy>,
    /// How claims follow their templates, of OpenKruise 1.8: kept, and nothing follows from it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_update_strategy: Option<VolumeClaimUpdateStrategy>,
}

/// How claims follow their templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimUpdateStrategy {
    /// `OnDelete` or `OnPodRollingUpdate`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

/// Numbers of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrdinalRange {
    /// Number of the first pod, which those of the others follow; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MOST_ORDINAL_START))]
    pub start: Option<i32>,
}

/// How pods are added.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.maxUnavailable) || type(self.maxUnavailable) == int \
                 || self.maxUnavailable.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "maxUnavailable is neither a number nor a share: give a number, or a share such as 10%",
    },
]))]
pub struct AdvancedStatefulSetScaleStrategy {
    /// How many pods, or which share of them, may be unavailable; with `Parallel` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// Whether claims go with their pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(!has(self.whenDeleted) || self.whenDeleted in ['Retain', 'Delete']) \
             && (!has(self.whenScaled) || self.whenScaled in ['Retain', 'Delete'])",
    "message": "whenDeleted and whenScaled are Retain or Delete: give one of them",
}]))]
pub struct ClaimRetentionPolicy {
    /// Claims when the set is deleted: `Retain` (the default) or `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_deleted: Option<String>,
    /// Claims of a pod that is scaled away: `Retain` (the default) or `Delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_scaled: Option<String>,
}

/// How pods get a new template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.type) || self.type in ['RollingUpdate', 'OnDelete']",
        "message": "type is neither RollingUpdate nor OnDelete: give one of them",
    },
    {
        "rule": "!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate)",
        "message": "rollingUpdate goes not with type OnDelete: leave it out",
    },
]))]
pub struct AdvancedStatefulSetUpdateStrategy {
    /// `RollingUpdate` (the default), or `OnDelete`: only pods that are made anew.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "RollingUpdate"))]
    pub type_: Option<String>,
    /// How it rolls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<AdvancedStatefulSetRollingUpdate>,
}

/// How an update rolls over the pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.podUpdatePolicy) \
                 || self.podUpdatePolicy in ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly']",
        "message": "podUpdatePolicy is none of ReCreate, InPlaceIfPossible and InPlaceOnly: give one of them",
    },
    {
        "rule": "!has(self.maxUnavailable) || type(self.maxUnavailable) == int \
                 || self.maxUnavailable.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "maxUnavailable is neither a number nor a share: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.maxUnavailable) || !(self.maxUnavailable == 0 || self.maxUnavailable == '0%')",
        "message": "maxUnavailable is 0, so no pod could be updated: give at least 1",
    },
]))]
pub struct AdvancedStatefulSetRollingUpdate {
    /// Pods with a smaller number, counted from `ordinals.start`, stay as they are; with `unorderedUpdate`,
    /// how many. 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub partition: Option<i32>,
    /// How many pods, or which share of them, may be unavailable; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub max_unavailable: Option<IntOrString>,
    /// `ReCreate` (the default), `InPlaceIfPossible` or `InPlaceOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ReCreate"))]
    pub pod_update_policy: Option<String>,
    /// Whether the update rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Which pods come first, whatever their numbers are; with `Parallel` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unordered_update: Option<UnorderedUpdate>,
    /// How a pod is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
    /// Seconds that a pod must be ready to be available, at most 300; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 300), extend("default" = 0))]
    pub min_ready_seconds: Option<i32>,
}

/// An order of the update that is not that of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.priorityStrategy) || !has(self.priorityStrategy.orderPriority) \
                 || !has(self.priorityStrategy.weightPriority) \
                 || size(self.priorityStrategy.orderPriority) == 0 \
                 || size(self.priorityStrategy.weightPriority) == 0",
        "message": "priorityStrategy has both orderPriority and weightPriority: give one of them",
    },
]))]
pub struct UnorderedUpdate {
    /// Which pods come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
}

/// Where a StatefulSet stands. What later versions of OpenKruise keep there stays.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct AdvancedStatefulSetStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    #[serde(default)]
    pub replicas: i32,
    /// How many pods are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// How many pods are available.
    #[serde(default)]
    pub available_replicas: i32,
    /// How many pods have the current revision.
    #[serde(default)]
    pub current_replicas: i32,
    /// How many pods have the newest revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// How many pods have the newest revision and are ready.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// How many pods have the newest revision and are available.
    #[serde(default)]
    pub updated_available_replicas: i32,
    /// Name of the current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// Name of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// How often the name of a new revision was taken by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The selector as a text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// `FailedCreatePod` and `FailedUpdatePod`: what stands in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<WorkloadCondition>,
}
