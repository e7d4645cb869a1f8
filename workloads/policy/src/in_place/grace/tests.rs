//! Tables of what an annotation says, and of the change that comes of it.

use rstest::rstest;

use super::*;
use crate::in_place::change;

/// Bytes in base64, as OpenKruise writes the patch of metadata.
fn bytes(patch: &Value) -> Value {
    json!(ByteString(patch.to_string().into_bytes()))
}

/// A pod of revision `web-b` with image `a:1` and these labels and annotations.
fn pod(labels: Value, annotations: Value, grace: &Value) -> PodView {
    let text = grace.as_str().map_or_else(|| grace.to_string(), str::to_owned);
    let mut metadata = json!({ "name": "p", "uid": "u", "labels": labels, "annotations": annotations });
    metadata["labels"][REVISION_LABEL] = "web-b".into();
    metadata["annotations"][GRACE_ANNOTATION] = text.into();
    let containers = json!([{ "name": "main", "image": "a:1" }, { "name": "log", "image": "log:1" }]);
    let pod = json!({ "metadata": metadata, "spec": { "containers": containers } });
    PodView::of(&serde_json::from_value(pod).unwrap())
}

fn known(revision: &str, phase: InPlacePhase) -> InPlaceState {
    InPlaceState { node: "n".to_owned(), revision: revision.to_owned(), attempt: 0, generation: None, phase }
}

fn template(image: &str, labels: Value) -> Map<String, Value> {
    let containers = json!([{ "name": "main", "image": image }, { "name": "log", "image": "log:1" }]);
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    template.as_object().cloned().unwrap()
}

/// Each row: the annotation, and whether the pod lacks what its label says.
#[rstest]
#[case::an_image(json!({ "revision": "web-b", "containerImages": { "main": "a:2" }, "graceSeconds": 15 }), true)]
#[case::a_short_revision(json!({ "revision": "b", "containerImages": { "main": "a:2" } }), true)]
#[case::another_revision(json!({ "revision": "web-a", "containerImages": { "main": "a:2" } }), false)]
#[case::the_image_is_there(json!({ "revision": "web-b", "containerImages": { "main": "a:1" } }), false)]
#[case::one_of_two_is_there(json!({ "revision": "web-b", "containerImages": { "main": "a:1", "log": "log:2" } }), true)]
#[case::a_label(json!({ "revision": "web-b", "metaDataPatch": bytes(&json!({ "metadata": { "labels": { "x": "2" } } })) }), true)]
#[case::a_label_that_is_there(json!({ "revision": "web-b", "metaDataPatch": bytes(&json!({ "metadata": { "labels": { "x": "1" } } })) }), false)]
#[case::resources(json!({ "revision": "web-b", "containerResources": { "main": {} } }), true)]
#[case::nothing(json!({ "revision": "web-b", "containerImages": null }), false)]
#[case::no_bytes(json!({ "revision": "web-b", "metaDataPatch": "{" }), true)]
fn a_pod_that_lacks_what_its_label_says(#[case] grace: Value, #[case] lacks: bool) {
    let pod = pod(json!({ "x": "1" }), json!({}), &grace);
    assert_eq!(pod.is_in_grace(None), lacks);
    assert!(!pod.is_in_grace(Some(&known("web-b", InPlacePhase::Done))), "its node has done it");
    for (revision, phase) in [("web-a", InPlacePhase::Done), ("web-b", InPlacePhase::Pending)] {
        assert_eq!(pod.is_in_grace(Some(&known(revision, phase))), lacks, "{revision}");
    }
    let ended = end_grace(&pod, None);
    assert_eq!(ended.is_some(), !lacks);
    if let Some(Action::PatchPod(target, patch)) = ended {
        assert_eq!(target.uid, "u");
        assert_eq!(patch, json!({ "metadata": { "annotations": { GRACE_ANNOTATION: null } } }));
    }
}

/// Containers go in batches. Each row: the record of the update, and whether the pod lacks what its label
/// says.
#[rstest]
#[case::an_image(json!({ "revision": "web-b", "nextContainerImages": { "main": "a:2" } }), true)]
#[case::the_image_is_there(json!({ "revision": "web-b", "nextContainerImages": { "main": "a:1" } }), false)]
#[case::a_value(json!({ "revision": "b", "nextContainerRefMetadata": { "main": { "labels": { "x": "2" } } } }), true)]
#[case::resources(json!({ "revision": "web-b", "nextContainerResources": { "main": {} } }), true)]
#[case::another_revision(json!({ "revision": "web-a", "nextContainerImages": { "main": "a:2" } }), false)]
#[case::no_revision(json!({ "nextContainerImages": { "main": "a:2" } }), false)]
#[case::nothing(json!({ "revision": "web-b", "nextContainerImages": {} }), false)]
#[case::no_record(json!([]), false)]
fn a_pod_that_was_left_between_two_batches(#[case] record: Value, #[case] lacks: bool) {
    let annotations = json!({ IN_PLACE_STATE_ANNOTATION: record.to_string() });
    let metadata = json!({
        "name": "p", "uid": "u", "labels": { REVISION_LABEL: "web-b" }, "annotations": annotations,
    });
    let containers = json!([{ "name": "main", "image": "a:1" }, { "name": "log", "image": "log:1" }]);
    let pod = json!({ "metadata": metadata, "spec": { "containers": containers } });
    let pod = PodView::of(&serde_json::from_value(pod).unwrap());
    assert_eq!(pod.is_in_grace(None), lacks);
    for phase in [InPlacePhase::Pending, InPlacePhase::Done, InPlacePhase::Failed("no room".to_owned())] {
        assert!(!pod.is_in_grace(Some(&known("web-b", phase))), "its node tells more");
    }
    assert_eq!(end_grace(&pod, None), None, "the record stays");
    if record["nextContainerImages"]["main"] == "a:2" && lacks {
        let b = template("a:2", json!({}));
        let change = pod.grace.unwrap().added_to(Change::default(), &b).unwrap();
        assert_eq!(change.images, [("main".to_owned(), "a:2".to_owned())].into());
    }
}

