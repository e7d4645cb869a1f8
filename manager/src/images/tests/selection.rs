//! Which nodes; and what looking for them costs.

use berth_proto::crd::ImagePhase;
use rstest::rstest;
use serde_json::{Value, json};

use super::world::*;
use crate::store::PodStage;

#[rstest]
#[case::nothing(Value::Null, &["n0", "n1", "n2"])]
#[case::empty(json!({}), &["n0", "n1", "n2"])]
#[case::names(json!({ "names": ["n2", "n0", "elsewhere"] }), &["n0", "n2"])]
#[case::labels(json!({ "matchLabels": { "zone": "a" } }), &["n0", "n1"])]
#[case::expression(json!({ "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] }), &["n1"])]
#[case::both(json!({ "matchLabels": { "zone": "a" }, "matchExpressions": [{ "key": "gpu", "operator": "DoesNotExist" }] }), &["n0"])]
fn selectors(#[case] selector: Value, #[case] expected: &[&str]) {
    let mut world = World::with_nodes(0);
    world.join("n0", &[("zone", "a")]);
    world.join("n1", &[("zone", "a"), ("gpu", "yes")]);
    world.join("n2", &[("zone", "b")]);
    world.node("without-an-agent", &[("zone", "a"), ("gpu", "yes")]);
    world.job("j", json!({ "selector": selector, "parallelism": 9 }));
    assert_eq!(world.asked("j"), expected);
    assert_eq!(world.counts("j")[0], expected.len() as i32);
}

/// Jobs count it, by its own labels, and nobody answers.
#[test]
fn a_node_image_without_a_node_stands_for_one_where_it_says_so() {
    const ALONE: (&str, &str) = ("fake", "true");
    let mut world = World::with_nodes(1);
    world.agent("gone", None);
    let with = |completion: &str, operator: &str| {
        json!({ "selector": { "matchExpressions": [{ "key": "fake", "operator": operator }] },
            "completionPolicy": { "type": completion }, "parallelism": 9 })
    };
    world.job("real", with("Never", "DoesNotExist"));
    world.job("fake", with("Never", "Exists"));
    let ends = json!({ "activeDeadlineSeconds": 50 });
    let limits = json!({ "timeoutSeconds": 50 });
    world.job("all", json!({ "parallelism": 9, "pullPolicy": limits, "completionPolicy": ends }));
    let counts = |world: &mut World| {
        world.pass(seconds(1));
        ["real", "fake", "all"].map(|job| world.counts(job)[0])
    };
    assert_eq!(counts(&mut world), [1, 0, 1], "of one without a Node nothing is asked");
    world.alone("gone", &[ALONE]);
    assert_eq!(counts(&mut world), [1, 1, 2]);
    assert_eq!(world.asked("fake"), ["gone"]);
    world.alone("gone", &[("other", "true")]);
    assert_eq!(counts(&mut world), [2, 0, 2], "its labels are its own");
    world.alone("gone", &[ALONE]);
    world.succeed_all("real");
    world.answer("n0", "all", ImagePhase::Succeeded);
    world.pass(seconds(50));
    assert_eq!(
        (world.counts("all"), world.message("all")),
        ([2, 0, 1, 1], "job exceeds activeDeadlineSeconds")
    );
    assert_eq!(world.status("all").failed_nodes, ["gone"]);
    world.node("gone", &[]);
    assert_eq!(counts(&mut world)[..2], [2, 0], "with a Node it is like any other");
    world.no_node("gone");
    world.no_image("gone");
    assert_eq!(counts(&mut world)[..2], [1, 0]);
}

