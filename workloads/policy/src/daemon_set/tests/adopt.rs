//! Pods that nothing decides on.

use super::*;

/// Rows: a change of a pod that nothing decides on, and whether it is adopted.
#[test]
fn a_pod_is_adopted_by_name_and_labels() {
    type Row = (&'static str, fn(&mut PodView), bool);
    let table: [Row; 5] = [
        ("as it is", |_| {}, true),
        ("another label", |pod| drop(pod.labels.insert("app".to_owned(), "other".to_owned())), false),
        ("another name", |pod| pod.name = "logs-bcdfg".to_owned(), false),
        ("a number", |pod| pod.name = "log-1".to_owned(), false),
        ("going", |pod| pod.terminating = true, false),
    ];
    for (what, change, adopted) in table {
        let mut world = World::new(json!({}), &ten("n"));
        world.pods[1].owners.clear();
        world.pods[1].name = "log-bcdfg".to_owned();
        change(&mut world.pods[1]);
        let actions = world.plan().actions;
        let adopts = |action: &Action| match action {
            Action::AdoptPod(target, patch) => {
                let owner = &patch["metadata"]["ownerReferences"][0];
                assert_eq!((target.uid.as_str(), &owner["uid"]), ("uid-1", &json!("set")));
                assert_eq!((&owner["controller"], &owner["kind"]), (&json!(true), &json!("DaemonSet")));
                true
            }
            _ => false,
        };
        assert_eq!(actions.iter().any(adopts), adopted, "{what}: {actions:?}");
        // Nothing else is decided before; one that is nobody's takes no node.
        let makes = actions.iter().any(|action| matches!(action, Action::CreatePod(_)));
        assert!(actions.len() == 1 && makes != adopted, "{what}: {actions:?}");
    }
}
