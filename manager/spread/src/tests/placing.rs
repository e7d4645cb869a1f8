//! Subsets of new pods, one after the other, and what deletions give back.

use berth_proto::crd::{SpreadSubsetCondition, WorkloadSpreadStatus as Status};
use rstest::rstest;
use serde_json::{Value, json};

use super::{at, spread};
use crate::{Choice, MOST_ENTRIES, Question, Spread, choose, release};

fn ask(pod: &str, replicas: i32) -> Question<'_> {
    let ordinal = pod.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    Question { pod, ordinal, replicas, now: at(0) }
}

/// Lets pods in one after the other, and says into which subsets.
fn placed(spread: &Spread, status: &mut Status, pods: usize, replicas: i32) -> String {
    let mut names = String::new();
    for number in 0..pods {
        let let_in: usize = status.subset_statuses.iter().map(|one| one.creating_pods.len()).sum();
        let name = format!("p{let_in}-{number}");
        let at = match choose(spread, status, &ask(&name, replicas)) {
            Choice::Take(at) => Some(at),
            Choice::Enter(at, next) => {
                *status = *next;
                Some(at)
            }
            Choice::Nowhere => None,
            Choice::Crowded => panic!("crowded"),
        };
        names += at.map_or("-", |at| &spread.subsets[at].name);
    }
    names
}

#[rstest]
#[case::shares_of_ten(json!([{"name": "a", "maxReplicas": "30%"}, {"name": "b", "maxReplicas": "40%"}, {"name": "c"}]), 10, "aaabbbbccc")]
#[case::shares_of_seven(json!([{"name": "a", "maxReplicas": "30%"}, {"name": "b", "maxReplicas": "40%"}, {"name": "c"}]), 7, "aaabbbc")]
#[case::halves_of_three(json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "50%"}]), 3, "aab")]
#[case::even(json!([{"name": "a", "maxReplicas": "33%"}, {"name": "b", "maxReplicas": "33%"}, {"name": "c"}]), 9, "aaabbbccc")]
#[case::fill_then_overflow(json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}]), 5, "aabbb")]
#[case::full(json!([{"name": "a", "maxReplicas": 2}]), 4, "aa--")]
#[case::nothing(json!([{"name": "a", "maxReplicas": 0}, {"name": "b"}]), 2, "bb")]
#[case::one_takes_all(json!([{"name": "a"}]), 3, "aaa")]
fn policies(#[case] subsets: Value, #[case] replicas: i32, #[case] expected: &str) {
    let mut status = Status::default();
    let pods = usize::try_from(replicas).unwrap();
    assert_eq!(placed(&spread("CloneSet", subsets), &mut status, pods, replicas), expected);
}

/// The limits of shares follow the replicas of this moment: nobody has to count first.
#[test]
fn shares_follow_a_scale_up_at_once() {
    let spread = spread(
        "Deployment",
        json!([{"name": "a", "maxReplicas": "50%"}, {"name": "b", "maxReplicas": "50%"}]),
    );
    let mut status = Status::default();
    assert_eq!(placed(&spread, &mut status, 2, 2), "ab");
    assert_eq!(placed(&spread, &mut status, 2, 2), "--", "full");
    assert_eq!(placed(&spread, &mut status, 4, 6), "aabb");
    assert_eq!(status.observed_replicas, Some(6));
    // One that was over its limit has no room for what it had already.
    let mut status = Status::default();
    placed(&spread, &mut status, 4, 4);
    for entry in &mut status.subset_statuses {
        entry.creating_pods.clear();
    }
    status.subset_statuses[0].replicas = 4;
    status.subset_statuses[0].missing_replicas = 0;
    assert_eq!(placed(&spread, &mut status, 1, 6), "b");
}

/// A pod that comes with its WorkloadSpread is placed before anybody has counted.
#[test]
fn the_first_pod_need_not_wait() {
    let spread =
        spread("CloneSet", json!([{"name": "a", "maxReplicas": 1}, {"name": "b", "maxReplicas": 1}]));
    let Choice::Enter(0, next) = choose(&spread, &Status::default(), &ask("x", 0)) else {
        panic!("not placed")
    };
    let missing: Vec<_> = next.subset_statuses.iter().map(|one| (&*one.name, one.missing_replicas)).collect();
    assert_eq!(missing, [("a", 0), ("b", 1)]);
}

