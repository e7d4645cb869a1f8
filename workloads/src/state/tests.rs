//! Looks at workloads, without an API server.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_base::lease::Tenure;
use berth_workloads_policy::{action::Action, revision::Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::{
    events,
    kinds::{KINDS, Kind, Known, Workload},
    object::Filed,
    owned::Listed,
    reading::{Found, Reading},
    watch::Shown,
    write::End,
};

/// Makes a pod each time, or panics.
#[derive(Debug)]
struct Made {
    meta: ObjectMeta,
    panics: bool,
    none: (LabelSelector, Map<String, Value>),
}

impl Workload for Made {
    fn kind(&self) -> &'static Kind {
        KINDS[0]
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn selector(&self) -> &LabelSelector {
        &self.none.0
    }

    fn template(&self) -> &Map<String, Value> {
        &self.none.1
    }

    fn plan(&self, _known: &Known<'_>, _now: Timestamp) -> Plan {
        assert!(!self.panics, "index out of bounds");
        Plan { actions: vec![Action::CreatePod(Value::Null)], status: Some(json!(1)), ..Plan::default() }
    }
}

fn state() -> State {
    State::new(EventLoop::with_reading(mpsc::channel(1).1, Tenure::of_test().1))
}

/// A list of nothing.
fn none<T>() -> Listed<T> {
    Listed { version: 9, objects: Vec::new() }
}

fn reading(state: &mut State) -> &mut Reading {
    state.turns.reading.as_mut().unwrap()
}

/// Tells whether the plan of a look has a status.
fn has_status(state: &mut State, now: Instant) -> bool {
    let (metrics, (events, _told)) = (Metrics::default(), events::channel());
    let look = Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    matches!(state.look("a", look), Next::CarryOut(_, plan) if plan.status.is_some())
}

fn show(state: &mut State, uid: &str, generation: i64, panics: bool) {
    let meta = ObjectMeta {
        uid: Some(uid.to_owned()),
        name: Some(uid.to_owned()),
        generation: Some(generation),
        resource_version: Some(generation.to_string()),
        ..ObjectMeta::default()
    };
    let made: Set = Arc::new(Made { meta, panics, none: Default::default() });
    state.cluster.take(Input::Set(KINDS[0], Shown::Applied(Filed::new(made))));
}

#[test]
fn a_decision_that_panics_sets_its_object_aside_and_no_other() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, mut told) = events::channel();
    let now = Instant::now();
    let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    show(&mut state, "bad", 1, true);
    show(&mut state, "good", 1, false);
    state.all_due();
    let later = now + Duration::from_secs(1);
    assert_eq!(state.due(later), ["bad", "good"]);
    assert!(matches!(state.look("bad", look(now)), Next::Nothing));
    assert!(matches!(state.look("good", look(now)), Next::CarryOut(..)));
    let (set, note) = told.try_recv().unwrap();
    assert_eq!((set.name.as_deref(), note.reason), (Some("bad"), "SetAside"));
    assert!(note.text.contains("index out of bounds"), "{}", note.text);
    // It is not tried again and again.
    state.look("bad", look(later));
    assert!(told.try_recv().is_err());
    let after = state.turns.agenda.next(AT_ONCE).unwrap();
    assert_eq!(after, now + Duration::from_secs(600));
    assert!(matches!(state.look("bad", look(after)), Next::Read(_)));
    state.memory("bad").unread.was_read_apart();
    state.look("bad", look(after));
    assert!(told.try_recv().is_ok(), "looked at again");
    // Its author has mended it.
    show(&mut state, "bad", 2, false);
    state.memory("bad").unread.was_read_apart();
    assert!(matches!(state.look("bad", look(after)), Next::CarryOut(..)));
}

