//! Pods that nothing decides on, and those that the set lets go.

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

/// The pod of b cannot be adopted: its node stays taken, and the others have what is theirs.
#[rstest]
#[case::its_node_is_taken(ten("n"), "")]
#[case::others_are_made(ten("n").replace("c:n", ""), "+cn")]
#[case::others_are_updated(ten("o"), "-j")]
#[case::a_broken_one_is_out_of_service(ten("o").replace("b:o", "b:o!"), "")]
#[case::one_that_is_over_takes_no_node(ten("n").replace("b:n", "b:nF"), "+bn")]
fn an_orphan_stalls_nothing(#[case] pods: String, #[case] effect: &str) {
    let mut world = World::new(json!({}), &pods);
    world.refused = None;
    world.pods[1].owners.clear();
    world.pods[1].name = "log-bcdfg".to_owned();
    world.unadopted.failed(vec![("uid-1".to_owned(), "a policy says no".to_owned())], NOW);
    assert_eq!(world.effect(), effect);
    let said = world.plan().status.unwrap().conditions[0].message.clone();
    assert_eq!(said.as_deref(), Some("pod log-bcdfg is not adopted: a policy says no"));
}

/// An update of a pod on b that the set does not have: somebody else has deleted it, or it is to be adopted.
#[rstest]
#[case::it_is_gone("uid-gone", "forget b")]
#[case::it_is_to_be_adopted("uid-1", "")]
fn an_update_of_a_pod_that_is_gone_is_forgotten(#[case] uid: &str, #[case] effect: &str) {
    let mut world = World::new(json!({ "rollingUpdateType": "InPlaceIfPossible" }), &ten("n"));
    world.pods[1].owners.clear();
    world.pods[1].name = "log-bcdfg".to_owned();
    world.unadopted.failed(vec![("uid-1".to_owned(), "a policy says no".to_owned())], NOW);
    let known = InPlaceState {
        node: "b".to_owned(),
        revision: "log-new".to_owned(),
        attempt: 0,
        generation: Some(4),
        phase: InPlacePhase::Pending,
    };
    world.in_place.insert(uid.to_owned(), known);
    assert_eq!(world.effect(), effect);
}

#[test]
fn what_was_refused_is_tried_again_beside_the_rest() {
    let mut world = World::new(json!({}), &ten("n").replace("c:n", ""));
    world.pods[1].owners.clear();
    world.pods[1].name = "log-bcdfg".to_owned();
    let refused = NOW.checked_sub(jiff::SignedDuration::from_secs(5)).unwrap();
    world.unadopted.failed(vec![("uid-1".to_owned(), "a policy says no".to_owned())], refused);
    let plan = world.plan();
    assert!(matches!(plan.actions[..], [Action::AdoptPod(..), Action::CreatePod(_)]), "{plan:?}");
    assert_eq!(plan.parts[0], 1);
}

#[test]
fn a_pod_that_is_not_selected_any_more_is_given_free() {
    let mut world = World::new(json!({}), &ten("n"));
    world.pods[2].labels.remove("app");
    let actions = world.plan().actions;
    let [Action::PatchPod(target, patch), Action::CreatePod(_)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!((target.name.as_str(), &patch["metadata"]["ownerReferences"]), ("log-2-c", &json!([])));
}
