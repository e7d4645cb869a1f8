//! New jobs, built from the template and their time.

use berth_proto::crd::AdvancedCronJob;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{API_VERSION, KIND, Rules, SCHEDULED_AT};
use crate::build::object;

/// Builds the job of a time.
pub(super) fn child(rules: &Rules<'_>, owner: &AdvancedCronJob, time: Timestamp) -> Value {
    let given = object(rules.template.get("metadata"));
    let mut annotations = object(given.get("annotations"));
    annotations.insert(SCHEDULED_AT.to_owned(), time.to_string().into());
    let reference = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    });
    json!({
        "apiVersion": rules.kind.api_version(),
        "kind": rules.kind.name(),
        "metadata": {
            "namespace": owner.metadata.namespace,
            "name": rules.child(time),
            "labels": object(given.get("labels")),
            "annotations": annotations,
            "ownerReferences": [reference],
        },
        "spec": rules.template.get("spec"),
    })
}
