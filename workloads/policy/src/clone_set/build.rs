//! New pods and claims, built from a template and the set.

use berth_proto::crd::CloneSet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Rules;
use crate::{
    in_place::annotations_of,
    lifecycle::{State, entering},
    names::{IN_PLACE_GATE, INSTANCE_LABEL, READY_GATE, REVISION_LABEL, TEMPLATE_HASH_LABEL},
    plan::generate_name,
    revision::{Owner, Revision},
};

/// Name of a claim.
pub(super) fn claim_name(template: &str, set: &str, instance: &str) -> String {
    format!("{template}-{set}-{instance}")
}

/// Names of a new pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    /// Its own.
    pub(super) pod: &'a str,
    /// Its instance: the claims it has.
    pub(super) instance: &'a str,
}

/// Builds a pod of a revision.
pub(super) fn pod(
    set: &CloneSet,
    rules: &Rules<'_>,
    owner: Owner<'_>,
    revision: &Revision,
    names: Names<'_>,
    settings: super::Settings,
    now: Timestamp,
) -> Value {
    let state = if rules.pre_normal().is_some() { State::PreparingNormal } else { State::Normal };
    let given = object(revision.template.get("metadata"));
    let mut metadata = Map::new();
    let mut labels = object(given.get("labels"));
    labels.insert(INSTANCE_LABEL.to_owned(), names.instance.into());
    let label = if settings.short_hash { revision.hash() } else { &revision.name };
    labels.insert(REVISION_LABEL.to_owned(), label.into());
    labels.insert(TEMPLATE_HASH_LABEL.to_owned(), revision.hash().into());
    let mut annotations = annotations_of(&given);
    let entered = entering(state, now);
    labels.extend(object(entered.get("labels")));
    annotations.extend(object(entered.get("annotations")));
    metadata.insert("namespace".to_owned(), owner.namespace.into());
    metadata.insert("name".to_owned(), names.pod.into());
    metadata.insert("generateName".to_owned(), generate_name(owner.name).into());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert("annotations".to_owned(), annotations.into());
    if let Some(finalizers) = given.get("finalizers").filter(|given| given.is_array()) {
        metadata.insert("finalizers".to_owned(), finalizers.clone());
    }
    metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
    let mut spec = object(revision.template.get("spec"));
    add_gate(&mut spec, IN_PLACE_GATE);
    add_gate(&mut spec, READY_GATE);
    mount(&mut spec, set, rules, names.instance);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// Gives a new pod a readiness gate. One write of the agent opens all that nobody has written.
pub(crate) fn add_gate(spec: &mut Map<String, Value>, type_: &str) {
    let gates = spec.entry("readinessGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    let Some(gates) = gates.as_array_mut() else { return };
    if gates.iter().all(|gate| gate.get("conditionType") != Some(&type_.into())) {
        gates.push(json!({ "conditionType": type_ }));
    }
}

/// Gives the pod its claims as volumes, in the place of volumes of the same name.
fn mount(spec: &mut Map<String, Value>, set: &CloneSet, rules: &Rules<'_>, instance: &str) {
    if rules.claims.is_empty() {
        return;
    }
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let mut volumes: Vec<Value> = rules
        .claims
        .iter()
        .map(|claim| {
            let claim_name = claim_name(claim.name(), name, instance);
            json!({ "name": claim.name(), "persistentVolumeClaim": { "claimName": claim_name } })
        })
        .collect();
    let is_claimed =
        |volume: &Value| rules.claims.iter().any(|claim| volume.get("name") == Some(&claim.name().into()));
    let others = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(others.filter(|volume| !is_claimed(volume)).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
}

/// Builds the claims of an instance that it does not have yet.
pub(super) fn claims(
    set: &CloneSet,
    rules: &Rules<'_>,
    owner: Owner<'_>,
    instance: &str,
    has: impl Fn(&str) -> bool,
) -> Vec<Value> {
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    let missing = rules.claims.iter().filter_map(|template| {
        let name = claim_name(template.name(), set_name, instance);
        if has(&name) {
            return None;
        }
        let mut claim = template.0.clone();
        let mut metadata = object(claim.get("metadata"));
        let mut labels = object(metadata.get("labels"));
        labels.extend(rules.match_labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
        labels.insert(INSTANCE_LABEL.to_owned(), instance.into());
        metadata.insert("labels".to_owned(), labels.into());
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), owner.namespace.into());
        metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        claim.insert("metadata".to_owned(), metadata.into());
        claim.remove("status");
        Some(Value::Object(claim))
    });
    missing.collect()
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}