/// The leader before this one may have seen it sooner, and made pods that no watch has shown here yet.
#[test]
fn a_set_in_a_namespace_that_was_not_read_is_read_first() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let now = Instant::now();
    let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    reading(&mut state).ends(1, ["others".to_owned()].into(), BTreeSet::new(), now);
    show(&mut state, "late", 1, false);
    assert!(matches!(state.look("late", look()), Next::Read(_)));
    state.memory("late").read_in = Some(1);
    assert!(matches!(state.look("late", look()), Next::CarryOut(..)));
    state.memory("late");
    reading(&mut state).ends(2, ["others".to_owned()].into(), BTreeSet::new(), now);
    assert!(matches!(state.look("late", look()), Next::Read(_)), "another term");
    state.memory("late");
    // Its namespace, as sets of tests have none; with many sets it is to be read.
    let namespace = BTreeSet::from([String::new()]);
    while reading(&mut state).reads_apart("") {}
    assert_eq!(reading(&mut state).left(2, namespace.clone(), now), namespace);
    reading(&mut state).begins(2);
    reading(&mut state).ends(2, BTreeSet::new(), namespace, now);
    assert!(matches!(state.look("late", look()), Next::Nothing), "it could not be read");
    reading(&mut state).ends(2, [String::new()].into(), BTreeSet::new(), now);
    assert!(matches!(state.look("late", look()), Next::CarryOut(..)));
}

/// Counts those that are read each by itself: a few, and all others wait.
fn read_apart(looks: &[Next]) -> usize {
    let read = looks.iter().take_while(|next| matches!(next, Next::Read(_))).count();
    let wait = looks.iter().filter(|next| matches!(next, Next::Nothing)).count();
    assert!((1..20).contains(&read) && read + wait == looks.len(), "{read}, {wait}");
    read
}

/// Each reading of a set lists the namespace: thousands that come there are read at once, and then each is
/// planned.
#[test]
fn many_sets_in_a_namespace_that_was_not_read_are_read_at_once() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let now = Instant::now();
    let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    reading(&mut state).ends(1, ["others".to_owned()].into(), BTreeSet::new(), now);
    let uids: Vec<String> = (0..100).map(|number| format!("late-{number:02}")).collect();
    uids.iter().for_each(|uid| show(&mut state, uid, 1, false));
    let looks = |state: &mut State| -> Vec<Next> { uids.iter().map(|uid| state.look(uid, look())).collect() };
    read_apart(&looks(&mut state));
    assert_eq!(reading(&mut state).next(1, now), Some(now));
    // Its namespace, as sets of tests have none.
    let namespace = BTreeSet::from([String::new()]);
    assert_eq!(reading(&mut state).left(1, namespace.clone(), now), namespace);
    reading(&mut state).begins(1);
    reading(&mut state).ends(1, namespace, BTreeSet::new(), now);
    assert_eq!(reading(&mut state).next(1, now), None);
    assert!(looks(&mut state).iter().all(|next| matches!(next, Next::CarryOut(..))));
}

/// A brown-out: nobody knows what was written for any set of a namespace. One reading of it tells of all
/// those that failed before it was begun; who still has a pause is planned after it.
#[test]
fn sets_of_which_nobody_knows_what_was_written_wait_for_one_reading() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let mut now = Instant::now();
    let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    // Its namespace, as sets of tests have none.
    let namespace = || BTreeSet::from([String::new()]);
    let read = |state: &mut State, now, meanwhile: &[String]| {
        assert_eq!(reading(state).left(1, namespace(), now), namespace());
        reading(state).begins(1);
        let readings = state.turns.readings();
        meanwhile.iter().for_each(|uid| state.memory(uid).unread.add(readings));
        let found = Found { pods: none(), claims: none(), revisions: none(), sets: Vec::new() };
        state.was_read(Ended { term: 1, found: vec![(String::new(), found)], failed: Vec::new() });
    };
    let uids: Vec<String> = (0..100).map(|number| format!("set-{number:02}")).collect();
    uids.iter().for_each(|uid| show(&mut state, uid, 1, false));
    read(&mut state, now, &uids);
    let looks = |state: &mut State, uids: &[String], now| -> Vec<Next> {
        uids.iter().map(|uid| state.look(uid, look(now))).collect()
    };
    // Five are in a pause.
    let apart = read_apart(&looks(&mut state, &uids[..95], now));
    let next = reading(&mut state).next(1, now).unwrap();
    assert!(next > now && next <= later(now, Duration::from_secs(10)), "others that fail are waited for");
    // One fails while the namespace is read.
    now = next;
    read(&mut state, now, &uids[90..91]);
    let mut due = Vec::new();
    loop {
        let more = state.due(later(Instant::now(), Duration::from_secs(1)));
        if more.is_empty() {
            break;
        }
        due.extend(more);
    }
    due.sort();
    assert_eq!(due, uids[apart..95], "those that waited, and none that has a pause");
    let is_planned = |next: &Next| matches!(next, Next::CarryOut(..));
    let rest = looks(&mut state, &uids[91..], now);
    assert!(rest.iter().all(is_planned), "{rest:?}");
    assert!(!is_planned(&state.look(&uids[90], look(now))), "that reading does not tell of it");
}

