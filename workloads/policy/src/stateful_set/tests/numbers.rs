//! Numbers of pods: those that are reserved, and the one they start at.

use super::*;
use crate::names::POD_INDEX_LABEL;

#[rstest]
#[case(4, json!([1]), &[0, 2, 3, 4])]
#[case(4, json!([1, 3]), &[0, 2, 4, 5])]
#[case(3, json!([1, 3]), &[0, 2, 4])]
#[case(3, json!([1, 3, 1]), &[0, 2, 4])]
#[case(4, json!(["1-3", 5]), &[0, 4, 6, 7])]
#[case(3, json!(["0-999999999", "1000000001"]), &[1_000_000_000, 1_000_000_002, 1_000_000_003])]
#[case(2, json!(["0-2147483647"]), &[2_147_483_648, 2_147_483_649])]
#[case(3, json!(["1-", "3-1", -1, "many", "1"]), &[0, 2, 3])]
fn reserved_numbers_are_left_out(#[case] replicas: i32, #[case] reserved: Value, #[case] slots: &[i64]) {
    let world = World::new(replicas, json!({ "reserveOrdinals": reserved }), "");
    let made: Vec<i64> = world
        .effect()
        .split_whitespace()
        .map(|effect| effect.trim_matches(['+', 'n']).parse().unwrap())
        .collect();
    assert_eq!(made, slots);
}

#[rstest]
#[case::the_first(3, started(5, json!({})), "", "+5n +6n +7n")]
#[case::one_by_one(3, ordered(started(5, json!({}))), "5n", "+6n")]
#[case::those_below_and_above_go(2, started(2, json!({})), "0n 1n 2n 3n 4n", "-4 -1 -0")]
#[case::the_highest_first(2, ordered(started(2, json!({}))), "0n 1n 2n 3n 4n", "-4")]
#[case::those_below_after_those_above(2, ordered(started(2, json!({}))), "0n 1n 2n 3n", "-1")]
#[case::those_below_go_when_the_others_are_there(2, ordered(started(2, json!({}))), "0n 1n 2n", "+3n")]
#[case::back_to_none(2, json!({}), "2n 3n", "+0n +1n -3 -2")]
#[case::reserved_numbers_count_from_it(3, started(2, with_reserved(json!({}), json!([1, "3-4"]))), "", "+2n +5n +6n")]
#[case::it_is_reserved(2, started(2, with_reserved(json!({}), json!(["0-3"]))), "", "+4n +5n")]
#[case::the_partition_counts_from_it(3, started(5, rolling(json!({ "partition": 2 }))), "5o 6o 7o", "-7")]
#[case::the_partition_keeps(3, started(5, rolling(json!({ "partition": 2 }))), "5o 7n", "+6o")]
#[case::the_last(2, started(2_000_000_000, json!({})), "", "+2000000000n +2000000001n")]
#[case::less_than_none(2, started(-1, json!({})), "", "+0n +1n")]
fn numbers_start_later(#[case] replicas: i32, #[case] spec: Value, #[case] pods: &str, #[case] effect: &str) {
    assert_eq!(World::new(replicas, spec, pods).effect(), effect);
}

/// By it a Service or a policy picks one pod of a set, as with a StatefulSet of Kubernetes.
#[test]
fn a_pod_has_its_number_as_a_label() {
    let actions = World::new(2, started(5, with_reserved(json!({}), json!([6]))), "").plan().actions;
    let made = actions.iter().filter_map(|action| match action {
        Action::CreatePod(pod) => pod["metadata"]["labels"][POD_INDEX_LABEL].as_str(),
        _ => None,
    });
    assert_eq!(made.collect::<Vec<_>>(), ["5", "7"]);
}
