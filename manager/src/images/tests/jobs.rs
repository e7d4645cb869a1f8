//! How many nodes at once, in which order, and what the job says of it.

use berth_proto::crd::ImagePhase;
use rstest::rstest;
use serde_json::{Value, json};

use super::world::*;

#[test]
fn one_node_is_asked_at_once_and_counted_at_once() {
    let mut world = World::with_nodes(1);
    world.pass(seconds(1));
    world.job("j", json!({}));
    assert_eq!(world.asked("j"), ["n0"]);
    assert_eq!((world.counts("j"), world.message("j")), ([1, 1, 0, 0], "job is running, progress 0.0%"));
    assert_eq!(world.condition("j", "Accepted").unwrap().status, "True");
    world.answer("n0", "j", ImagePhase::Succeeded);
    assert_eq!((world.counts("j"), world.message("j")), ([1, 0, 1, 0], "job has completed"));
    assert!(world.status("j").completion_time.is_some() && world.status("j").start_time.is_some());
    assert_eq!(world.condition("j", "Complete").unwrap().status, "True");
    assert_eq!((world.job_writes, world.node_writes), (2, 1), "no write more than needed");
}

#[test]
fn what_a_node_is_told() {
    let mut world = World::with_nodes(1);
    world.job(
        "j",
        json!({ "image": "r.example.com/a@sha256:1111111111111111111111111111111111111111111111111111111111111111",
            "pullPolicy": { "timeoutSeconds": 60 }, "imagePullPolicy": "Always",
            "completionPolicy": { "activeDeadlineSeconds": 90 },
            "sandboxConfig": { "labels": { "a": "b" }, "annotations": { "c": "d" } } }),
    );
    let entry = serde_json::to_value(&world.images["n0"].desired[0]).unwrap();
    assert_eq!(
        entry,
        json!({ "uid": world.jobs["j"].uid, "version": 1, "since": "2023-11-14T22:13:20Z",
            "image": "r.example.com/a@sha256:1111111111111111111111111111111111111111111111111111111111111111",
            "wantedBy": { "kind": "ImagePullJob", "namespace": "shop", "name": "j" },
            "pullPolicy": { "timeoutSeconds": 60, "backoffLimit": 3, "activeDeadlineSeconds": 90 },
            "imagePullPolicy": "Always", "sandboxConfig": { "labels": { "a": "b" }, "annotations": { "c": "d" } } })
    );
}

/// Checks how many of 9 nodes are asked at once.
#[rstest]
#[case::left_out(Value::Null, 1)]
#[case::number(json!(4), 4)]
#[case::share(json!("25%"), 3)]
#[case::more(json!(20), 9)]
fn so_many_at_once_in_the_order_of_names(#[case] parallelism: Value, #[case] at_once: usize) {
    let mut world = World::with_nodes(9);
    world.job("j", json!({ "parallelism": parallelism }));
    let mut done = Vec::new();
    while !world.is_over("j") {
        let asked = world.asked("j");
        assert_eq!(asked.len(), at_once.min(9 - done.len()));
        world.answer(&asked[0], "j", ImagePhase::Succeeded);
        done.push(asked[0].clone());
    }
    let all: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
    assert_eq!(done, all);
    assert_eq!(world.counts("j"), [9, 0, 9, 0]);
    assert!(world.asks.values().all(|times| *times == 1));
}

#[test]
fn zero_pauses_and_more_goes_on() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "parallelism": 0 }));
    assert!(world.asked("j").is_empty());
    assert_eq!(world.message("j"), "job is paused (parallelism 0), progress 0.0%");
    world.pass(seconds(3600));
    assert!(!world.is_over("j") && world.asked("j").is_empty());
    world.job("j", json!({ "parallelism": 2 }));
    assert_eq!(world.asked("j"), ["n0", "n1"]);
    world.job("j", json!({ "parallelism": 0 }));
    world.succeed_all("j");
    assert_eq!(world.asked("j"), Vec::<String>::new(), "those on their way end, no other begins");
    world.pass(seconds(1));
    assert_eq!(world.message("j"), "job is paused (parallelism 0), progress 66.7%");
}

#[test]
fn the_status_is_written_twice_a_second_at_the_most() {
    let mut world = World::with_nodes(40);
    world.job("j", json!({ "parallelism": 1 }));
    assert_eq!(world.job_writes, 1);
    for _ in 0..30 {
        world.succeed_all("j");
        world.pass(std::time::Duration::from_millis(50));
    }
    assert!(world.job_writes <= 5, "{}", world.job_writes);
    world.pass(seconds(1));
    assert_eq!(world.counts("j"), [40, 1, 30, 0]);
    world.hear_all("j");
    let writes = world.job_writes;
    world.pass(seconds(60));
    assert_eq!(world.job_writes, writes, "nothing to say is not said");
}

