//! Updates in place.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::world::{NODE, World};
use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
    names::{
        IN_PLACE_GATE, METADATA_OF_ANNOTATION, READY_GATE, REVISION_LABEL, STATE_LABEL, TEMPLATE_HASH_LABEL,
    },
    plan::Cause,
};

pub(super) fn spec(type_: &str) -> Value {
    json!({
        "replicas": 3,
        "updateStrategy": { "type": type_, "maxUnavailable": 1, "inPlaceUpdateStrategy": { "gracePeriodSeconds": 5 } },
    })
}

pub(super) fn known(phase: InPlacePhase) -> InPlaceState {
    InPlaceState {
        node: NODE.to_owned(),
        revision: "shop-new".to_owned(),
        attempt: 0,
        generation: Some(1),
        phase,
    }
}

#[test]
fn new_pods_have_both_gates_whatever_the_type() {
    for type_ in ["ReCreate", "InPlaceIfPossible"] {
        let mut spec = spec(type_);
        spec["replicas"] = 1.into();
        let plan = World::new(spec, "").plan();
        let [Action::CreatePod(pod)] = plan.actions.as_slice() else { panic!("{plan:?}") };
        let gates = [IN_PLACE_GATE, READY_GATE].map(|gate| json!({ "conditionType": gate }));
        assert_eq!(pod["spec"]["readinessGates"], json!(gates), "{type_}");
    }
}

#[test]
fn the_node_is_told() {
    let mut world = World::new(spec("InPlaceIfPossible"), "3o");
    let plan = world.plan();
    let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.node.as_str(), update.revision.as_str()), (NODE, "shop-new"));
    assert_eq!(update.images, BTreeMap::from([("main".to_owned(), "a:2".to_owned())]));
    assert_eq!(update.labels[REVISION_LABEL], "shop-new");
    assert_eq!(update.labels[TEMPLATE_HASH_LABEL], "new", "so that it takes no write of its own");
    assert_eq!(update.grace_seconds, Some(5));
    world.labelling_nodes.clear();
    let plan = world.plan();
    let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert!(!update.labels.contains_key(TEMPLATE_HASH_LABEL), "an agent of before would refuse the entry");
}

#[test]
fn one_after_the_other() {
    let mut world = World::new(spec("InPlaceIfPossible"), "3o");
    world.in_place.insert("uid-p0".to_owned(), known(InPlacePhase::Pending));
    assert_eq!(world.effect(), "", "one is out of service already");
    // Its agent has not begun: it is Ready as it was.
    let status = world.plan().status.unwrap();
    assert_eq!((status.updated_replicas, status.available_replicas), (0, 2));
    assert_eq!((status.ready_replicas, status.updated_ready_replicas), (3, 0));
    world.pods[0].labels.insert(REVISION_LABEL.to_owned(), "shop-new".to_owned());
    let status = world.plan().status.unwrap();
    assert_eq!((status.updated_replicas, status.updated_ready_replicas), (1, 0));
    world.in_place.clear();
    let status = world.plan().status.unwrap();
    assert_eq!((status.updated_ready_replicas, status.updated_available_replicas), (1, 1));
}

