//! Pods that somebody wants made anew, by their label.

use super::*;

#[rstest]
#[case::by_its_label(json!({}), "0n 1ns 2n", "-1")]
#[case::one_after_the_other(json!({}), "0n 1ns 2ns", "-2")]
#[case::two_at_once(rolling(json!({ "maxUnavailable": 2 })), "0ns 1ns 2ns", "-2 -1")]
#[case::behind_the_partition(rolling(json!({ "partition": 3 })), "0os 1o 2o", "-0")]
#[case::while_updates_rest(rolling(json!({ "paused": true })), "0o 1os 2o", "-1")]
#[case::where_updates_are_by_hand(json!({ "updateStrategy": { "type": "OnDelete" } }), "0o 1os 2o", "-1")]
#[case::before_others(json!({}), "0o 1os 2o", "-1")]
#[case::beside_others(rolling(json!({ "maxUnavailable": 2 })), "0o 1os 2o", "-1 -2")]
#[case::one_is_out_already(json!({}), "0n! 1ns 2n", "")]
#[case::one_is_missing(json!({}), "0n 1ns", "+2n")]
#[case::one_is_going(json!({}), "0n 1nsT 2ns", "")]
#[case::a_broken_one_costs_nothing(json!({}), "0n! 1ns! 2n", "-1")]
#[case::one_after_the_other_when_ordered(ordered(json!({})), "0ns 1n 2n", "-0")]
#[case::one_whose_probe_fails(ordered(json!({})), "0o 1os!? 2o", "-1")]
#[case::one_without_a_slot(json!({}), "0n 1n 2n 3ns", "-3")]
#[case::one_that_has_ended(json!({}), "0n 1nsF 2n", "-1")]
fn a_pod_that_is_named_by_its_label_is_made_anew(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] effect: &str,
) {
    assert_eq!(World::new(3, spec, pods).effect(), effect);
}

#[test]
fn a_pod_that_is_named_by_its_label_waits_for_its_hook() {
    let spec = json!({ "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" } } } });
    let mut world = World::new(2, spec, "0n 1ns");
    world.pods[1].labels.insert("hook".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "PreparingDelete1");
    world.pods[1].labels.insert(STATE_LABEL.to_owned(), "PreparingDelete".to_owned());
    assert_eq!(world.effect(), "");
    world.pods[1].labels.remove("hook");
    assert_eq!(world.effect(), "-1");
}
