//! Which pods go first.

use jiff::Timestamp;
use serde_json::json;

use super::world::{NODE, World};
use crate::{action::Action, plan::NodeView, pod::Phase};

/// Names of the pods that a pass deletes, in order.
fn deleted(world: &World) -> Vec<String> {
    let actions = world.plan().actions;
    let names = actions.into_iter().filter_map(|action| match action {
        Action::DeletePod(target) => Some(target.name),
        _ => None,
    });
    names.collect()
}

/// Each row makes p1 go before p0, which is otherwise the first by its name.
#[test]
fn victims() {
    type Change = fn(&mut World);
    let table: [(&str, Change); 9] = [
        ("has no node", |world| world.pods[1].node.clear()),
        ("pending", |world| world.pods[1].phase = Phase::Pending),
        ("its node is silent", |world| world.pods[1].phase = Phase::Unknown),
        ("not ready", |world| world.pods[1].ready_since = None),
        ("costs less", |world| world.pods[1].deletion_cost = -1),
        ("shares its node", |world| world.pods[0].node = "node-2".to_owned()),
        ("ready for a shorter time", |world| {
            world.pods[1].ready_since = Some(Timestamp::constant(950_000, 0));
        }),
        ("restarted more often", |world| world.pods[1].restarts = 3),
        ("newer", |world| world.pods[1].created = Timestamp::constant(850_000, 0)),
    ];
    for (what, change) in table {
        let mut world = World::new(json!({ "replicas": 2 }), "3n");
        world.pods[2].deletion_cost = if what == "shares its node" { 0 } else { 9 };
        // Otherwise three pods of one node have ranks by themselves.
        for (at, pod) in world.pods.iter_mut().enumerate() {
            pod.node = if what == "shares its node" { NODE.to_owned() } else { format!("node-{at}") };
        }
        assert_eq!(deleted(&world), ["p0"], "before: {what}");
        change(&mut world);
        assert_eq!(deleted(&world), ["p1"], "{what}");
    }
}

/// The zone with more pods gives one, whatever else is said. A template has room for tens of thousands of
/// constraints: few of them count.
#[test]
fn pods_stay_spread() {
    for (others, first) in [(0, "p1"), (63, "p1"), (64, "p0")] {
        let mut world = World::new(json!({ "replicas": 2 }), "3n");
        let others = (0..others).map(|at| json!({ "topologyKey": format!("none-{at}") }));
        let all: Vec<_> = others.chain([json!({ "topologyKey": "zone" })]).collect();
        world.set.spec.template.0["spec"]["topologySpreadConstraints"] = all.into();
        world.revisions[1].template = world.set.spec.template.0.clone();
        for (at, zone) in [(0, "a"), (1, "b"), (2, "b")] {
            world.pods[at].node = format!("node-{at}");
            let labels = [("zone".to_owned(), zone.to_owned())].into();
            world.nodes.insert(format!("node-{at}"), NodeView { labels, ..NodeView::default() });
        }
        assert_eq!(deleted(&world), [first]);
    }
}

/// Each requirement is looked at for each pod. Rows: weights with 32 of them each, and the effect.
#[test]
fn weights_with_too_many_requirements_are_a_fault() {
    let absent = |at: usize| json!({ "key": format!("k{at}"), "operator": "DoesNotExist" });
    let absent: Vec<_> = (0..32).map(absent).collect();
    let weight = json!({ "weight": 1, "matchSelector": { "matchExpressions": absent } });
    for (weights, effect) in [(32, ""), (33, "InvalidSpec")] {
        let priority = json!({ "weightPriority": vec![weight.clone(); weights] });
        let spec = json!({ "replicas": 1, "updateStrategy": { "priorityStrategy": priority } });
        assert_eq!(World::new(spec, "1n").effect(), effect);
    }
}

