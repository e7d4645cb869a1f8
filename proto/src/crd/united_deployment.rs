//! `UnitedDeployment`: one template, and a workload of it for each subset of the cluster.

mod topology;

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::topology::{Subset, Topology, UnitedAdaptive, UnitedScheduleStrategy};
use super::WorkloadCondition;

/// Runs one workload for each subset of the cluster, all of one template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "UnitedDeployment",
    plural = "uniteddeployments",
    shortname = "ud",
    namespaced,
    doc = "Runs one workload for each subset of the cluster, all of one template.",
    status = "UnitedDeploymentStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"DESIRED","type":"integer","jsonPath":".spec.replicas","description":"How many pods there are to be."}"#,
    printcolumn = r#"{"name":"CURRENT","type":"integer","jsonPath":".status.replicas","description":"How many there are."}"#,
    printcolumn = r#"{"name":"UPDATED","type":"integer","jsonPath":".status.updatedReplicas","description":"How many of them have the newest revision."}"#,
    printcolumn = r#"{"name":"READY","type":"integer","jsonPath":".status.readyReplicas","description":"How many of them are ready."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = validations()))]
pub struct UnitedDeploymentSpec {
    /// How many pods in all subsets; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub replicas: Option<i32>,
    /// The pods; it must select the labels of the template's pods.
    pub selector: LabelSelector,
    /// Template of the workloads: one of the four.
    pub template: SubsetTemplate,
    /// Subsets of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// How the subsets get a new template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub update_strategy: Option<UnitedDeploymentUpdateStrategy>,
    /// How many old revisions are kept; 10 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 10))]
    pub revision_history_limit: Option<i32>,
}

/// Template of the workloads of a UnitedDeployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), \
                 has(self.cloneSetTemplate), has(self.deploymentTemplate)].filter(one, one).size() == 1",
        "message": "has not exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate: give one of them",
    },
    {
        "rule": "(!has(self.statefulSetTemplate) || !has(self.statefulSetTemplate.spec.replicas)) \
                 && (!has(self.advancedStatefulSetTemplate) || !has(self.advancedStatefulSetTemplate.spec.replicas)) \
                 && (!has(self.deploymentTemplate) || !has(self.deploymentTemplate.spec.replicas))",
        "message": "has replicas, which are those of the subset: leave them out of the template, and give spec.replicas",
    },
]))]
pub struct SubsetTemplate {
    /// An apps/v1 StatefulSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stateful_set_template: Option<WorkloadTemplate>,
    /// An Advanced StatefulSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advanced_stateful_set_template: Option<WorkloadTemplate>,
    /// A CloneSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_set_template: Option<WorkloadTemplate>,
    /// An apps/v1 Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_template: Option<WorkloadTemplate>,
}

/// Metadata and spec of a workload as they were given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WorkloadTemplate(pub Map<String, Value>);

/// Changes of a pod template as they were given: a strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PodTemplatePatch(pub Map<String, Value>);

/// How the subsets get a new template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentUpdateStrategy {
    /// `Manual`: by partitions.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Manual", "x-kubernetes-validations" = [{
        "rule": "self in ['', 'Manual']",
        "message": "is not Manual: give Manual, or leave it out",
    }]))]
    pub type_: Option<String>,
    /// Partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {}))]
    pub manual_update: Option<ManualUpdate>,
}

/// Partitions of subsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManualUpdate {
    /// How many pods of a subset stay as they are, by its name; 0 when left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<String, i32>,
}

/// Where a UnitedDeployment stands. What later versions of OpenKruise keep there stays.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct UnitedDeploymentStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    #[serde(default)]
    pub replicas: i32,
    /// How many pods are ready.
    #[serde(default)]
    pub ready_replicas: i32,
    /// How many pods have the newest revision.
    #[serde(default)]
    pub updated_replicas: i32,
    /// How many pods have the newest revision and are ready.
    #[serde(default)]
    pub updated_ready_replicas: i32,
    /// How often the name of a new revision was taken by another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Name of the revision that all pods had last.
    #[serde(default)]
    pub current_revision: String,
    /// How many pods each subset is to have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub subset_replicas: BTreeMap<String, i32>,
    /// The update that goes on, or was the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_status: Option<UnitedDeploymentUpdateStatus>,
    /// The selector as a text, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// `SubsetProvisioned`, `SubsetUpdated`, and `SubsetFailure` where something stands in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<WorkloadCondition>,
}

/// An update of a UnitedDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitedDeploymentUpdateStatus {
    /// Name of the newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_revision: Option<String>,
    /// How many pods of each subset stay as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub current_partitions: BTreeMap<String, i32>,
}

