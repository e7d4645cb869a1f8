//! A replica at an API server of markers.

use std::sync::{Arc, Mutex};

use berth_base::lease::{Tenure, Term};
use berth_workloads_policy::marker_finalizers::FINALIZER;
use kube::api::ObjectMeta;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::{served, timing::most_failing};

const PATIENCE: Duration = Duration::from_secs(60);

/// Finalizers of patches, in their order.
type Patches = Arc<Mutex<Vec<(String, Value)>>>;

struct Replica {
    inputs: mpsc::Sender<Input>,
    tenure: watch::Sender<Option<Term>>,
    patches: Patches,
}

fn marker(name: &str, version: u32, finalizers: &[&str], is_deleted: bool) -> Input {
    let meta = json!({
        "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        "finalizers": finalizers,
        "deletionTimestamp": is_deleted.then_some("2026-01-01T00:00:00Z"),
    });
    let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
    Input::Marker(Shown::Applied(MarkerView::of(meta).unwrap()))
}

fn node(name: &str, markers: &[&str]) -> Input {
    let markers = markers.iter().map(|marker| format!("ns/{marker}")).collect();
    Input::Node(Shown::Applied((name.to_owned(), markers)))
}

impl Replica {
    /// One that was shown these and leads; writes are answered with the code, if there is one. With 200 they
    /// are done, and a webhook takes finalizers off.
    async fn start(shown: Vec<Input>, fails: Option<u16>) -> Self {
        let patches = Patches::default();
        let written = patches.clone();
        let writer = served::writer(move |_, path, body| {
            let name = path.rsplit('/').next().unwrap().to_owned();
            let meta = &body["metadata"];
            let mut written = written.lock().unwrap();
            written.push((name.clone(), meta["finalizers"].clone()));
            let finalizers = if fails == Some(200) { json!([]) } else { meta["finalizers"].clone() };
            if let Some(code) = fails.filter(|code| *code != 200) {
                return json!({ "kind": "Status", "status": "Failure", "code": code, "metadata": {},
                    "message": "not this one", "reason": "" });
            }
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": { "namespace": "ns", "name": name, "uid": meta["uid"],
                    "resourceVersion": (100 * written.len()).to_string(), "finalizers": finalizers },
            })
        });
        let (inputs, receiver) = mpsc::channel(64);
        let (tenure, held) = Tenure::of_test();
        let (listed, _) = watch::channel(super::super::listed(true));
        let connections = Connections { tenure: held, writer, listed };
        tokio::spawn(Controller::new(connections, receiver).run());
        let replica = Self { inputs, tenure, patches };
        let (markers, nodes): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|input| matches!(input, Input::Marker(_)));
        let begin = [Input::Marker(Shown::ListBegins), Input::Node(Shown::ListBegins)];
        let end = [Input::Marker(Shown::ListEnds), Input::Node(Shown::ListEnds)];
        for input in begin.into_iter().chain(markers).chain(nodes).chain(end) {
            replica.show(input).await;
        }
        let until = tokio::time::Instant::now() + Duration::from_secs(3600);
        replica.tenure.send_replace(Some(Term::of_test(until)));
        replica
    }

    async fn show(&self, input: Input) {
        self.inputs.send(input).await.unwrap();
    }

    /// Waits until there are so many patches, and for a while in which more might come.
    async fn patches(&self, least: usize) -> Vec<(String, Value)> {
        let come = async {
            while self.patches.lock().unwrap().len() < least {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let come = tokio::time::timeout(PATIENCE, come).await;
        assert!(come.is_ok(), "{:?}", self.patches.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(80)).await;
        self.patches.lock().unwrap().clone()
    }
}

fn has(name: &str, finalizers: &[&str]) -> (String, Value) {
    (name.to_owned(), json!(finalizers))
}

#[tokio::test]
async fn a_marker_gets_its_finalizer_once() {
    let shown = vec![marker("old", 1, &["other"], false), marker("has", 1, &[FINALIZER], false)];
    let replica = Replica::start(shown, None).await;
    assert_eq!(replica.patches(1).await, [has("old", &["other", FINALIZER])]);
    // What the watch shows late is older than the answer; then its status changes.
    replica.show(marker("old", 2, &["other"], false)).await;
    replica.show(marker("old", 110, &["other", FINALIZER], false)).await;
    replica.show(marker("new", 1, &[], false)).await;
    assert_eq!(replica.patches(2).await[1..], [has("new", &[FINALIZER])]);
    // Somebody takes it off.
    replica.show(marker("old", 120, &["other"], false)).await;
    assert_eq!(replica.patches(3).await[2..], [has("old", &["other", FINALIZER])]);
}

#[tokio::test]
async fn a_marker_that_is_deleted_stays_until_no_node_has_it() {
    let shown = vec![
        marker("a", 1, &[FINALIZER], false),
        node("n1", &["a", "b"]),
        node("n2", &["a"]),
        marker("b", 1, &[FINALIZER], true),
        marker("c", 1, &[FINALIZER], true),
    ];
    let replica = Replica::start(shown, None).await;
    assert_eq!(replica.patches(1).await, [has("c", &[])], "no node has it");
    replica.show(marker("a", 2, &[FINALIZER], true)).await;
    replica.show(node("n1", &["b"])).await;
    assert_eq!(replica.patches(1).await.len(), 1, "another node has it");
    replica.show(Input::Node(Shown::Gone("n2".to_owned()))).await;
    assert_eq!(replica.patches(2).await[1..], [has("a", &[])]);
    replica.show(node("n1", &[])).await;
    assert_eq!(replica.patches(3).await[2..], [has("b", &[])]);
    for gone in ["a", "b", "c"] {
        replica.show(Input::Marker(Shown::Gone(format!("uid-{gone}")))).await;
    }
    assert_eq!(replica.patches(3).await.len(), 3);
}

/// A node whose agent is away keeps no namespace from going.
#[tokio::test]
async fn a_marker_waits_for_half_a_minute() {
    let (listed, _) = watch::channel(Vec::new());
    let writer = served::writer(|_, _, _| Value::Null);
    let (lease, tenure) = Tenure::of_test();
    let until = tokio::time::Instant::now() + Duration::from_secs(3600);
    lease.send_replace(Some(Term::of_test(until)));
    let mut controller = Controller::new(Connections { tenure, writer, listed }, mpsc::channel(1).1);
    let begin = Instant::now();
    let at = |seconds| later(begin, Duration::from_secs(seconds));
    controller.take(marker("a", 1, &[FINALIZER], true), begin);
    controller.take(node("n", &["a"]), begin);
    // Another version of it does not begin the time anew.
    controller.take(marker("a", 2, &[FINALIZER], true), at(20));
    controller.begin(at(20));
    assert!(controller.turns.agenda.in_flight().is_empty());
    assert_eq!(controller.turns.agenda.next(AT_ONCE), Some(at(30)));
    controller.begin(at(30));
    assert_eq!(controller.turns.agenda.in_flight(), ["uid-a"]);
}

/// Memory goes with its marker: a program runs for months, and markers come and go.
#[tokio::test]
async fn nothing_is_remembered_of_a_marker_that_is_gone() {
    let (listed, _) = watch::channel(Vec::new());
    let writer = served::writer(|_, _, _| Value::Null);
    let connections = Connections { tenure: Tenure::of_test().1, writer, listed };
    let mut controller = Controller::new(connections, mpsc::channel(1).1);
    let now = Instant::now();
    let is_empty = |controller: &Controller| {
        controller.deleted.is_empty() && controller.since.is_empty() && controller.backoff.is_empty()
    };
    controller.take(marker("a", 1, &[FINALIZER], true), now);
    controller.settle(Report { uid: "uid-a".to_owned(), answer: Err(None) });
    assert!(!is_empty(&controller));
    controller.take(Input::Marker(Shown::Gone("uid-a".to_owned())), now);
    controller.settle(Report { uid: "uid-a".to_owned(), answer: Ok(None) });
    assert!(is_empty(&controller));
    // Or a list does not have it any more.
    controller.take(marker("b", 1, &[FINALIZER], true), now);
    controller.settle(Report { uid: "uid-b".to_owned(), answer: Err(None) });
    controller.take(Input::Marker(Shown::ListBegins), now);
    controller.take(Input::Marker(Shown::ListEnds), now);
    assert!(is_empty(&controller));
}

/// Rows: the answer of the API server, where 200 is one whose webhooks take finalizers off.
#[rstest]
#[case::refused(403)]
#[case::changed(200)]
#[tokio::test]
async fn what_is_not_done_is_tried_less_and_less(#[case] code: u16) {
    let begun = Instant::now();
    let replica = Replica::start(vec![marker("a", 1, &[], false)], Some(code)).await;
    let tries = replica.patches(4).await.len();
    let most = 1 + most_failing(begun.elapsed());
    assert!(tries <= most, "{tries}, at most {most}");
}
