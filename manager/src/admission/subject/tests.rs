use rstest::rstest;
use serde_json::json;

use super::*;

fn pod(metadata: Value, phase: &str) -> Value {
    json!({ "metadata": metadata, "spec": { "containers": [] }, "status": { "phase": phase } })
}

#[rstest]
#[case::active(json!({"name": "p"}), "Running", true)]
#[case::pending(json!({"name": "p"}), "Pending", true)]
#[case::exempt(json!({"annotations": {NO_PROTECT: "true"}}), "Running", false)]
#[case::not_exempt(json!({"annotations": {NO_PROTECT: "false"}}), "Running", true)]
#[case::is_going(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "Running", false)]
#[case::succeeded(json!({}), "Succeeded", false)]
#[case::failed(json!({}), "Failed", false)]
#[case::no_name_of_a_pod(json!({"name": "p".repeat(254)}), "Running", false)]
#[case::another_path(json!({"name": "../nodes"}), "Running", false)]
#[case::static_pod(json!({"annotations": {"kubernetes.io/config.mirror": "x"}}), "Running", false)]
fn pods_that_budgets_limit(#[case] metadata: Value, #[case] phase: &str, #[case] is: bool) {
    assert_eq!(limited(pod(metadata, phase)).is_some(), is);
}

#[rstest]
#[case::nothing(json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), false)]
#[case::image(json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), true)]
#[case::label(json!({}), json!({"metadata": {"labels": {"app": "a"}}}), false)]
#[case::marked(json!({}), json!({"metadata": {"labels": {"unavailable-pod.kruise.io/x": ""}}}), true)]
#[case::unmarked(json!({"metadata": {"labels": {"unavailable-pod.kruise.io/x": ""}}}), json!({}), false)]
fn updates_that_count(#[case] old: Value, #[case] new: Value, #[case] is: bool) {
    assert_eq!(changes(&old, &new), is);
}

/// Labels that nobody has checked yet, as many as an API server sends. Each is looked up: to walk through all
/// of before for each of now would take minutes.
#[test]
fn marks_of_a_large_pod_are_looked_up() {
    let pod = |count: usize| {
        let marks = (0..count).map(|at| (format!("{UNAVAILABLE}{at}"), json!("")));
        json!({ "metadata": { "labels": marks.collect::<Map<_, _>>() } })
    };
    let (old, more) = (pod(60_000), pod(60_001));
    assert!(!changes(&old, &old));
    assert!(changes(&old, &more) && !changes(&more, &old));
}

#[rstest]
#[case::closed("True", "False", true)]
#[case::closed_before("False", "False", false)]
#[case::opened("False", "True", false)]
#[case::open("True", "True", false)]
fn an_update_begins_with_the_gate(#[case] old: &str, #[case] new: &str, #[case] is: bool) {
    let gate =
        |status: &str| json!({"status": {"conditions": [{"type": "InPlaceUpdateReady", "status": status}]}});
    assert_eq!(closes(&gate(old), &gate(new)), is);
}
