use proptest::{collection::btree_map, prelude::*};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn set(version: &str, annotations: Value, spec: Value) -> Value {
    let mut metadata = json!({ "namespace": "n", "name": "s", "uid": "u" });
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata["annotations"] = annotations;
    }
    json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "StatefulSet", "metadata": metadata,
        "spec": spec, "status": { "replicas": 3, "updatedReadyReplicas": 2 }, "later": [1],
    })
}

fn to(object: &Value, to: Version) -> Value {
    serde_json::from_str(&converted(&object.to_string(), to).unwrap()).unwrap()
}

fn kept(fields: &Value) -> String {
    json!({ "spec": fields }).to_string()
}

/// An object in `v1beta1`, and what a client of `v1alpha1` reads of it.
#[rstest]
#[case::nothing_later(json!({}), json!({ "replicas": 1 }), json!({}), json!({ "replicas": 1 }))]
#[case::each_field(
    json!({ "a": "b" }),
    json!({ "replicas": 1, "lifecycle": { "preDelete": {} }, "reserveOrdinals": [1, 2], "scaleStrategy": { "maxUnavailable": 1 },
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete" }, "updateStrategy": { "type": "OnDelete" } }),
    json!({ "a": "b", ANNOTATION: kept(&json!({ "lifecycle": { "preDelete": {} }, "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete" },
        "reserveOrdinals": [1, 2], "scaleStrategy": { "maxUnavailable": 1 } })) }),
    json!({ "replicas": 1, "updateStrategy": { "type": "OnDelete" } }),
)]
#[case::an_annotation_of_its_own(
    json!({ ANNOTATION: "mine" }),
    json!({ "replicas": 1 }),
    json!({ ANNOTATION: json!({ "annotation": "mine" }).to_string() }),
    json!({ "replicas": 1 }),
)]
#[case::empty_fields(
    json!({}), json!({ "reserveOrdinals": [], "lifecycle": null }),
    json!({ ANNOTATION: kept(&json!({ "lifecycle": null, "reserveOrdinals": [] })) }), json!({}),
)]
fn a_client_of_v1alpha1_reads_its_fields_and_keeps_the_others(
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] read_annotations: Value,
    #[case] read_spec: Value,
) {
    let beta = set("v1beta1", annotations, spec);
    let alpha = to(&beta, Version::Alpha);
    assert_eq!(alpha, set("v1alpha1", read_annotations, read_spec));
    assert_eq!(to(&alpha, Version::Beta), beta);
}

/// An object as a client of `v1alpha1` writes it, and as it is stored.
#[rstest]
#[case::without(json!({}), json!({ "replicas": 1 }), json!({}), json!({ "replicas": 1 }))]
#[case::kept(
    json!({ ANNOTATION: kept(&json!({ "ordinals": { "start": 2 }, "reserveOrdinals": [1, "3-5"] })), "a": "b" }), json!({ "replicas": 2 }),
    json!({ "a": "b" }), json!({ "replicas": 2, "ordinals": { "start": 2 }, "reserveOrdinals": [1, "3-5"] }),
)]
#[case::given_as_well(
    json!({ ANNOTATION: kept(&json!({ "reserveOrdinals": [1], "lifecycle": {} })) }), json!({ "reserveOrdinals": [2] }),
    json!({}), json!({ "reserveOrdinals": [2], "lifecycle": {} }),
)]
#[case::given_alone(json!({}), json!({ "reserveOrdinals": [2] }), json!({}), json!({ "reserveOrdinals": [2] }))]
fn what_is_written_through_v1alpha1_loses_nothing(
    #[case] annotations: Value,
    #[case] spec: Value,
    #[case] stored_annotations: Value,
    #[case] stored_spec: Value,
) {
    let stored = to(&set("v1alpha1", annotations, spec), Version::Beta);
    assert_eq!(stored, set("v1beta1", stored_annotations, stored_spec));
}

/// The names of another object are not the author's to choose, and nothing is lost in silence.
#[rstest]
#[case::no_json("x")]
#[case::no_object("[]")]
#[case::no_fields(r#"{"spec":1}"#)]
#[case::other_fields(r#"{"spec":{"replicas":1}}"#)]
#[case::fields_again_and_again(
    r#"{"spec":{"ordinals":1,"ordinals":1,"ordinals":1,"ordinals":1,"ordinals":1,"ordinals":1,"ordinals":1}}"#
)]
#[case::other_members(r#"{"status":{}}"#)]
#[case::no_text(r#"{"annotation":1}"#)]
fn an_annotation_that_is_not_ours_is_refused(#[case] text: &str) {
    let alpha = set("v1alpha1", json!({ ANNOTATION: text }), json!({}));
    let error = converted(&alpha.to_string(), Version::Beta).unwrap_err();
    assert!(
        error.contains("berth.dev/v1beta1-fields") && error.contains("n/s") && error.contains("take it out"),
        "{error}"
    );
}

