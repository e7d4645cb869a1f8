//! `SidecarSet`: sidecars that are injected into pods as they are made, and upgraded in them afterwards.
//!
//! Containers and volumes are kept as they were given: clients send full core/v1 objects, of a Kubernetes
//! that may be newer than these types, and none of it may be lost. Choices are texts here, for what an older
//! definition let in must still be readable; admission says which are known.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::LocalObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Injects sidecars into new pods and upgrades them in running ones.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "SidecarSet",
    plural = "sidecarsets",
    doc = "Injects sidecars into new pods and upgrades them in running ones.",
    status = "SidecarSetStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"MATCHED","type":"integer","jsonPath":".status.matchedPods","description":"Pods that it selects."}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedPods","description":"Pods with its newest sidecars."}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyPods","description":"Pods that are ready."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetSpec {
    /// The pods; required, and an empty one selects nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The one namespace of the pods; not together with `namespaceSelector`. Everywhere when both are left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The namespaces of the pods, by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers, injected when a pod is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<SidecarContainer>,
    /// The sidecars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<SidecarContainer>,
    /// Volumes; those that a sidecar mounts go into the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<SidecarVolume>,
    /// How running pods are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<SidecarSetUpdateStrategy>,
    /// Revision that new pods get, or none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injection_strategy: Option<SidecarSetInjectionStrategy>,
    /// Secrets that the pod gets for pulls; they must be in the pod's namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many revisions are kept; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Annotations that the pod gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch_pod_metadata: Vec<SidecarSetPatchPodMetadata>,
}

/// One sidecar as it was given: a core/v1 Container, and the members `podInjectPolicy`, `upgradeStrategy`,
/// `shareVolumePolicy`, `shareVolumeDevicePolicy`, `transferEnv` and `resourcesPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct SidecarContainer(pub Map<String, Value>);

/// One volume as it was given: a core/v1 Volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct SidecarVolume(pub Map<String, Value>);

/// How running pods get a new revision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetUpdateStrategy {
    /// `RollingUpdate` (the default), or `NotUpdate`: only new pods get it.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Whether the upgrade rests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Only these of the pods are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How many pods, or which share of them, stay as they are; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<IntOrString>,
    /// How many pods, or which share of them, may be unavailable; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<UpdatePriorityStrategy>,
    /// Labels whose pods are spread over the upgrade.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scatter_strategy: Vec<UpdateScatterTerm>,
}

/// Order of an upgrade: by weights or by values of labels, not by both.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityStrategy {
    /// Labels whose last integer counts, the larger first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_priority: Vec<UpdatePriorityOrderTerm>,
    /// Weights of the pods that a selector takes; their sum counts, the larger first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weight_priority: Vec<UpdatePriorityWeightTerm>,
}

/// One label that orders an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityOrderTerm {
    /// Key of the label.
    #[schemars(length(min = 1))]
    pub ordered_key: String,
}

/// One weight that orders an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityWeightTerm {
    /// From 0 to 100.
    pub weight: i32,
    /// The pods that have it.
    pub match_selector: LabelSelector,
}

/// One label that is spread over an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateScatterTerm {
    /// Key of the label.
    #[schemars(length(min = 1))]
    pub key: String,
    /// Its value.
    pub value: String,
}

/// Which sidecars new pods get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectionStrategy {
    /// Whether new pods get none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The revision they get; the newest when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<SidecarSetInjectRevision>,
}

/// One revision of the history, by either of its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetInjectRevision {
    /// Version that the set's author gave it, by the label `apps.kruise.io/sidecarset-custom-version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// Its name, as in `status.latestRevision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// `Always` (the default): every new pod gets it. `Partial`: as large a share of them as `partition`
    /// says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// Annotations that a pod gets together with the sidecars.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetPatchPodMetadata {
    /// The annotations; each key must be on the white list of the installation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Precedence: `Retain` (the default) keeps the pod's value, `Overwrite` sets it, `MergePatchJson`
    /// merges two JSON objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_policy: Option<String>,
}

