//! `DaemonSet` of `apps.kruise.io`: one pod on each node.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::LabelSelector, apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PodTemplate, SAME_SELECTOR, WorkloadCondition, WorkloadLifecycle};

/// Runs a pod of one template on each node that the template fits.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "DaemonSet",
    root = "AdvancedDaemonSet",
    plural = "daemonsets",
    shortname = "daemon",
    shortname = "ads",
    namespaced,
    doc = "Runs a pod of one template on each node that the template fits.",
    status = "AdvancedDaemonSetStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".status.desiredNumberScheduled","description":"Nodes that should have a pod."}"#,
    printcolumn = r#"{"name":"CURRENT","type":"integer","jsonPath":".status.currentNumberScheduled","description":"Nodes of these that have one."}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.numberReady","description":"Nodes of these whose pod is ready."}"#,
    printcolumn = r#"{"name":"UP-TO-DATE","type":"integer","jsonPath":".status.updatedNumberScheduled","description":"Nodes of these whose pod is of the newest template."}"#,
    printcolumn = r#"{"name":"AVAILABLE","type":"integer","jsonPath":".status.numberAvailable","description":"Nodes of these whose pod is available."}"#,
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
        "rule": "!has(self.burstReplicas) || type(self.burstReplicas) == int \
                 || self.burstReplicas.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "burstReplicas is neither a number nor a share: give a number, or a share such as 10%",
    },
]))]
pub struct AdvancedDaemonSetSpec {
    /// The pods; it must select the template's labels, and cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": SAME_SELECTOR, "message": "selector is immutable: make a new DaemonSet"},
    ]))]
    pub selector: LabelSelector,
    /// Template of the pods.
    pub template: PodTemplate,
    /// How pods get a new template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {
        "type": "RollingUpdate",
        "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 },
    }))]
    pub update_strategy: Option<AdvancedDaemonSetUpdateStrategy>,
    /// Seconds that a pod must be ready to be available; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<i32>,
    /// How many pods, or which share of them, are made at once; 250 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 250))]
    pub burst_replicas: Option<IntOrString>,
    /// How many old revisions are kept; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 10))]
    pub revision_history_limit: Option<i32>,
    /// Points at which pods are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.inPlaceUpdate)",
        "message": "a DaemonSet holds no pod at updates in place: leave inPlaceUpdate out",
    }]))]
    pub lifecycle: Option<WorkloadLifecycle>,
}

/// How pods get a new template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.type) || self.type in ['RollingUpdate', 'OnDelete']",
    "message": "type is neither RollingUpdate nor OnDelete: give one of them",
}]))]
pub struct AdvancedDaemonSetUpdateStrategy {
    /// `RollingUpdate` (the default), or `OnDelete`: only pods that are made anew.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "RollingUpdate"))]
    pub type_: Option<String>,
    /// How it rolls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<AdvancedDaemonSetRollingUpdate>,
}

/// How an update rolls over the nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.rollingUpdateType) \
                 || self.rollingUpdateType in ['', 'Standard', 'Surging', 'InPlaceIfPossible']",
        "message": "rollingUpdateType is none of Standard, Surging and InPlaceIfPossible: give one of them",
    },
    {
        "rule": "!has(self.maxUnavailable) || type(self.maxUnavailable) == int \
                 || self.maxUnavailable.matches('^0{0,6}([0-9]{1,2}([.][0-9]{1,4})?|100([.]0{1,4})?)%$')",
        "message": "maxUnavailable is neither a number nor a share up to 100%: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.maxSurge) || type(self.maxSurge) == int \
                 || self.maxSurge.matches('^0{0,6}([0-9]{1,2}([.][0-9]{1,4})?|100([.]0{1,4})?)%$')",
        "message": "maxSurge is neither a number nor a share up to 100%: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.partition) || type(self.partition) == int \
                 || self.partition.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$')",
        "message": "partition is neither a number nor a share: give a number, or a share such as 10%",
    },
    {
        "rule": "!has(self.maxUnavailable) || !has(self.maxSurge) \
                 && (self.maxUnavailable != 0 && self.maxUnavailable != '0%' \
                 || has(self.rollingUpdateType) && self.rollingUpdateType == 'Surging') \
                 || has(self.maxSurge) && (self.maxUnavailable == 0 || self.maxUnavailable == '0%') \
                 != (self.maxSurge == 0 || self.maxSurge == '0%')",
        "message": "maxUnavailable and maxSurge are both 0, or neither is: give one of them, and 0 for the other one",
    },
    {
        "rule": "!has(self.rollingUpdateType) || self.rollingUpdateType != 'Surging' \
                 || !has(self.maxUnavailable) || self.maxUnavailable == 0 || self.maxUnavailable == '0%'",
        "message": "maxUnavailable goes not with rollingUpdateType Surging: leave it out, and give maxSurge",
    },
    {
        "rule": "!has(self.rollingUpdateType) || self.rollingUpdateType != 'InPlaceIfPossible' \
                 || !has(self.maxSurge) || self.maxSurge == 0 || self.maxSurge == '0%'",
        "message": "maxSurge goes not with rollingUpdateType InPlaceIfPossible, which makes no second pod: leave it out",
    },
]))]
pub struct AdvancedDaemonSetRollingUpdate {
    /// `Standard` (the default), `Surging` or `InPlaceIfPossible`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Standard"))]
    pub rolling_update_type: Option<String>,
    /// How many nodes, or which share of them, may be without an available pod; when left out 1, or 0 with
    /// `maxSurge` or `Surging`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// How many nodes, or which share of them, may have a new pod beside the old one; when left out 0, or 1
    /// with `Surging`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Only these nodes are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How many nodes stay as they are; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub partition: Option<IntOrString>,
    /// Whether the update rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// Where a DaemonSet stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvancedDaemonSetStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many nodes should have a pod.
    #[serde(default)]
    pub desired_number_scheduled: i32,
    /// How many nodes that should have a pod have one.
    #[serde(default)]
    pub current_number_scheduled: i32,
    /// How many nodes have a pod and should not.
    #[serde(default)]
    pub number_misscheduled: i32,
    /// How many nodes that should have a pod have a ready one.
    #[serde(default)]
    pub number_ready: i32,
    /// How many nodes that should have a pod have one of the newest template.
    #[serde(default)]
    pub updated_number_scheduled: i32,
    /// How many nodes that should have a pod have an available one.
    #[serde(default)]
    pub number_available: i32,
    /// How many nodes that should have a pod have none that is available.
    #[serde(default)]
    pub number_unavailable: i32,
    /// How often the name of a new revision was taken by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Hash of the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_set_hash: Option<String>,
    /// Obstacles that stand in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<WorkloadCondition>,
}
