//! How many writes about requests are under way at once.

use std::time::{Duration, Instant};

use super::super::{asking::Asking, world::World};
use crate::{
    Path, PodRef, StepOutcome,
    in_place_update::{
        Failure, StoredRequest, UpdateAction, UpdateEvent, UpdateRequest, UpdateSource, Updates,
        updates::writes::{About, MOST_OF_A_POD, MOST_OF_THE_REST, Writes},
    },
    tests::world::NowForTests,
};

fn request(number: usize, pod: &str, source: UpdateSource) -> UpdateRequest {
    let mut asking = Asking::of(World::of(&[]));
    let request = asking.ask(&format!("{pod}-{number}"), &[("a", "image")], &[]).clone();
    let pod = PodRef { uid: pod.into(), namespace: "shop".to_owned(), name: pod.to_owned() };
    UpdateRequest { pod, source, ..request }
}

/// Rows: the source and the reason, and how many of a hundred begin for one pod, and then for another one.
#[test]
fn writes_at_once() {
    use UpdateSource::{Admin, Api, NodePodUpdate};
    let table = [
        (Api, About::Pod, (MOST_OF_A_POD, MOST_OF_A_POD)),
        (Admin, About::Pod, (MOST_OF_A_POD, MOST_OF_A_POD)),
        (Api, About::Rest, (MOST_OF_THE_REST, 0)),
        (Api, About::Once, (100, 100)),
        // They are one write.
        (NodePodUpdate, About::Pod, (100, 100)),
        (NodePodUpdate, About::Rest, (100, 100)),
    ];
    for (source, about, expected) in table {
        let mut writes = Writes::default();
        let mut begin = |pod: &str| {
            let all = (0..100).map(|number| request(number, pod, source));
            all.filter(|request| writes.begin(request, about)).count()
        };
        assert_eq!((begin("a"), begin("b")), expected, "{source:?} {about:?}");
        let first = request(0, "a", source);
        assert!(!writes.begin(&first, about), "one write of a request at a time");
        writes.end(&first.id);
        writes.end(&first.id);
        assert!(writes.begin(&first, about) && !writes.begin(&first, about), "{source:?} {about:?}");
    }
}

fn listed(entries: Vec<StoredRequest>, now: Instant) -> Updates {
    let mut updates = Updates::new(Path::Inline);
    updates.apply(UpdateEvent::RequestsListed(UpdateSource::Api, entries), now);
    updates
}

/// Plans and answers until nothing is owed; how many writes there were, and the most at once.
fn play(mut updates: Updates, now: Instant) -> (usize, usize) {
    let (mut all, mut most) = (0, 0);
    let mut under_way = Vec::new();
    loop {
        for action in updates.plan(now, Duration::ZERO) {
            let done = StepOutcome::Done;
            under_way.push(match action {
                UpdateAction::Report(request, report) => UpdateEvent::Reported(request.id, report, done),
                UpdateAction::Delete(request) => UpdateEvent::Deleted(request.id, done),
                other => panic!("{other:?}"),
            });
        }
        most = most.max(under_way.len());
        let Some(answer) = under_way.pop() else { return (all, most) };
        updates.apply(answer, now);
        all += 1;
    }
}

#[test]
fn requests_that_are_refused_or_over_are_written_some_at_a_time() {
    let now = Instant::now_for_tests();
    let entries = |change: fn(UpdateRequest, Instant) -> StoredRequest| {
        let pods = ["a", "b", "c"];
        let all = pods.into_iter().flat_map(|pod| (0..60).map(move |number| (number, pod)));
        all.map(|(number, pod)| change(request(number, pod, UpdateSource::Api), now)).collect()
    };
    let flawed = entries(|request, _| StoredRequest {
        request,
        flaw: Some(Failure::invalid("no such image")),
        version: 1,
    });
    assert_eq!(play(listed(flawed, now), now), (180, MOST_OF_THE_REST));
    let over = entries(|request, now| StoredRequest {
        request: UpdateRequest { ended: Some(now), delete_after: Some(Duration::ZERO), ..request },
        flaw: None,
        version: 1,
    });
    assert_eq!(play(listed(over, now), now), (180, MOST_OF_THE_REST));
}
