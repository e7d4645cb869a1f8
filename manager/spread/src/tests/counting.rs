//! The status as the pods are.

use std::time::{Duration, Instant};

use berth_proto::crd::WorkloadSpreadStatus as Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use serde_json::json;

use super::{adaptive, at, spread};
use crate::{Ages, Choice, Facts, Member, Question, Spread, choose, count};

fn member<'a>(name: &'a str, subset: &'a str) -> Member<'a> {
    Member { name, entry: name, subset, active: true, unschedulable: false, created: at(0).as_second() }
}

struct Counted {
    spread: Spread,
    status: Status,
    ages: Ages,
    begin: Instant,
    told: Vec<&'static str>,
    again: Option<Duration>,
}

impl Counted {
    fn new(spread: Spread) -> Self {
        let (status, ages) = (Status::default(), Ages::default());
        Self { spread, status, ages, begin: Instant::now(), told: Vec::new(), again: None }
    }

    /// Counts after so many seconds: replicas and missing of each subset.
    fn at(&mut self, seconds: u64, replicas: i32, pods: &[Member]) -> Vec<(i32, i32)> {
        let facts = Facts { generation: Some(1), replicas, pods };
        let now = (self.begin + Duration::from_secs(seconds), at(i64::try_from(seconds).unwrap()));
        let counted = count(&self.spread, &self.status, &mut self.ages, &facts, now);
        self.status = counted.status;
        self.told = counted.notes.iter().map(|note| note.reason).collect();
        self.again = counted.again;
        self.status.subset_statuses.iter().map(|one| (one.replicas, one.missing_replicas)).collect()
    }

    fn enter(&mut self, pod: &str) {
        let question = Question { pod, ordinal: None, replicas: 0, now: at(0) };
        let Choice::Enter(_, next) = choose(&self.spread, &self.status, &question) else {
            panic!("not entered")
        };
        self.status = *next;
    }

    fn closed(&self, subset: usize) -> bool {
        !crate::is_open(&self.status.subset_statuses[subset])
    }
}

#[rstest]
#[case::ten(10, [(0, 3), (0, 4), (0, -1)])]
#[case::seven(7, [(0, 3), (0, 3), (0, -1)])]
#[case::gone(0, [(0, 0), (0, 0), (0, -1)])]
#[case::negative(-5, [(0, 0), (0, 0), (0, -1)])]
#[case::huge(i32::MAX, [(0, 644_245_095), (0, 858_993_459), (0, -1)])]
fn shares(#[case] replicas: i32, #[case] expected: [(i32, i32); 3]) {
    let subsets =
        json!([{"name": "a", "maxReplicas": "30%"}, {"name": "b", "maxReplicas": "40%"}, {"name": "c"}]);
    assert_eq!(Counted::new(spread("Deployment", subsets)).at(0, replicas, &[]), expected);
}

#[test]
fn pods_are_counted_where_they_are() {
    let mut counted =
        Counted::new(spread("CloneSet", json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}])));
    let over = Member { active: false, ..member("p9", "a") };
    let pods = [
        member("p0", "a"),
        member("p1", "a"),
        member("p2", "a"),
        over,
        member("p3", "b"),
        member("p4", "gone"),
    ];
    assert_eq!(counted.at(0, 0, &pods), [(3, 0), (1, -1)]);
    assert_eq!(counted.status.observed_replicas, None);
}

#[test]
fn a_pod_that_was_let_in_and_does_not_come_leaves_its_place() {
    let mut counted = Counted::new(spread("CloneSet", json!([{"name": "a", "maxReplicas": 2}])));
    assert_eq!(counted.at(0, 0, &[]), [(0, 2)]);
    counted.enter("p0");
    counted.enter("id-1");
    assert_eq!(counted.at(0, 0, &[]), [(0, 0)]);
    assert_eq!(counted.again, Some(Duration::from_secs(30)), "looked at again by itself");
    // One is seen, by the name that it was let in by.
    let seen = Member { entry: "id-1", ..member("web-x", "a") };
    assert_eq!(counted.at(29, 0, &[seen]), [(1, 0)]);
    assert_eq!(counted.at(30, 0, &[seen]), [(1, 1)]);
    assert_eq!(counted.told, ["CreatePodFailed"]);
    assert!(counted.status.subset_statuses[0].creating_pods.is_empty());
}

