//! Nodes: which get a pod first, which get none, and what is minded of them.

use super::{super::minds, *};

/// A field that no type here knows reaches the pod.
#[test]
fn a_pod_is_built_of_the_template_and_its_node() {
    let world = World::new(json!({}), &ten("n").replace("c:n", ""));
    let actions = world.plan().actions;
    let [Action::CreatePod(pod)] = actions.as_slice() else { panic!("{actions:?}") };
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    assert_eq!((&spec["aFieldOfLater"], &spec["containers"][0]["image"]), (&json!([1]), &json!("a:2")));
    assert!(meta["generateName"] == "log-" && meta["labels"]["app"] == "log", "{meta}");
    let owner = &meta["ownerReferences"][0];
    assert!(owner["uid"] == "set" && owner["controller"] == true, "{owner}");
    let tolerated = spec["tolerations"].as_array().unwrap();
    assert!(tolerated.iter().any(|one| one["key"] == "node.kubernetes.io/unreachable"), "{tolerated:?}");
}

#[test]
fn a_template_with_too_many_rules_is_set_aside() {
    let mut world = World::new(json!({}), &ten("o"));
    world.spec["template"]["spec"]["tolerations"] = json!(vec![json!({ "operator": "Exists" }); 1025]);
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.notes.len() == 1, "{plan:?}");
    let condition = plan.status.unwrap().conditions.remove(0);
    assert_eq!(condition.type_, "InvalidSpec");
    assert!(condition.message.unwrap().starts_with("spec.template.spec has 1025 tolerations"));
}

#[test]
fn a_share_of_the_burst_is_never_none() {
    let mut world = World::new(json!({}), "");
    world.spec["burstReplicas"] = json!("5%");
    assert_eq!(world.effect().split_whitespace().count(), 1);
}

/// A policy refuses pods on some nodes: however few pods may be made at once, no other node waits for those.
#[rstest]
#[case::no_burst(Value::Null, "+cn +en +fn +gn +hn +in +jn +an +bn +dn")]
#[case::a_burst(json!(3), "+cn +en +fn")]
#[case::one_by_one(json!(1), "+cn")]
fn nodes_whose_pods_could_not_be_made_come_last(#[case] burst: Value, #[case] effect: &str) {
    let mut world = World::new(json!({}), "");
    world.spec["burstReplicas"] = burst;
    world.put_off = ["a", "b", "d", "uid-7"].map(str::to_owned).into();
    assert_eq!(world.effect(), effect);
}

/// The same of a pod that is to stand beside an old one.
#[test]
fn a_node_that_takes_no_second_pod_holds_no_update_up() {
    let mut world = World::new(json!({ "maxSurge": 2, "maxUnavailable": 0 }), &ten("o"));
    world.put_off = ["j", "h"].map(str::to_owned).into();
    assert_eq!(world.effect(), "+in +gn");
}

/// Pods that could not be made, deleted or written come last, and stop no update of others; a node without a
/// pod counts as out of service. Rows: the strategy, pods, a node that is tainted, what could not be, and the
/// effect.
#[rstest]
#[case::a_new_pod(json!({ "maxUnavailable": 2 }), without_j(), "", &[], "+jn")]
#[case::that_is_refused(json!({ "maxUnavailable": 2 }), without_j(), "", &["j"], "+jn -i")]
#[case::and_no_other_one_may_be_out(json!({}), without_j(), "", &["j"], "+jn")]
#[case::but_a_broken_one_costs_nothing(json!({}), without_j().replace("c:o", "c:o!"), "", &["j"], "+jn -c")]
#[case::one_that_does_not_fit(json!({}), ten("o"), "c", &[], "-c")]
#[case::that_cannot_be_deleted(json!({}), ten("o"), "c", &["uid-2"], "-c -j")]
#[case::one_that_has_ended(json!({ "maxUnavailable": 2 }), ten("o").replace("c:o", "c:oF"), "", &["uid-2"], "-c -j")]
#[case::updated_by_new_pods(json!({}), ten("o"), "", &["uid-9"], "-i")]
#[case::updated_in_place(json!({ "rollingUpdateType": "InPlaceIfPossible" }), ten("o"), "", &["uid-9", "uid-8"], "~h")]
#[case::all_that_is_left(json!({}), split("n", "o", "j"), "", &["uid-9"], "-j")]
fn what_could_not_be_written_stops_no_update(
    #[case] rolling: Value,
    #[case] pods: String,
    #[case] tainted: &str,
    #[case] put_off: &[&str],
    #[case] effect: &str,
) {
    let mut world = World::new(rolling, &pods);
    let is_tainted = |node: &&mut NodeView| node.name == tainted;
    for node in world.nodes.iter_mut().filter(is_tainted) {
        node.taints = vec![json!({ "key": "x", "effect": "NoExecute" })];
    }
    world.put_off = put_off.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(world.effect(), effect);
}

