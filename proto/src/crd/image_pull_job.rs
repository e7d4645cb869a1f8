//! `ImagePullJob`: one image on many nodes before it is needed.

use std::collections::BTreeMap;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement, Time},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::node_image::{ImagePullPolicy, SandboxConfig};

/// Brings an image to nodes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ImagePullJob",
    plural = "imagepulljobs",
    namespaced,
    doc = "Brings an image to nodes before it is needed.",
    status = "ImagePullJobStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"TOTAL","type":"integer","jsonPath":".status.desired"}"#,
    printcolumn = r#"{"name":"ACTIVE","type":"integer","jsonPath":".status.active"}"#,
    printcolumn = r#"{"name":"SUCCEED","type":"integer","jsonPath":".status.succeeded"}"#,
    printcolumn = r#"{"name":"FAILED","type":"integer","jsonPath":".status.failed"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
// What OpenKruise's webhook refuses; the manager checks again what an older definition let in.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.podSelector) || !has(self.selector)",
        "message": "selector and podSelector exclude each other: leave one of them out",
        "fieldPath": ".podSelector",
    },
    {
        "rule": "!has(self.selector) || !has(self.selector.names) || self.selector.names.size() == 0 \
            || ((!has(self.selector.matchLabels) || self.selector.matchLabels.size() == 0) \
            && (!has(self.selector.matchExpressions) || self.selector.matchExpressions.size() == 0))",
        "message": "names and labels exclude each other: leave one of them out",
        "fieldPath": ".selector",
    },
    {
        "rule": "!has(self.parallelism) || (type(self.parallelism) == int ? self.parallelism >= 0 \
            : self.parallelism.matches('^([0-9]+|0*(100|[0-9]{1,2})%)$'))",
        "message": "is a number of nodes from 0 on, or a share from 0% to 100%",
        "fieldPath": ".parallelism",
    },
    {
        "rule": "!has(self.completionPolicy.type) || self.completionPolicy.type != 'Never' \
            || (!has(self.completionPolicy.activeDeadlineSeconds) \
            && !has(self.completionPolicy.ttlSecondsAfterFinished))",
        "message": "activeDeadlineSeconds and ttlSecondsAfterFinished are only for type Always: leave them out",
        "fieldPath": ".completionPolicy",
    },
    {
        "rule": "self.image == oldSelf.image",
        "message": "image is immutable: make a new job",
        "fieldPath": ".image",
    },
    {
        "rule": "(has(self.pullSecrets) ? self.pullSecrets : []) \
            == (has(oldSelf.pullSecrets) ? oldSelf.pullSecrets : [])",
        "message": "pullSecrets is immutable: make a new job",
        "fieldPath": ".pullSecrets",
    },
]))]
pub struct ImagePullJobSpec {
    /// The image, with tag or digest; it stays as it is.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Names of Secrets of this namespace (`kubernetes.io/dockerconfigjson`). The manager must have been
    /// allowed to get them; it seals what is for this image to each node that pulls it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub pull_secrets: Vec<String>,
    /// Which nodes; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NodeSelector>,
    /// The nodes that run such pods of this namespace; not together with `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// How many nodes pull at once; 1 when left out, 0 pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<IntOrString>,
    /// Limits on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub pull_policy: Option<JobPullPolicy>,
    /// When the job ends.
    pub completion_policy: CompletionPolicy,
    /// Metadata for the runtime's pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// Whether an image that is there already is pulled again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
}

/// Nodes by name, or by the labels they have; not both.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// Their names, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Limits of the pulls on each node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPullPolicy {
    /// Seconds one attempt may take; 600 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 600))]
    pub timeout_seconds: Option<i32>,
    /// Attempts after the first one; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 3))]
    pub backoff_limit: Option<i32>,
}

/// When a job ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// `Always` (the default): when all its nodes ended. `Never`: it stays, for nodes that come later.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Always"))]
    pub type_: Option<CompletionPolicyType>,
    /// Seconds after which an `Always` job ends, whatever was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end until an `Always` job is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Whether a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CompletionPolicyType {
    /// When all its nodes ended.
    #[default]
    Always,
    /// It does not.
    Never,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePullJobStatus {
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// How many nodes are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// How many nodes are pulling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// How many nodes have the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// How many nodes gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Names of the nodes that gave up; the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
    /// All nodes that ended, so that none is asked twice whoever manages: their names, sorted, one a line,
    /// one that gave up with a `!` before it; compressed by gzip, then base64. Some 3 bytes a node where
    /// names have a pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_nodes: Option<String>,
    /// When `endedNodes` was written: of a node made after it nothing is in there, whatever its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_nodes_time: Option<Time>,
    /// `Complete` or `Failed`, with a reason; `Accepted` False with what keeps it from being carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
