//! Pods and claims that cannot be written to: they come last, and the others are not stopped.

use super::*;

#[rstest]
#[case::updated(json!({}), "0o 1o 2o", "-2", &[2], "-1")]
#[case::updated_in_place(rolling(json!({ "podUpdatePolicy": "InPlaceOnly" })), "0o 1o 2o", "~2", &[2, 1], "~0")]
#[case::in_their_order(ordered(json!({})), "0o 1o 2o", "-2", &[2], "-2")]
#[case::behind_the_partition(rolling(json!({ "partition": 2 })), "0o 1o 2o", "-2", &[2], "-2")]
#[case::without_an_order(unordered(2, 5), "0o 1o 2o", "-2", &[2], "-1")]
#[case::broken(json!({}), "0o! 1o! 2o!", "-2", &[2], "-1")]
#[case::named(json!({}), "0n 1ns 2ns", "-2", &[2], "-1")]
#[case::named_beside_an_update(json!({}), "0o 1o 2ns", "-2", &[2], "-1")]
#[case::named_and_the_update_is_over(json!({}), "0n 1n 2ns", "-2", &[2], "-2")]
#[case::named_and_broken(rolling(json!({ "maxUnavailable": 2 })), "0o 1o 2ns!", "-2 -1", &[2], "-1 -2")]
#[case::without_a_slot(json!({}), "0n 1n 2n 3n 4n", "-4 -3", &[4], "-4 -3")]
fn a_pod_that_cannot_be_written_to_is_last(
    #[case] spec: Value,
    #[case] pods: &str,
    #[case] first: &str,
    #[case] put_off: &[i64],
    #[case] then: &str,
) {
    let mut world = World::new(3, spec, pods);
    assert_eq!(world.effect(), first);
    world.put_off = put_off.iter().map(|ordinal| format!("uid-{ordinal}")).collect();
    assert_eq!(world.effect(), then);
}

/// Its name as a label, or its state: nobody waits for that, but in order.
#[test]
fn a_label_that_cannot_be_written_stops_no_update() {
    type Change = fn(&mut PodView);
    let table: [(&str, Change, i32, &str, &str); 3] = [
        ("its name", |pod| drop(pod.labels.remove(POD_NAME_LABEL)), 1, "2", "-1 2"),
        ("it does not serve", |pod| state(pod, "Updated"), 1, "Normal2", "Normal2"),
        ("and one more may be out", |pod| state(pod, "Updated"), 2, "Normal2", "-1 Normal2"),
    ];
    for (row, change, most, first, then) in table {
        let mut world = World::new(3, rolling(json!({ "maxUnavailable": most })), "0o 1o 2n");
        change(&mut world.pods[2]);
        assert_eq!(world.effect(), first, "{row}");
        world.put_off = ["uid-2".to_owned()].into();
        assert_eq!(world.effect(), then, "{row}");
        // It may be deleted all the same.
        world.pods[2].labels.insert(SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
        let is_deleted = world.effect().contains("-2");
        assert_eq!(is_deleted, row != "its name", "{row}: {}", world.effect());
    }
}

fn state(pod: &mut PodView, state: &str) {
    pod.labels.insert(STATE_LABEL.to_owned(), state.to_owned());
}
