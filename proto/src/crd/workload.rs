//! Parts that the workloads share: templates, hooks, how a pod is updated in place.
//!
//! Templates are kept as they were given: a field of a Kubernetes that is newer than these types reaches the
//! pod, and none is lost on the way through here.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A core/v1 PodTemplateSpec as it was given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Map<String, Value>);

/// A core/v1 PersistentVolumeClaim as it was given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ClaimTemplate(pub Map<String, Value>);

/// Points at which a pod is held until somebody lets it go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadLifecycle {
    /// Hook that holds a pod before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_delete: Option<LifecycleHook>,
    /// Hook that holds a pod before and after it is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_update: Option<LifecycleHook>,
    /// Hook that a new pod waits for before it counts as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_normal: Option<LifecycleHook>,
}

/// One such point: a pod that has one of these is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleHook {
    /// Labels with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_handler: BTreeMap<String, String>,
    /// Finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers_handler: Vec<String>,
    /// Whether the pod is not Ready while it is held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mark_pod_not_ready: bool,
}

/// How a pod is updated in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InPlaceUpdateStrategy {
    /// Seconds between taking the pod out of service and changing its images; 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
}

/// One condition of a workload.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadCondition {
    /// Which one.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When anything of it changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

// === impl PodTemplate ===

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A core/v1 PodTemplateSpec.",
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Metadata of each pod.",
                    "type": "object",
                    "properties": {
                        "labels": {
                            "description": "Labels of each pod, those that are selected among them.",
                            "type": "object", "additionalProperties": {"type": "string"},
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
                // What rules look at.
                "spec": {
                    "description": "Spec of each pod, a core/v1 PodSpec.",
                    "type": "object",
                    "properties": {
                        "restartPolicy": {
                            "description": "Which containers the kubelet starts again.",
                            "type": "string",
                        },
                        "activeDeadlineSeconds": {
                            "description": "Seconds that a pod may run.",
                            "type": "integer", "format": "int64",
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

// === impl ClaimTemplate ===

impl ClaimTemplate {
    /// Name of the template; empty when there is none.
    pub fn name(&self) -> &str {
        let metadata = self.0.get("metadata").and_then(|metadata| metadata.get("name"));
        metadata.and_then(Value::as_str).unwrap_or_default()
    }
}

impl JsonSchema for ClaimTemplate {
    fn schema_name() -> Cow<'static, str> {
        "ClaimTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A core/v1 PersistentVolumeClaim.",
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Metadata of each claim.",
                    "type": "object",
                    "properties": {
                        "name": {
                            "description": "Name of the volume that it is in the pods.",
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