/// Rows: ends of plans, and which of the next two looks have a status. After a pause nobody is to wait for
/// it until the next one.
#[test]
fn a_status_is_left_to_the_next_plan_where_that_follows_at_once() {
    let failed = || End::ScaleFailed("no quota".to_owned());
    let table: [(Vec<End>, [bool; 2]); 5] = [
        (vec![], [false, true]),
        (vec![failed()], [false, true]),
        (vec![failed(), failed()], [true, true]),
        (vec![failed(), failed(), End::Done], [false, true]),
        (vec![End::Held(Box::new(failed()))], [true, true]),
    ];
    for (ends, expected) in table {
        let mut state = state();
        show(&mut state, "a", 1, false);
        for end in &ends {
            state.memory("a").ends(end);
        }
        assert_eq!([(); 2].map(|()| has_status(&mut state, Instant::now())), expected, "{ends:?}");
    }
}

#[test]
fn a_status_that_is_not_kept_waits() {
    let (mut state, now) = (state(), Instant::now());
    show(&mut state, "a", 1, false);
    state.memory("a").unkept.add(json!(1), now);
    assert_eq!([(); 3].map(|()| has_status(&mut state, now)), [false; 3]);
    let next = state.turns.agenda.next(AT_ONCE).unwrap();
    assert_eq!([(); 2].map(|()| has_status(&mut state, next)), [false, true]);
    state.memory("a").unkept.add(json!(2), next);
    assert_eq!([(); 2].map(|()| has_status(&mut state, next)), [false, true], "it is another one");
}

/// Another namespace may have something to do as well.
#[test]
fn the_sets_of_one_namespace_have_half_of_the_places() {
    let mut state = state();
    (0..40).for_each(|at| show(&mut state, &format!("{at:02}"), 1, false));
    state.all_due();
    assert_eq!(state.due(later(Instant::now(), Duration::from_secs(1))).len(), AT_ONCE / 2);
}

/// A program runs for months, and sets come and go; some go while the watch is away, and a list says so.
#[test]
fn nothing_is_remembered_of_a_set_that_is_gone() {
    let shows = [vec![Shown::Gone("a".to_owned())], vec![Shown::ListBegins, Shown::ListEnds]];
    for (at, shown) in shows.into_iter().enumerate() {
        let (mut state, metrics) = (state(), Metrics::default());
        let (events, _told) = events::channel();
        let now = Instant::now();
        let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
        show(&mut state, "a", 1, false);
        state.look("a", look());
        assert_eq!(state.memory.len(), 1);
        for shown in shown {
            let concerned = state.cluster.take(Input::Set(KINDS[0], shown));
            state.concerns(concerned);
        }
        for uid in state.due(later(now, Duration::from_secs(1))) {
            state.look(&uid, look());
        }
        assert!(state.memory.is_empty(), "{at}");
    }
}

/// An event about a set that is set aside is looked at, and the look that is due later stays.
#[test]
fn a_set_that_is_set_aside_is_looked_at_later_whatever_happens_meanwhile() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let now = Instant::now();
    let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    show(&mut state, "bad", 1, true);
    state.look("bad", look(now));
    let after = state.turns.agenda.next(AT_ONCE);
    assert_eq!(after, Some(now + Duration::from_secs(600)));
    state.concerns(Concerned::Some(vec!["bad".to_owned()]));
    let soon = later(Instant::now(), Duration::from_secs(1));
    assert_eq!(state.due(soon), ["bad"]);
    assert!(matches!(state.look("bad", look(soon)), Next::Nothing));
    assert_eq!(state.turns.agenda.next(AT_ONCE), after);
}

