//! Requests that their source does not show any more, in the middle of a swap: whether something is left to
//! do, and that it is done and said to nobody.

use std::time::{Duration, Instant};

use super::{
    super::swaps::{pod, swap},
    play::Play,
};
use crate::{
    in_place_update::{
        Before, Failure, StoredRequest, UpdateAction, UpdateEvent, UpdateOutcome, UpdatePhase, UpdateReport,
        UpdateSource, updates::requests::Requests,
    },
    tests::world::NowForTests,
};

/// A request that swaps this sidecar.
fn swapping(id: &str, sidecar: &str, is_begun: bool) -> StoredRequest {
    let mut asking = pod();
    let request = swap(&mut asking, id, "mesh:2");
    let wanted = request.swaps.remove("mesh").unwrap();
    request.swaps.insert(sidecar.to_owned(), wanted);
    if is_begun {
        request.reported = UpdateReport {
            phase: Some(UpdatePhase::Updating),
            previous: Some(Before::default()),
            ..UpdateReport::default()
        };
    }
    StoredRequest { request: request.clone(), flaw: None, version: 1 }
}

fn ended() -> UpdateReport {
    UpdateReport {
        phase: Some(UpdatePhase::Ended),
        outcome: Some(UpdateOutcome::Complete),
        previous: Some(Before::default()),
        ..UpdateReport::default()
    }
}

#[test]
fn whoever_withdraws_a_swap_that_was_begun_leaves_its_rest() {
    type Event = fn(&mut Requests, Instant);
    let entry = UpdateSource::NodePodUpdate;
    assert_eq!(swapping("r", "mesh", true).request.source, entry);
    // What happens, whether it had begun, and whether a rest is left.
    let table: [(&str, bool, Event, bool); 13] = [
        ("nothing", true, |_, _| {}, false),
        ("the request is deleted", true, |all, _| all.gone(&"r".into()), true),
        ("it was not begun", false, |all, _| all.gone(&"r".into()), false),
        ("its entry is taken away", true, |all, _| all.listed(UpdateSource::NodePodUpdate, Vec::new()), true),
        ("another source is listed", true, |all, _| all.listed(UpdateSource::Api, Vec::new()), false),
        (
            "it ends, and goes",
            true,
            |all, now| {
                all.reported(&"r".into(), ended(), now);
                all.gone(&"r".into());
            },
            false,
        ),
        (
            "a newer one is to swap the same",
            true,
            |all, _| all.listed(UpdateSource::NodePodUpdate, vec![swapping("newer", "mesh", false)]),
            true,
        ),
        (
            "a newer one begins to swap the same",
            true,
            |all, now| {
                all.listed(UpdateSource::NodePodUpdate, vec![swapping("newer", "mesh", false)]);
                all.reported(&"newer".into(), swapping("newer", "mesh", true).request.reported, now);
            },
            false,
        ),
        (
            "a newer one is taken back before it begins",
            true,
            |all, _| {
                all.listed(UpdateSource::NodePodUpdate, vec![swapping("newer", "mesh", false)]);
                all.listed(UpdateSource::NodePodUpdate, Vec::new());
            },
            true,
        ),
        (
            "a newer one swaps something else",
            true,
            |all, _| all.listed(UpdateSource::NodePodUpdate, vec![swapping("newer", "log", false)]),
            true,
        ),
        (
            "it comes back",
            true,
            |all, _| {
                all.listed(UpdateSource::NodePodUpdate, Vec::new());
                all.listed(UpdateSource::NodePodUpdate, vec![swapping("r", "mesh", true)]);
            },
            false,
        ),
        (
            "its owner does not ask for it any more",
            true,
            |all, now| {
                let flaw = Some(Failure::invalid("there is no such set".to_owned()));
                all.seen(StoredRequest { flaw, ..swapping("r", "mesh", true) });
                all.reported(&"r".into(), ended(), now);
            },
            true,
        ),
        (
            "another process finds it",
            true,
            |all, _| {
                let found = swapping("found", "log", true);
                let request = found.request.to_rest().unwrap();
                let there = vec![swapping("r", "mesh", true), StoredRequest { request, ..found }];
                all.listed(UpdateSource::NodePodUpdate, there);
            },
            true,
        ),
    ];
    for (what, is_begun, event, is_left) in table {
        let (mut requests, now) = (Requests::default(), Instant::now_for_tests());
        requests.seen(swapping("r", "mesh", is_begun));
        event(&mut requests, now);
        let rests = ["r", "found"].iter().filter(|id| requests.is_rest(&(**id).into())).count();
        assert_eq!(rests == 1, is_left, "{what}");
    }
}

/// A workload that shut the gate of a pod may withdraw while a SidecarSet still goes on.
#[test]
fn who_keeps_a_pod_in_service_leaves_its_gate_to_others() {
    // Whether each open request keeps the pod in service, and whether one of them decides on its gate.
    let table: [(&[bool], bool); 5] =
        [(&[], false), (&[true], false), (&[false], true), (&[true, true], false), (&[true, false], true)];
    for (keeps, minds) in table {
        let mut requests = Requests::default();
        for (number, keeps) in keeps.iter().enumerate() {
            let mut entry = swapping(&number.to_string(), "mesh", true);
            entry.request.keeps_service = *keeps;
            requests.seen(entry);
        }
        let pod = Play::uid();
        let told = (requests.wants(&pod), requests.minds_gate(&pod));
        assert_eq!(told, (!keeps.is_empty(), minds), "{keeps:?}");
        requests.listed(UpdateSource::NodePodUpdate, Vec::new());
        assert_eq!(requests.minds_gate(&pod), minds, "{keeps:?}: the twins have to come to rest");
        assert!(!requests.minds_gate(&"another".into()));
    }
}

/// After so many writes to the pod the request goes: the twins come to rest, nobody is told, and nothing is
/// remembered.
#[test]
fn a_swap_goes_on_without_its_request() {
    for (writes, images) in [(0, ["mesh:1", "empty"]), (1, ["empty", "mesh:2"]), (2, ["empty", "mesh:2"])] {
        let mut asking = pod();
        let request = swap(&mut asking, "r", "mesh:2").clone();
        let mut play = Play::of(asking.world);
        let id = play.see(request);
        let mut is_withdrawn = false;
        for _ in 0..100 {
            if !is_withdrawn && play.world.version == writes {
                is_withdrawn = true;
                play.requests.remove(&id);
                play.apply(UpdateEvent::RequestGone(id.clone()));
            }
            for action in play.plan() {
                let is_report = matches!(action, UpdateAction::Report(..));
                assert!(!(is_withdrawn && is_report), "{writes}: {action:?}");
                play.take(action);
            }
            play.goes_well();
            play.pass(Duration::from_millis(200));
        }
        assert!(is_withdrawn, "{writes}");
        let declared: Vec<&str> = play.world.containers.iter().map(|container| &*container.image).collect();
        assert_eq!(declared[..2], images, "{writes}");
        assert_eq!((play.updates.remembered(), play.images.len()), ((0, 0), 0), "{writes}");
        assert!(!play.updates.is_rest(&id), "{writes}");
    }
}
