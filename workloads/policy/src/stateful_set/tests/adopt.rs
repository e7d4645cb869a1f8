//! Pods and revisions that nothing decides on.

use std::time::Duration;

use jiff::SignedDuration;

use super::*;

fn world(pods: &str) -> World {
    World::new(3, json!({}), pods)
}

/// Rows: a change of a pod that nothing decides on, and whether it is adopted.
#[test]
fn a_pod_is_adopted_by_name_and_labels() {
    type Row = (&'static str, fn(&mut PodView), bool);
    let table: [Row; 6] = [
        ("as it is", |_| {}, true),
        ("another label", |pod| drop(pod.labels.insert("app".to_owned(), "other".to_owned())), false),
        ("another name", |pod| pod.name = "db-x-1".to_owned(), false),
        ("no number", |pod| pod.name = "db-01".to_owned(), false),
        ("going", |pod| pod.terminating = true, false),
        ("beyond the slots", |pod| pod.name = "db-7".to_owned(), true),
    ];
    for (what, change, adopted) in table {
        let mut world = world("0n 1n 2n");
        world.pods[1].owners.clear();
        change(&mut world.pods[1]);
        let actions = world.plan().actions;
        let adopts = |action: &Action| match action {
            Action::AdoptPod(target, patch) => {
                let owner = &patch["metadata"]["ownerReferences"][0];
                assert_eq!((target.uid.as_str(), &owner["uid"]), ("uid-1", &json!("set")));
                assert_eq!((&owner["controller"], &owner["kind"]), (&json!(true), &json!("StatefulSet")));
                true
            }
            _ => false,
        };
        assert_eq!(actions.iter().any(adopts), adopted, "{what}: {actions:?}");
        // Nothing else is decided before, and nothing of a pod is touched that is not the set's.
        let touches = |action: &Action| matches!(action, Action::DeletePod(target) if target.uid == "uid-1");
        assert!(!actions.iter().any(touches) && (!adopted || actions.len() == 1), "{what}: {actions:?}");
    }
}

#[test]
fn other_owners_stay() {
    let mut world = world("0n 1n 2n");
    world.pods[1].owners[0].controller = None;
    let plan = world.plan();
    let [Action::AdoptPod(_, patch)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(patch["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
}

/// Rows: labels of a revision's template, whether the set goes, and whether it is adopted.
#[test]
fn a_revision_is_adopted_by_name_and_labels() {
    for (app, is_going, adopted) in [("db", false, true), ("other", false, false), ("db", true, false)] {
        let mut world = world("0o 1o 2o");
        world.is_going = is_going;
        world.revisions[0].owner.clear();
        world.revisions[0].template["metadata"]["labels"]["app"] = json!(app);
        let plan = world.plan();
        let adopts = matches!(plan.actions.as_slice(), [Action::AdoptRevision(target, patch)]
            if target.name == "db-old" && patch["metadata"]["ownerReferences"][0]["uid"] == "set");
        assert_eq!(adopts, adopted, "{app}: {plan:?}");
        let touches = |action: &Action| matches!(action, Action::DeleteRevision(_));
        assert!(!plan.actions.iter().any(touches), "of one that nobody owns nothing is decided");
    }
}

/// Fails to adopt an object so many seconds ago.
fn refuse(world: &mut World, uid: &str, ago: i64) {
    let at = NOW.checked_sub(SignedDuration::from_secs(ago)).unwrap();
    world.unadopted.failed(vec![(uid.to_owned(), "a policy says no".to_owned())], at);
}

/// A set whose pod 1 is not its own, and was refused a moment ago.
fn beside_an_orphan(replicas: i32, spec: Value, pods: &str) -> World {
    let mut world = World::new(replicas, spec, pods);
    world.pods[1].owners.clear();
    refuse(&mut world, "uid-1", 0);
    world
}

/// Pod 1 cannot be adopted: its number stays taken, and the others have what is theirs.
#[rstest]
#[case::dead_ones_are_made_anew(3, json!({}), "0n 1n", "+2n")]
#[case::and_deleted(3, json!({}), "0n 1n 2nF", "-2")]
#[case::the_next_one_in_order(3, ordered(json!({})), "0n 1n", "+2n")]
#[case::which_waits_for_a_broken_one(3, ordered(json!({})), "0n 1n!", "")]
#[case::a_broken_one_costs_one(5, json!({ "scaleStrategy": { "maxUnavailable": 2 } }), "0n 1n!", "+2n")]
#[case::scaled_down(1, json!({}), "0n 1n 2n", "-2")]
#[case::updated(3, json!({}), "0o 1n 2o", "-2")]
#[case::a_broken_one_is_out_of_service(3, json!({}), "0o 1n! 2o", "")]
#[case::and_counts(3, rolling(json!({ "maxUnavailable": 2 })), "0o 1n! 2o", "-2")]
#[case::nothing_of_it_is_written(3, json!({}), "0n 1o 2n", "")]
fn an_orphan_stalls_nothing(
    #[case] replicas: i32,
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] effect: &str,
) {
    let world = beside_an_orphan(replicas, spec, pods);
    let plan = world.plan();
    assert!(!plan.actions.iter().any(|action| matches!(action, Action::AdoptPod(..))), "{plan:?}");
    assert_eq!(world.effect(), effect);
    assert_eq!(plan.again, Some(Duration::from_secs(1)));
    let said: Vec<_> = plan.status.unwrap().conditions;
    assert_eq!(said[0].type_, "FailedUpdatePod");
    assert_eq!(said[0].message.as_deref(), Some("pod db-1 is not adopted: a policy says no"));
}

/// Rows: when it was refused, and the writes that begin the plan; all others follow in another part.
#[test]
fn what_was_refused_is_tried_again_beside_the_rest() {
    let adopts = |plan: &Plan| {
        let adopts = plan.actions.iter().filter_map(|action| match action {
            Action::AdoptPod(target, _) | Action::AdoptRevision(target, _) => Some(target.name.clone()),
            _ => None,
        });
        adopts.collect::<Vec<_>>()
    };
    let mut world = World::new(4, json!({}), "0n 1n 2n");
    world.pods[1].owners.clear();
    refuse(&mut world, "uid-1", 5);
    let plan = world.plan();
    assert_eq!((adopts(&plan), plan.parts[0]), (vec!["db-1".to_owned()], 1));
    assert_eq!(world.effect(), "+3n");
    // Another pod is tried at once, and so is a revision: nothing is decided before.
    refuse(&mut world, "uid-1", 0);
    world.pods[2].owners.clear();
    assert_eq!((adopts(&world.plan()), world.effect().as_str()), (vec!["db-2".to_owned()], "+3n"));
    world.revisions[1].owner.clear();
    assert_eq!(adopts(&world.plan()), ["db-new", "db-2"]);
    assert_eq!(world.effect(), "");
    // Those that were tried last come last.
    refuse(&mut world, "uid-2", 4);
    refuse(&mut world, "db-new", 3);
    refuse(&mut world, "uid-1", 200);
    assert_eq!(adopts(&world.plan()), ["db-1", "db-2", "db-new"]);
}

/// Pods that have it are not updated for another one of the same template.
#[test]
fn a_revision_that_cannot_be_adopted_counts_as_it_is() {
    for (image, name) in [("a:2", "db-new"), ("a:1", "db-old")] {
        let mut world = World::new(3, json!({ "template": template(image) }), "0n 1n 2n");
        world.pods.iter_mut().for_each(|pod| {
            pod.labels.insert(REVISION_LABEL.to_owned(), name.to_owned());
        });
        world.revisions.iter_mut().filter(|one| one.name == name).for_each(|one| one.owner.clear());
        refuse(&mut world, name, 0);
        let plan = world.plan();
        assert_eq!(plan.actions, [], "it can be raised no more than adopted");
        let status = plan.status.unwrap();
        assert_eq!(status.update_revision.as_deref(), Some(name));
        let said = status.conditions[0].message.clone().unwrap();
        assert_eq!(said, format!("revision {name} is not adopted: a policy says no"));
    }
    // Nor is it deleted.
    let mut world = World::new(3, json!({ "revisionHistoryLimit": 0 }), "0n 1n 2n");
    world.revisions.push(revision("db-older", 0, "a:0"));
    let deletes = |world: &World| {
        world.plan().actions.iter().filter(|action| matches!(action, Action::DeleteRevision(_))).count()
    };
    assert_eq!(deletes(&world), 1);
    world.revisions[2].owner.clear();
    refuse(&mut world, "db-older", 0);
    assert_eq!(deletes(&world), 0);
}

/// A set that was deleted without its pods, and made anew: nothing is to be done but to adopt.
#[test]
fn a_set_that_is_made_anew_updates_nothing() {
    let mut world = world("0n 1n 2n");
    world.revisions.remove(0);
    world.revisions[0].owner.clear();
    world.pods.iter_mut().for_each(|pod| pod.owners.clear());
    assert_eq!(world.plan().actions.len(), 4);
    world.revisions[0].owner = "set".to_owned();
    for pod in &mut world.pods {
        pod.owners = pod_owners();
    }
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.status.unwrap().current_revision.as_deref(), Some("db-new"));
}

/// Rows: a change of a pod, and whether it gets the label of its name.
#[test]
fn a_pod_has_its_name_as_a_label() {
    type Row = (&'static str, fn(&mut PodView), bool);
    let table: [Row; 5] = [
        ("as it is", |_| {}, false),
        ("taken off", |pod| drop(pod.labels.remove(POD_NAME_LABEL)), true),
        ("changed", |pod| drop(pod.labels.insert(POD_NAME_LABEL.to_owned(), "db-2".to_owned())), true),
        ("going", |pod| (pod.terminating, _) = (true, pod.labels.remove(POD_NAME_LABEL)), false),
        ("over", |pod| (pod.phase, _) = (Phase::Ended, pod.labels.remove(POD_NAME_LABEL)), false),
    ];
    for (what, change, named) in table {
        let mut world = world("0n 1n 2n");
        change(&mut world.pods[1]);
        let names = |action: &Action| match action {
            Action::PatchPod(target, patch) => {
                let labels = json!({ POD_NAME_LABEL: "db-1" });
                assert_eq!((target.uid.as_str(), &patch["metadata"]["labels"]), ("uid-1", &labels));
                true
            }
            _ => false,
        };
        let actions = world.plan().actions;
        assert_eq!(actions.iter().any(names), named, "{what}: {actions:?}");
    }
    // Whatever is updated.
    let mut world = world("0n");
    world.spec["updateStrategy"] = json!({ "type": "OnDelete" });
    world.spec["replicas"] = json!(1);
    world.pods[0].labels.remove(POD_NAME_LABEL);
    assert_eq!(world.plan().actions.len(), 1);
}