#[test]
fn a_request_that_is_tried_again_takes_one_place() {
    let spread = spread("CloneSet", json!([{"name": "a", "maxReplicas": 1}, {"name": "b"}]));
    let Choice::Enter(0, status) = choose(&spread, &Status::default(), &ask("x", 0)) else {
        panic!("not placed")
    };
    assert_eq!(choose(&spread, &status, &ask("x", 0)), Choice::Take(0));
    assert_eq!(choose(&spread, &status, &ask("y", 0)), Choice::Take(1));
}

#[test]
fn a_replacement_has_the_place_of_the_pod_that_goes() {
    let spread = spread("CloneSet", json!([{"name": "a", "maxReplicas": 2}, {"name": "b"}]));
    let mut status = Status::default();
    placed(&spread, &mut status, 2, 0);
    let entry = &mut status.subset_statuses[0];
    entry.creating_pods.clear();
    (entry.replicas, entry.missing_replicas) = (2, 0);
    assert_eq!(choose(&spread, &status, &ask("new", 0)), Choice::Take(1), "full");
    let freed = release(&spread, &status, ("a", "old"), at(0)).unwrap();
    assert_eq!(freed.subset_statuses[0].missing_replicas, 1);
    assert!(release(&spread, &freed, ("a", "old"), at(1)).is_none(), "once");
    assert!(release(&spread, &freed, ("b", "old"), at(1)).is_none(), "it has no limit");
    assert!(release(&spread, &freed, ("gone", "old"), at(1)).is_none());
    let Choice::Enter(0, next) = choose(&spread, &freed, &ask("new", 0)) else { panic!("not placed") };
    assert_eq!(next.subset_statuses[0].missing_replicas, 0);
    // One of the same name comes back to where it was, and its place is given once.
    let Choice::Enter(0, next) = choose(&spread, &freed, &ask("old", 0)) else { panic!("not placed") };
    assert_eq!(
        (next.subset_statuses[0].missing_replicas, next.subset_statuses[0].deleting_pods.len()),
        (0, 0)
    );
}

#[rstest]
#[case::first("web-0", Some(0))]
#[case::last_of_a("web-4", Some(0))]
#[case::b("web-7", Some(1))]
#[case::c("web-10", Some(2))]
#[case::no_number("web", None)]
fn by_number(#[case] pod: &str, #[case] expected: Option<usize>) {
    let subsets = json!([{"name": "a", "maxReplicas": 5}, {"name": "b", "maxReplicas": 5}, {"name": "c"}]);
    let spread = spread("StatefulSet", subsets);
    let choice = choose(&spread, &Status::default(), &ask(pod, 0));
    assert_eq!(choice, expected.map_or(Choice::Nowhere, Choice::Take), "nothing is written");
    assert!(release(&spread, &Status::default(), ("a", pod), at(0)).is_none());
}

#[test]
fn one_that_is_closed_takes_nobody() {
    let spread = super::adaptive(30, json!([{"name": "a", "maxReplicas": 5}, {"name": "b"}]));
    let mut status = Status::default();
    placed(&spread, &mut status, 1, 0);
    let closed =
        SpreadSubsetCondition { type_: "Schedulable".into(), status: "False".into(), ..Default::default() };
    status.subset_statuses[0].conditions.push(closed);
    assert_eq!(choose(&spread, &status, &ask("new", 0)), Choice::Take(1));
}

#[test]
fn entries_are_bounded() {
    let spread = spread("Job", json!([{"name": "a", "maxReplicas": 100_000}]));
    let mut status = Status::default();
    placed(&spread, &mut status, 1, 0);
    let time = status.subset_statuses[0].creating_pods.values().next().cloned().unwrap();
    for number in 1..MOST_ENTRIES {
        status.subset_statuses[0].creating_pods.insert(format!("x{number}"), time.clone());
        status.subset_statuses[0].deleting_pods.insert(format!("x{number}"), time.clone());
    }
    assert_eq!(choose(&spread, &status, &ask("new", 0)), Choice::Crowded);
    let next = release(&spread, &status, ("a", "one"), at(0)).unwrap();
    assert!(release(&spread, &next, ("a", "two"), at(0)).is_none());
}
