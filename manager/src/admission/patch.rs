//! JSON patch from one version of an object to another: by whole maps of labels and annotations, the
//! finalizers, the whole spec, and the options of an eviction. What admission changes is there, and an API
//! server applies one large value as fast as many.

use serde_json::{Value, json};

/// Parts of an object that admission may change, from the outermost to the innermost.
const PARTS: [&[&str]; 5] = [
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["metadata", "finalizers"],
    &["spec"],
    &["deleteOptions"],
];

/// Operations that make `after` of `before`, as far as the parts go that admission may change.
pub(super) fn difference(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    let no_metadata = before.get("metadata").is_none_or(Value::is_null);
    if no_metadata && after.get("metadata").is_some_and(Value::is_object) {
        operations.push(json!({ "op": "add", "path": "/metadata", "value": {} }));
    }
    for part in PARTS {
        let pointer = format!("/{}", part.join("/"));
        let (old, new) = (before.pointer(&pointer), after.pointer(&pointer));
        match (old, new) {
            (old, Some(new)) if old != Some(new) => {
                operations.push(json!({ "op": "add", "path": pointer, "value": new }));
            }
            (Some(_), None) => operations.push(json!({ "op": "remove", "path": pointer })),
            _ => {}
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::same(json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), json!([]))]
    #[case::spec(json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}),
        json!([{"op": "add", "path": "/spec", "value": {"a": 2}}]))]
    #[case::first_label(json!({"metadata": {"name": "n"}}), json!({"metadata": {"name": "n", "labels": {"k": "v"}}}),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"k": "v"}}]))]
    #[case::null_labels(json!({"metadata": {"labels": null}}), json!({"metadata": {"labels": {"k": "v"}}}),
        json!([{"op": "add", "path": "/metadata/labels", "value": {"k": "v"}}]))]
    #[case::no_metadata(json!({}), json!({"metadata": {"annotations": {"k": "v"}}}),
        json!([{"op": "add", "path": "/metadata", "value": {}},
            {"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}}]))]
    #[case::no_label_is_left(json!({"metadata": {"labels": {"k": "v"}}}), json!({"metadata": {}}),
        json!([{"op": "remove", "path": "/metadata/labels"}]))]
    #[case::options(json!({"deleteOptions": null}), json!({"deleteOptions": {"a": 1}}),
        json!([{"op": "add", "path": "/deleteOptions", "value": {"a": 1}}]))]
    #[case::a_name_never(json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "b"}}), json!([]))]
    fn parts(#[case] before: Value, #[case] after: Value, #[case] operations: Value) {
        assert_eq!(Value::Array(difference(&before, &after)), operations);
    }
}