fn updated(
    strategy: serde_json::Value,
    pods: usize,
    label: impl Fn(usize) -> Vec<(&'static str, String)>,
) -> Vec<String> {
    let mut strategy = strategy;
    strategy["maxUnavailable"] = json!("100%");
    let mut world = World::new(json!({ "replicas": pods, "updateStrategy": strategy }), &format!("{pods}o"));
    for (at, pod) in world.pods.iter_mut().enumerate() {
        pod.name = format!("p{at:02}");
        pod.uid = format!("uid-{at:02}");
        pod.labels.extend(label(at).into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    deleted(&world)
}

/// Rows: nodes of p0 to p3, change, and the order. What tells pods apart counts more than their nodes.
#[test]
fn of_pods_that_are_alike_those_of_a_node_go_together() {
    type Change = fn(&mut World);
    let table: [([&str; 4], Change, [&str; 4]); 3] = [
        (["b", "a", "b", "a"], |_| {}, ["p1", "p3", "p0", "p2"]),
        (
            ["b", "a", "b", "a"],
            |world| world.pods[2].created = Timestamp::constant(850_000, 0),
            ["p2", "p1", "p3", "p0"],
        ),
        (["b", "a", "b", "a"], |world| world.pods[0].ready_since = None, ["p0", "p1", "p3", "p2"]),
    ];
    for (nodes, change, order) in table {
        let spec = json!({ "replicas": 4, "updateStrategy": { "maxUnavailable": "100%" } });
        let mut world = World::new(spec, "4o");
        for (pod, node) in world.pods.iter_mut().zip(nodes) {
            pod.node = node.to_owned();
        }
        change(&mut world);
        assert_eq!(deleted(&world), order);
    }
}

#[test]
fn priorities() {
    let order = json!({ "priorityStrategy": { "orderPriority": [{ "orderedKey": "order" }] } });
    let labels = |at: usize| match at {
        0 => vec![("order", "a-1".to_owned())],
        1 => vec![("order", "a-20".to_owned())],
        _ => vec![],
    };
    assert_eq!(updated(order, 3, labels), ["p02", "p01", "p00"]);
    let term = |weight: i32, tier: &str| json!({ "weight": weight, "matchSelector": { "matchLabels": { "tier": tier } } });
    let weights =
        json!({ "priorityStrategy": { "weightPriority": [term(10, "a"), term(20, "b"), term(5, "c")] } });
    let tiers = |at: usize| vec![("tier", ["c", "a", "b"][at].to_owned())];
    assert_eq!(updated(weights, 3, tiers), ["p02", "p01", "p00"]);
}

/// Otherwise a pod that is broken holds up those of its own priority for ever.
#[test]
fn of_one_priority_the_broken_one_comes_first() {
    let strategy = json!({
        "maxUnavailable": 1,
        "priorityStrategy": { "weightPriority": [{ "weight": 1, "matchSelector": { "matchLabels": { "app": "shop" } } }] },
    });
    let world = World::new(json!({ "replicas": 3, "updateStrategy": strategy }), "2o 1o!");
    assert_eq!(deleted(&world), ["p2"]);
}

/// The terms in the order in which they have pods, not in that of the spec; one without any does nothing.
#[test]
fn of_several_terms_the_one_with_most_pods_comes_first() {
    let terms = json!([{ "key": "tier", "value": "m" }, { "key": "zone", "value": "k" }, { "key": "none", "value": "x" }]);
    let labels = |at: usize| match at {
        0 | 1 => vec![("tier", "m".to_owned())],
        2..=5 => vec![("zone", "k".to_owned())],
        _ => vec![],
    };
    let order = updated(json!({ "scatterStrategy": terms }), 10, labels);
    assert_eq!(order, ["p00", "p02", "p03", "p06", "p07", "p04", "p08", "p09", "p05", "p01"]);
}

fn scattered(with: usize, without: usize) -> String {
    let strategy = json!({ "scatterStrategy": [{ "key": "tier", "value": "m" }] });
    let pods = with + without;
    let order = updated(strategy, pods, |at| if at < with { vec![("tier", "m".to_owned())] } else { vec![] });
    let mark = |name: &String| if name[1..].parse::<usize>().unwrap() < with { 'M' } else { 'u' };
    order.iter().map(mark).collect()
}

#[test]
fn pods_with_a_label_are_spread() {
    assert_eq!(scattered(2, 8), "MuuuuuuuuM");
    assert_eq!(scattered(3, 7), "MuuuuMuuuM");
    assert_eq!(scattered(6, 4), "MuMuMuMuMM");
    assert_eq!(scattered(1, 3), "Muuu");
}