/// Where a set stands; the manager's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods it selects that carry its sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_pods: Option<i32>,
    /// How many of these pods have the sidecars of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_pods: Option<i32>,
    /// How many pods with its sidecars are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<i32>,
    /// How many pods have the newest revision and are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_ready_pods: Option<i32>,
    /// How many pods it selects that have none of its sidecars, although it asked for them when they were
    /// made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_injected_pods: Option<i32>,
    /// Name of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// How often the name of a new revision was taken by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The revisions that are kept, by name; their contents are in `history`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub revisions: Vec<SidecarSetRevision>,
    /// Contents of the revisions: a JSON list of objects with `name` and the five fields of the spec that
    /// make a revision; compressed by gzip, then base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// `Accepted`: whether it is carried out, and what of it is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One revision that is kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSetRevision {
    /// `<set>-<hash of its contents>`.
    pub name: String,
    /// Its number; the largest is the newest.
    pub revision: i64,
    /// As in the annotation `kruise.io/sidecarset-hash` of the pods that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// As in the annotation `kruise.io/sidecarset-hash-without-image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_without_image: Option<String>,
    /// Version that the set's author gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// When it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
}

// === impl SidecarContainer ===

impl SidecarContainer {
    /// Name of the container; empty when there is none.
    pub fn name(&self) -> &str {
        text(&self.0, "name")
    }

    /// Image of the container; empty when there is none.
    pub fn image(&self) -> &str {
        text(&self.0, "image")
    }
}

impl JsonSchema for SidecarContainer {
    fn schema_name() -> Cow<'static, str> {
        "SidecarContainer".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A core/v1 Container with the members of a sidecar.",
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "Name of the container in the pods.",
                    "type": "string", "minLength": 1, "maxLength": 63,
                },
                "image": {"description": "Image; another one is an upgrade.", "type": "string"},
                "podInjectPolicy": {
                    "description": "`BeforeAppContainer` or `AfterAppContainer`: its place among the containers of the pod.",
                    "type": "string", "maxLength": 63,
                },
                "upgradeStrategy": {
                    "description": "How its image is changed in pods that run.",
                    "type": "object",
                    "properties": {
                        "upgradeType": {
                            "description": "`ColdUpgrade` (the default) stops it first, `HotUpgrade` has a twin take over.",
                            "type": "string", "maxLength": 63,
                        },
                        "hotUpgradeEmptyImage": {
                            "description": "Image of the twin that rests.",
                            "type": "string", "maxLength": 4096,
                        },
                    },
                },
                "shareVolumePolicy": sharing("Volume mounts of the pod's other containers."),
                "shareVolumeDevicePolicy": sharing("Volume devices of the pod's other containers."),
                "transferEnv": {
                    "description": "Env that it gets from other containers of the pod.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "sourceContainerName": {
                                "description": "Container that has it.",
                                "type": "string", "maxLength": 253,
                            },
                            "sourceContainerNameFrom": {
                                "description": "Where the name of that container stands instead.",
                                "type": "object",
                                "properties": {
                                    "fieldRef": {
                                        "description": "A label or an annotation of the pod.",
                                        "type": "object",
                                        "required": ["fieldPath"],
                                        "properties": {
                                            "apiVersion": {"type": "string"},
                                            "fieldPath": {"type": "string"},
                                        },
                                    },
                                },
                            },
                            "envName": {"description": "Name of one.", "type": "string"},
                            "envNames": {
                                "description": "Names of several.",
                                "type": "array", "items": {"type": "string"},
                            },
                        },
                    },
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

/// Schema of the policy that shares something of the other containers.
fn sharing(shared: &str) -> Value {
    let kind = "`enabled`: it has them too. `disabled`, the default: it has its own.";
    serde_json::json!({
        "description": shared,
        "type": "object",
        "properties": {"type": {"description": kind, "type": "string", "maxLength": 63}},
    })
}

// === impl SidecarVolume ===

impl SidecarVolume {
    /// Name of the volume; empty when there is none.
    pub fn name(&self) -> &str {
        text(&self.0, "name")
    }
}

impl JsonSchema for SidecarVolume {
    fn schema_name() -> Cow<'static, str> {
        "SidecarVolume".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A core/v1 Volume.",
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {
                    "description": "Name that mounts use.",
                    "type": "string", "minLength": 1, "maxLength": 63,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

fn text<'a>(of: &'a Map<String, Value>, member: &str) -> &'a str {
    of.get(member).and_then(Value::as_str).unwrap_or_default()
}
