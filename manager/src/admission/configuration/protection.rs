//! Entries for the deletion of what `Cascading` protects: exactly the namespaces and definitions with that
//! label, and none that is being deleted.

use k8s_openapi::{
    api::admissionregistration::v1::{MatchCondition, ValidatingWebhook},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{Entry, Service, rule, selectors};
use crate::admission::{
    path::Route,
    protection::{CASCADING, LABEL},
};

/// Entries for namespaces and definitions.
pub(super) fn entries(bundle: &[u8], service: &Service) -> [ValidatingWebhook; 2] {
    let protected = || LabelSelector {
        match_labels: Some([(LABEL.to_owned(), CASCADING.to_owned())].into()),
        match_expressions: None,
    };
    let namespaces = Entry {
        name: "namespaces.protection".to_owned(),
        failure: "Fail",
        pods: protected(),
        namespaces: selectors::elsewhere(),
    };
    let definitions = Entry {
        name: "customresourcedefinitions.protection".to_owned(),
        failure: "Fail",
        pods: protected(),
        namespaces: LabelSelector::default(),
    };
    let deleted = |group, resource| rule(group, "v1", resource, &["DELETE"], "Cluster");
    let of_definitions = deleted("apiextensions.k8s.io", "customresourcedefinitions");
    [
        namespaces.validating(deleted("", "namespaces"), &Route::Namespaces, bundle, service),
        definitions.validating(of_definitions, &Route::Definitions, bundle, service),
    ]
    .map(|entry| ValidatingWebhook {
        match_conditions: Some(vec![not_deleting()]),
        side_effects: "None".to_owned(),
        ..entry
    })
}

/// Condition that the object is not being deleted: nothing more is deleted of one that is.
fn not_deleting() -> MatchCondition {
    MatchCondition {
        name: "not-deleting".to_owned(),
        expression: "!has(oldObject.metadata.deletionTimestamp)".to_owned(),
    }
}
