//! The status as the pods are.

use std::time::{Duration, Instant};

use berth_proto::crd::PodUnavailableBudgetStatus as Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::json;

use super::answers::budget;
use crate::{
    budgets::count::{Facts, Member, Permits, count},
    store::PodStage,
};

fn member(name: &str, stage: PodStage, available: bool) -> Member<'_> {
    Member { name, stage, ends: 0, available, held: false }
}

const NAMES: [&str; 10] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];

fn ten() -> Vec<Member<'static>> {
    NAMES.iter().map(|name| member(name, PodStage::Active, true)).collect()
}

fn given() -> Time {
    Time("2026-07-02T10:00:00Z".parse().unwrap())
}

struct Counted {
    status: Status,
    permits: Permits,
    begin: Instant,
}

impl Counted {
    fn new() -> Self {
        let status = Status { current_available: 10, observed_generation: Some(1), ..Status::default() };
        Self { status, permits: Permits::default(), begin: Instant::now() }
    }

    /// Counts after so many seconds: available, allowed.
    fn at(&mut self, seconds: u64, pods: &[Member], doubted: bool) -> (i32, i32) {
        let facts = Facts { generation: Some(1), version: 0, total: 10, doubted, pods };
        let now = self.begin + Duration::from_secs(seconds);
        let budget = budget(&json!({"maxUnavailable": 2}), "");
        let (next, _) = count(&budget, &self.status, &mut self.permits, &facts, now);
        self.status = next;
        (self.status.current_available, self.status.unavailable_allowed)
    }
}

#[test]
fn pods_that_have_a_permit_do_not_count() {
    let mut counted = Counted::new();
    assert_eq!(counted.at(0, &ten(), false), (10, 2));
    counted.status.disrupted_pods.insert("p0".to_owned(), given());
    counted.status.unavailable_pods.insert("p1".to_owned(), given());
    assert_eq!(counted.at(0, &ten(), false), (8, 0));
    // Nothing came of them.
    assert_eq!(counted.at(9, &ten(), false), (8, 0));
    assert_eq!(counted.at(10, &ten(), false), (9, 1));
    // An API server that has the answer may wait so long for other webhooks.
    assert_eq!(counted.at(34, &ten(), false), (9, 1));
    assert_eq!(counted.at(35, &ten(), false), (10, 2));
    assert!(counted.status.disrupted_pods.is_empty() && counted.status.unavailable_pods.is_empty());
}

/// By the time since it was seen, not by the clock of who gave it.
#[test]
fn a_permit_that_is_given_again_lasts_anew() {
    let mut counted = Counted::new();
    counted.status.disrupted_pods.insert("p0".to_owned(), given());
    assert_eq!(counted.at(0, &ten(), false), (9, 1));
    let again = Time("2026-07-02T10:00:15Z".parse().unwrap());
    counted.status.disrupted_pods.insert("p0".to_owned(), again);
    assert_eq!(counted.at(15, &ten(), false), (9, 1));
    assert_eq!(counted.at(49, &ten(), false), (9, 1));
    assert_eq!(counted.at(50, &ten(), false), (10, 2));
}

#[rstest]
#[case::goes(Some(PodStage::Terminating), 0)]
#[case::ended(Some(PodStage::Finished), 0)]
#[case::gone(None, 0)]
#[case::stays(Some(PodStage::Active), 1)]
fn a_permit_ends_with_its_pod(#[case] stage: Option<PodStage>, #[case] permits: usize) {
    let mut counted = Counted::new();
    counted.status.disrupted_pods.insert("p0".to_owned(), given());
    assert_eq!(counted.at(0, &ten(), false), (9, 1));
    let mut pods = ten();
    pods.remove(0);
    pods.extend(stage.map(|stage| member("p0", stage, true)));
    assert_eq!(counted.at(1, &pods, false), (9, 1));
    assert_eq!(counted.status.disrupted_pods.len(), permits);
}

/// The view of pods is late: a pod of the same name, which had gone before, ends nothing.
#[test]
fn a_permit_does_not_end_with_the_pod_before_its_own() {
    let mut counted = Counted::new();
    counted.status.disrupted_pods.insert("p0".to_owned(), given());
    counted.permits.note(&counted.status, 20);
    assert_eq!(counted.at(0, &ten(), false), (9, 1), "the one before, as nobody has seen it go");
    let mut pods = ten();
    pods[0] = Member { ends: 19, ..member("p0", PodStage::Terminating, true) };
    assert_eq!(counted.at(1, &pods, false), (9, 1));
    assert_eq!(counted.at(2, &pods[1..], false), (9, 1));
    assert_eq!(counted.at(3, &ten(), false), (9, 1), "its own pod");
    assert_eq!(counted.status.disrupted_pods.len(), 1);
    pods[0].ends = 21;
    assert_eq!(counted.at(4, &pods, false), (9, 1));
    assert!(counted.status.disrupted_pods.is_empty(), "its own pod goes");
}

/// One that was never seen may only not have been seen yet.
#[test]
fn a_permit_of_a_pod_that_is_not_seen_stands() {
    let mut counted = Counted::new();
    counted.status.disrupted_pods.insert("p9".to_owned(), given());
    let nine = &ten()[..9];
    assert_eq!(counted.at(0, nine, false), (9, 1));
    assert_eq!(counted.at(1, &ten(), false), (9, 1), "it comes, and has its permit");
    assert_eq!(counted.at(2, nine, false), (9, 1));
    assert!(counted.status.disrupted_pods.is_empty(), "it was seen to go");
}

#[test]
fn what_is_seen_late_raises_nothing() {
    let mut counted = Counted::new();
    counted.status.current_available = 8;
    assert_eq!(counted.at(0, &ten(), true), (8, 0));
    assert_eq!(counted.at(1, &ten()[..7], true), (7, 0), "but it may be fewer");
    assert_eq!(counted.at(2, &ten(), false), (10, 2));
}

/// Its containers may take their time to stop, and the pod counts as available until they do.
#[test]
fn a_permit_stands_while_its_pod_is_recreated() {
    let mut counted = Counted::new();
    let mut pods = ten();
    pods[0].held = true;
    pods[1].held = true;
    counted.status.unavailable_pods.insert("p0".to_owned(), given());
    counted.status.disrupted_pods.insert("p1".to_owned(), given());
    assert_eq!(counted.at(0, &pods, false), (8, 0));
    assert_eq!(counted.at(19, &pods, false), (8, 0));
    // A permit to delete is none for that.
    assert_eq!(counted.at(600, &pods, false), (9, 1));
    pods[0].held = false;
    assert_eq!(counted.at(601, &pods, false), (10, 2));
}