/// An object whose annotations are full could not be written back with one more: the fields stay in `spec`,
/// where the definition of `v1alpha1` knows them.
#[test]
fn full_annotations_get_no_more() {
    let full = "x".repeat(MOST_ANNOTATION_BYTES - 40);
    for own in [json!({}), json!({ ANNOTATION: "mine" })] {
        let mut annotations = own;
        annotations["a"] = full.clone().into();
        let beta = set("v1beta1", annotations, json!({ "reserveOrdinals": [1], "replicas": 1 }));
        let alpha = to(&beta, Version::Alpha);
        assert_eq!(alpha["spec"], json!({ "reserveOrdinals": [1], "replicas": 1 }));
        assert_eq!(to(&alpha, Version::Beta), beta);
    }
}

/// Numbers and depth that no parser of ours would keep.
#[test]
fn values_are_not_read() {
    let deep = format!("{}1e400{}", "[".repeat(5000), "]".repeat(5000));
    let template = format!("{{\"spec\":{{\"cpu\":0.1000000000000000055511151231257827,\"deep\":{deep}}}}}");
    let beta = format!(
        "{{\"apiVersion\":\"apps.kruise.io/v1beta1\",\"kind\":\"StatefulSet\",\"metadata\":{{\"name\":\"s\"}},\
         \"spec\":{{\"template\":{template},\"lifecycle\":{{\"deep\":{deep}}}}}}}"
    );
    let alpha = converted(&beta, Version::Alpha).unwrap();
    assert!(alpha.contains(&template));
    assert_eq!(converted(&alpha, Version::Beta).unwrap(), beta);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|eighths| json!(f64::from(eighths) / 8.0)),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object(version: &'static str) -> impl Strategy<Value = Value> {
    let names: Vec<&str> = LATER.into_iter().chain(["replicas", "template", "unknown", "é\"\\"]).collect();
    let spec = btree_map(proptest::sample::select(names), value(), 0..8);
    let annotations =
        btree_map(prop_oneof![Just(ANNOTATION.to_owned()), ".{0,9}".prop_map(String::from)], ".{0,30}", 0..4);
    (spec, annotations, value()).prop_map(move |(spec, annotations, status)| {
        let spec: serde_json::Map<_, _> =
            spec.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut object = set(version, json!(annotations), spec.into());
        object["status"] = status;
        object
    })
}

proptest! {
    /// Whatever is stored is stored again as it was, after a client of `v1alpha1` has read and written it.
    #[test]
    fn v1beta1_comes_back_whole(beta in object("v1beta1")) {
        let text = beta.to_string();
        let alpha = converted(&text, Version::Alpha).unwrap();
        let read: Value = serde_json::from_str(&alpha).unwrap();
        let spec = read["spec"].as_object().unwrap();
        prop_assert!(LATER.iter().all(|name| !spec.contains_key(*name)));
        let again: Value = serde_json::from_str(&converted(&alpha, Version::Beta).unwrap()).unwrap();
        prop_assert_eq!(again, beta);
    }

    /// A typed client knows nothing of the fields, and of the others only some.
    #[test]
    fn a_typed_client_takes_nothing_away(beta in object("v1beta1")) {
        let mut alpha = to(&beta, Version::Alpha);
        alpha["spec"] = json!({ "replicas": 5 });
        let stored = to(&alpha, Version::Beta);
        let was = beta["spec"].as_object().unwrap();
        for name in LATER {
            prop_assert_eq!(stored["spec"].get(name), was.get(name));
        }
        prop_assert_eq!(&stored["spec"]["replicas"], &json!(5));
        prop_assert_eq!(&stored["metadata"], &beta["metadata"]);
    }

    #[test]
    fn v1alpha1_comes_back_whole(alpha in object("v1alpha1")) {
        let mut alpha = alpha;
        // What no client of this version writes.
        alpha["spec"].as_object_mut().unwrap().retain(|name, _| !LATER.contains(&name.as_str()));
        if let Some(annotations) = alpha["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(ANNOTATION);
        }
        if alpha["metadata"]["annotations"] == json!({}) {
            alpha["metadata"].as_object_mut().unwrap().remove("annotations");
        }
        prop_assert_eq!(to(&to(&alpha, Version::Beta), Version::Alpha), alpha);
    }

    /// A body from anybody breaks nothing.
    #[test]
    fn no_body_panics(body in ".{0,80}", object in value()) {
        let _ = answer(body.as_bytes());
        let request = json!({ "uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [object] });
        let review = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request });
        prop_assert!(answer(review.to_string().as_bytes()).is_ok());
    }
}
