//! Ends of plans, and what is said of them.

use std::sync::Arc;

use berth_base::lease::Tenure;
use berth_sidecarset::{FiledSet, Refile};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::{
    event_loop::Listed,
    events,
    served::{self, Served},
    write::Writer,
};

/// Rows: how plans end one after the other, and how often it is said by then that a name is taken.
#[tokio::test]
async fn a_name_that_is_taken_is_said_once() {
    let taken = |name: &str| End::Taken(name.to_owned());
    let table = [
        (taken("mesh-1"), 1),
        (taken("mesh-1"), 1),
        (End::Changed, 1),
        (taken("mesh-1"), 1),
        (taken("mesh-2"), 2),
        (End::Done, 2),
        (taken("mesh-2"), 3),
    ];
    let (events, mut told) = events::channel();
    let writer = Writer { events, ..Served::default().writer() };
    let (listed, _) = watch::channel(Listed::default());
    let connections = Connections { tenure: Tenure::of_test().1, writer, listed };
    let mut controller = Controller::new("ns".to_owned(), connections, mpsc::channel(1).1);
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": { "name": "mesh", "uid": "u", "resourceVersion": "1" },
    });
    let view = SetView::read(&serde_json::from_value(set).unwrap()).unwrap();
    controller.take_set(Shown::Applied(view), Instant::now());
    let mut said = 0;
    for (end, times) in table {
        let row = format!("{end:?}");
        controller.settle(Report { uid: "u".to_owned(), made: Vec::new(), gone: Vec::new(), end });
        while let Ok((_, note)) = told.try_recv() {
            assert_eq!(note.reason, "FailedCreateRevision");
            said += 1;
        }
        assert_eq!(said, times, "{row}");
    }
}

/// One that is there, and that the watch does not show, is not asked for without a pause.
#[tokio::test]
async fn a_revision_that_is_there_is_taken_in_after_a_pause() {
    let served = Served::default();
    let of = |name: &str| revision(name, 1);
    served.put("controllerrevisions", &of("mesh-1"));
    let set: Arc<FiledSet> = FiledSet { uid: "u".to_owned(), ..FiledSet::default() }.into();
    for (names, is_done) in [(["mesh-1", "mesh-2"], false), (["mesh-3", "mesh-4"], true)] {
        let writes = names.map(|name| Refile::Make(of(name))).to_vec();
        let report = carry_out(served.writer(), "ns".to_owned(), set.clone(), writes).await;
        let made: Vec<&str> = report.made.iter().map(|copy| copy.0.name.as_str()).collect();
        assert_eq!((made, matches!(report.end, End::Done)), (names.to_vec(), is_done), "{:?}", report.end);
    }
}

/// A webhook holds on to the number: the plan is made again after a pause, and not at once.
#[tokio::test]
async fn a_revision_that_is_not_changed_is_a_failure() {
    let set: Arc<FiledSet> = FiledSet { uid: "u".to_owned(), ..FiledSet::default() }.into();
    for (number, is_done) in [(2, true), (1, false)] {
        let writer = served::writer(move |_, _, _| revision("mesh-1", number));
        let there = FiledRevision::of(&serde_json::from_value(revision("mesh-1", 1)).unwrap()).unwrap();
        let patch = json!({ "metadata": { "labels": {} }, "revision": 2 });
        let report =
            carry_out(writer, "ns".to_owned(), set.clone(), vec![Refile::Change(there, patch)]).await;
        assert_eq!((report.made.len(), matches!(report.end, End::Done)), (1, is_done), "{:?}", report.end);
    }
}

fn revision(name: &str, number: i64) -> Value {
    let owner = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "name": "mesh", "uid": "u",
        "controller": true,
    });
    json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "ownerReferences": [owner] },
        "revision": number,
    })
}
