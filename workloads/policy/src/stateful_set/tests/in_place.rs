//! Updates in place.

use super::*;

#[test]
fn pods_are_updated_in_place_and_labelled() {
    let spec = rolling(json!({ "podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2 }));
    let mut world = World::new(3, spec, "0o 1o 2o");
    assert_eq!(world.effect(), "~2 ~1");
    let known = |phase| InPlaceState {
        node: NODE.to_owned(),
        revision: "db-new".to_owned(),
        attempt: 0,
        generation: Some(1),
        phase,
    };
    world.in_place.insert("uid-2".to_owned(), known(InPlacePhase::Pending));
    assert_eq!(world.effect(), "~1");
    world.in_place.insert("uid-2".to_owned(), known(InPlacePhase::Done));
    assert_eq!(world.effect(), "Normal2");
    // One that its node cannot update is made anew, or not at all.
    world.in_place.insert("uid-2".to_owned(), known(InPlacePhase::Failed("no room".to_owned())));
    assert_eq!(world.effect(), "forget2 -2 ~1");
    // One that its set did not ask for when the node looked is asked for anew, soon or after a while.
    for (seconds, effect) in [(59, "~1"), (60, "~2 ~1")] {
        let (why, since) = ("another image".to_owned(), Some(NOW - SignedDuration::from_secs(seconds)));
        world.in_place.insert("uid-2".to_owned(), known(InPlacePhase::NotAskedFor { why, since }));
        assert_eq!(world.effect(), effect);
    }
    world.in_place.insert("uid-2".to_owned(), known(InPlacePhase::Failed("no room".to_owned())));
    world.spec["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] = "InPlaceOnly".into();
    assert_eq!(world.effect(), "~1");
    let condition = world.plan().status.unwrap().conditions.remove(0);
    assert!(condition.message.unwrap().contains("pod db-2 cannot be updated in place: its node could not"));
}

/// An OpenKruise has labelled it with the newest revision, and left its image for later.
#[test]
fn a_pod_in_a_grace_period_is_not_updated() {
    let spec = |type_: &str| rolling(json!({ "podUpdatePolicy": type_ }));
    let known = |revision: &str, phase| InPlaceState {
        node: NODE.to_owned(),
        revision: revision.to_owned(),
        attempt: 0,
        generation: Some(1),
        phase,
    };
    for (row, type_, revision, known, effect, updated) in [
        ("its node is asked", "InPlaceIfPossible", "db-new", None, "~2", 2),
        ("or nothing else is done", "InPlaceOnly", "db-new", None, "~2", 2),
        ("or a new pod has the image", "ReCreate", "db-new", None, "-2", 2),
        ("it is updated", "InPlaceOnly", "db-new", Some(known("db-new", InPlacePhase::Pending)), "", 2),
        ("it is done", "InPlaceOnly", "db-new", Some(known("db-new", InPlacePhase::Done)), "2", 3),
        (
            "an entry of before",
            "InPlaceOnly",
            "db-new",
            Some(known("db-old", InPlacePhase::Done)),
            "forget2",
            2,
        ),
        ("it has another revision", "InPlaceOnly", "db-old", None, "2", 3),
    ] {
        let mut world = World::new(3, spec(type_), "0n 1n 2n!");
        let grace = json!({ "revision": revision, "containerImages": { "main": "a:2" } }).to_string();
        let pod = json!({ "metadata": { "annotations": { "apps.kruise.io/inplace-update-grace": grace } } });
        world.pods[2].grace = PodView::of(&serde_json::from_value(pod).unwrap()).grace;
        world.in_place.extend(known.map(|known| ("uid-2".to_owned(), known)));
        assert_eq!(world.effect(), effect, "{row}");
        let status = world.plan().status.unwrap();
        assert_eq!((status.updated_replicas, status.replicas), (updated, 3), "{row}");
    }
}

/// A node ends an update of a pod that is held before its deletion by then: it stays held.
#[test]
fn the_end_of_an_update_calls_no_pod_back_that_is_to_go() {
    let mut spec = rolling(json!({ "podUpdatePolicy": "InPlaceIfPossible" }));
    spec["lifecycle"] =
        json!({ "preDelete": { "labelsHandler": { "hook": "true" }, "markPodNotReady": true } });
    for (state, effect) in [("Normal", "Normal1"), ("PreparingDelete", "")] {
        let mut world = World::new(2, spec.clone(), "0n 1o");
        world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
        world.pods[1].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "db-new".to_owned(),
            attempt: 0,
            generation: Some(1),
            phase: InPlacePhase::Done,
        };
        world.in_place.insert("uid-1".to_owned(), known);
        assert_eq!(world.effect(), effect, "{state}");
    }
}

/// Its image does not come up, or no node is free for it.
#[test]
fn a_pod_that_does_not_come_up_stays_and_one_without_a_node_is_made_anew() {
    for policy in ["InPlaceIfPossible", "InPlaceOnly"] {
        let mut world = World::new(2, rolling(json!({ "podUpdatePolicy": policy })), "0o 1o!");
        let phase = InPlacePhase::GivenUp("no such image".to_owned());
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "db-new".to_owned(),
            attempt: 0,
            generation: None,
            phase,
        };
        world.in_place.insert("uid-1".to_owned(), known);
        assert_eq!(world.effect(), "", "{policy}");
        let condition = world.plan().status.unwrap().conditions.remove(0);
        assert_eq!(condition.type_, "FailedUpdatePod");
        assert!(condition.message.unwrap().contains("could not do it: no such image"), "{policy}");
        world.in_place.clear();
        world.pods[1].node.clear();
        assert_eq!(world.effect(), "-1", "{policy}");
    }
}

/// An agent that is silent in the midst of an update: the entry is taken back, then the pod is made anew; or
/// it is waited for, and said.
#[test]
fn a_silent_agent_is_waited_for_only_where_nothing_else_is_allowed() {
    let spec = |policy: &str| rolling(json!({ "podUpdatePolicy": policy, "maxUnavailable": 1 }));
    let silent = |policy: &str| {
        let mut world = World::new(2, spec(policy), "0o 1o");
        let pending = InPlacePhase::Pending;
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "db-new".to_owned(),
            attempt: 0,
            generation: Some(1),
            phase: pending,
        };
        world.in_place.insert("uid-1".to_owned(), known);
        world
    };
    let mut world = silent("InPlaceIfPossible");
    assert_eq!(world.effect(), "", "it is heard");
    world.silent.insert(NODE.to_owned());
    assert_eq!(world.effect(), "forget1 -1");
    world.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(2);
    assert_eq!(world.effect(), "forget1 -1", "the partition keeps it");
    world.silent.clear();
    assert_eq!(world.effect(), "");
    let mut world = silent("InPlaceOnly");
    world.silent.insert(NODE.to_owned());
    assert_eq!(world.effect(), "");
    let condition = world.plan().status.unwrap().conditions.remove(0);
    let says = "pod db-1 cannot be updated in place: the agent of node \"node-1\" has been silent";
    assert!(condition.message.as_deref().unwrap().starts_with(says), "{condition:?}");
}

#[test]
fn a_gate_that_nobody_else_opens_is_opened() {
    let mut world = World::new(1, rolling(json!({ "podUpdatePolicy": "InPlaceOnly" })), "0n!");
    world.pods[0].gates = vec![IN_PLACE_GATE.to_owned()];
    assert_eq!(world.effect(), "", "its agent opens it");
    world.silent.insert(NODE.to_owned());
    assert_eq!(world.effect(), "open0");
}

/// A quota that is used up keeps no pod from being Ready.
#[test]
fn gates_are_a_part_of_their_own() {
    let mut world = World::new(2, rolling(json!({ "podUpdatePolicy": "InPlaceOnly" })), "0n!");
    world.pods[0].gates = vec![IN_PLACE_GATE.to_owned()];
    world.silent.insert(NODE.to_owned());
    assert_eq!(world.effect(), "+1n open0");
    let (parts, _) = world.plan().into_parts();
    let [_, gates] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(gates.as_slice(), [Action::PatchPodStatus(..)]), "{gates:?}");
}

