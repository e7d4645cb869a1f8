//! `NodeImage`: the images one node should have, and how far it is with them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Images that users and OpenKruise's controllers ask of one node. Berth's manager never writes it: the
/// consequences of `ImagePullJob`s are in `status.desiredImages`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "NodeImage",
    plural = "nodeimages",
    doc = "The images one node should have. It has the name of its node.",
    status = "NodeImageStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".status.desired"}"#,
    printcolumn = r#"{"name":"PULLING","type":"integer","jsonPath":".status.pulling"}"#,
    printcolumn = r#"{"name":"SUCCEED","type":"integer","jsonPath":".status.succeeded"}"#,
    printcolumn = r#"{"name":"FAILED","type":"integer","jsonPath":".status.failed"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageSpec {
    /// By image name without tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub images: BTreeMap<String, ImageSpec>,
}

/// The wanted tags of one image.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// References to Secrets, for OpenKruise's controllers. Berth's agent reads no Secrets: for an image
    /// asked for here the node's own credentials are used, for one of an `ImagePullJob` those that the
    /// manager seals to the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_secrets: Vec<PullSecretReference>,
    /// Metadata for the runtime's pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// Each tag once.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["tag"]))]
    pub tags: Vec<ImageTagSpec>,
}

/// A Secret with the credentials of a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullSecretReference {
    /// Where the Secret is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Labels and annotations of the pod sandbox that a pull is said to be for; some runtimes and snapshotters
/// act on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxConfig {
    /// Labels of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One wanted tag.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagSpec {
    /// A tag, or a digest `sha256:...`.
    #[schemars(length(min = 1))]
    pub tag: String,
    /// When it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// How it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<TagPullPolicy>,
    /// Whether an image that is there already is pulled again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// The `ImagePullJob`s that want it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<ObjectReference>,
    /// A larger one pulls again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub version: Option<i64>,
}

/// Limits of the pulls of one image on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TagPullPolicy {
    /// Seconds one attempt may take; 600 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
    /// Attempts after the first one; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backoff_limit: Option<i32>,
    /// Seconds after its end until the record of it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds all attempts together may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub active_deadline_seconds: Option<i64>,
}

/// Whether an image that is on the node already is pulled again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// It is.
    Always,
    /// It is not.
    #[default]
    IfNotPresent,
}

/// Wanted images, and what the node has of them. The manager writes `desiredImages`, the agent of the node
/// everything else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageStatus {
    /// Images that jobs and workloads ask of this node now; the manager's. Each of the two lists has one
    /// writer, which writes all of it: as one value (`atomic`) its entries cost the API server half as much
    /// as one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub desired_images: Vec<DesiredImage>,
    /// How far the node is with each of them; the agent's. Its identities are those of `desiredImages`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub pulls: Vec<PullStatus>,
    /// The node's public key (HPKE, X25519; base64). What is sealed to it only the agent of this node can
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing_key: Option<String>,
    /// How many tags are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// How many tags wait for their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<i32>,
    /// How many tags are being pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulling: Option<i32>,
    /// How many tags are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// How many tags were given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// By image name without tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_statuses: BTreeMap<String, ImageStatus>,
    /// The first contact of the agent after the node joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sync_status: Option<SyncStatus>,
    /// Conditions that name what is not, or not yet, acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One image that somebody wants on this node. Two jobs for one image are two wishes, each with its own
/// limits and its own result; the node pulls once.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DesiredImage {
    /// The UID of who wants it; one that wants several images adds something to it.
    #[schemars(length(min = 1))]
    pub uid: String,
    /// The reference as it was given, tag or digest included.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Since when it is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// A larger one pulls again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub version: Option<i64>,
    /// Job or workload that wants the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_by: Option<WantedBy>,
    /// How it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<TagPullPolicy>,
    /// Whether an image that is there already is pulled again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Metadata for the runtime's pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_config: Option<SandboxConfig>,
    /// Credentials to pull it with, each sealed to the node's `sealingKey` (base64). After them the node's
    /// own are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub sealed_credentials: Vec<String>,
}

/// Job or workload that wants an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WantedBy {
    /// `ImagePullJob`, or the kind of a workload that pulls ahead of its update.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How far the node is with one of `desiredImages`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullStatus {
    /// ID of the entry in `desiredImages` that this answers.
    pub uid: String,
    /// The version of the wish this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// `Waiting`, `Pulling`, `Succeeded` or `Failed`.
    pub phase: ImagePhase,
    /// Percent of the bytes; 100 only when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<i32>,
    /// Begin of the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was there, or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The runtime's.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The tags of one image.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    /// Each tag once.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["tag"]))]
    pub tags: Vec<ImageTagStatus>,
}

/// Where one tag stands.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageTagStatus {
    /// A tag, or a digest `sha256:...`.
    pub tag: String,
    /// `Waiting`, `Pulling`, `Succeeded` or `Failed`.
    pub phase: ImagePhase,
    /// Percent of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<i32>,
    /// Begin of the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it was there, or given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The version of the wish this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The runtime's.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Phases of an image on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ImagePhase {
    /// Not begun, or between two attempts.
    Waiting,
    /// Being pulled.
    Pulling,
    /// On the node.
    Succeeded,
    /// Given up.
    Failed,
}

/// The first contact of the agent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_at: Option<Time>,
    /// `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
