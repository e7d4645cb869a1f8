//! New pods, built from a template and their number.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Rules;
use crate::{
    clone_set::{UpdateType, add_gate},
    in_place::annotations_of,
    lifecycle::{State, entering},
    names::{IN_PLACE_GATE, POD_NAME_LABEL, READY_GATE, REVISION_LABEL},
    plan::generate_name,
    revision::{Owner, Revision},
};

/// Name of a claim.
pub(super) fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// Builds the pod of a number.
pub(super) fn pod(
    rules: &Rules<'_>,
    owner: Owner<'_>,
    revision: &Revision,
    ordinal: i64,
    now: Timestamp,
) -> Value {
    let name = format!("{}-{ordinal}", owner.name);
    let given = object(revision.template.get("metadata"));
    let state = if rules.pre_normal.is_some() { State::PreparingNormal } else { State::Normal };
    let entered = entering(state, now);
    let mut labels = object(given.get("labels"));
    labels.insert(REVISION_LABEL.to_owned(), revision.name.as_str().into());
    labels.insert(POD_NAME_LABEL.to_owned(), name.as_str().into());
    labels.extend(object(entered.get("labels")));
    let mut annotations = annotations_of(&given);
    annotations.extend(object(entered.get("annotations")));
    let mut metadata = Map::new();
    metadata.insert("namespace".to_owned(), owner.namespace.into());
    metadata.insert("name".to_owned(), name.as_str().into());
    metadata.insert("generateName".to_owned(), generate_name(owner.name).into());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert("annotations".to_owned(), annotations.into());
    if let Some(finalizers) = given.get("finalizers").filter(|given| given.is_array()) {
        metadata.insert("finalizers".to_owned(), finalizers.clone());
    }
    metadata.insert("ownerReferences".to_owned(), json!([owner.reference()]));
    let mut spec = object(revision.template.get("spec"));
    spec.insert("hostname".to_owned(), name.as_str().into());
    if !rules.service.is_empty() {
        spec.insert("subdomain".to_owned(), rules.service.into());
    }
    if rules.update_type != UpdateType::ReCreate {
        add_gate(&mut spec, IN_PLACE_GATE);
    }
    add_gate(&mut spec, READY_GATE);
    mount(&mut spec, rules, owner.name, ordinal);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// Gives the pod its claims as volumes, in the place of volumes of the same name.
fn mount(spec: &mut Map<String, Value>, rules: &Rules<'_>, set: &str, ordinal: i64) {
    if rules.claims.is_empty() {
        return;
    }
    let volume = |template: &str| {
        let claim = claim_name(template, set, ordinal);
        json!({ "name": template, "persistentVolumeClaim": { "claimName": claim } })
    };
    let mut volumes: Vec<Value> = rules.claims.iter().map(|claim| volume(claim.name())).collect();
    let is_claimed =
        |one: &Value| rules.claims.iter().any(|claim| one.get("name") == Some(&claim.name().into()));
    let others = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(others.filter(|one| !is_claimed(one)).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
}

pub(super) fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}
