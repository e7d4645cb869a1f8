//! New pods and claims, built from a template and the set.

use jiff::Timestamp;
use serde_json::Value;

use super::Rules;
use crate::{
    build::{NewPod, add_gate, claim, mount, object, values},
    in_place::annotations_of,
    lifecycle::{State, entering},
    names::{IN_PLACE_GATE, INSTANCE_LABEL, READY_GATE, REVISION_LABEL, TEMPLATE_HASH_LABEL},
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
    rules: &Rules<'_>,
    owner: Owner<'_>,
    revision: &Revision,
    names: Names<'_>,
    settings: super::Settings,
    now: Timestamp,
) -> Value {
    let state = if rules.pre_normal().is_some() { State::PreparingNormal } else { State::Normal };
    let given = object(revision.template.get("metadata"));
    let mut labels = object(given.get("labels"));
    labels.insert(INSTANCE_LABEL.to_owned(), names.instance.into());
    let label = if settings.short_hash { revision.hash() } else { &revision.name };
    labels.insert(REVISION_LABEL.to_owned(), label.into());
    labels.insert(TEMPLATE_HASH_LABEL.to_owned(), revision.hash().into());
    let mut annotations = annotations_of(&given);
    let entered = entering(state, now);
    labels.extend(object(entered.get("labels")));
    annotations.extend(object(entered.get("annotations")));
    let mut spec = object(revision.template.get("spec"));
    add_gate(&mut spec, IN_PLACE_GATE);
    add_gate(&mut spec, READY_GATE);
    mount(&mut spec, rules.claims, |template| claim_name(template, owner.name, names.instance));
    NewPod { name: names.pod, given: &given, labels, annotations, spec }.of(owner)
}

/// Builds the claims of an instance that it does not have yet.
pub(super) fn claims(
    rules: &Rules<'_>,
    owner: Owner<'_>,
    instance: &str,
    has: impl Fn(&str) -> bool,
) -> Vec<Value> {
    let mut own = values(&rules.match_labels);
    own.insert(INSTANCE_LABEL.to_owned(), instance.into());
    let missing = rules.claims.iter().filter_map(|template| {
        let name = claim_name(template.name(), owner.name, instance);
        (!has(&name)).then(|| claim(template, (owner.namespace, name), &own, Some(owner.reference())))
    });
    missing.collect()
}