#[test]
fn failed_nodes_are_named_and_the_others_go_on() {
    let mut world = World::with_nodes(3);
    world.job("j", json!({ "parallelism": 2 }));
    world.answer("n1", "j", ImagePhase::Pulling);
    world.answer("n1", "j", ImagePhase::Failed);
    assert_eq!(world.asked("j"), ["n0", "n2"]);
    world.succeed_all("j");
    assert_eq!((world.counts("j"), world.message("j")), ([3, 0, 2, 1], "job has completed"));
    let failed = world.condition("j", "Failed").unwrap();
    assert_eq!((&*failed.reason, &*failed.message), ("NodesFailed", "1 of 3 nodes failed"));
    assert_eq!(world.status("j").failed_nodes, ["n1"]);
}

#[test]
fn an_answer_to_another_version_is_none() {
    let mut world = World::with_nodes(1);
    world.job("j", json!({}));
    world.answer("n0", "j", ImagePhase::Waiting);
    let uid = world.jobs["j"].uid.clone();
    let image = world.images.get_mut("n0").unwrap();
    image.pulls[0].version = Some(7);
    image.pulls[0].phase = ImagePhase::Succeeded;
    world.list_all();
    assert!(!world.is_over("j"), "{uid}");
}

#[test]
fn three_jobs_on_the_same_nodes_do_not_disturb_each_other() {
    let mut world = World::with_nodes(5);
    for name in ["a", "b", "c"] {
        world.job(name, json!({ "parallelism": 2, "image": format!("registry.example.com/{name}:1") }));
    }
    for name in ["a", "b", "c"] {
        assert_eq!(world.asked(name), ["n0", "n1"]);
    }
    assert_eq!(world.images["n0"].desired.len(), 3);
    while !["a", "b", "c"].iter().all(|name| world.is_over(name)) {
        for name in ["c", "a", "b"] {
            world.succeed_all(name);
        }
    }
    assert!(world.asks.values().all(|times| *times == 1));
    assert_eq!(world.asks.len(), 15);
}

/// Each with what is to be named.
#[rstest]
#[case::image(json!({ "image": "UPPER/case" }), "spec.image")]
#[case::negative(json!({ "parallelism": -1 }), "spec.parallelism")]
#[case::word(json!({ "parallelism": "many" }), "spec.parallelism")]
#[case::both(json!({ "selector": { "names": ["a"], "matchLabels": { "a": "b" } } }), "spec.selector")]
#[case::selectors(json!({ "selector": {}, "podSelector": {} }), "spec.podSelector")]
#[case::operator(json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } }), "\"Is\"")]
#[case::pod_operator(json!({ "podSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }), "spec.podSelector")]
#[case::never_deadline(json!({ "completionPolicy": { "type": "Never", "activeDeadlineSeconds": 900 } }), "activeDeadlineSeconds")]
#[case::never_ttl(json!({ "completionPolicy": { "type": "Never", "ttlSecondsAfterFinished": 9 } }), "ttlSecondsAfterFinished")]
#[case::negative_deadline(json!({ "completionPolicy": { "activeDeadlineSeconds": -1 } }), "is -1")]
#[case::unreadable(json!({ "pullSecrets": 5 }), "cannot be read")]
fn what_makes_no_sense_is_said_and_not_done(#[case] spec: Value, #[case] names: &str) {
    let mut world = World::with_nodes(2);
    world.job("j", spec);
    let accepted = world.condition("j", "Accepted").unwrap().clone();
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "InvalidSpec"));
    assert!(accepted.message.contains(names) && accepted.message.contains("shop/j"), "{}", accepted.message);
    assert_eq!(world.message("j"), accepted.message);
    world.pass(seconds(3600));
    assert_eq!((world.node_writes, world.job_writes), (0, 1));
    world.job("j", json!({}));
    assert_eq!(world.asked("j"), ["n0"], "mended, it is carried out");
    assert_eq!(world.condition("j", "Accepted").unwrap().status, "True");
}

#[test]
fn another_image_is_for_nodes_that_are_asked_after_it() {
    let mut world = World::with_nodes(2);
    world.job("j", json!({ "image": "r.example.com/a:1" }));
    world.job("j", json!({ "image": "r.example.com/a:2" }));
    assert_eq!(world.images["n0"].desired[0].image, "r.example.com/a:1");
    world.succeed_all("j");
    assert_eq!(world.images["n0"].desired[0].image, "r.example.com/a:1");
    assert_eq!(world.images["n1"].desired[0].image, "r.example.com/a:2");
}