#[test]
fn a_pod_that_is_done_is_labelled_and_forgotten() {
    let mut world = World::new(spec("InPlaceIfPossible"), "2n 1o");
    world.in_place.insert("uid-p2".to_owned(), known(InPlacePhase::Done));
    world.pods[2].labels.insert(REVISION_LABEL.to_owned(), "shop-new".to_owned());
    let plan = world.plan();
    let [Action::PatchPod(_, patch)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(patch["metadata"]["labels"][TEMPLATE_HASH_LABEL], "new");
    assert_eq!(patch["metadata"]["labels"][STATE_LABEL], "Normal");
    world.pods[2].labels.insert(TEMPLATE_HASH_LABEL.to_owned(), "new".to_owned());
    assert_eq!(world.effect(), "forget");
}

/// To forget an update is a write to the object of its node: it waits for another one, or for the end.
#[test]
fn a_pod_that_is_done_is_forgotten_with_the_next_one_of_its_node() {
    let mut spec = spec("InPlaceIfPossible");
    spec["updateStrategy"]["maxUnavailable"] = json!(2);
    let mut world = World::new(spec, "2n 2o");
    for at in [0, 1] {
        world.in_place.insert(format!("uid-p{at}"), known(InPlacePhase::Done));
    }
    world.set.spec.replicas = Some(4);
    world.pods[0].node = "node-2".to_owned();
    world.in_place.get_mut("uid-p0").unwrap().node = "node-2".to_owned();
    assert_eq!(world.effect(), "forget, update o x2", "that of node-1");
    for at in [2, 3] {
        world.in_place.insert(format!("uid-p{at}"), known(InPlacePhase::Pending));
    }
    world.in_place.remove("uid-p1");
    assert_eq!(world.effect(), "", "others go on");
    for at in [2, 3] {
        world.in_place.remove(&format!("uid-p{at}"));
        world.pods[at] = super::world::pod(&format!("p{at}"), "n");
    }
    assert_eq!(world.effect(), "forget", "nothing goes on any more");
    // Of a revision that nobody wants any more nothing is kept.
    world.in_place.get_mut("uid-p0").unwrap().revision = "shop-old".to_owned();
    let state = world.plan();
    assert!(matches!(state.actions.as_slice(), [Action::PatchPod(..)]), "{state:?}");
}

/// Somebody else has deleted it, in the midst of its update or after it.
#[test]
fn an_update_of_a_pod_that_is_gone_is_forgotten() {
    for phase in [InPlacePhase::Pending, InPlacePhase::Done, InPlacePhase::Failed("no room".to_owned())] {
        let mut world = World::new(spec("InPlaceIfPossible"), "3n");
        world.in_place.insert("uid-gone".to_owned(), known(phase.clone()));
        assert_eq!(world.effect(), "forget", "{phase:?}");
        world.in_place.insert("uid-p0".to_owned(), known(InPlacePhase::Pending));
        assert_eq!(world.effect(), "", "others go on: {phase:?}");
        // One that is going has its entry as long as it is there.
        world.in_place.clear();
        world.in_place.insert("uid-p1".to_owned(), known(phase.clone()));
        world.pods[1].terminating = true;
        assert_eq!(world.effect(), "create n", "{phase:?}");
    }
}

#[test]
fn what_cannot_be_done_in_place_is_done_by_a_new_pod_or_not_at_all() {
    type Change = fn(&mut World);
    let table: [(&str, Change); 5] = [
        ("more than images", |world| world.revisions[0].template["spec"]["hostNetwork"] = json!(true)),
        ("is not on file", |world| drop(world.revisions.remove(0))),
        ("has no agent", |world| world.updating_nodes.clear()),
        ("has been silent for 10 minutes", |world| world.silent.extend([NODE.to_owned()])),
        ("could not do it: no such container", |world| {
            for at in 0..3 {
                let failed = known(InPlacePhase::Failed("no such container".to_owned()));
                world.in_place.insert(format!("uid-p{at}"), failed);
            }
        }),
    ];
    for (why, change) in table {
        let mut world = World::new(spec("InPlaceIfPossible"), "3o");
        change(&mut world);
        let effect = world.effect();
        assert!(effect.ends_with("delete o"), "{why}: {effect}");
        assert_eq!(world.plan().causes.into_values().collect::<Vec<_>>(), [Cause::Update], "{why}");
        let mut world = World::new(spec("InPlaceOnly"), "3o");
        change(&mut world);
        assert_eq!(world.effect(), "", "{why}");
        let condition = world.plan().status.unwrap().conditions.remove(0);
        assert_eq!(condition.type_, "FailedUpdate");
        assert!(condition.message.unwrap().contains(why), "{why}");
    }
}

/// An agent that is silent in the midst of an update: the entry is taken back, then the pod is made anew; or
/// it is waited for. That a pod has the label of the revision already says nothing.
#[test]
fn what_a_silent_agent_has_begun_is_done_by_a_new_pod_or_waits() {
    for (label, revision) in
        [("shop-old", "shop-new"), ("shop-new", "shop-new"), ("shop-new", "shop-between")]
    {
        let silent = |type_: &str| {
            let mut world = World::new(spec(type_), "2n 1o");
            let mut begun = known(InPlacePhase::Pending);
            revision.clone_into(&mut begun.revision);
            world.in_place.insert("uid-p2".to_owned(), begun);
            world.pods[2].labels.insert(REVISION_LABEL.to_owned(), label.to_owned());
            world.silent.insert(NODE.to_owned());
            world
        };
        let effect = silent("InPlaceIfPossible").effect();
        assert!(effect.starts_with("forget, delete"), "{label} {revision}: {effect}");
        let world = silent("InPlaceOnly");
        assert_eq!(world.effect(), "", "{label} {revision}");
        let status = world.plan().status.unwrap();
        assert_eq!((status.updated_replicas, status.available_replicas), (2, 2));
        assert!(status.conditions[0].message.as_deref().unwrap().contains("has been silent"), "{status:?}");
    }
}

#[test]
fn a_gate_that_nobody_else_opens_is_opened() {
    let mut world = World::new(spec("InPlaceIfPossible"), "2n 1n!");
    world.pods[2].gates = vec![crate::names::IN_PLACE_GATE.to_owned()];
    assert_eq!(world.effect(), "", "its agent opens it");
    world.updating_nodes.clear();
    assert_eq!(world.effect(), "open n!");
}

#[test]
fn a_hook_holds_the_pod_before_and_after() {
    let mut spec = spec("InPlaceOnly");
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(spec, "2n 1o");
    world.pods[2].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "PreparingUpdate o");
    world.pods[2].labels.insert(STATE_LABEL.to_owned(), "PreparingUpdate".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[2].labels.remove("hook");
    assert_eq!(world.effect(), "Updating o, update o");
    world.pods[2].labels.insert(STATE_LABEL.to_owned(), "Updating".to_owned());
    assert_eq!(world.effect(), "update o", "its entry was not written");
    world.in_place.insert("uid-p2".to_owned(), known(InPlacePhase::Pending));
    assert_eq!(world.effect(), "");
    world.in_place.insert("uid-p2".to_owned(), known(InPlacePhase::Done));
    assert_eq!(world.effect(), "Updated o");
    for (key, value) in [(REVISION_LABEL, "shop-new"), (TEMPLATE_HASH_LABEL, "new"), (STATE_LABEL, "Updated")]
    {
        world.pods[2].labels.insert(key.to_owned(), value.to_owned());
    }
    assert_eq!(world.effect(), "forget");
    world.in_place.clear();
    assert_eq!(world.plan().status.unwrap().available_replicas, 2);
    world.pods[2].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal n");
}

/// The partition is raised while the hook still holds a pod: it serves again. Where pods are brought back, it
/// is held for that, once.
#[test]
fn a_pod_that_is_not_to_be_updated_any_more_serves_again() {
    let mut spec = spec("InPlaceOnly");
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    spec["updateStrategy"]["partition"] = json!(3);
    let mut world = World::new(spec.clone(), "3o");
    world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
    // Held, or let go before its node was told.
    for state in ["PreparingUpdate", "Updating"] {
        world.pods[1].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        assert_eq!(world.effect(), "Normal o");
    }
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "Normal".to_owned());
    assert_eq!(world.effect(), "");

    let mut back = World::new(spec, "1n 2o");
    back.settings.partition_rollback = true;
    // Labels alone go back in place.
    back.revisions[0].template = back.revisions[1].template.clone();
    back.revisions[0].template["metadata"]["labels"]["tier"] = json!("1");
    back.pods[0].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(back.effect(), "PreparingUpdate n");
    back.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingUpdate".to_owned());
    assert_eq!(back.effect(), "");
}

