//! Updates of labels and annotations alone.

use serde_json::{Value, json};

use super::{
    in_place::{known, spec},
    world::{NOW, World},
};
use crate::{
    action::Action,
    in_place::InPlacePhase,
    names::{IN_PLACE_STATE_ANNOTATION, REVISION_LABEL, TEMPLATE_HASH_LABEL},
    plan::Cause,
};

/// Nothing is to be restarted: no node is told, and none is needed.
#[test]
fn metadata_alone_is_one_write_and_needs_no_agent() {
    let mut world = World::new(spec("InPlaceOnly"), "3o");
    world.updating_nodes.clear();
    world.revisions[1].template = world.revisions[0].template.clone();
    world.revisions[1].template["metadata"]["annotations"] = json!({ "example.com/a": "1" });
    world.set.spec.template.0.clone_from(&world.revisions[1].template);
    // What the node has told of an update before would put the label back.
    let mut before = known(InPlacePhase::Done);
    "shop-old".clone_into(&mut before.revision);
    for pod in &world.pods {
        world.in_place.insert(pod.uid.clone(), before.clone());
    }
    let plan = world.plan();
    assert!(plan.actions.iter().all(|one| matches!(one, Action::ForgetInPlace { .. })), "{plan:?}");
    world.in_place.clear();
    let plan = world.plan();
    let [Action::PatchPod(_, patch)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    let labels = json!({ REVISION_LABEL: "shop-new", TEMPLATE_HASH_LABEL: "new" });
    assert_eq!(patch["metadata"]["labels"], labels);
    assert_eq!(patch["metadata"]["annotations"]["example.com/a"], "1");
    assert_eq!(plan.causes.values().collect::<Vec<_>>(), [&Cause::InPlace], "an Event tells of it");
}

/// Labels are long or short as the installation has chosen, and a pod with the other one counts as updated.
#[test]
fn a_new_pod_has_the_label_that_was_chosen() {
    for (short_hash, label, other) in [(false, "shop-new", "new"), (true, "new", "shop-new")] {
        let mut world = World::new(json!({ "replicas": 2 }), "1n");
        world.settings.short_hash = short_hash;
        world.pods[0].labels.insert(REVISION_LABEL.to_owned(), other.to_owned());
        let plan = world.plan();
        let [Action::CreatePod(pod)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        let labels = &pod["metadata"]["labels"];
        assert_eq!(
            (&labels[REVISION_LABEL], &labels[TEMPLATE_HASH_LABEL]),
            (&json!(label), &json!("new")),
            "{short_hash}"
        );
    }
}

/// Clients take the record for the word on the update, whatever has changed. Rows: short labels, whether the
/// gate is open where somebody has said so, and the revision that is recorded.
#[test]
fn metadata_alone_is_recorded_as_an_update() {
    for (short_hash, gate, recorded) in [
        (false, Some(true), Some("shop-new")),
        (false, None, Some("shop-new")),
        (true, Some(true), Some("new")),
        // An update that somebody asked for by hand goes on, and goes by its record.
        (false, Some(false), None),
    ] {
        let mut world = World::new(spec("InPlaceOnly"), "3o");
        world.settings.short_hash = short_hash;
        world.set.spec.update_strategy.as_mut().unwrap().max_unavailable = None;
        world.revisions[1].template = world.revisions[0].template.clone();
        world.revisions[1].template["metadata"]["labels"]["tier"] = json!("2");
        world.set.spec.template.0.clone_from(&world.revisions[1].template);
        world.pods.iter_mut().for_each(|pod| pod.gate = gate);
        let plan = world.plan();
        let patch = plan.actions.iter().find_map(|action| match action {
            Action::PatchPod(_, patch) => Some(patch),
            _ => None,
        });
        let metadata = &patch.unwrap()["metadata"];
        assert_eq!(metadata["labels"]["tier"], "2");
        let record = metadata["annotations"][IN_PLACE_STATE_ANNOTATION].as_str();
        let record = record.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let expected = recorded.map(|revision| {
            assert_eq!(metadata["labels"][REVISION_LABEL], revision, "the record says what the label says");
            json!({ "revision": revision, "updateTimestamp": NOW.to_string(), "lastContainerStatuses": {} })
        });
        assert_eq!(record, expected, "{short_hash} {gate:?}");
    }
}
