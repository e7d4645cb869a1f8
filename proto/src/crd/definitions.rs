//! The CustomResourceDefinitions of all kinds, as they are installed.
//!
//! The types say nearly everything. Added here is what a derive cannot say, the bounds of all values, and the
//! descriptions that come with core types are cut to their first sentence: a definition is read by people and
//! kept in memory by every API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool, ValidationRule,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{
    AdvancedCronJob, AdvancedDaemonSet, AdvancedStatefulSet, BroadcastJob, CloneSet,
    ContainerRecreateRequest, ContainerUpdateRequest, ImagePullJob, NodeImage, NodePodProbe, NodePodUpdate,
    PersistentPodState, PodProbeMarker, PodUnavailableBudget, ResourceDistribution, SidecarSet,
    UnitedDeployment, WorkloadSpread, bounds::bound,
};

/// Annotation of a definition whose objects one of Berth's programs converts; the program is its value. That
/// program alone writes `spec.conversion`, which the definition leaves out.
pub const CONVERTED: &str = "berth.dev/converted-by";

/// Every kind's definition.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![
        with_short_name(AdvancedCronJob::crd(), 52),
        AdvancedDaemonSet::crd(),
        with_older_version(AdvancedStatefulSet::crd()),
        with_short_name(BroadcastJob::crd(), 63),
        CloneSet::crd(),
        with_empty_phase(with_strategy(ContainerRecreateRequest::crd())),
        ContainerUpdateRequest::crd(),
        ImagePullJob::crd(),
        with_empty_spec(NodeImage::crd()),
        with_empty_spec(NodePodProbe::crd()),
        with_empty_spec(NodePodUpdate::crd()),
        PersistentPodState::crd(),
        PodProbeMarker::crd(),
        PodUnavailableBudget::crd(),
        ResourceDistribution::crd(),
        SidecarSet::crd(),
        with_label_name(UnitedDeployment::crd(), 52),
        WorkloadSpread::crd(),
    ];
    for definition in &mut definitions {
        // `kubectl get berth -A` lists them all.
        definition.spec.names.categories = Some(vec!["berth".to_owned()]);
        for_schemas(definition, |schema| {
            shorten(schema);
            without_null(schema);
            bound(schema, "");
        });
    }
    definitions
}

/// Folder of the kinds that a program of their own makes work; the others are everybody's.
const OF_WORKLOADS: [(&str, &str); 7] = [
    ("advancedcronjobs", "jobs/crds"),
    ("broadcastjobs", "jobs/crds"),
    ("clonesets", "workloads/crds"),
    ("daemonsets", "workloads/crds"),
    ("resourcedistributions", "distribution/crds"),
    ("statefulsets", "workloads/crds"),
    ("uniteddeployments", "uniteddeployments/crds"),
];

/// The files of the kinds by their paths in `deploy`, as JSON values in the order of the API's documentation.
pub fn documents() -> Vec<(String, Value)> {
    let document = |definition: CustomResourceDefinition| {
        let mut value = serde_json::to_value(&definition).unwrap_or_default();
        // Written by the server alone.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        whole_numbers(&mut value);
        let plural = &definition.spec.names.plural;
        let folder = OF_WORKLOADS.iter().find(|(of, _)| of == plural).map_or("crds", |(_, folder)| folder);
        (format!("{folder}/{plural}.yaml"), value)
    };
    definitions().into_iter().map(document).collect()
}

/// Bounds are floats in the API's types and integers in everyone's files.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64);
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The object of a node is made empty, by its agent: its spec may be left out.
fn with_empty_spec(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for_schemas(&mut definition, |schema| {
        if let Some(spec) = schema.properties.as_mut().and_then(|properties| properties.get_mut("spec")) {
            spec.default = Some(JSON(json!({})));
        }
    });
    definition
}

/// Clients of OpenKruise read the strategy back, whose webhook writes its default.
fn with_strategy(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for_schemas(&mut definition, |schema| {
        let Some(strategy) = property(schema, "spec").and_then(|spec| property(spec, "strategy")) else {
            return;
        };
        strategy.default = Some(JSON(json!({})));
        if let Some(policy) = property(strategy, "failurePolicy") {
            policy.default = Some(JSON(json!("Fail")));
        }
    });
    definition
}

/// Clients of OpenKruise that write a whole status write the empty phase of one that has none.
fn with_empty_phase(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for_schemas(&mut definition, |schema| {
        let phase = property(schema, "status").and_then(|status| property(status, "phase"));
        if let Some(phases) = phase.and_then(|phase| phase.enum_.as_mut()) {
            phases.push(JSON(json!("")));
        }
    });
    definition
}

/// StatefulSets of `v1alpha1` are served beside those of `v1beta1`, which are stored. Both versions have all
/// fields: without a manager that converts, the API server changes nothing but the name of the version, and
/// no field is lost.
fn with_older_version(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let older = definition.spec.versions.iter().map(|version| CustomResourceDefinitionVersion {
        name: "v1alpha1".to_owned(),
        storage: false,
        ..version.clone()
    });
    let older: Vec<_> = older.collect();
    definition.spec.versions.extend(older);
    let annotations = definition.metadata.annotations.get_or_insert_default();
    annotations.insert(CONVERTED.to_owned(), "berth-manager".to_owned());
    definition
}

/// A name is part of the names or labels of what its object makes.
fn with_short_name(mut definition: CustomResourceDefinition, most: usize) -> CustomResourceDefinition {
    for_schemas(&mut definition, |schema| {
        schema.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: format!(
                "size(self.metadata.name) <= {most} && self.metadata.name.matches('^[a-zA-Z0-9-]+$')"
            ),
            message: Some(format!(
                "the metadata.name of this kind has at most {most} letters, digits and dashes: choose another one"
            )),
            ..ValidationRule::default()
        });
    });
    definition
}

/// A name is part of a label's value, with the hash of a revision.
fn with_label_name(mut definition: CustomResourceDefinition, most: usize) -> CustomResourceDefinition {
    for_schemas(&mut definition, |schema| {
        schema.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: format!("size(self.metadata.name) <= {most}"),
            message: Some(format!(
                "the metadata.name of this kind has at most {most} letters: choose another one"
            )),
            ..ValidationRule::default()
        });
    });
    definition
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

fn for_schemas(definition: &mut CustomResourceDefinition, change: impl Fn(&mut JSONSchemaProps)) {
    let versions = definition.spec.versions.iter_mut();
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        change(schema);
    }
}

/// Fields that are null are left out then, and have their defaults, as with OpenKruise's definitions. Where a
/// schema allows a null the API server keeps it, and rules take it for a value.
fn without_null(schema: &mut JSONSchemaProps) {
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        property.nullable = None;
        without_null(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => without_null(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(without_null),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        without_null(values);
    }
}

fn shorten(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let text = description.replace('\n', " ");
        let end = text.find(". ").map_or(text.len(), |end| end + 1);
        *description = text[..end].to_owned();
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(shorten);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => shorten(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(shorten),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        shorten(values);
    }
}