/// An author may have written it, also into a template. Each row: the annotation, and whether the gate is
/// open.
#[rstest]
fn an_annotation_that_says_no_revision_counts_while_the_gate_is_shut(
    #[values(json!({ "containerImages": { "main": "a:2" } }), "{".into(), "".into(), "x".repeat(LONGEST + 1).into())]
    grace: Value,
    #[values(None, Some(true), Some(false))] gate: Option<bool>,
) {
    let pod = PodView { gate, ..pod(json!({}), json!({}), &grace) };
    assert_eq!(pod.is_in_grace(None), gate == Some(false));
    assert_eq!(end_grace(&pod, None).is_some(), gate != Some(false), "it is taken off");
}

/// Each row: what is known of an update by Berth, and what is done with the annotation.
#[test]
fn the_annotation_goes_when_an_update_is_over() {
    let left = json!({ "revision": "web-b", "containerImages": { "main": "a:2" } });
    let gone = json!({ "revision": "web-a", "containerImages": { "main": "a:2" } });
    let failed = || InPlacePhase::Failed("no room".to_owned());
    for (row, grace, known, effect) in [
        ("nobody has updated it", &left, None, ""),
        ("it is updated", &left, Some(known("web-b", InPlacePhase::Pending)), ""),
        ("its node has done it", &left, Some(known("web-b", InPlacePhase::Done)), "take off"),
        ("its node could not", &left, Some(known("web-b", failed())), ""),
        ("an update of before is done", &left, Some(known("web-a", InPlacePhase::Done)), "forget"),
        ("it has another revision", &gone, None, "take off"),
        ("it is brought to another one", &gone, Some(known("web-b", InPlacePhase::Pending)), ""),
        ("it was brought to another one", &gone, Some(known("web-b", InPlacePhase::Done)), "take off"),
    ] {
        let done = match end_grace(&pod(json!({}), json!({}), grace), known.as_ref()) {
            Some(Action::PatchPod(..)) => "take off",
            Some(Action::ForgetInPlace { .. }) => "forget",
            None => "",
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(done, effect, "{row}");
    }
    let plain = PodView { grace: None, ..pod(json!({}), json!({}), &left) };
    assert_eq!(end_grace(&plain, None), None);
}

#[test]
fn what_waits_is_asked_for_beside_what_has_changed_since() {
    let patch = json!({ "metadata": { "labels": { "x": "2", "y": null, "z": "1" } } });
    let left = json!({
        "revision": "web-b", "containerImages": { "main": "a:2" }, "metaDataPatch": bytes(&patch),
        "containerRefMetadata": { "main": { "annotations": { "conf": "b" }, "creationTimestamp": null } },
    });
    let pod = |grace: &Value| pod(json!({ "x": "1", "y": "1", "z": "1" }), json!({ "conf": "a" }), grace);
    let grace = |grace: &Value| pod(grace).grace.unwrap();
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());

    // To the revision that it is labelled with.
    let b = template("a:2", json!({ "x": "2", "z": "1" }));
    let same = grace(&left).added_to(change(&b, &b).unwrap(), &b).unwrap();
    assert_eq!(same.images, [text("main", "a:2")].into(), "and not what webhooks have rewritten");
    assert_eq!(same.labels, [text("x", "2")].into());
    assert_eq!(
        (same.gone_labels, same.gone_annotations),
        (["y".to_owned()].into(), ["conf".to_owned()].into())
    );

    // Straight to a later one, whose image of that container is the same or another.
    for image in ["a:2", "a:3"] {
        let c = template(image, json!({ "x": "3", "y": "1", "z": "1" }));
        let later = grace(&left).added_to(change(&b, &c).unwrap(), &c).unwrap();
        assert_eq!(later.images, [text("main", image)].into());
        assert_eq!(later.labels, [text("x", "3"), text("y", "1")].into());
        assert!(later.gone_labels.is_empty());
    }

    // Where nobody can tell, all that the template names.
    let all = grace(&"{".into()).added_to(Change::default(), &b).unwrap();
    assert_eq!((all.images.len(), all.labels.len()), (2, 2));

    // No agent changes resources, and the order of a pod is settled.
    let order =
        json!({ "main": { "annotations": { "apps.kruise.io/container-launch-priority": "Ordered" } } });
    for (field, value) in
        [("containerResources", json!({ "main": { "limits": {} } })), ("containerRefMetadata", order)]
    {
        let left = json!({ "revision": "web-b", field: value });
        assert_eq!(grace(&left).added_to(Change::default(), &b), None, "{field}");
    }
}

#[test]
fn a_pod_that_is_updated_or_deleted_stays_out_of_service() {
    let target = |uid: &str| crate::action::Target {
        name: uid.to_owned(),
        uid: uid.to_owned(),
        version: "1".to_owned(),
    };
    let write = |uid: &str, type_: &str| {
        let patch = json!({ "status": { "conditions": [{ "type": type_, "status": "True" }] } });
        Action::PatchPodStatus(target(uid), patch)
    };
    let gates = vec![write("a", IN_PLACE_GATE), write("a", "KruisePodReady"), write("b", IN_PLACE_GATE)];
    let mut actions = vec![Action::DeletePod(target("a"))];
    open(gates, &mut actions);
    assert_eq!(actions[1..], [write("a", "KruisePodReady"), write("b", IN_PLACE_GATE)]);
}
