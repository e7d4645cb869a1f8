//! Ends of updates that the pod shows: when the agent says on it that it has done its part, and when its
//! report comes.

use std::time::Duration;

use super::{
    super::{asking::Asking, world::World},
    play::Play,
};
use crate::{
    RequestId,
    in_place_update::{
        CarriedOut, Life, PodWrite, UpdateAction, UpdateEvent, UpdateOutcome, UpdateOwner, UpdatePhase,
        UpdateRequest, UpdateSource,
    },
};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// An end that the pod shows waits so long.
const SHOWN_FOR: Duration = Duration::from_secs(5);
/// One that it does not show is told before that.
const SOON: Duration = Duration::from_secs(2);

/// An entry of a workload for a container `a`, asked for by one that goes by the pod.
fn entry(id: &str) -> UpdateRequest {
    let mut asking = Asking::of(World::of(&[]));
    let request = asking.ask(id, &[("a", "a:2")], &[]).clone();
    UpdateRequest { source: UpdateSource::NodePodUpdate, shown_as: Some(2), ..request }
}

fn pod() -> Play {
    Play::of(World::of(&[("a", None, &[]), ("b", None, &[])]))
}

/// Plans, lays down what is owed, and returns the requests that are reported on, with their ends.
fn reports(play: &mut Play) -> Vec<(RequestId, Option<UpdateOutcome>)> {
    let actions = play.plan();
    let reports = actions.iter().filter_map(|action| match action {
        UpdateAction::Report(request, report) => Some((request.id.clone(), report.outcome)),
        _ => None,
    });
    let reports = reports.collect();
    actions.into_iter().for_each(|action| play.take(action));
    reports
}

/// Goes on as hoped for until the gate is opened, and returns the word that is said with it.
fn opened(play: &mut Play) -> Option<CarriedOut> {
    for _ in 0..60 {
        let actions = play.plan();
        let opened = actions.iter().find_map(|action| match action {
            UpdateAction::Write { write: PodWrite::Open(word), .. } => Some(word.clone()),
            _ => None,
        });
        actions.into_iter().for_each(|action| play.take(action));
        play.goes_well();
        play.pass(100 * MILLI);
        if let Some(word) = opened {
            return word;
        }
    }
    panic!("the gate is never opened");
}

/// Goes on until this is reported to have ended, and returns how, and after how long.
fn ends(play: &mut Play, id: &RequestId) -> (UpdateOutcome, Duration) {
    let begin = play.world.now;
    for _ in 0..100 {
        let ended = reports(play).into_iter().find(|(reported, outcome)| reported == id && outcome.is_some());
        if let Some((_, Some(outcome))) = ended {
            return (outcome, play.world.now - begin);
        }
        play.goes_well();
        play.pass(100 * MILLI);
    }
    panic!("{id:?} never ends");
}

/// A pod that shows the end of an entry, which is not reported yet.
fn shown() -> (Play, RequestId) {
    let mut play = pod();
    let id = play.see(UpdateRequest { created: play.world.now, ..entry("r") });
    assert!(opened(&mut play).is_some());
    for _ in 0..10 {
        assert_eq!(reports(&mut play), []);
        play.goes_well();
        play.pass(100 * MILLI);
    }
    (play, id)
}

/// Rows: entry, and whether the gate's condition says that it is carried out.
#[test]
fn the_gate_says_what_is_carried_out() {
    type Change = fn(&mut UpdateRequest);
    let table: [(&str, Change, bool); 7] = [
        ("a workload's", |_| {}, true),
        ("its report is waited for", |request| request.shown_as = None, false),
        ("it goes back", |request| request.rollback_on_failure = true, false),
        ("of a SidecarSet", |request| request.owner = UpdateOwner::SidecarSet("s".to_owned()), false),
        ("a person's", |request| request.source = UpdateSource::Api, false),
        ("it can be too late", |request| request.deadline = Some(request.created + 900 * SECOND), false),
        ("it leaves out what fails", |request| request.ignore_failures = true, false),
    ];
    for (name, change, says) in table {
        let mut play = pod();
        let mut request = UpdateRequest { created: play.world.now, ..entry("r") };
        change(&mut request);
        play.see(request);
        let restarts = [("a".into(), 1), ("b".into(), 0)].into();
        let word = CarriedOut { revision: "r".to_owned(), attempt: 2, restarts };
        assert_eq!(opened(&mut play), says.then_some(word), "{name}");
    }
}

#[test]
fn beside_another_request_the_gate_says_nothing() {
    let mut play = pod();
    play.see(UpdateRequest { created: play.world.now, ..entry("r") });
    let images = [("b".into(), "b:2".into())].into();
    play.see(UpdateRequest { source: UpdateSource::Api, created: play.world.now, images, ..entry("s") });
    assert_eq!(opened(&mut play), None);
}

