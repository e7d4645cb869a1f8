use berth_workloads_policy::{broadcast_job, united_deployment};
use kube::Resource;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[test]
fn all_that_is_read_of_a_pod_is_there() {
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds": 30, "labels": { "controller-revision-hash": "old" },
            "annotations": {
                "controller.kubernetes.io/pod-deletion-cost": "5", "large": "x",
                "workloads.berth.dev/metadata-of": "old/new",
            },
            "finalizers": ["f"], "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
            "ownerReferences": [{ "apiVersion": "v", "kind": "k", "name": "n", "uid": "o", "controller": true }],
        },
        "spec": {
            "containers": [{ "name": "a", "image": "i" }], "nodeName": "node",
            "restartPolicy": "OnFailure",
            "readinessGates": [{ "conditionType": "KruisePodReady" }],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchFields": [
                    { "key": "metadata.name", "operator": "In", "values": ["tied"] },
                ] }],
            } } },
        },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" },
                { "type": "InPlaceUpdateReady", "status": "False", "message": "m" },
                { "type": "KruisePodReady", "status": "False", "message": "k" },
            ],
            "containerStatuses": [
                { "name": "a", "image": "i", "imageID": "d", "ready": true, "restartCount": 3,
                  "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } } },
            ],
            "initContainerStatuses": [
                { "name": "b", "image": "i", "imageID": "d", "ready": true, "restartCount": 4 },
            ],
        },
    });
    let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
    let trimmed: TrimmedPod = serde_json::from_value(pod).unwrap();
    let view = PodView::of(&trimmed.0);
    assert_eq!(view, PodView::of(&whole));
    let of_job = broadcast_job::PodView::of(&trimmed.0);
    assert_eq!(of_job, broadcast_job::PodView::of(&whole));
    assert!(of_job.restarts_on_failure && of_job.restarts == 7);
    let of_united = united_deployment::PodView::of(&trimmed.0);
    assert_eq!(of_united, united_deployment::PodView::of(&whole));
    assert!(of_united.ready && of_united.terminating);
    assert_eq!((view.restarts, view.deletion_cost, view.placed_on.as_str()), (3, 5, "tied"));
    assert!(view.not_up.is_some());
    assert!(view.failing_since.is_none());
    assert!(view.metadata_of.is_some() && view.terminating && view.kruise_ready.is_some());
    assert_eq!(trimmed.meta().deletion_grace_period_seconds, Some(30));
    assert_eq!((trimmed.meta().managed_fields.clone(), trimmed.0.spec.unwrap().containers.len()), (None, 0));
}

#[test]
fn images_that_an_openkruise_was_about_to_change_are_read() {
    let pod = json!({
        "metadata": { "name": "p", "uid": "u", "labels": { "controller-revision-hash": "new" }, "annotations": {
            "apps.kruise.io/inplace-update-grace": r#"{"revision":"new","containerImages":{"a":"i:2","b":"i:1"}}"#,
        } },
        "spec": { "containers": [{ "name": "a", "image": "i:1" }, { "name": "b", "image": "i:1", "ports": [] }] },
    });
    let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
    let trimmed: TrimmedPod = serde_json::from_value(pod).unwrap();
    let view = PodView::of(&trimmed.0);
    assert!(view.grace.is_some());
    assert_eq!(view, PodView::of(&whole));
}

/// Each row: fields of the record of an update beside its revision, and whether it is kept.
#[rstest]
#[case::something_waits(json!({ "nextContainerImages": { "a": "i:2" } }), true)]
#[case::nothing_waits(json!({ "lastContainerStatuses": { "a": { "imageID": "d" } } }), false)]
#[case::without_bound(json!({ "nextContainerImages": { "a": "i".repeat(10_000) } }), false)]
fn of_the_record_of_an_update_what_waits_is_read(#[case] fields: Value, #[case] is_kept: bool) {
    let mut record = json!({ "revision": "new" });
    for (key, value) in fields.as_object().unwrap() {
        record[key] = value.clone();
    }
    let annotations = json!({ "apps.kruise.io/inplace-update-state": record.to_string() });
    let pod = json!({
        "metadata": { "name": "p", "uid": "u", "annotations": annotations },
        "spec": { "containers": [{ "name": "a", "image": "i:1" }] },
    });
    let trimmed: TrimmedPod = serde_json::from_value(pod).unwrap();
    let kept = trimmed.meta().annotations.iter().flatten().count();
    let images = trimmed.0.spec.as_ref().unwrap().containers.len();
    assert_eq!((kept, images), (usize::from(is_kept), usize::from(is_kept)));
    assert_eq!(PodView::of(&trimmed.0).grace.is_some(), is_kept);
}

