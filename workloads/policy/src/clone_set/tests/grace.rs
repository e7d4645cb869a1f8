//! Pods that an OpenKruise has left in the grace period of an update in place: labelled with the newest
//! revision, out of service, with the image of the old one.

use serde_json::{Map, Value, json};

use super::{
    in_place::{known, spec},
    world::World,
};
use crate::{
    action::Action,
    in_place::InPlacePhase,
    names::{GRACE_ANNOTATION, IN_PLACE_GATE, IN_PLACE_STATE_ANNOTATION, REVISION_LABEL, STATE_LABEL},
    pod::PodView,
};

/// Returns the pod as OpenKruise leaves it, updated to this revision and image.
fn left(pod: &PodView, revision: &str, image: &str) -> PodView {
    let grace = json!({ "revision": revision, "containerImages": { "main": image }, "graceSeconds": 15 });
    let mut labels: Map<String, Value> =
        pod.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    labels.insert(REVISION_LABEL.to_owned(), revision.into());
    labels.insert(STATE_LABEL.to_owned(), "Updating".into());
    let since = "1970-01-11T10:00:00Z";
    let read = json!({
        "metadata": {
            "namespace": "ns", "name": pod.name, "uid": pod.uid, "resourceVersion": "1", "labels": labels,
            "annotations": { GRACE_ANNOTATION: grace.to_string() },
        },
        "spec": {
            "nodeName": pod.node, "containers": [{ "name": "main", "image": "a:1" }],
            "readinessGates": [{ "conditionType": IN_PLACE_GATE }],
        },
        "status": { "phase": "Running", "conditions": [
            { "type": "ContainersReady", "status": "True", "lastTransitionTime": since },
            { "type": "Ready", "status": "False", "lastTransitionTime": since },
            { "type": IN_PLACE_GATE, "status": "False", "reason": "StartInPlaceUpdate", "lastTransitionTime": since },
        ] },
    });
    PodView::of(&serde_json::from_value(read).unwrap())
}

/// A world of two new pods and one that is left.
fn world(type_: &str, revision: &str, image: &str) -> World {
    let mut world = World::new(spec(type_), "3n");
    world.pods[2] = left(&world.pods[2], revision, image);
    world
}

/// Each row: what differs from a set of two new pods and one in its grace period; what is done, and how many
/// pods count as updated.
#[test]
fn a_pod_in_its_grace_period_is_not_updated() {
    type Change = fn(&mut World);
    type Row = (&'static str, &'static str, Change, Option<InPlacePhase>, &'static str, i32);
    let say = |world: &mut World, phase| drop(world.in_place.insert("uid-p2".to_owned(), known(phase)));
    let failed = || InPlacePhase::Failed("no room".to_owned());
    let table: [Row; 13] = [
        ("its node is asked, and the gate stays shut", "InPlaceIfPossible", |_| {}, None, "update n!", 2),
        ("or nothing else is done", "InPlaceOnly", |_| {}, None, "update n!", 2),
        ("or a new pod has the image", "ReCreate", |_| {}, None, "delete n!", 2),
        ("its node is at it", "InPlaceIfPossible", |_| {}, Some(InPlacePhase::Pending), "", 2),
        (
            "its node has done it",
            "InPlaceIfPossible",
            |_| {},
            Some(InPlacePhase::Done),
            "release n!, open n!",
            3,
        ),
        ("its node could not", "InPlaceIfPossible", |_| {}, Some(failed()), "forget, delete n!", 2),
        ("and it stays", "InPlaceOnly", |_| {}, Some(failed()), "open n!", 2),
        (
            "no agent is there",
            "InPlaceIfPossible",
            |world| world.updating_nodes.clear(),
            None,
            "delete n!",
            2,
        ),
        (
            "it serves while the update rests",
            "InPlaceIfPossible",
            |world| world.set.spec.update_strategy.as_mut().unwrap().paused = true,
            None,
            "open n!",
            2,
        ),
        (
            "or when it is to be old",
            "InPlaceIfPossible",
            |world| {
                world.set.spec.update_strategy.as_mut().unwrap().partition =
                    Some(serde_json::from_value(json!(1)).unwrap());
            },
            None,
            "Normal n!, open n!",
            2,
        ),
        (
            "it has the image: the annotation alone goes",
            "ReCreate",
            |world| world.pods[2] = left(&world.pods[2], "shop-new", "a:1"),
            None,
            "release n!, open n!",
            3,
        ),
        (
            "others go on meanwhile, one at a time",
            "InPlaceIfPossible",
            |world| world.pods[0].labels.extend([(REVISION_LABEL.to_owned(), "shop-old".to_owned())]),
            None,
            "update n!",
            1,
        ),
        (
            "two of them, one at a time",
            "InPlaceIfPossible",
            |world| world.pods[1] = left(&world.pods[1], "shop-new", "a:2"),
            None,
            "update n!, open n!",
            1,
        ),
    ];
    for (row, type_, change, phase, effect, updated) in table {
        let mut world = world(type_, "shop-new", "a:2");
        change(&mut world);
        if let Some(phase) = phase {
            say(&mut world, phase);
        }
        assert_eq!(world.effect(), effect, "{row}");
        assert_eq!(world.plan().status.unwrap().updated_replicas, updated, "{row}");
    }
}

#[test]
fn its_node_is_asked_for_the_image_that_waits() {
    let world = world("InPlaceIfPossible", "shop-new", "a:2");
    let plan = world.plan();
    let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.revision.as_str(), update.name.as_str()), ("shop-new", "p2"));
    assert_eq!(update.images, [("main".to_owned(), "a:2".to_owned())].into());
    assert_eq!(update.labels[REVISION_LABEL], "shop-new");
}

