//! Two hundred nodes that come, go, are cordoned, tainted and relabelled, and a controller that is killed at
//! random, before and after each of its writes.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{NodeView, PodState, PodView, minds},
    world::{World, node},
};

/// Numbers at random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

fn name(at: usize) -> String {
    format!("node-{at:03}")
}

/// Changes one node.
fn change(world: &mut World, dice: &mut Dice) {
    let name = name(dice.below(200));
    let taint = |key: &str, effect: &str| json!({ "taints": [{ "key": key, "effect": effect }] });
    let mut changed = node(&name);
    match dice.below(9) {
        0 => {
            world.nodes.remove(&name);
            // Kubernetes deletes what was on it.
            world.pods.retain(|_, pod| pod.node != name || !pod.bound);
            return;
        }
        1 => changed["spec"] = json!({ "unschedulable": true }),
        2 => changed["spec"] = taint("node.kubernetes.io/not-ready", "NoSchedule"),
        3 => changed["spec"] = taint("x", "NoExecute"),
        4 => changed["metadata"]["labels"] = json!({}),
        5 => changed["status"] = json!({ "allocatable": { "cpu": "100m" } }),
        _ => {}
    }
    world.nodes.insert(name, changed);
}

/// Pods begin and end.
fn run(world: &mut World, dice: &mut Dice) {
    let ready = |world: &World, pod: &PodView| {
        world
            .nodes
            .get(&pod.node)
            .is_some_and(|node| node["spec"] == json!({}) && node["status"] != json!({}))
    };
    let begins: BTreeSet<String> =
        world.pods.iter().filter(|(_, pod)| ready(world, pod)).map(|(name, _)| name.clone()).collect();
    for (name, pod) in &mut world.pods {
        pod.bound |= begins.contains(name);
        if pod.bound && pod.state == PodState::Active && dice.below(5) == 0 {
            pod.state = if dice.below(10) == 0 { PodState::Failed } else { PodState::Succeeded };
        }
    }
}

/// Spec of a job of which no node is ever the last one.
fn endless(parallelism: &Value) -> Value {
    json!({
        "parallelism": parallelism,
        "completionPolicy": { "type": "Never" },
        "failurePolicy": { "type": "Continue" },
        "template": { "spec": {
            "restartPolicy": "Never", "nodeSelector": { "zone": "a" },
            "containers": [{ "resources": { "requests": { "cpu": "1" } } }],
        }},
    })
}

#[rstest]
#[case::all_at_once(json!(2_147_483_647), 200)]
#[case::a_tenth(json!("10%"), 20)]
#[case::seven(json!(7), 7)]
fn each_node_that_fits_is_done_once(#[case] parallelism: Value, #[case] most: usize) {
    for seed in 1..=2 {
        let mut dice = Dice(seed);
        let mut world = World::new(&[], endless(&parallelism));
        for step in 0..400 {
            (0..dice.below(4)).for_each(|_| change(&mut world, &mut dice));
            run(&mut world, &mut dice);
            let killed = dice.below(10) == 0;
            let writes = if killed { dice.below(6) } else { usize::MAX };
            let (plan, before) = (world.plan(), world.pods.len());
            world.carry_out(&plan, writes);
            world.later(1);
            let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
            world.pods.values().for_each(|pod| *by_node.entry(&pod.node).or_default() += 1);
            assert!(by_node.values().all(|count| *count == 1), "{step}: {by_node:?}");
            let active = world.pods.values().filter(|pod| pod.is_alive()).count();
            assert!(world.pods.len() <= before || active <= most, "{step}: {active} are active");
        }
        for at in 0..200 {
            world.nodes.insert(name(at), node(&name(at)));
        }
        for _ in 0..100 {
            run(&mut world, &mut dice);
            world.settle();
            world.later(1);
        }
        let done: BTreeSet<&str> = world.pods.values().map(|pod| pod.node.as_str()).collect();
        assert_eq!(done.len(), 200, "seed {seed}");
        let (phase, desired, active, succeeded, failed) = world.status();
        assert_eq!((phase.as_str(), desired, active, succeeded + failed), ("running", 200, 0, 200));
        assert!(world.plan().actions.is_empty());
    }
}

