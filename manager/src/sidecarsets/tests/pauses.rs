//! Pauses of an upgrade that has just begun: they stop the next pods.

use berth_proto::crd::UpdatePhase;
use rstest::rstest;
use serde_json::{Value, json};

use super::rollout::upgraded;

/// Somebody pauses a second after the edit, before the agent has said a word.
#[rstest]
#[case::the_same_leader(false)]
#[case::another_leader(true)]
fn a_pod_that_was_asked_for_is_upgraded(#[case] fails_over: bool) {
    let mut world = upgraded(json!({}));
    assert_eq!(world.asked("n0"), ["a"]);
    world.upgrade("log:2", json!({ "paused": true }));
    if fails_over {
        world.fail_over();
    }
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.reason("UpToDate")), (vec!["a"], "Paused"));
    world.agent("n0", UpdatePhase::Succeeded);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()), (vec![], [3, 1, 3, 1, 0]));
    world.upgrade("log:2", json!({}));
    world.pass(3_000);
    assert_eq!(world.asked("n0"), ["b"]);
}

#[rstest]
#[case::for_new_pods_alone("log:2", json!({ "type": "NotUpdate" }))]
#[case::for_new_pods_alone_and_paused("log:2", json!({ "type": "NotUpdate", "paused": true }))]
#[case::not_selected("log:2", json!({ "paused": true, "selector": { "matchLabels": { "app": "db" } } }))]
#[case::another_image("log:3", json!({ "paused": true }))]
fn what_is_not_begun_is_taken_back(#[case] image: &str, #[case] strategy: Value) {
    let mut world = upgraded(json!({}));
    world.upgrade(image, strategy);
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()[1]), (vec![], 0));
}

/// It comes between the end of one and the turn of the next.
#[test]
fn a_pod_that_was_not_asked_for_waits() {
    let mut world = upgraded(json!({}));
    world.agent("n0", UpdatePhase::Succeeded);
    world.upgrade("log:2", json!({ "paused": true }));
    world.pass(3_000);
    assert_eq!((world.asked("n0"), world.counts()[1]), (vec![], 1));
}
