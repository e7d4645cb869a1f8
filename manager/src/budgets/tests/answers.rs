//! One question to a budget.

use std::collections::BTreeMap;

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use jiff::{Timestamp, ToSpan};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::{Value, json};

use crate::budgets::{
    permit::{Answer, MOST_PERMITS, Question, as_counted, decide},
    spec::{Budget, Operation},
};

pub(super) fn budget(limit: &Value, operations: &str) -> Budget {
    let mut spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
    let annotations =
        BTreeMap::from([("kruise.io/pub-protect-operations".to_owned(), operations.to_owned())]);
    Budget::parse(&serde_json::from_value(spec).unwrap(), &annotations).unwrap()
}

/// The examples of OpenKruise: replicas, limit, desired.
#[rstest]
#[case::share(5, json!({"maxUnavailable": "60%"}), 2)]
#[case::rounded_up(7, json!({"maxUnavailable": "25%"}), 5)]
#[case::number(10, json!({"maxUnavailable": 2}), 8)]
#[case::scaled_in(50, json!({"maxUnavailable": "10%"}), 45)]
#[case::more_than_there_are(3, json!({"maxUnavailable": 5}), 0)]
#[case::none(10, json!({"maxUnavailable": 0}), 10)]
#[case::all(10, json!({"maxUnavailable": "100%"}), 0)]
#[case::workload_gone(0, json!({"maxUnavailable": 0}), 0)]
#[case::least(5, json!({"minAvailable": 2}), 2)]
#[case::least_share(5, json!({"minAvailable": "50%"}), 3)]
#[case::least_of_none(0, json!({"minAvailable": 2}), 0)]
#[case::least_of_fewer(1, json!({"minAvailable": 2}), 1)]
#[case::huge(i32::MAX, json!({"maxUnavailable": "50%"}), i32::MAX / 2)]
#[case::below_none(-5, json!({"minAvailable": "100%"}), 0)]
fn pods_that_stay(#[case] total: i32, #[case] limit: Value, #[case] desired: i32) {
    assert_eq!(budget(&limit, "").desired(total), desired);
}

fn now() -> Timestamp {
    "2026-07-02T10:00:00Z".parse().unwrap()
}

fn since(seconds: i64) -> Time {
    Time(now().checked_sub(seconds.seconds()).unwrap())
}

fn status(available: i32) -> Status {
    Status { observed_generation: Some(1), current_available: available, ..Status::default() }
}

fn question(operation: Operation, available: bool) -> Question<'static> {
    let created = now().checked_sub(1.hour()).unwrap();
    Question { pod: "p", created: Some(created), available, operation }
}

/// `free`, `refused`, or what is left after the permit.
fn told(answer: &Answer) -> String {
    match answer {
        Answer::Free => "free".to_owned(),
        Answer::Refused(why) => format!("refused: {why}"),
        Answer::Permit(next) => {
            let entered = |map: &BTreeMap<String, Time>| map.get("p") == Some(&Time(now()));
            let map = match (entered(&next.disrupted_pods), entered(&next.unavailable_pods)) {
                (true, false) => "disrupted",
                (false, true) => "updated",
                other => panic!("{other:?}"),
            };
            format!("{map}, {} of {}", next.unavailable_allowed, next.current_available)
        }
    }
}

#[rstest]
#[case::evicted(Operation::Evict, 10, true, "disrupted, 1 of 9")]
#[case::deleted(Operation::Delete, 9, true, "disrupted, 0 of 8")]
#[case::updated(Operation::Update, 10, true, "updated, 1 of 9")]
#[case::spent(Operation::Evict, 8, true, "refused: pub unavailable allowed is negative")]
#[case::below(Operation::Delete, 5, true, "refused: pub unavailable allowed is negative")]
#[case::not_available(Operation::Delete, 8, false, "disrupted, 0 of 8")]
fn ten_pods_of_which_two_may_go(
    #[case] operation: Operation,
    #[case] available: i32,
    #[case] of_pod: bool,
    #[case] says: &str,
) {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let answer = decide(&budget, &status(available), 10, &question(operation, of_pod), now());
    assert_eq!(told(&answer), says);
}

/// By the number of pods that are wanted at this moment, whatever was counted before.
#[rstest]
#[case::gone(0, "free")]
#[case::scaled_in(5, "disrupted, 4 of 7")]
#[case::as_counted(10, "refused: pub unavailable allowed is negative")]
#[case::scaled_out(20, "refused: pub unavailable allowed is negative")]
fn the_scale_is_the_newest(#[case] total: i32, #[case] says: &str) {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let counted = Status { total_replicas: 10, desired_available: 8, ..status(8) };
    assert_eq!(told(&decide(&budget, &counted, total, &question(Operation::Delete, true), now())), says);
}

