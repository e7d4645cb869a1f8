//! `ResourceDistribution`: one Secret or ConfigMap, kept in many namespaces.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Keeps copies of one Secret or ConfigMap in many namespaces.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "ResourceDistribution",
    plural = "resourcedistributions",
    shortname = "distributor",
    doc = "Keeps copies of one Secret or ConfigMap in many namespaces.",
    status = "ResourceDistributionStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"TOTAL","type":"integer","jsonPath":".status.desired","description":"Namespaces that are to have a copy."}"#,
    printcolumn = r#"{"name":"SUCCEED","type":"integer","jsonPath":".status.succeeded","description":"Namespaces that have it."}"#,
    printcolumn = r#"{"name":"FAILED","type":"integer","jsonPath":".status.failed","description":"Namespaces that have it not."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionSpec {
    /// The whole manifest of a Secret or a ConfigMap.
    pub resource: DistributedResource,
    /// Namespaces that have a copy.
    pub targets: DistributionTargets,
}

/// A manifest as it was given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct DistributedResource(pub Map<String, Value>);

/// Namespaces that have a copy: those of the first three fields together, without those of the last one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionTargets {
    /// Every namespace, but for `kube-system` and `kube-public`, which are listed or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_namespaces: Option<bool>,
    /// Namespaces by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub included_namespaces: Option<NamespaceList>,
    /// Namespaces with such labels; a selector that asks for nothing takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_label_selector: Option<LabelSelector>,
    /// Namespaces that have none, whatever the others say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_namespaces: Option<NamespaceList>,
}

/// Namespaces by their names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceList {
    /// Each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<NamespaceEntry>>,
}

/// A namespace of a list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceEntry {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// Where a ResourceDistribution stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDistributionStatus {
    /// How many namespaces are to have a copy.
    #[serde(default)]
    pub desired: i32,
    /// How many namespaces have it.
    #[serde(default)]
    pub succeeded: i32,
    /// How many namespaces lack it.
    #[serde(default)]
    pub failed: i32,
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Problems, each with its namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<DistributionCondition>,
}

/// One thing that may not go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionCondition {
    /// Which one.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`: it does not go.
    pub status: String,
    /// When that changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// `Succeeded`, or the last fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Namespaces in which it does not go, the first ones.
    #[serde(default, rename = "failedNamespace", skip_serializing_if = "Vec::is_empty")]
    pub failed_namespaces: Vec<String>,
}

// === impl DistributedResource ===

impl JsonSchema for DistributedResource {
    fn schema_name() -> Cow<'static, str> {
        "DistributedResource".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // What OpenKruise's webhook refuses, as far as a rule can say it: keys, encodings and sizes the
    // controller checks.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A manifest of a Secret or a ConfigMap.",
            "type": "object",
            "required": ["apiVersion", "kind", "metadata"],
            "properties": {
                "apiVersion": {"description": "`v1`.", "type": "string"},
                "kind": {"description": "`Secret` or `ConfigMap`.", "type": "string"},
                "metadata": {
                    "description": "Metadata of each copy.",
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {
                            "description": "Name of the copies; it stays.",
                            "type": "string",
                            "maxLength": 253,
                            "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                        },
                        "labels": {
                            "description": "Labels of each copy.",
                            "type": "object", "additionalProperties": {"type": "string"},
                        },
                        "annotations": {
                            "description": "Annotations of each copy.",
                            "type": "object", "additionalProperties": {"type": "string"},
                        },
                        "finalizers": {
                            "description": "None may be given.",
                            "type": "array",
                            "items": {"type": "string", "maxLength": 317},
                            "x-kubernetes-validations": [{
                                "rule": "size(self) == 0",
                                "message": "would keep copies and their namespaces from going: leave them out",
                            }],
                        },
                        "ownerReferences": {
                            "description": "None may be given.",
                            "type": "array",
                            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                            "x-kubernetes-validations": [{
                                "rule": "size(self) == 0",
                                "message": "are those of the ResourceDistribution: leave them out",
                            }],
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [
                {
                    "rule": "self.apiVersion == 'v1' && self.kind in ['Secret', 'ConfigMap']",
                    "message": "is no Secret and no ConfigMap of apiVersion v1: give one of them",
                },
                {
                    "rule": "self.apiVersion == oldSelf.apiVersion && self.kind == oldSelf.kind \
                        && self.metadata.name == oldSelf.metadata.name",
                    "message": "its apiVersion, kind and metadata.name are immutable: make a new ResourceDistribution",
                },
            ],
        })
    }
}