#[test]
fn labels_that_change_and_nodes_that_come() {
    let mut world = World::with_nodes(2);
    let spec = json!({ "selector": { "matchLabels": { "zone": "a" } }, "parallelism": 9, "completionPolicy": { "type": "Never" } });
    world.job("j", spec);
    assert_eq!(world.counts("j")[0], 0);
    world.node("n0", &[("zone", "a")]);
    world.join("n7", &[("zone", "a")]);
    assert_eq!(world.asked("j"), ["n0", "n7"]);
    world.node("n0", &[]);
    assert_eq!(world.asked("j"), ["n7"], "not selected before it has ended: taken back");
    world.answer("n7", "j", ImagePhase::Succeeded);
    world.node("n7", &[]);
    world.pass(seconds(5));
    assert_eq!(
        (world.counts("j")[0], world.placed(&world.jobs["j"].uid.clone())),
        (0, vec!["n7".to_owned()])
    );
    world.node("n7", &[("zone", "a")]);
    world.pass(seconds(5));
    assert_eq!(world.counts("j"), [1, 0, 1, 0], "selected again, it is not asked again");
    assert_eq!(world.message("j"), "job is running, progress 100.0%");
    let uid = world.jobs["j"].uid.clone();
    assert_eq!(world.asks[&("n7".to_owned(), uid)], 1);
}

#[test]
fn another_selector_finds_other_nodes() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "selector": { "names": ["n0"] } }));
    world.job("j", json!({ "selector": { "names": ["n1", "n2"] } }));
    assert_eq!(world.asked("j"), ["n1"]);
    world.pass(seconds(1));
    assert_eq!(world.counts("j")[0], 2);
}

#[test]
fn nodes_follow_pods() {
    let mut world = World::with_nodes(3);
    let app = [("app", "shop")];
    world.pod("p0", "n0", &app, PodStage::Active);
    world.pod("other", "n2", &[("app", "other")], PodStage::Active);
    world.pod("done", "n2", &app, PodStage::Finished);
    world.pod("leaving", "n2", &app, PodStage::Terminating);
    let spec = json!({ "podSelector": { "matchLabels": { "app": "shop" } }, "parallelism": 9,
        "completionPolicy": { "type": "Never" } });
    world.job("j", spec.clone());
    assert_eq!(world.asked("j"), ["n0"]);
    world.pod("p1", "n1", &app, PodStage::Active);
    world.pod("p2", "n1", &app, PodStage::Active);
    assert_eq!(world.asked("j"), ["n0", "n1"]);
    world.no_pod("p1");
    assert_eq!(world.asked("j"), ["n0", "n1"], "another one is there");
    world.pod("p2", "n2", &app, PodStage::Active);
    assert_eq!(world.asked("j"), ["n0", "n2"], "its pods have moved");
    world.pod("p0", "n0", &app, PodStage::Finished);
    assert_eq!(world.asked("j"), ["n2"]);
    world.pod("p2", "n2", &[("app", "other")], PodStage::Active);
    assert_eq!(world.asked("j"), Vec::<String>::new());
    assert_eq!(world.index.by_pods.len(), 1);
    world.job("j", json!({ "selector": { "names": ["n0"] } }));
    assert!(world.index.by_pods.is_empty(), "it follows its nodes");
    world.job("j", spec);
    assert_eq!(world.index.by_pods.len(), 1);
    world.no_job("j");
    assert!(world.index.by_pods.is_empty(), "it is gone");
}

/// 8 jobs, 200 nodes.
#[test]
fn an_event_costs_what_it_changes() {
    let mut world = World::with_nodes(200);
    for number in 0..8 {
        let spec = json!({ "parallelism": 2, "selector": { "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] } });
        world.job(&format!("j{number}"), spec);
    }
    let count = |world: &mut World| std::mem::take(&mut world.index.evaluations);
    count(&mut world);
    world.answer("n0", "j7", ImagePhase::Pulling);
    world.answer("n0", "j7", ImagePhase::Succeeded);
    assert_eq!(count(&mut world), 0, "a NodeImage concerns the jobs in it, and their nodes are known");
    assert_eq!(world.asked("j7").len(), 2);
    world.node("n5", &[("b", "c")]);
    assert_eq!(count(&mut world), 8, "a node: each selector once");
    world.pod("p", "n3", &[], PodStage::Active);
    assert_eq!(count(&mut world), 0, "a pod: nobody follows pods");
    world.job("late", json!({}));
    assert_eq!(count(&mut world), 200, "a job: each node once");
    let writes = (world.node_writes, world.job_writes);
    world.list_all();
    assert_eq!(count(&mut world), 0, "a list of what is known: nothing");
    world.pass(seconds(1));
    assert!(world.node_writes == writes.0 && world.job_writes - writes.1 <= 2, "two jobs have had news");
}