/// Rules of a spec: what OpenKruise's webhook refuses, as far as a rule can say it. What else a template has
/// to be, the controller says.
fn validations() -> Value {
    // A share is rounded to the nearest number.
    let number = |field: &str| {
        format!(
            "(type(s.{field}) == int ? int(s.{field}) : (s.{field}.matches('^(100|[0-9]{{1,2}})%$') \
             ? (int(s.{field}.replace('%', '')) * self.replicas + 50) / 100 : 0))"
        )
    };
    let (least, most) = (number("minReplicas"), number("maxReplicas"));
    let sum = format!("map(s, {}).sum()", number("replicas"));
    let mut rules = vec![
        json!({
            "rule": "has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0",
            "message": "selector has no matchLabels, which the workloads of the subsets get: give it labels of the template",
        }),
        json!({
            "rule": format!(
                "!has(self.topology) || !has(self.topology.subsets) \
                 || self.topology.subsets.filter(s, has(s.replicas)).{sum} <= self.replicas"
            ),
            "message": "topology.subsets have more replicas together than spec.replicas: give less of them, or more there",
        }),
        json!({
            "rule": format!(
                "!has(self.topology) || !has(self.topology.subsets) || size(self.topology.subsets) == 0 \
                 || self.topology.subsets.exists(s, !has(s.replicas)) || self.topology.subsets.{sum} >= self.replicas"
            ),
            "message": "topology.subsets all have replicas, and less together than spec.replicas: leave them out in one, or give as many",
        }),
        json!({
            "rule": "!has(self.topology) || !has(self.topology.subsets) \
                     || !self.topology.subsets.exists(s, has(s.replicas)) \
                     || !self.topology.subsets.exists(s, has(s.minReplicas) || has(s.maxReplicas))",
            "message": "topology.subsets have replicas, and minReplicas or maxReplicas: give all of them only the one or only the other",
        }),
        json!({
            "rule": "!has(self.topology) || !has(self.topology.subsets) || size(self.topology.subsets) == 0 \
                     || self.topology.subsets.exists(s, !has(s.maxReplicas))",
            "message": "topology.subsets all have maxReplicas, and one pod more would have no place: leave it out in one",
        }),
        json!({
            "rule": format!(
                "!has(self.topology) || !has(self.topology.subsets) || self.topology.subsets.all(s, \
                 !has(s.minReplicas) || !has(s.maxReplicas) || {least} <= {most})"
            ),
            "message": "topology.subsets have one whose maxReplicas is less than its minReplicas: give as many at least",
        }),
        json!({
            "rule": "!has(self.updateStrategy) || !has(self.updateStrategy.manualUpdate) \
                     || !has(self.updateStrategy.manualUpdate.partitions) \
                     || self.updateStrategy.manualUpdate.partitions.all(name, has(self.topology) \
                     && has(self.topology.subsets) && self.topology.subsets.exists(s, s.name == name))",
            "message": "updateStrategy.manualUpdate.partitions names a subset that topology.subsets has not: take it out, or correct its name",
        }),
    ];
    let members =
        ["statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate"];
    rules.extend(members.into_iter().map(|member| {
        let labels = format!("self.template.{member}.spec.template.metadata.labels");
        let path = format!("self.template.{member}.spec");
        json!({
            "rule": format!(
                "!has(self.template.{member}) || !has(self.selector.matchLabels) || (has({path}.template) \
                 && has({path}.template.metadata) && has({labels}) && self.selector.matchLabels.all(key, \
                 key in {labels} && {labels}[key] == self.selector.matchLabels[key]))"
            ),
            "message": format!(
                "template.{member}.spec.template.metadata.labels are not those of selector: give the template the labels that are selected"
            ),
        })
    }));
    rules.into()
}

// === impl WorkloadTemplate ===

impl JsonSchema for WorkloadTemplate {
    fn schema_name() -> Cow<'static, str> {
        "WorkloadTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let metadata = |of: &str| {
            json_schema!({
                "description": format!("Metadata of {of}."),
                "type": "object",
                "properties": {
                    "labels": {
                        "description": format!("Labels of {of}, those that are selected among them."),
                        "type": "object", "additionalProperties": {"type": "string"},
                    },
                },
                "x-kubernetes-preserve-unknown-fields": true,
            })
        };
        json_schema!({
            "description": "Metadata and spec of a workload.",
            "type": "object",
            "required": ["spec"],
            "properties": {
                "metadata": metadata("each workload"),
                "spec": {
                    "description": "Spec of each workload, as its kind has it.",
                    "type": "object",
                    "properties": {
                        "replicas": {
                            "description": "Leave it out: the subsets say how many pods there are.",
                            "type": "integer",
                        },
                        "template": {
                            "description": "A core/v1 PodTemplateSpec.",
                            "type": "object",
                            "properties": {"metadata": metadata("each pod")},
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}

// === impl PodTemplatePatch ===

impl JsonSchema for PodTemplatePatch {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplatePatch".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A strategic merge patch of a core/v1 PodTemplateSpec.",
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Metadata that the pods of the subset get.",
                    "type": "object",
                    "properties": {
                        "labels": {
                            "description": "Labels that they get; null takes one away.",
                            "type": "object",
                            "additionalProperties": {"type": "string", "nullable": true},
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
