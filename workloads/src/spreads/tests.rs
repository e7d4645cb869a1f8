//! Plans of a WorkloadSpread at an API server in memory.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use berth_spread::{COST, IGNORE_METADATA, MATCHED};
use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    view::{PodView, SpreadView},
    work::{Memory, Work},
};
use crate::{
    events,
    served::{self, Served},
};

/// Three pods are in the first subset, which takes no more.
pub(super) fn spread() -> SpreadView {
    let closed = json!({ "type": "Schedulable", "status": "False" });
    let spread = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s", "resourceVersion": "1", "generation": 1 },
        "spec": {
            "targetRef": { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web" },
            "subsets": [{ "name": "a", "maxReplicas": 3 }, { "name": "b" }],
            "scheduleStrategy": { "type": "Adaptive", "adaptive": { "rescheduleCriticalSeconds": 30 } },
        },
        "status": { "subsetStatuses": [{ "name": "a", "conditions": [closed] }] },
    });
    SpreadView::of(serde_json::from_value(spread).unwrap()).unwrap()
}

/// A pod of the first subset: it runs, or finds no node.
pub(super) fn pod(name: &str, runs: bool) -> Value {
    let owner = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "web", "controller": true,
    });
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "apps.kruise.io/matched-workloadspread": "{\"name\":\"s\",\"subset\":\"a\"}" },
            "ownerReferences": [owner],
        },
        "spec": { "containers": [], "nodeName": "n" },
        "status": { "phase": "Running" },
    });
    if !runs {
        let waits = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
        pod["spec"] = json!({ "containers": [] });
        pod["status"] = json!({ "phase": "Pending", "conditions": [waits] });
    }
    pod
}

pub(super) fn view(pod: &Value) -> PodView {
    PodView::of(serde_json::from_value(pod.clone()).unwrap()).unwrap()
}

/// Costs of three pods are written, and the one that finds no node is deleted: whatever is refused for one of
/// them, the others have what is theirs.
#[rstest]
#[case::done(None, (3, 1), true, false, None)]
#[case::a_pod_takes_no_more(Some((Method::PATCH, "p0", 422)), (3, 1), false, false, None)]
#[case::it_is_held_back(Some((Method::PATCH, "p0", 429)), (3, 1), false, true, None)]
#[case::a_webhook_fails(Some((Method::PATCH, "p0", 500)), (3, 1), false, false, None)]
#[case::it_has_changed(Some((Method::DELETE, "p2", 409)), (3, 1), true, false, Some(1))]
#[tokio::test]
async fn a_pod_that_is_refused_holds_no_other_up(
    #[case] refused: Option<(Method, &str, u16)>,
    #[case] asked: (usize, usize),
    #[case] done: bool,
    #[case] held: bool,
    #[case] again: Option<i64>,
) {
    let served = Served::default();
    let all = [pod("p0", true), pod("p1", true), pod("p2", false)];
    all.iter().for_each(|pod| served.put("pods", pod));
    if let Some((method, pod, code)) = refused {
        served.refuse(method, pod, code);
    }
    let work = Work {
        writer: served.writer(),
        spread: spread(),
        pods: all.iter().map(|pod| Arc::new(view(pod))).collect(),
        memory: Memory::default(),
        names: ["s".to_owned()].into(),
    };
    let report = work.carry_out().await;
    assert_eq!((served.count("PATCH pods one"), served.count("DELETE pods one")), asked, "{served:?}");
    // One that has changed since is looked at again, though no event of it may be of any concern.
    assert_eq!((report.done, report.held.is_some(), report.again), (done, held, again));
}

