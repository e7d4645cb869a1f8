//! New pods, built from a template and their number.

use jiff::Timestamp;
use serde_json::Value;

use super::Rules;
use crate::{
    build::{NewPod, add_gate, mount, object},
    clone_set::UpdateType,
    in_place::annotations_of,
    lifecycle::{State, entering},
    names::{IN_PLACE_GATE, POD_INDEX_LABEL, POD_NAME_LABEL, READY_GATE, REVISION_LABEL},
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
    labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string().into());
    labels.extend(object(entered.get("labels")));
    let mut annotations = annotations_of(&given);
    annotations.extend(object(entered.get("annotations")));
    let mut spec = object(revision.template.get("spec"));
    spec.insert("hostname".to_owned(), name.as_str().into());
    if !rules.service.is_empty() {
        spec.insert("subdomain".to_owned(), rules.service.into());
    }
    if rules.update_type != UpdateType::ReCreate {
        add_gate(&mut spec, IN_PLACE_GATE);
    }
    add_gate(&mut spec, READY_GATE);
    mount(&mut spec, rules.claims, |template| claim_name(template, owner.name, ordinal));
    NewPod { name: &name, given: &given, labels, annotations, spec }.of(owner)
}
