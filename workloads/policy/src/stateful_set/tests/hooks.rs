//! Hooks: what holds a pod before it serves and before it goes.

use super::*;

#[test]
fn a_hook_holds_the_deletion() {
    let mut spec = json!({ "lifecycle": { "preDelete": { "finalizersHandler": ["example.com/hook"] } } });
    spec["updateStrategy"] = json!({ "rollingUpdate": { "partition": 9 } });
    let mut world = World::new(1, spec, "0n 1n");
    world.pods[1].finalizers.push("example.com/hook".to_owned());
    assert_eq!(world.effect(), "PreparingDelete1");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].finalizers.clear();
    assert_eq!(world.effect(), "-1");
}

#[test]
fn a_new_pod_counts_when_its_hook_is_there() {
    let spec = ordered(json!({ "lifecycle": { "preNormal": { "labelsHandler": { "joined": "true" } } } }));
    let mut world = World::new(2, spec, "");
    let actions = world.plan().actions;
    let [Action::CreatePod(made)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(made["metadata"]["labels"][STATE_LABEL], "PreparingNormal");
    world.pods = vec![pod("0n")];
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingNormal".to_owned());
    assert_eq!(world.effect(), "", "the next one waits for it");
    assert_eq!(world.plan().status.unwrap().available_replicas, 0);
    world.pods[0].labels.insert("joined".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal0");
    // Without a hook nothing holds it.
    world.pods[0].labels.remove("joined");
    world.spec["lifecycle"] = json!({});
    assert_eq!(world.effect(), "Normal0");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "Normal".to_owned());
    assert_eq!(world.effect(), "+1n");
}

/// It never served, so its update costs nothing, and whose node could not do it serves as it is.
#[test]
fn a_new_pod_that_is_held_is_updated() {
    let mut spec = rolling(json!({ "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "preNormal": { "labelsHandler": { "joined": "true" } } });
    let mut world = World::new(1, spec, "0o");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingNormal".to_owned());
    assert_eq!(world.effect(), "~0");
    let known = InPlaceState {
        node: NODE.to_owned(),
        revision: "db-new".to_owned(),
        attempt: 0,
        generation: Some(1),
        phase: InPlacePhase::Failed("no room".to_owned()),
    };
    world.in_place.insert("uid-0".to_owned(), known);
    assert_eq!(world.effect(), "");
    world.pods[0].labels.insert("joined".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal0");
}

/// It was held when its template was old, and is let go when the template is the newest again.
#[test]
fn a_deletion_that_is_begun_goes_on() {
    let spec = json!({ "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" } } } });
    let mut world = World::new(3, spec, "0n 1n 2n");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].labels.remove("hook");
    assert_eq!(world.effect(), "-1");
}
