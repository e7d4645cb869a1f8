//! Pods whose probes fail: how long the update waits for them.

use super::*;

/// The second number: when to look again, in seconds.
#[rstest]
#[case::it_is_waited_for(ordered(json!({})), "0o 1o!? 2o", "", Some(1))]
#[case::it_was_waited_for(ordered(json!({})), "0o 1o!?? 2o", "-1", None)]
#[case::two_are_waited_for(ordered(json!({})), "0o!?? 1o!? 2o", "", Some(1))]
#[case::it_never_came_up(ordered(json!({})), "0o 1o! 2o", "-1", None)]
#[case::higher_ones_wait(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o!? 2o", "", Some(1))]
#[case::it_is_of_the_partition(ordered(rolling(json!({ "partition": 1 }))), "0o!? 1o 2o", "", Some(1))]
#[case::it_is_new(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o 2n!?", "-1", None)]
#[case::it_is_going(ordered(rolling(json!({ "maxUnavailable": 2 }))), "0o 1o!?T 2o", "-2", None)]
#[case::all_at_once(json!({}), "0o 1o!? 2o", "-1", None)]
#[case::nobody_wants_it(ordered(json!({ "updateStrategy": { "type": "OnDelete" } })), "0o 1o!? 2o", "", None)]
fn a_pod_whose_probe_fails_has_time_to_be_mended(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] effect: &str,
    #[case] again: Option<u64>,
) {
    let world = World::new(3, spec, pods);
    assert_eq!(world.effect(), effect);
    assert_eq!(world.plan().again.map(|again| again.as_secs()), again);
}

/// Rows: by how many seconds the clock of its node is ahead, and what is done.
#[rstest]
#[case(0, "")]
#[case(60, "")]
#[case(61, "-1")]
#[case(1_000_000_000, "-1")]
fn a_clock_that_is_ahead_holds_up_no_update(#[case] ahead: i64, #[case] effect: &str) {
    let mut world = World::new(3, ordered(json!({})), "0o 1o!? 2o");
    world.pods[1].failing_since = Some(NOW.checked_add(SignedDuration::from_secs(ahead)).unwrap());
    assert_eq!(world.effect(), effect);
}

/// Pods cease to be Ready again and again: the update waits for two minutes in sum. Rows: for how long it has
/// waited, what its condition says, what is done, and when to look again.
#[rstest]
#[case::a_while(30, WAITS_FOR_PROBE, "", Some(1))]
#[case::a_second_less(119, WAITS_FOR_PROBE, "", Some(1))]
#[case::long_enough(120, WAITS_FOR_PROBE, "-1", None)]
#[case::for_something_else(120, "no quota", "", Some(1))]
fn pods_whose_probes_fail_are_waited_for_in_sum(
    #[case] seconds: i64,
    #[case] message: &str,
    #[case] effect: &str,
    #[case] again: Option<u64>,
) {
    let mut world = World::new(3, ordered(json!({})), "0o 1o!? 2o");
    let since = NOW.checked_sub(SignedDuration::from_secs(seconds)).unwrap().to_string();
    world.conditions = json!([{
        "type": "FailedUpdatePod", "status": "True", "message": message,
        "lastUpdateTime": since, "lastTransitionTime": since,
    }]);
    let plan = world.plan();
    assert_eq!((world.effect().as_str(), plan.again.map(|again| again.as_secs())), (effect, again));
    // It says so, and the time does not begin anew when it is over.
    let condition = plan.status.unwrap().conditions.remove(0);
    assert_eq!(condition.message.as_deref(), Some(WAITS_FOR_PROBE));
    let is_known = message == WAITS_FOR_PROBE;
    assert_eq!(condition.last_update_time.unwrap().0.to_string() == since, is_known);
}

/// Its hook holds it, or it is in the midst of an update to another revision: nobody mends that.
#[test]
fn a_pod_that_is_held_is_not_waited_for() {
    let spec = ordered(rolling(json!({ "podUpdatePolicy": "InPlaceOnly" })));
    for state in ["PreparingUpdate", "Updating"] {
        let mut world = World::new(1, spec.clone(), "0o!?");
        world.pods[0].labels.insert(STATE_LABEL.to_owned(), state.to_owned());
        assert_eq!(world.effect(), "~0", "{state}");
    }
}