/// A pod that was there before gets its subset, its cost and what the patch of the subset gives in one write;
/// or the first two alone, where the WorkloadSpread says so.
#[rstest]
#[case::by_itself(json!({}), json!({ "zone": "a" }))]
#[case::not_wanted(json!({ IGNORE_METADATA: "true" }), Value::Null)]
#[case::wanted(json!({ IGNORE_METADATA: "false" }), json!({ "zone": "a" }))]
#[tokio::test]
async fn a_pod_that_was_there_before_is_adopted_by_one_write(
    #[case] annotations: Value,
    #[case] labels: Value,
) {
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let patch = json!({ "metadata": { "labels": { "zone": "a", "pod-template-hash": "1" } } });
    let spread = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s", "annotations": annotations },
        "spec": {
            "targetRef": { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web" },
            "subsets": [{ "name": "a", "requiredNodeSelectorTerm": term, "patch": patch }],
        },
    });
    let mut one = pod("p0", true);
    one["metadata"]["annotations"] = json!({ COST: "7" });
    let node = json!({ "metadata": { "name": "n", "labels": { "zone": "a" } }, "spec": {} });
    let (written, shown) = (Arc::new(Mutex::new(Vec::new())), one.clone());
    let seen = written.clone();
    let writer = served::writer(move |method, path, body| {
        if *method == Method::PATCH {
            seen.lock().unwrap().push(body["metadata"].clone());
        }
        if path.ends_with("/nodes/n") { node.clone() } else { shown.clone() }
    });
    let work = Work {
        writer,
        spread: SpreadView::of(serde_json::from_value(spread).unwrap()).unwrap(),
        pods: vec![Arc::new(view(&one))],
        memory: Memory::default(),
        names: ["s".to_owned()].into(),
    };
    assert!(work.carry_out().await.done);
    let annotations = json!({ MATCHED: "{\"name\":\"s\",\"subset\":\"a\"}", COST: "100" });
    let mut wanted = json!({ "uid": "p0", "annotations": annotations });
    if !labels.is_null() {
        wanted["labels"] = labels;
    }
    assert_eq!(*written.lock().unwrap(), [wanted]);
}

/// Each of them is read once, and again when the spread says something else.
#[tokio::test]
async fn many_pods_that_fit_no_subset_are_read_once() {
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let spread = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s", "generation": 1 },
        "spec": {
            "targetRef": { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web" },
            "subsets": [{ "name": "a", "requiredNodeSelectorTerm": term }],
        },
    });
    let spread = SpreadView::of(serde_json::from_value(spread).unwrap()).unwrap();
    let cost = spread.spread.cost_of_nobody().unwrap().to_string();
    let one = |number: usize| {
        let mut one = pod(&format!("p{number}"), true);
        one["metadata"]["annotations"] = json!({ COST: cost });
        one
    };
    let pods: Vec<_> = (0..10_050).map(|number| Arc::new(view(&one(number)))).collect();
    let node = json!({ "metadata": { "name": "n", "labels": { "zone": "b" } }, "spec": {} });
    let asked: Arc<AtomicUsize> = Arc::default();
    let (count, whole) = (asked.clone(), one(0));
    let writer = served::writer(move |method, path, _| {
        assert_eq!(*method, Method::GET, "{path}");
        count.fetch_add(1, Ordering::Relaxed);
        if path.ends_with("/nodes/n") { node.clone() } else { whole.clone() }
    });
    let memory = Memory::default();
    let mut asks = Vec::new();
    for (generation, there) in [(1, 10_050), (1, 10_050), (1, 50), (2, 50), (2, 60)] {
        let work = Work {
            writer: writer.clone(),
            spread: SpreadView { generation, ..spread.clone() },
            pods: pods.iter().take(there).cloned().collect(),
            memory: memory.clone(),
            names: ["s".to_owned()].into(),
        };
        assert!(work.carry_out().await.done);
        asks.push(asked.swap(0, Ordering::Relaxed));
    }
    assert_eq!(asks, [20_100, 0, 0, 100, 20]);
}

/// Lists of a pod and of the patch are too long to be merged: that pod is left alone, and it is said once.
/// The others get their subset.
#[tokio::test]
async fn a_pod_that_would_take_minutes_holds_no_other_up() {
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let variables =
        |count: usize| -> Value { (0..count).map(|number| json!({ "name": number.to_string() })).collect() };
    let patch = json!({ "spec": { "containers": [{ "name": "main", "env": variables(300) }] } });
    let spread = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s", "generation": 1 },
        "spec": {
            "targetRef": { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web" },
            "subsets": [{ "name": "a", "requiredNodeSelectorTerm": term, "patch": patch }],
        },
    });
    let pods = [("p0", 10_000), ("p1", 10)].map(|(name, count)| {
        let mut one = pod(name, true);
        one["metadata"]["annotations"] = json!({ COST: "100" });
        one["spec"]["containers"] = json!([{ "name": "main", "env": variables(count) }]);
        one
    });
    let node = json!({ "metadata": { "name": "n", "labels": { "zone": "a" } }, "spec": {} });
    let (asked, shown) = (Arc::new(Mutex::new(Vec::new())), pods.clone());
    let seen = asked.clone();
    let mut writer = served::writer(move |method, path, body| {
        let name = path.rsplit('/').next().unwrap_or_default();
        seen.lock().unwrap().push(format!("{method} {name}"));
        if name == "n" { node.clone() } else { annotated(&shown[usize::from(name == "p1")], body) }
    });
    let (events, mut told) = events::channel();
    writer.events = events;
    let memory = Memory::default();
    let mut asks = Vec::new();
    for _ in 0..2 {
        let work = Work {
            writer: writer.clone(),
            spread: SpreadView::of(serde_json::from_value(spread.clone()).unwrap()).unwrap(),
            pods: pods.iter().map(|pod| Arc::new(view(pod))).collect(),
            memory: memory.clone(),
            names: ["s".to_owned()].into(),
        };
        assert!(work.carry_out().await.done);
        asks.push(std::mem::take(&mut *asked.lock().unwrap()).join(" "));
    }
    assert_eq!(asks, ["GET n GET p0 GET n GET p1 PATCH p1", "GET n GET p1 PATCH p1"]);
    let (_, note) = told.try_recv().unwrap();
    assert!(note.warning && note.text.starts_with("pod p0 is left without a subset: subset a: "), "{note:?}");
    assert!(told.try_recv().is_err(), "it is said once");
}

