//! New pods, built from a template and their node.

use serde_json::{Map, Value, json};

use super::{Rules, fit};
use crate::{
    build::{NewPod, add_gate, object},
    in_place::annotations_of,
    names::{IN_PLACE_GATE, READY_GATE, REVISION_LABEL},
    revision::{Owner, Revision},
};

/// Builds the pod of a node.
pub(super) fn pod(rules: &Rules<'_>, owner: Owner<'_>, revision: &Revision, name: &str, node: &str) -> Value {
    let given = object(revision.template.get("metadata"));
    let mut labels = object(given.get("labels"));
    labels.insert(REVISION_LABEL.to_owned(), revision.hash().into());
    let mut spec = object(revision.template.get("spec"));
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    let own = fit::tolerations(&spec);
    tolerations.extend(own.into_iter().filter(|one| !tolerations.contains(one)).collect::<Vec<_>>());
    spec.insert("tolerations".to_owned(), tolerations.into());
    place(&mut spec, node);
    if rules.in_place {
        add_gate(&mut spec, IN_PLACE_GATE);
    }
    add_gate(&mut spec, READY_GATE);
    NewPod { name, given: &given, labels, annotations: annotations_of(&given), spec }.of(owner)
}

/// Ties the pod to its node: the scheduler sees to the rest. What the template requires was judged before.
pub(crate) fn place(spec: &mut Map<String, Value>, node: &str) {
    let mut affinity = object(spec.get("affinity"));
    let mut of_nodes = object(affinity.get("nodeAffinity"));
    let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    of_nodes.insert(
        "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
        json!({ "nodeSelectorTerms": [term] }),
    );
    affinity.insert("nodeAffinity".to_owned(), of_nodes.into());
    spec.insert("affinity".to_owned(), affinity.into());
}
