//! `BroadcastJob`: one pod on each node, until it is done there.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, apimachinery::pkg::util::intstr::IntOrString};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PodTemplate;

/// Runs a pod of one template to its end on each node that the template fits.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "BroadcastJob",
    plural = "broadcastjobs",
    shortname = "bcj",
    namespaced,
    doc = "Runs a pod of one template to its end on each node that the template fits.",
    status = "BroadcastJobStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Desired","type":"integer","jsonPath":".status.desired","description":"Nodes that the template fits."}"#,
    printcolumn = r#"{"name":"Active","type":"integer","jsonPath":".status.active","description":"Pods that have not ended."}"#,
    printcolumn = r#"{"name":"Succeeded","type":"integer","jsonPath":".status.succeeded","description":"Pods that succeeded."}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.failed","description":"Pods that failed."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
// What OpenKruise's webhook refuses; the controller checks again what an older definition let in.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.parallelism) || (type(self.parallelism) == int ? self.parallelism >= 0 \
            : self.parallelism.matches('^[0-9]{1,9}([.][0-9]{1,4})?%$'))",
        "message": "is neither a number of pods nor a share: give a number from 0 on, or one such as 10%",
        "fieldPath": ".parallelism",
    },
    {
        "rule": "!has(self.completionPolicy) || !has(self.completionPolicy.type) \
            || self.completionPolicy.type != 'Never' \
            || (!has(self.completionPolicy.activeDeadlineSeconds) \
            && !has(self.completionPolicy.ttlSecondsAfterFinished))",
        "message": "activeDeadlineSeconds and ttlSecondsAfterFinished are only for type Always: leave them out",
        "fieldPath": ".completionPolicy",
    },
    {
        "rule": "!has(self.template.metadata) || !has(self.template.metadata.labels) \
            || (!('broadcastjob-name' in self.template.metadata.labels) \
            && !('broadcastjob-controller-uid' in self.template.metadata.labels))",
        "message": "labels broadcastjob-name and broadcastjob-controller-uid are the controller's: leave them out",
        "fieldPath": ".template",
    },
]))]
pub struct BroadcastJobSpec {
    /// How many pods, or which share of them, run at once; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 2_147_483_647))]
    pub parallelism: Option<IntOrString>,
    /// Template of the pods; its restartPolicy is `Never` or `OnFailure`.
    pub template: PodTemplate,
    /// When the job is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub completion_policy: Option<BroadcastCompletionPolicy>,
    /// Whether no new pods are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Consequence of a pod that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub failure_policy: Option<BroadcastFailurePolicy>,
}

/// When a BroadcastJob is done.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.type) || self.type in ['', 'Always', 'Never']",
    "message": "type is neither Always nor Never: give one of them",
}]))]
pub struct BroadcastCompletionPolicy {
    /// `Always` (the default): once every node's pod has ended. `Never`: it goes on serving new nodes.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Always"))]
    pub type_: Option<String>,
    /// Seconds from its start after which the job has failed and its pods are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds from its end after which the job is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Consequence of a pod of a BroadcastJob that failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.type) || self.type in ['', 'Continue', 'FailFast', 'Pause']",
    "message": "type is none of Continue, FailFast and Pause: give one of them",
}]))]
pub struct BroadcastFailurePolicy {
    /// `FailFast` (the default): the job has failed, and its pods are deleted. `Continue`: nothing. `Pause`:
    /// no new pods are made until the job is paused and let go by hand.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "FailFast"))]
    pub type_: Option<String>,
    /// Restarts after which a pod with restartPolicy `OnFailure` has failed; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_limit: Option<i32>,
}

/// Where a BroadcastJob stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How it ended, and what is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<BroadcastJobCondition>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// How many pods have not ended.
    #[serde(default)]
    pub active: i32,
    /// How many pods succeeded.
    #[serde(default)]
    pub succeeded: i32,
    /// How many pods failed.
    #[serde(default)]
    pub failed: i32,
    /// How many nodes the template fits.
    #[serde(default)]
    pub desired: i32,
    /// `running`, `paused`, `completed` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How many failed pods the job has been let go on with, by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_failures: Option<i32>,
}

/// One condition of a BroadcastJob.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobCondition {
    /// Which one.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When it was looked at last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
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