/// A ReplicaSet of nobody, as `--cascade=orphan` leaves it, may be adopted by the next Deployment.
#[tokio::test]
async fn a_replica_set_of_nobody_is_looked_at_again() {
    let owned = |kind: &str, name: &str| json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true }]);
    let spread = json!({
        "metadata": { "namespace": "ns", "name": "s", "uid": "s", "generation": 1 },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "subsets": [{ "name": "a" }],
        },
    });
    let spread = SpreadView::of(serde_json::from_value(spread).unwrap()).unwrap();
    let mut one = pod("p0", true);
    one["metadata"]["ownerReferences"] = owned("ReplicaSet", "web-1");
    let (read, patched): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let (reads, patches, whole) = (read.clone(), patched.clone(), one.clone());
    let (nobody, deployment) = (json!([]), owned("Deployment", "web"));
    let writer = served::writer(move |method, path, body| {
        if *method == Method::PATCH {
            patches.fetch_add(1, Ordering::Relaxed);
            return annotated(&whole, body);
        }
        assert!(path.ends_with("/replicasets/web-1"), "{path}");
        let is_adopted = reads.fetch_add(1, Ordering::Relaxed) > 0;
        let owners = if is_adopted { &deployment } else { &nobody };
        json!({ "metadata": { "name": "web-1", "uid": "web-1", "ownerReferences": owners } })
    });
    let memory = Memory::default();
    let mut asks = Vec::new();
    for _ in 0..3 {
        let work = Work {
            writer: writer.clone(),
            spread: spread.clone(),
            pods: vec![Arc::new(view(&one))],
            memory: memory.clone(),
            names: ["s".to_owned()].into(),
        };
        assert!(work.carry_out().await.done);
        asks.push((read.load(Ordering::Relaxed), patched.load(Ordering::Relaxed)));
    }
    // Its pod costs something once it is the Deployment's, which is not asked for again.
    assert_eq!(asks, [(1, 0), (2, 1), (2, 2)]);
}

/// A pod with the annotations of a patch.
fn annotated(pod: &Value, body: &Value) -> Value {
    let mut pod = pod.clone();
    let patched = body["metadata"]["annotations"].as_object().into_iter().flatten();
    patched.for_each(|(key, value)| pod["metadata"]["annotations"][key] = value.clone());
    pod
}

/// A webhook takes the annotations off. Rows: whether the pods keep them, how many pods, and how often one is
/// written to by three plans.
#[rstest]
#[case::kept(true, 100, &[64, 64, 64])]
#[case::taken_off(false, 100, &[64, 36, 0])]
#[tokio::test]
async fn a_pod_that_keeps_no_annotation_is_not_written_to_by_each_plan(
    #[case] keeps: bool,
    #[case] count: usize,
    #[case] asked: &[usize],
) {
    let patched: Arc<AtomicUsize> = Arc::default();
    let patches = patched.clone();
    let writer = served::writer(move |method, path, body| {
        assert_eq!(*method, Method::PATCH, "{path}");
        patches.fetch_add(1, Ordering::Relaxed);
        let shown = pod(path.rsplit('/').next().unwrap_or_default(), true);
        if keeps { annotated(&shown, body) } else { shown }
    });
    let memory = Memory::default();
    let mut asks = Vec::new();
    for _ in asked {
        let work = Work {
            writer: writer.clone(),
            spread: spread(),
            // The watch shows none of it.
            pods: (0..count).map(|number| Arc::new(view(&pod(&format!("p{number}"), true)))).collect(),
            memory: memory.clone(),
            names: ["s".to_owned()].into(),
        };
        assert!(work.carry_out().await.done);
        asks.push(patched.swap(0, Ordering::Relaxed));
    }
    assert_eq!(asks, asked);
}