/// Nobody plans after a change that is not minded, so no plan may have anything more then.
#[test]
fn a_change_that_is_not_minded_is_no_other_plan() {
    let (mut minded, mut unminded) = (0, 0);
    for seed in 1..=2 {
        let mut dice = Dice(seed);
        let mut world = World::new(&[], endless(&json!(20)));
        for step in 0..150 {
            let (nodes, pods, plan) = (world.nodes.clone(), world.pods.clone(), world.plan());
            change(&mut world, &mut dice);
            // What ends with a node is another event.
            let left = std::mem::replace(&mut world.pods, pods);
            let mut names = nodes.keys().chain(world.nodes.keys());
            if let Some(name) = names.find(|name| nodes.get(*name) != world.nodes.get(*name)) {
                let view = |nodes: &BTreeMap<String, Value>| {
                    let node = nodes.get(name).cloned()?;
                    Some(NodeView::of(&serde_json::from_value(node).unwrap()))
                };
                let has_pod = || world.pods.values().any(|pod| pod.is_alive() && pod.node == *name);
                if minds(&world.job, view(&nodes).as_ref(), view(&world.nodes).as_ref(), has_pod) {
                    minded += 1;
                } else {
                    unminded += 1;
                    let now = world.plan();
                    assert!(
                        now.actions.iter().all(|action| plan.actions.contains(action)),
                        "{step}: {now:?}"
                    );
                    assert!(!plan.actions.is_empty() || plan == now, "{step}: {plan:?} {now:?}");
                }
            }
            world.pods = left;
            run(&mut world, &mut dice);
            if dice.below(3) > 0 {
                let plan = world.plan();
                world.carry_out(&plan, usize::MAX);
            }
            world.later(1);
        }
    }
    assert!(minded > 40 && unminded > 40, "{minded} {unminded}");
}

/// Rows: a node before and after, whether the job has a pod there, and whether it is minded.
#[test]
fn only_what_places_pods_is_minded_of_a_node() {
    let with = |part: &str, value: Value| {
        let mut node = node("a");
        node[part] = value;
        NodeView::of(&serde_json::from_value(node).unwrap())
    };
    let taint = |effect: &str| with("spec", json!({ "taints": [{ "key": "x", "effect": effect }] }));
    let labels = |labels: Value| with("metadata", json!({ "name": "a", "labels": labels }));
    let (fits, other) = (with("spec", json!({})), labels(json!({ "zone": "b" })));
    let (more, tainted) = (labels(json!({ "zone": "a", "x": "y" })), taint("NoSchedule"));
    let small = with("status", json!({ "allocatable": { "cpu": "1m" } }));
    let cordoned = with("spec", json!({ "unschedulable": true }));
    let spec = json!({ "template": { "spec": {
        "restartPolicy": "Never", "nodeSelector": { "zone": "a" },
        "containers": [{ "resources": { "requests": { "cpu": "1" } } }],
    }}});
    let job = World::new(&[], spec).job;
    let table: [(Option<&NodeView>, Option<&NodeView>, bool, bool); 14] = [
        (None, Some(&fits), false, true),
        (Some(&fits), None, false, true),
        (Some(&fits), Some(&more), true, false),
        (Some(&fits), Some(&tainted), false, true),
        (Some(&fits), Some(&small), false, true),
        (Some(&fits), Some(&cordoned), false, true),
        (Some(&cordoned), Some(&fits), false, true),
        (Some(&small), Some(&tainted), true, false),
        (Some(&tainted), None, true, false),
        (None, Some(&tainted), true, false),
        (None, Some(&other), false, false),
        (Some(&other), None, true, false),
        // A pod that runs there is deleted when the node has lost its labels.
        (Some(&tainted), Some(&other), true, true),
        (Some(&tainted), Some(&other), false, false),
    ];
    for (row, (before, after, has_pod, minded)) in table.into_iter().enumerate() {
        assert_eq!(minds(&job, before, after, || has_pod), minded, "{row}");
    }
}

/// Pods are copies of their template: those of all nodes together would fill the memory.
#[test]
fn a_pass_makes_a_few_large_pods_and_the_next_one_goes_on() {
    let names: Vec<String> = (0..20).map(|at| format!("n{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let note = json!({ "annotations": { "note": "x".repeat(1 << 20) } });
    let mut world = World::new(
        &names,
        json!({ "template": { "metadata": note, "spec": { "restartPolicy": "Never", "containers": [] } } }),
    );
    assert_eq!(world.plan().actions.len(), 3);
    world.settle();
    assert_eq!(world.made, names);
    let mut world = World::new(&[], json!({ "parallelism": "100%" }));
    world.nodes.extend((0..700).map(|at| (format!("n{at}"), node(&format!("n{at}")))));
    assert_eq!(world.plan().actions.len(), 500);
}

/// A second pod on each node is made by anybody who may make pods.
#[test]
fn several_pods_of_a_node_are_told_of_some_nodes() {
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&names, json!({}));
    world.settle();
    let pods: Vec<PodView> = world.pods.values().cloned().collect();
    for (count, told) in [(0, 0), (1, 1), (40, 16)] {
        for pod in pods.iter().take(count) {
            let name = format!("{}-twin", pod.name);
            world.pods.insert(name.clone(), PodView { uid: name.clone(), name, ..pod.clone() });
        }
        let notes = world.plan().notes;
        assert_eq!(notes.iter().filter(|note| note.reason == "DuplicatePodCreatedOnSameNode").count(), told);
    }
}