#[rstest]
#[case::just_given(1, 3600, "free")]
#[case::for_as_long_as_others_take(4, 3600, "free")]
#[case::too_short_for_them(5, 3600, "disrupted, 0 of 8")]
#[case::of_the_future(-30, 3600, "disrupted, 0 of 8")]
#[case::of_one_of_its_name(1, 1, "disrupted, 0 of 8")]
#[case::of_one_of_its_name_before(5, 2, "disrupted, 0 of 8")]
fn a_permit_is_given_once(#[case] given: i64, #[case] age: i64, #[case] says: &str) {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let mut status = status(8);
    status.disrupted_pods.insert("p".to_owned(), since(given));
    let question = Question { created: Some(since(age).0), ..question(Operation::Evict, true) };
    assert_eq!(told(&decide(&budget, &status, 10, &question, now())), says);
}

/// The next pod of its name asks within the same second: its permit has another time, or it would be taken
/// for the one before. It is given once, too.
#[test]
fn permits_of_a_second_differ() {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let mut status = status(8);
    status.disrupted_pods.insert("p".to_owned(), since(0));
    let question = Question { created: Some(now()), ..question(Operation::Evict, true) };
    let Answer::Permit(next) = decide(&budget, &status, 10, &question, now()) else { panic!("none") };
    assert_eq!(next.disrupted_pods["p"], since(-1));
    assert_eq!(next.current_available, 8, "it counts no more than the one before");
    assert_eq!(decide(&budget, &next, 10, &question, now()), Answer::Free);
}

/// A pod that is being updated may be deleted: it is not available any more.
#[test]
fn a_permit_for_another_operation_costs_nothing_more() {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let mut status = status(8);
    status.unavailable_pods.insert("p".to_owned(), since(3));
    let Answer::Permit(next) = decide(&budget, &status, 10, &question(Operation::Delete, true), now()) else {
        panic!("not let through");
    };
    assert_eq!((next.current_available, next.unavailable_allowed), (8, 0));
    assert!(next.disrupted_pods.contains_key("p") && next.unavailable_pods.contains_key("p"));
}

#[rstest]
#[case::evictions("EVICT", Operation::Delete, "free")]
#[case::deletions("DELETE,UPDATE", Operation::Evict, "free")]
#[case::both("DELETE, EVICT", Operation::Evict, "refused: pub unavailable allowed is negative")]
#[case::all("", Operation::Update, "refused: pub unavailable allowed is negative")]
fn operations_of_its_own(#[case] own: &str, #[case] operation: Operation, #[case] says: &str) {
    let budget = budget(&json!({"maxUnavailable": 0}), own);
    assert_eq!(told(&decide(&budget, &status(10), 10, &question(operation, true), now())), says);
}

#[test]
fn before_it_is_counted_nothing_goes() {
    let budget = budget(&json!({"maxUnavailable": 2}), "");
    let answer = decide(&budget, &Status::default(), 10, &question(Operation::Evict, true), now());
    assert_eq!(told(&answer), "refused: its pods have not been counted yet");
}

#[test]
fn permits_are_bounded() {
    let budget = budget(&json!({"maxUnavailable": "50%"}), "");
    let mut status = status(10_000);
    status.disrupted_pods.extend((0..MOST_PERMITS).map(|at| (format!("q{at}"), since(1))));
    let ask = |available| decide(&budget, &status, 10_000, &question(Operation::Evict, available), now());
    assert!(told(&ask(true)).contains("2000 permits"));
    assert_eq!(told(&ask(false)), "free", "one that is not available goes all the same");
}

/// A budget of several workloads, whose status says how many pods are wanted.
#[rstest]
#[case::not_counted(json!({"maxUnavailable": 2}), None, "refused: its pods have not been counted yet")]
#[case::least_of_them(json!({"minAvailable": 1}), None, "refused: its pods have not been counted yet")]
#[case::all_may_go(json!({"maxUnavailable": "100%"}), None, "free")]
#[case::counted(json!({"maxUnavailable": 2}), Some(10), "disrupted, 0 of 8")]
#[case::nobody_wants_them(json!({"maxUnavailable": 2}), Some(0), "free")]
fn by_its_own_count(#[case] limit: Value, #[case] total: Option<i32>, #[case] says: &str) {
    let shown = total.map(|total| Status { total_replicas: total, ..status(9) }).unwrap_or_default();
    let question = question(Operation::Evict, true);
    assert_eq!(told(&decide(&budget(&limit, ""), &shown, as_counted(&shown), &question, now())), says);
}
