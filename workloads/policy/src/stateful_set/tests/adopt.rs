//! Pods and revisions that nothing decides on.

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
