//! `CloneSet`: pods without an identity, made, updated and removed one by one.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::LabelSelector, apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClaimTemplate, InPlaceUpdateStrategy, PodTemplate, SAME_SELECTOR, UpdatePriorityStrategy,
    UpdateScatterTerm, WorkloadCondition, WorkloadLifecycle,
};

/// Runs so many pods of one template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "CloneSet",
    plural = "clonesets",
    shortname = "clone",
    namespaced,
    doc = "Runs so many pods of one template, and updates them in place or by new ones.",
    status = "CloneSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".spec.replicas","description":"Pods that are wanted."}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedReplicas","description":"Pods of the newest revision."}"#,
    printcolumn = r#"{"name":"UPDATED_READY","type":"integer","jsonPath":".status.updatedReadyReplicas","description":"Pods of the newest revision that are ready."}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyReplicas","description":"Pods that are ready."}"#,
    printcolumn = r#"{"name":"TOTAL","type":"integer","jsonPath":".status.replicas","description":"Pods that there are."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"CONTAINERS","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].name"}"#,
    printcolumn = r#"{"name":"IMAGES","type":"string","priority":1,"jsonPath":".spec.template.spec.containers[*].image"}"#,
    printcolumn = r#"{"name":"SELECTOR","type":"string","priority":1,"jsonPath":".status.labelSelector"}"#
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
        "rule": "!has(self.updateStrategy) || !has(self.updateStrategy.maxUnavailable) \
                 || (has(self.replicas) && self.replicas == 0) \
                 || !(self.updateStrategy.maxUnavailable == 0 || self.updateStrategy.maxUnavailable == '0%') \
                 || (has(self.updateStrategy.maxSurge) && self.updateStrategy.maxSurge != 0 \
                 && self.updateStrategy.maxSurge != '0%')",
        "message": "updateStrategy.maxUnavailable and maxSurge are both 0, so no pod could be updated: give one of them",
    },
]))]
pub struct CloneSetSpec {
    /// How many pods; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub replicas: Option<i32>,
    /// The pods; it must select the template's labels, and cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": SAME_SELECTOR, "message": "selector is immutable: make a new CloneSet"},
    ]))]
    pub selector: LabelSelector,
    /// Template of the pods.
    pub template: PodTemplate,
    /// Templates of claims that each pod has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_templates: Vec<ClaimTemplate>,
    /// How pods are added and removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub scale_strategy: Option<CloneSetScaleStrategy>,
    /// How pods get a new template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub update_strategy: Option<CloneSetUpdateStrategy>,
    /// How many old revisions are kept; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 10))]
    pub revision_history_limit: Option<i32>,
    /// Seconds that a pod must be ready to be available; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// Kept for clients of later versions of OpenKruise; nothing reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// Points at which pods are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<WorkloadLifecycle>,
}

/// How pods are added and removed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.maxUnavailable) || type(self.maxUnavailable) == int \
                 || self.maxUnavailable.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "maxUnavailable is neither a number nor a share: give a number, or a share such as 10%",
    },
]))]
pub struct CloneSetScaleStrategy {
    /// Names of pods that are to go first; names of pods that are gone are taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub pods_to_delete: Vec<String>,
    /// How many pods, or which share of them, may be unavailable while pods are added; any when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Whether the claims of a pod that is gone are removed, not used again.
    #[serde(default, rename = "disablePVCReuse", skip_serializing_if = "std::ops::Not::not")]
    pub disable_pvc_reuse: bool,
}

/// How pods get a new template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.type) || self.type in ['', 'ReCreate', 'InPlaceIfPossible', 'InPlaceOnly']",
        "message": "type is none of ReCreate, InPlaceIfPossible and InPlaceOnly: give one of them",
    },
    {
        "rule": "!has(self.type) || self.type != 'InPlaceOnly' || !has(self.maxSurge) \
                 || self.maxSurge == 0 || self.maxSurge == '0%'",
        "message": "maxSurge goes not with type InPlaceOnly, which makes no new pods: leave it out",
    },
    {
        "rule": "!has(self.partition) || type(self.partition) == int \
                 || self.partition.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "partition is neither a number nor a share: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.maxUnavailable) || type(self.maxUnavailable) == int \
                 || self.maxUnavailable.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "maxUnavailable is neither a number nor a share: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.maxSurge) || type(self.maxSurge) == int \
                 || self.maxSurge.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "maxSurge is neither a number nor a share: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.priorityStrategy) || !has(self.priorityStrategy.orderPriority) \
                 || !has(self.priorityStrategy.weightPriority) \
                 || size(self.priorityStrategy.orderPriority) == 0 \
                 || size(self.priorityStrategy.weightPriority) == 0",
        "message": "priorityStrategy has both orderPriority and weightPriority: give one of them",
    },
]))]
pub struct CloneSetUpdateStrategy {
    /// `ReCreate` (the default), `InPlaceIfPossible` or `InPlaceOnly`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ReCreate"))]
    pub type_: Option<String>,
    /// How many pods, or which share of them, stay as they are; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub partition: Option<IntOrString>,
    /// How many pods, or which share of them, may be unavailable; 20 % when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "20%"))]
    pub max_unavailable: Option<IntOrString>,
    /// How many pods, or which share of them, there may be beyond the wanted number; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub max_surge: Option<IntOrString>,
    /// Whether the update rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Which pods come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "value"]))]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
    /// How a pod is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update_strategy: Option<InPlaceUpdateStrategy>,
}

/// Where a CloneSet stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneSetStatus {
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
    /// How many pods have the newest revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// How many pods have the newest revision and are ready.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// How many pods have the newest revision and are available.
    #[serde(default)]
    pub updated_available_replicas: i32,
    /// How many pods are to have the newest revision.
    #[serde(default)]
    pub expected_updated_replicas: i32,
    /// Name of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// Name of the revision that pods within the partition have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// How often the name of a new revision was taken by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The selector as a text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// `FailedScale` and `FailedUpdate`: what stands in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<WorkloadCondition>,
}
