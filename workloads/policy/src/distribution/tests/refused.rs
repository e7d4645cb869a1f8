//! Specs that make no sense, each named by field and remedy.

use berth_proto::crd::ResourceDistribution;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{Plan, Rules, faulty},
    world::{config_map, distribution, list, secret},
};
use crate::fault::Fault;

fn changed(mut resource: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    resource.pointer_mut(parent).unwrap()[key] = value;
    resource
}

#[rstest]
#[case::no_version(changed(config_map(), "/apiVersion", json!("v2")), "spec.resource.apiVersion is \"v2\": give v1")]
#[case::a_group(changed(config_map(), "/apiVersion", json!("apps/v1")), "spec.resource.apiVersion is")]
#[case::a_pod(changed(config_map(), "/kind", json!("Pod")), "spec.resource.kind is \"Pod\": give Secret or ConfigMap")]
#[case::no_kind(changed(config_map(), "/kind", json!(7)), "spec.resource.kind is \"\"")]
#[case::no_metadata(changed(config_map(), "/metadata", json!("x")), "spec.resource.metadata.name is \"\"")]
#[case::a_name(changed(config_map(), "/metadata/name", json!("A/../b")), "spec.resource.metadata.name is")]
#[case::a_long_name(changed(config_map(), "/metadata/name", json!("a".repeat(254))), "spec.resource.metadata.name is")]
#[case::owners(changed(config_map(), "/metadata/ownerReferences", json!([{ "uid": "x" }])), "spec.resource.metadata.ownerReferences are those of")]
#[case::finalizers(changed(config_map(), "/metadata/finalizers", json!(["a/b"])), "spec.resource.metadata.finalizers would keep")]
#[case::labels(changed(config_map(), "/metadata/labels", json!({ "a": 1 })), "spec.resource.metadata.labels[a] is no text")]
#[case::annotations(changed(config_map(), "/metadata/annotations", json!({ "a": "x".repeat(300_000) })), "spec.resource.metadata.annotations have more than")]
#[case::a_label(changed(config_map(), "/metadata/labels", json!({ "a b": "c" })), "spec.resource.metadata.labels has \"a b\"")]
#[case::a_labels_value(changed(config_map(), "/metadata/labels", json!({ "a": "b c" })), "spec.resource.metadata.labels has \"a\"")]
#[case::an_annotation(changed(config_map(), "/metadata/annotations", json!({ "a b": "" })), "spec.resource.metadata.annotations has \"a b\"")]
#[case::data(changed(config_map(), "/data", json!([1])), "spec.resource.data is no map")]
#[case::a_number(changed(config_map(), "/data/lives", json!(3)), "spec.resource.data[lives] is no text")]
#[case::a_key(changed(config_map(), "/data", json!({ "a/b": "" })), "spec.resource.data has key \"a/b\"")]
#[case::a_way_out(changed(config_map(), "/data", json!({ "..": "" })), "spec.resource.data has key")]
#[case::twice(changed(config_map(), "/binaryData", json!({ "lives": "eA==" })), "spec.resource.binaryData has key \"lives\"")]
#[case::no_base64(changed(secret(), "/data/a", json!("§")), "spec.resource.data[a] is no base64")]
#[case::huge(changed(config_map(), "/data/lives", json!("x".repeat(1 << 20))), "spec.resource has 1048581 bytes")]
#[case::immutable(changed(config_map(), "/immutable", json!("yes")), "spec.resource.immutable is no boolean")]
#[case::a_token(changed(secret(), "/type", json!("kubernetes.io/service-account-token")), "spec.resource.type is kubernetes.io/service-account-token")]
#[case::half_a_pair(changed(secret(), "/type", json!("kubernetes.io/tls")), "spec.resource.data has no key \"tls.crt\"")]
#[case::a_node(changed(secret(), "/type", json!("bootstrap.kubernetes.io/token")), "spec.resource.type is")]
fn hostile_resources_are_named_by_field(#[case] resource: Value, #[case] words: &str) {
    refused(&distribution(&resource, &json!({})), words);
}

#[rstest]
#[case::both(json!({ "includedNamespaces": list(&["a", "b"]), "excludedNamespaces": list(&["b"]) }), "spec.targets.excludedNamespaces.list has \"b\"")]
#[case::a_name(json!({ "includedNamespaces": list(&["A"]) }), "spec.targets.includedNamespaces.list[0].name is \"A\"")]
#[case::an_operator(json!({ "namespaceLabelSelector": { "matchExpressions": [{ "key": "a", "operator": "near" }] } }), "spec.targets.namespaceLabelSelector.matchExpressions[0] has operator")]
fn wrong_targets_are_named_by_field(#[case] targets: Value, #[case] words: &str) {
    refused(&distribution(&config_map(), &targets), words);
}

/// It is said, once, and copies that there are stay as they are.
fn refused(distribution: &ResourceDistribution, words: &str) {
    let fault: Fault = Rules::of(distribution).unwrap_err();
    assert!(fault.to_string().starts_with(words), "{fault}");
    let now = Timestamp::constant(1_700_000_000, 0);
    let Plan { actions, status, notes, .. } = faulty(distribution, &fault, now);
    assert!(actions.is_empty() && notes[0].text.starts_with(words));
    let mut known = distribution.clone();
    assert_eq!(status.as_ref().unwrap().conditions.last().unwrap().type_, "InvalidSpec");
    known.status = status;
    assert_eq!(faulty(&known, &fault, now), Plan::default());
}