#[test]
fn after_a_panic_of_a_write_the_objects_are_read_first() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let now = Instant::now();
    let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    show(&mut state, "a", 1, false);
    assert!(matches!(state.look("a", look(now)), Next::CarryOut(..)));
    state.set_aside("a", "slice index", look(now));
    show(&mut state, "a", 2, false);
    assert!(matches!(state.look("a", look(now)), Next::Read(_)));
    state.memory("a").unread.was_read_apart();
    assert!(matches!(state.look("a", look(now)), Next::CarryOut(..)));
}

/// Two sets of a namespace, of which one has no room beside the other.
#[test]
fn a_set_that_was_set_aside_is_fetched_when_there_is_room() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let now = Instant::now();
    let look = || Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    state.cluster = Cluster::with_room(1000);
    for (name, bytes) in [("a", 600), ("b", 700)] {
        let meta = ObjectMeta {
            uid: Some(name.to_owned()),
            name: Some(name.to_owned()),
            namespace: Some("ns".to_owned()),
            ..ObjectMeta::default()
        };
        let made: Set = Arc::new(Made { meta, panics: false, none: Default::default() });
        let shown = Shown::Applied(Filed::new(made).weighing(bytes));
        state.cluster.take(Input::Set(KINDS[0], shown));
    }
    assert!(matches!(state.look("a", look()), Next::CarryOut(..)));
    assert!(matches!(state.look("b", look()), Next::Nothing));
    state.all_due();
    let soon = later(Instant::now(), Duration::from_secs(1));
    assert_eq!(state.due(soon), ["a"], "there is nothing to be done for the other one");
    // A plan of it was on its way, and nobody knows what it wrote.
    state.memory("b").unread.add(1);
    assert!(matches!(state.look("b", look()), Next::Nothing));
    assert!(state.memory("b").unread.is_so(), "it is read when it comes back");
    let concerned = state.cluster.take(Input::Set(KINDS[0], Shown::Gone("a".to_owned())));
    state.concerns(concerned);
    assert!(matches!(state.look("b", look()), Next::Fetch(absent) if absent.name == "b"));
    // A replica that leads later knows of it as well.
    state.turns.agenda.clear();
    state.all_due();
    assert!(state.due(soon).contains(&"b".to_owned()));
}

/// There is room again for the revisions of a hundred sets.
#[test]
fn many_sets_without_templates_wait_for_one_reading() {
    let (mut state, metrics) = (state(), Metrics::default());
    let (events, _told) = events::channel();
    let mut now = Instant::now();
    let look = |now| Look { now, settings: Settings::default(), events: &events, metrics: &metrics };
    // Their namespace, as sets of tests have none.
    let namespace = || BTreeSet::from([String::new()]);
    reading(&mut state).ends(1, namespace(), BTreeSet::new(), now);
    let uids: Vec<String> = (0..100).map(|number| format!("set-{number:02}")).collect();
    let revision = |uid: &String| Revision {
        namespace: String::new(),
        name: format!("{uid}-1"),
        uid: format!("{uid}-1"),
        version: "5".to_owned(),
        number: 1,
        created: Timestamp::UNIX_EPOCH,
        owner: uid.clone(),
        mark: None,
        template: Map::from_iter([("spec".to_owned(), json!({}))]),
    };
    for uid in &uids {
        show(&mut state, uid, 1, false);
        state.cluster.take(Input::Revision(Shown::Applied(revision(uid).bare())));
    }
    let looks =
        |state: &mut State, now| -> Vec<Next> { uids.iter().map(|uid| state.look(uid, look(now))).collect() };
    let apart = read_apart(&looks(&mut state, now));
    now = reading(&mut state).next(1, now).unwrap();
    assert_eq!(reading(&mut state).left(1, namespace(), now), namespace());
    reading(&mut state).begins(1);
    let revisions = Listed { version: 9, objects: uids.iter().map(revision).collect() };
    let found = Found { pods: none(), claims: none(), revisions, sets: Vec::new() };
    state.was_read(Ended { term: 1, found: vec![(String::new(), found)], failed: Vec::new() });
    let planned = looks(&mut state, now).split_off(apart);
    assert!(planned.iter().all(|next| matches!(next, Next::CarryOut(..))), "{planned:?}");
}