/// It passed its hook for the revision before, and waits for it to be taken back: it is held anew.
#[test]
fn a_pod_that_is_updated_again_is_held_again() {
    let mut spec = spec("InPlaceOnly");
    spec["lifecycle"] =
        json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" }, "finalizersHandler": ["x/hook"] } });
    let mut world = World::new(spec, "2n 1o");
    world.pods[2].labels.insert(STATE_LABEL.to_owned(), "Updated".to_owned());
    world.pods[2].finalizers = vec!["other/one".to_owned()];
    assert_eq!(world.effect(), "PreparingUpdate o");
    let patch = world.plan().actions.into_iter().find_map(|action| match action {
        Action::PatchPod(_, patch) => Some(patch),
        _ => None,
    });
    let metadata = &patch.unwrap()["metadata"];
    assert_eq!(metadata["labels"]["hook"], "true");
    assert_eq!(metadata["finalizers"], json!(["other/one", "x/hook"]));
}

/// The template goes back while a bad image is on its way, or has failed: the pod goes back in place. Its
/// label says nothing of its containers, so all of the template is asked for.
#[test]
fn a_rollout_to_a_bad_image_goes_back_in_place() {
    let failed = || InPlacePhase::Failed("it does not start".to_owned());
    for (label, phase) in [
        ("shop-new", InPlacePhase::Pending),
        ("shop-bad", InPlacePhase::Pending),
        ("shop-new", failed()),
        ("shop-bad", failed()),
    ] {
        let mut world = World::new(spec("InPlaceOnly"), "2n 1n!");
        world.revisions.push(super::world::revision("shop-bad", 1, "a:bad"));
        let mut bad = known(phase);
        (bad.revision, bad.attempt) = ("shop-bad".to_owned(), 3);
        world.in_place.insert("uid-p2".to_owned(), bad);
        world.pods[2].labels.insert(REVISION_LABEL.to_owned(), label.to_owned());
        let plan = world.plan();
        let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{label}: {plan:?}") };
        assert_eq!((update.name.as_str(), update.revision.as_str(), update.attempt), ("p2", "shop-new", 4));
        assert_eq!(update.images, BTreeMap::from([("main".to_owned(), "a:2".to_owned())]), "{label}");
        assert_eq!(plan.status.unwrap().updated_replicas, 2);
    }
}