/// The partition is raised while the hook still holds a pod.
#[test]
fn a_pod_that_is_not_to_be_updated_any_more_serves_again() {
    let mut spec = rolling(json!({ "partition": 2, "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    for (ordinal, state, effect) in
        [(1, "PreparingUpdate", "Normal1"), (1, "Updating", "Normal1"), (2, "PreparingUpdate", "")]
    {
        let mut world = World::new(3, spec.clone(), "0o 1o 2o");
        world.pods[ordinal].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        world.pods[ordinal].labels.insert("hook".to_owned(), "true".to_owned());
        assert_eq!(world.effect(), effect);
    }
}

/// The same of one whose node could not do it. One whose update goes on is waited for, and so is one that is
/// still to be updated.
#[test]
fn a_pod_whose_update_came_to_nothing_serves_again_where_the_partition_keeps_it() {
    let mut spec = rolling(json!({ "partition": 2, "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let failed = || InPlacePhase::Failed("no room".to_owned());
    let not_asked_for = InPlacePhase::NotAskedFor { why: "another image".to_owned(), since: None };
    for (ordinal, state, hook, phase, effect) in [
        (1, "Updating", "true", failed(), "Normal1"),
        (1, "Updating", "true", InPlacePhase::GivenUp("no such image".to_owned()), "Normal1"),
        (1, "Updating", "true", not_asked_for, "Normal1"),
        (1, "Updating", "true", InPlacePhase::Pending, ""),
        (2, "Updating", "true", failed(), ""),
        // Its hook takes it back first.
        (1, "Updating", "", failed(), "Updated1"),
        (1, "Updated", "true", failed(), "Normal1"),
    ] {
        let mut world = World::new(3, spec.clone(), "0o 1o 2o");
        world.pods[ordinal].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        world.pods[ordinal].labels.insert("hook".to_owned(), hook.to_owned());
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "db-new".to_owned(),
            attempt: 0,
            generation: Some(1),
            phase: phase.clone(),
        };
        world.in_place.insert(format!("uid-{ordinal}"), known);
        assert_eq!(world.effect(), effect, "{ordinal} {state} {hook:?} {phase:?}");
    }
}

/// The state of a pod shows what its hook waits for.
#[test]
fn a_pod_that_its_hook_has_let_go_is_in_the_midst_of_its_update() {
    let mut spec = rolling(json!({ "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(1, spec, "0o");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "PreparingUpdate".to_owned());
    assert_eq!(world.effect(), "Updating0 ~0");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "Updating".to_owned());
    assert_eq!(world.effect(), "~0");
}

/// It passed its hook for the revision before, and waits for it to be taken back: it is held anew.
#[test]
fn a_pod_that_is_updated_again_is_held_again() {
    let mut spec = rolling(json!({ "podUpdatePolicy": "InPlaceOnly" }));
    spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(1, spec, "0o");
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), "Updated".to_owned());
    assert_eq!(world.effect(), "PreparingUpdate0");
}

#[test]
fn pods_have_the_gates_of_their_kind() {
    let gates = |policy: &str| {
        let world = World::new(1, rolling(json!({ "podUpdatePolicy": policy })), "");
        match &world.plan().actions[..] {
            [Action::CreatePod(pod)] => pod["spec"]["readinessGates"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let ready = json!({ "conditionType": READY_GATE });
    assert_eq!(gates("InPlaceIfPossible"), json!([{ "conditionType": IN_PLACE_GATE }, ready]));
    assert_eq!(gates("ReCreate"), json!([ready]));
}

/// Its agent has not begun: it is Ready as it was, and no word of the new revision.
#[test]
fn a_pod_that_is_being_updated_is_not_ready_anew() {
    let spec = rolling(json!({ "podUpdatePolicy": "InPlaceOnly", "maxUnavailable": "100%" }));
    let mut world = World::new(2, spec, "0o 1o");
    for (label, phase, updated, ready, current) in [
        ("db-old", InPlacePhase::Pending, 0, 0, "db-old"),
        ("db-new", InPlacePhase::Pending, 2, 0, "db-old"),
        ("db-new", InPlacePhase::Done, 2, 2, "db-new"),
    ] {
        for (pod, uid) in world.pods.iter_mut().zip(["uid-0", "uid-1"]) {
            pod.labels.insert(REVISION_LABEL.to_owned(), label.to_owned());
            let known = InPlaceState {
                node: NODE.to_owned(),
                revision: "db-new".to_owned(),
                attempt: 0,
                generation: Some(1),
                phase: phase.clone(),
            };
            world.in_place.insert(uid.to_owned(), known);
        }
        let status = world.plan().status.unwrap();
        assert_eq!((status.updated_replicas, status.ready_replicas), (updated, 2));
        assert_eq!(
            (status.updated_ready_replicas, status.current_revision.as_deref()),
            (ready, Some(current))
        );
        let of_current = if label == current { 2 } else { 0 };
        assert_eq!(status.current_replicas, of_current, "counted once");
    }
}

/// Somebody else has deleted it. One that is going has its entry as long as it is there.
#[test]
fn an_update_of_a_pod_that_is_gone_is_forgotten() {
    for (uid, effect) in [("uid-7", "forget7"), ("uid-1", "")] {
        let spec = rolling(json!({ "podUpdatePolicy": "InPlaceIfPossible" }));
        let mut world = World::new(2, spec, "0n 1nT");
        let known = InPlaceState {
            node: NODE.to_owned(),
            revision: "db-new".to_owned(),
            attempt: 0,
            generation: Some(1),
            phase: InPlacePhase::Pending,
        };
        world.in_place.insert(uid.to_owned(), known);
        assert_eq!(world.effect(), effect, "{uid}");
    }
}