/// It may have come and gone before anybody looked.
#[test]
fn a_pod_that_ended_at_once_was_seen() {
    let mut counted = Counted::new(spread("Job", json!([{"name": "a", "maxReplicas": 2}])));
    counted.enter("p0");
    let over = Member { active: false, ..member("p0", "a") };
    assert_eq!(counted.at(1, 0, &[over]), [(0, 2)]);
    assert!(counted.told.is_empty());
}

#[test]
fn a_pod_that_does_not_go_takes_its_place_back() {
    let mut counted = Counted::new(spread("CloneSet", json!([{"name": "a", "maxReplicas": 1}])));
    assert_eq!(counted.at(0, 0, &[member("p0", "a")]), [(1, 0)]);
    counted.status = crate::release(&counted.spread, &counted.status, ("a", "p0"), at(0)).unwrap();
    assert_eq!(counted.at(0, 0, &[member("p0", "a")]), [(1, 1)]);
    assert_eq!(counted.at(14, 0, &[member("p0", "a")]), [(1, 1)]);
    assert_eq!(counted.at(15, 0, &[member("p0", "a")]), [(1, 0)]);
    assert_eq!(counted.told, ["DeletePodFailed"]);
    // One that went is gone, and told of by nobody.
    counted.status = crate::release(&counted.spread, &counted.status, ("a", "p0"), at(20)).unwrap();
    assert_eq!(counted.at(21, 0, &[]), [(0, 1)]);
    assert!(counted.told.is_empty() && counted.status.subset_statuses[0].deleting_pods.is_empty());
}

/// By the time since it was seen, not by the clock of who wrote it.
#[test]
fn clocks_may_differ() {
    for written in [at(-3600), at(3600)] {
        let mut counted = Counted::new(spread("CloneSet", json!([{"name": "a", "maxReplicas": 1}])));
        counted.enter("p0");
        *counted.status.subset_statuses[0].creating_pods.get_mut("p0").unwrap() = Time(written);
        assert_eq!(counted.at(0, 0, &[]), [(0, 0)]);
        assert_eq!(counted.at(29, 0, &[]), [(0, 0)]);
        assert_eq!(counted.at(30, 0, &[]), [(0, 1)]);
    }
}

#[test]
fn a_subset_that_is_full_rests_and_comes_back() {
    let mut counted = Counted::new(adaptive(30, json!([{"name": "a"}, {"name": "b"}])));
    let stuck = Member { unschedulable: true, ..member("p0", "a") };
    let elsewhere = Member { unschedulable: true, ..member("p1", "b") };
    counted.at(10, 0, &[stuck, elsewhere]);
    assert!(!counted.closed(0));
    // Nothing happens any more, and it is looked at in time.
    assert_eq!(counted.again, Some(Duration::from_secs(20)));
    counted.at(30, 0, &[stuck, elsewhere]);
    assert_eq!((counted.closed(0), counted.closed(1)), (true, false), "the last one never rests");
    counted.at(31, 0, &[]);
    assert!(counted.closed(0));
    assert_eq!(counted.again, Some(Duration::from_secs(299)));
    // One that waits there still keeps it closed.
    counted.at(330, 0, &[stuck]);
    assert!(counted.closed(0));
    counted.at(331, 0, &[]);
    assert_eq!((counted.closed(0), &counted.told[..]), (false, &["RecoverSchedulable"][..]));
}

#[test]
fn the_strategy_may_be_taken_back() {
    let subsets = json!([{"name": "a"}, {"name": "b"}]);
    let mut counted = Counted::new(adaptive(30, subsets.clone()));
    counted.at(60, 0, &[Member { unschedulable: true, ..member("p0", "a") }]);
    assert!(counted.closed(0));
    counted.spread = spread("CloneSet", subsets);
    counted.at(61, 0, &[]);
    assert!(counted.status.subset_statuses.iter().all(|one| one.conditions.is_empty()));
}

#[test]
fn at_rest_nothing_changes() {
    let mut counted = Counted::new(adaptive(30, json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}])));
    let pods = [member("p0", "a"), member("p1", "b")];
    counted.at(0, 0, &pods);
    let before = counted.status.clone();
    counted.at(500, 0, &pods);
    assert_eq!((counted.status, counted.again), (before, None));
}
