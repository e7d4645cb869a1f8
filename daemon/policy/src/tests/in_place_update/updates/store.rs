//! Which of many requests are looked at, and which of those that have ended still count.

use std::time::{Duration, Instant};

use super::super::{asking::Asking, world::World};
use crate::{
    PodRef,
    in_place_update::{
        Failure, StoredRequest, UpdateOutcome, UpdatePhase, UpdateReport, UpdateSource,
        updates::requests::{LOOKED_AT, Requests, TOLD_AT_ONCE},
    },
    tests::world::NowForTests,
};

fn entry(number: usize, pod: &str, now: Instant) -> StoredRequest {
    let id = format!("r{number:05}");
    let mut asking = Asking::of(World::of(&[]));
    let mut request = asking.ask(&id, &[("a", "image")], &[]).clone();
    request.created = now;
    request.pod = PodRef { uid: pod.into(), namespace: "shop".to_owned(), name: pod.to_owned() };
    StoredRequest { request, flaw: None, version: 1 }
}

#[test]
fn of_ten_thousand_for_one_pod_a_few_are_looked_at_and_others_do_not_wait() {
    let (mut requests, now) = (Requests::default(), Instant::now_for_tests());
    let crowd = (0..10_000).map(|number| entry(number, "crowded", now));
    requests.listed(UpdateSource::Api, crowd.chain([entry(20_000, "other", now)]).collect());
    let open = requests.open();
    assert_eq!(open.entries.len(), LOOKED_AT + 1);
    assert_eq!(open.entries[0].request.id.as_str(), "r00000");
    assert_eq!(open.entries.last().unwrap().request.id.as_str(), "r20000");
    assert_eq!(open.untold.len(), TOLD_AT_ONCE);

    assert!(requests.complete().is_empty());

    // One that was told so is not told again, and one that has ended makes room.
    let waits = UpdateReport { phase: Some(UpdatePhase::Pending), ..UpdateReport::default() };
    requests.reported(&open.untold[0].id, waits, now);
    assert_ne!(requests.open().untold[0].id, open.untold[0].id);
    let ended = UpdateReport { phase: Some(UpdatePhase::Ended), ..UpdateReport::default() };
    requests.reported(&open.entries[0].request.id, ended, now);
    assert_eq!(requests.open().entries[LOOKED_AT - 1].request.id.as_str(), "r00064");
}

#[test]
fn what_became_complete_beside_an_open_one_is_remembered() {
    let (mut requests, now) = (Requests::default(), Instant::now_for_tests());
    let late = now + Duration::from_secs(1);
    let complete = UpdateReport {
        phase: Some(UpdatePhase::Ended),
        outcome: Some(UpdateOutcome::Complete),
        ..UpdateReport::default()
    };
    // Of one pod: ended before the open one came, ended since, failed since. Of another: nothing is open.
    let all = [(1, "a", now), (2, "a", now), (3, "a", now), (4, "a", late), (5, "b", now)];
    requests.listed(UpdateSource::Api, all.map(|(number, pod, created)| entry(number, pod, created)).into());
    let failed = UpdateReport { outcome: None, ..complete.clone() };
    for (number, report, at) in
        [(1, &complete, now), (2, &complete, late), (3, &failed, late), (5, &complete, late)]
    {
        requests.reported(&format!("r{number:05}").as_str().into(), report.clone(), at);
    }
    let found: Vec<(String, Vec<String>)> = requests
        .complete()
        .into_iter()
        .map(|(pod, all)| (pod.to_string(), all.iter().map(|request| request.revision.clone()).collect()))
        .collect();
    assert_eq!(found, [("a".to_owned(), vec!["r00002".to_owned()])]);
}

#[test]
fn a_list_that_is_older_than_the_answer_to_a_write_changes_nothing() {
    let (mut requests, now) = (Requests::default(), Instant::now_for_tests());
    let of = |version, revision: &str| {
        let mut entry = entry(1, "a", now);
        entry.version = version;
        entry.request.revision = revision.to_owned();
        entry
    };
    requests.seen(of(2, "new"));
    requests.seen(of(1, "old"));
    requests.listed(UpdateSource::Api, vec![of(1, "old")]);
    assert_eq!(requests.get(&"r00001".into()).unwrap().request.revision, "new");
    requests.listed(UpdateSource::NodePodUpdate, Vec::new());
    assert!(requests.get(&"r00001".into()).is_some(), "of another source");
    requests.listed(UpdateSource::Api, Vec::new());
    assert!(requests.get(&"r00001".into()).is_none());
}

/// Somebody sets the clock of the node while an update goes on. Rows: the hour at which it seems to be made
/// when it is shown again, and the hour that counts; at first it was the first one.
#[test]
fn a_request_gets_no_older_by_a_clock_that_is_set() {
    use UpdateSource::{Admin, Api, NodePodUpdate};
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    let now = Instant::now_for_tests();
    let hour = |count: u32| now + count * HOUR;
    let table = [
        (Api, 0, 1),
        (Api, 2, 1),
        (Admin, 0, 1),
        (Admin, 2, 1),
        (NodePodUpdate, 0, 1),
        // It may have been asked for again.
        (NodePodUpdate, 2, 2),
    ];
    for (source, again, counts) in table {
        let made = |at: Instant| {
            let mut entry = entry(1, "a", at);
            (entry.request.source, entry.request.deadline) = (source, Some(at + MINUTE));
            entry.request.reported.rolling_back = Some((Failure::invalid("too late"), at));
            entry
        };
        for is_listed in [true, false] {
            let mut requests = Requests::default();
            requests.seen(made(hour(1)));
            match is_listed {
                true => requests.listed(source, vec![made(hour(again))]),
                false => requests.seen(made(hour(again))),
            }
            let known = &requests.get(&"r00001".into()).unwrap().request;
            let (created, deadline) = (hour(counts), Some(hour(counts) + MINUTE));
            assert_eq!((known.created, known.deadline), (created, deadline), "{source:?} {again}");
            let way_back = known.reported.rolling_back.as_ref().map(|(_, since)| *since);
            assert_eq!(way_back, Some(hour(1)), "{source:?} {again}");
        }
    }
}
