//! Nodes: which get a pod first, which get none, and what is minded of them.

use super::{super::minds, *};

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

#[test]
fn a_node_that_rests_gets_no_pod() {
    let mut world = World::new(json!({}), &ten("n").replace("c:n", "c:nF"));
    world.rests.insert("c".to_owned(), Timestamp::constant(1_000_030, 0));
    assert_eq!(world.effect(), "");
    assert_eq!(world.plan().again, Some(std::time::Duration::from_secs(30)));
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