#[test]
fn an_end_that_the_pod_shows_is_told_late_and_one_that_it_does_not_show_at_once() {
    let (mut play, id) = shown();
    let (outcome, waited) = ends(&mut play, &id);
    assert_eq!(outcome, UpdateOutcome::Complete);
    assert!(waited > SOON && waited <= SHOWN_FOR, "{waited:?}");

    let mut play = pod();
    let id = play.see(UpdateRequest { created: play.world.now, shown_as: None, ..entry("r") });
    opened(&mut play);
    let (_, waited) = ends(&mut play, &id);
    assert!(waited < SOON, "{waited:?}");
}

/// Nobody has told it whether the pod shows that.
#[test]
fn a_process_that_takes_over_tells_the_end_at_once() {
    let (mut play, id) = shown();
    play.dies();
    let (outcome, waited) = ends(&mut play, &id);
    assert_eq!(outcome, UpdateOutcome::Complete);
    assert!(waited < SOON, "{waited:?}");
}

/// A question on the node hears that it goes on, though no status says that it was begun.
#[test]
fn an_end_that_waits_is_none_yet() {
    let (play, _) = shown();
    let standing: Vec<UpdateRequest> = play.updates.standing().collect();
    let report = &standing[0].reported;
    assert_eq!((standing.len(), report.phase, report.outcome), (1, Some(UpdatePhase::Updating), None));
}

#[test]
fn a_container_that_falls_over_afterwards_takes_nothing_back() {
    let (mut play, id) = shown();
    play.world.container("a").instance.life = Life::Restarting;
    play.watch_shows();
    assert_eq!(reports(&mut play), []);
    play.pass(SHOWN_FOR);
    assert_eq!(reports(&mut play), [(id, Some(UpdateOutcome::Complete))]);
}

/// It would count as replaced.
#[test]
fn a_request_that_comes_meanwhile_waits_until_the_end_was_told() {
    let (mut play, id) = shown();
    let images = [("a".into(), "a:3".into())].into();
    let now = play.world.now;
    let other = play.see(UpdateRequest { source: UpdateSource::Api, created: now, images, ..entry("s") });
    assert_eq!(reports(&mut play), [(id, Some(UpdateOutcome::Complete))]);
    // It is being written.
    assert_eq!(reports(&mut play), []);
    assert!(play.step.is_none());
    play.goes_well();
    assert_eq!(ends(&mut play, &other).0, UpdateOutcome::Complete);
    assert_eq!(&*play.world.container("a").runs, "a:3");
}

/// Takes the entry away, and returns the ends that are counted then.
fn taken_away(play: &mut Play, id: &RequestId) -> Vec<RequestId> {
    play.requests.remove(id);
    play.apply(UpdateEvent::RequestGone(id.clone()));
    let actions = play.plan();
    let ended = actions.iter().filter_map(|action| match action {
        UpdateAction::Ended(request) => Some(request.id.clone()),
        _ => None,
    });
    let ended = ended.collect();
    actions.into_iter().for_each(|action| play.take(action));
    ended
}

/// Its owner has seen the pod, and this agent still waits until the kubelet must have its newest version.
#[test]
fn an_entry_that_was_taken_away_before_its_end_was_seen_counts_where_the_pod_shows_it() {
    for ready in [true, false] {
        let mut play = pod();
        let id = play.see(UpdateRequest { created: play.world.now, ..entry("r") });
        assert!(opened(&mut play).is_some());
        play.statuses[0].ready = ready;
        play.number += 1;
        play.watch_shows();
        assert_eq!(taken_away(&mut play, &id), Vec::from_iter(ready.then_some(id)));
        assert!(taken_away(&mut play, &"r".into()).is_empty(), "counted twice");
    }
}

/// A report counts by itself.
#[test]
fn an_entry_that_was_taken_away_after_its_report_does_not_count_once_more() {
    let (mut play, id) = shown();
    ends(&mut play, &id);
    play.goes_well();
    assert!(taken_away(&mut play, &id).is_empty());
}

#[test]
fn an_entry_that_was_taken_away_counts_once_and_nothing_is_left() {
    let (mut play, id) = shown();
    assert_eq!(taken_away(&mut play, &id), [id]);
    for _ in 0..60 {
        assert_eq!(reports(&mut play), []);
        play.goes_well();
        play.pass(100 * MILLI);
    }
    assert_eq!(play.updates.remembered(), (0, 0));
    assert!(play.images.is_empty());
}