#[test]
fn the_end_of_an_update_that_it_shows_is_read() {
    let message = r#"{"revision":"new","attempt":0,"restarts":{"a":3}}"#;
    let labels = json!({ "controller-revision-hash": "new" });
    let pod = json!({ "metadata": { "name": "p", "uid": "u", "labels": labels }, "status": {
        "conditions": [
            { "type": "Ready", "status": "True" },
            { "type": "InPlaceUpdateReady", "status": "True", "message": message },
        ],
        "containerStatuses": [
            { "name": "a", "image": "i", "imageID": "d", "ready": true, "restartCount": 3 },
        ],
    } });
    let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
    let trimmed: TrimmedPod = serde_json::from_value(pod).unwrap();
    let view = PodView::of(&trimmed.0);
    assert!(view.shown.is_some());
    assert_eq!(view, PodView::of(&whole));
}

#[test]
fn a_pod_whose_probe_fails_is_read_as_such() {
    let since = "2026-01-01T00:00:09Z";
    let not_ready = |type_: &str| json!({ "type": type_, "status": "False", "lastTransitionTime": since });
    let pod = json!({ "metadata": { "name": "p", "uid": "u" }, "status": {
        "phase": "Running", "conditions": [not_ready("Ready"), not_ready("ContainersReady")],
        "containerStatuses": [{ "name": "a", "image": "i", "imageID": "d", "ready": false,
            "restartCount": 0, "state": { "running": { "startedAt": "2026-01-01T00:00:05Z" } } }],
    } });
    let whole: Pod = serde_json::from_value(pod.clone()).unwrap();
    let trimmed: TrimmedPod = serde_json::from_value(pod).unwrap();
    let view = PodView::of(&trimmed.0);
    assert_eq!(view, PodView::of(&whole));
    assert!(view.failing_since.is_some());
}

/// A pod is bounded by its text alone, and small labels and the like take ten times as much as theirs.
#[rstest]
#[case::ordinary(json!({ "labels": labels(50) }), false)]
#[case::labels(json!({ "labels": labels(10_000) }), true)]
#[case::finalizers(json!({ "finalizers": vec!["a/b"; 10_000] }), true)]
#[case::owners(json!({ "ownerReferences": vec![owner("o", true); 10_000] }), true)]
#[case::an_owner(json!({ "ownerReferences": [owner(&"o".repeat(100_000), true)] }), true)]
#[case::an_annotation(
    json!({ "annotations": { "controller.kubernetes.io/pod-deletion-cost": "1".repeat(100_000) } }),
    true
)]
fn metadata_of_a_pod_are_bounded(#[case] more: Value, #[case] is_large: bool) {
    let mut meta = json!({
        "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "7", "labels": labels(3),
        "ownerReferences": [owner("other", false), owner("set", true)],
    });
    for (key, value) in more.as_object().unwrap() {
        meta[key] = value.clone();
    }
    let trimmed: TrimmedPod = serde_json::from_value(json!({ "metadata": meta })).unwrap();
    let view = PodView::of(&trimmed.0);
    assert_eq!(is_unread(&view), is_large);
    assert!(memory(trimmed.meta(), &[]) <= MOST_METADATA);
    assert_eq!((view.name.as_str(), view.version.as_str()), ("p", "7"), "it is there");
    if more["ownerReferences"].is_null() {
        assert_eq!(view.owner(), "set", "and whose it is");
    }
}

fn labels(count: usize) -> Value {
    (0..count).map(|number| (format!("label-{number}"), json!("x"))).collect()
}

fn owner(uid: &str, controller: bool) -> Value {
    json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": uid, "uid": uid,
        "controller": controller })
}