fn without_j() -> String {
    ten("o").replace("j:o", "")
}

/// Its node has updated it, and the label that says so is refused.
#[test]
fn a_label_that_cannot_be_written_stops_no_update() {
    let mut world = World::new(json!({ "rollingUpdateType": "InPlaceIfPossible" }), &ten("o"));
    let known = InPlaceState {
        node: "j".to_owned(),
        revision: "log-new".to_owned(),
        attempt: 0,
        generation: Some(4),
        phase: InPlacePhase::Done,
    };
    world.in_place.insert("uid-9".to_owned(), known);
    assert_eq!(world.effect(), "held j");
    world.put_off = ["uid-9".to_owned()].into();
    assert_eq!(world.effect(), "~i held j");
}

#[test]
fn a_node_that_rests_gets_no_pod() {
    let mut world = World::new(json!({}), &ten("n").replace("c:n", "c:nF"));
    world.rests.insert("c".to_owned(), Timestamp::constant(1_000_030, 0));
    assert_eq!(world.effect(), "");
    assert_eq!(world.plan().again, Some(std::time::Duration::from_secs(30)));
}

/// The pods of all nodes have ended, as after a power cut: each node rests when its pod was made anew, and
/// not while that waits for the burst.
#[test]
fn a_node_rests_when_its_pod_is_made_anew() {
    let mut world = World::new(json!({}), &ten("nF"));
    world.spec["burstReplicas"] = json!(2);
    let plan = world.plan();
    assert_eq!((plan.actions.len(), plan.notes.len()), (2, 2), "{plan:?}");
    let ended: Vec<&str> = plan.ended_on.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!(ended, ["a", "b"]);
}

#[test]
fn only_what_places_pods_is_minded_of_a_node() {
    let mut world = World::new(json!({ "selector": { "matchLabels": { "canary": "1" } } }), "");
    world.spec["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let node = |labels: &[(&str, &str)], taint: &str| NodeView {
        name: "a".to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        taints: vec![json!({ "key": "x", "effect": taint })],
    };
    let (plain, ssd) = (node(&[], "PreferNoSchedule"), node(&[("disk", "ssd")], "PreferNoSchedule"));
    let canary = node(&[("disk", "ssd"), ("canary", "1")], "PreferNoSchedule");
    let tainted = node(&[("disk", "ssd")], "NoSchedule");
    let other = node(&[("disk", "ssd"), ("other", "1")], "PreferNoSchedule");
    let minds = |before, after| minds(&world.set(), before, after);
    assert!(minds(Some(&plain), Some(&ssd)) && minds(Some(&ssd), Some(&canary)));
    assert!(minds(Some(&ssd), Some(&tainted)) && minds(Some(&ssd), None) && minds(None, Some(&ssd)));
    assert!(!minds(Some(&ssd), Some(&other)) && !minds(None, Some(&plain)) && !minds(Some(&plain), None));
}