/// Its label says the revision between; the newest one may have the same image as that, or its own again.
#[test]
fn a_newer_revision_is_gone_to_at_once() {
    for image in ["a:1", "a:2", "a:3"] {
        let mut world = world("InPlaceIfPossible", "shop-mid", "a:2");
        world.revisions.push(super::world::revision("shop-mid", 2, "a:2"));
        world.revisions[1].number = 3;
        world.revisions[1].template["spec"]["containers"][0]["image"] = image.into();
        world.set.spec.template.0["spec"]["containers"][0]["image"] = image.into();
        if image == "a:2" {
            world.revisions[1].template["metadata"]["labels"]["more"] = "1".into();
            world.set.spec.template.0["metadata"]["labels"]["more"] = "1".into();
        }
        let plan = world.plan();
        let update = plan.actions.iter().find_map(|action| match action {
            Action::UpdateInPlace(update) => Some(update),
            _ => None,
        });
        let update = update.unwrap_or_else(|| panic!("{image}: {plan:?}"));
        assert_eq!(update.images, [("main".to_owned(), image.to_owned())].into());
        assert_eq!((update.revision.as_str(), update.name.as_str()), ("shop-new", "p2"));
        assert_eq!(plan.status.unwrap().updated_replicas, 2);
    }
}

/// The annotation goes first, then the entry that says that the pod has the image.
#[test]
fn what_is_done_is_forgotten_after_the_annotation() {
    let mut world = world("InPlaceIfPossible", "shop-new", "a:2");
    world.in_place.insert("uid-p2".to_owned(), known(InPlacePhase::Done));
    let plan = world.plan();
    let [Action::PatchPod(_, patch), ..] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(patch, &json!({ "metadata": { "annotations": { GRACE_ANNOTATION: null } } }));
    world.pods[2].grace = None;
    assert_eq!(world.effect(), "Normal n!, open n!");
    world.pods[2] = super::world::pod("p2", "n");
    assert_eq!(world.effect(), "forget");
}

/// An entry of the time before OpenKruise says nothing of what that has begun since.
#[test]
fn an_older_entry_is_forgotten() {
    let mut world = world("InPlaceIfPossible", "shop-new", "a:2");
    let old = crate::in_place::InPlaceState { revision: "shop-old".to_owned(), ..known(InPlacePhase::Done) };
    world.in_place.insert("uid-p2".to_owned(), old);
    assert_eq!(world.effect(), "forget, open n!");
    world.in_place.clear();
    assert_eq!(world.effect(), "update n!");
}

/// Labels wait for the end of the grace period as images do: where nothing else does, one write gives them.
#[test]
fn labels_alone_take_no_node() {
    let mut world = world("InPlaceIfPossible", "shop-new", "a:2");
    let patch = json!({ "metadata": { "labels": { "app": "shop", "more": "1" } } });
    let bytes = json!(k8s_openapi::ByteString(patch.to_string().into_bytes()));
    let grace = json!({ "revision": "shop-new", "metaDataPatch": bytes }).to_string();
    let pod =
        json!({ "metadata": { "annotations": { GRACE_ANNOTATION: grace }, "labels": { "app": "shop" } } });
    world.pods[2].grace = PodView::of(&serde_json::from_value(pod).unwrap()).grace;
    world.revisions[1].template["metadata"]["labels"]["more"] = "1".into();
    world.set.spec.template.0["metadata"]["labels"]["more"] = "1".into();
    world.updating_nodes.clear();
    let plan = world.plan();
    let [Action::PatchPod(_, patch), ..] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(patch["metadata"]["labels"]["more"], "1");
    assert_eq!(patch["metadata"]["annotations"], json!({ GRACE_ANNOTATION: null }));
    assert_eq!(plan.status.unwrap().updated_replicas, 2);
}

/// Else a new pod would not be updated as soon as it is there, and would be made anew without end.
#[test]
fn a_new_pod_has_no_annotation_of_a_grace_period() {
    let mut world = World::new(spec("ReCreate"), "");
    let annotations = json!({ GRACE_ANNOTATION: "{", "other": "a" });
    for template in [&mut world.set.spec.template.0, &mut world.revisions[1].template] {
        template["metadata"]["annotations"] = annotations.clone();
    }
    let made: Vec<Value> = world
        .plan()
        .actions
        .into_iter()
        .filter_map(|action| match action {
            Action::CreatePod(pod) => Some(pod["metadata"]["annotations"].clone()),
            _ => None,
        })
        .collect();
    assert_eq!(made.len(), 3);
    assert!(made.iter().all(|made| made["other"] == "a" && made.get(GRACE_ANNOTATION).is_none()), "{made:?}");
}

/// An OpenKruise has left it between two batches, or the object with its entry is gone. Each row: its update
/// as its node tells it, what is done, and how many pods count as updated.
#[test]
fn a_pod_that_was_left_between_two_batches_is_not_updated() {
    let record = json!({ "revision": "shop-new", "nextContainerImages": { "main": "a:2" } });
    let read = json!({
        "metadata": { "annotations": { IN_PLACE_STATE_ANNOTATION: record.to_string() } },
        "spec": { "containers": [{ "name": "main", "image": "a:1" }] },
    });
    let grace = PodView::of(&serde_json::from_value(read).unwrap()).grace;
    for (phase, effect, updated) in [(None, "update n", 2), (Some(InPlacePhase::Pending), "", 3)] {
        let mut world = World::new(spec("InPlaceIfPossible"), "3n");
        world.pods[2].grace.clone_from(&grace);
        world.in_place.extend(phase.map(|phase| ("uid-p2".to_owned(), known(phase))));
        assert_eq!(world.effect(), effect);
        assert_eq!(world.plan().status.unwrap().updated_replicas, updated, "{effect}");
    }
}