/// Its hook is a label of the template, and has let it go: to set that label again is not for the program, or
/// nobody would be told that the pod is updated.
#[test]
fn a_rollout_that_goes_back_does_not_set_a_hook_again() {
    let mut spec = spec("InPlaceOnly");
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(spec, "3o");
    for one in &mut world.revisions {
        one.template["metadata"]["labels"]["hook"] = json!("true");
    }
    world.set.spec.template.0.clone_from(&world.revisions[0].template);
    world.revisions[0].number = 3;
    world.pods[2].labels.insert(STATE_LABEL.to_owned(), "Updating".to_owned());
    world.in_place.insert("uid-p2".to_owned(), known(InPlacePhase::Pending));
    let plan = world.plan();
    let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.revision.as_str(), update.attempt), ("shop-old", 1));
    assert!(!update.labels.contains_key("hook"), "{update:?}");
    // One that is not on file may have had any labels.
    world.revisions.remove(1);
    let plan = world.plan();
    let [Action::PatchPod(..), Action::UpdateInPlace(update)] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(update.labels["hook"], "true");
    let mut done = known(InPlacePhase::Done);
    "shop-old".clone_into(&mut done.revision);
    world.in_place.insert("uid-p2".to_owned(), done);
    assert_eq!(world.effect(), "Updated o");
}

/// A newer revision does not wait for the one that goes on.
#[test]
fn an_update_that_goes_on_gets_the_newest_revision() {
    let mut world = World::new(spec("InPlaceIfPossible"), "3o");
    let mut older = known(InPlacePhase::Pending);
    older.revision = "shop-between".to_owned();
    world.in_place.insert("uid-p0".to_owned(), older);
    let plan = world.plan();
    let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!((update.name.as_str(), update.revision.as_str(), update.attempt), ("p0", "shop-new", 1));
}

/// Where an agent may not write the label, the pod has it before its node is told; the node restarts who
/// reads it.
#[test]
fn a_pod_has_its_labels_before_its_node_is_told() {
    let mut world = World::new(spec("InPlaceOnly"), "3o");
    let source =
        json!({ "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['tier']" } }, "name": "TIER" });
    for (at, tier) in ["1", "2"].into_iter().enumerate() {
        let template = &mut world.revisions[at].template;
        template["metadata"]["labels"]["tier"] = json!(tier);
        template["spec"]["containers"][0]["image"] = json!("a:1");
        template["spec"]["containers"][0]["env"] = json!([source]);
    }
    world.set.spec.template.0.clone_from(&world.revisions[1].template);
    let plan = world.plan();
    let [Action::PatchPod(target, patch), Action::UpdateInPlace(update)] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(target.uid, update.uid);
    let given = json!({ "labels": { "tier": "2" }, "annotations": { METADATA_OF_ANNOTATION: "old/new" } });
    assert_eq!(patch["metadata"], given, "no revision: it has it not yet");
    assert_eq!((update.labels["tier"].as_str(), update.images.len()), ("2", 0));
    world.pods.iter_mut().for_each(|pod| pod.merge(&given));
    assert!(world.effect().starts_with("update o"), "{}", world.effect());
    // The node was never told, and the template goes back: so does the label.
    world.set.spec.template.0.clone_from(&world.revisions[0].template);
    world.revisions[0].number = 3;
    let plan = world.plan();
    let [Action::PatchPod(_, patch), Action::UpdateInPlace(update)] = plan.actions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(patch["metadata"]["labels"], json!({ "tier": "1" }));
    assert_eq!(update.revision, "shop-old");
    let back = patch["metadata"].clone();
    world.pods.iter_mut().for_each(|pod| pod.merge(&back));
    assert!(world.plan().actions.is_empty(), "the node has nothing to change");
}
