//! A controller of jobs at an API server in memory.

mod unkept;

use std::time::Duration;

use berth_base::lease::{Tenure, Term};
use berth_workloads_policy::{
    action::Target,
    broadcast_job::{self, NodeView},
    jobs::{self, Action},
};
use http::Method;
use jiff::tz::TimeZone;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{object::Kind, watches::Input, write::Wrote, *};
use crate::{
    planner::{End, Plan, Work},
    served::{self, Served},
    watch::Shown,
};

const SETTINGS: Settings =
    Settings { broadcast_jobs: true, cron_jobs: true, by_scheduler: false, zone: TimeZone::UTC };

fn object(kind: Kind, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind.name(),
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": spec,
    })
}

/// A node with room for pods.
fn node(name: &str, labels: &Value) -> NodeView {
    let metadata = json!({ "name": name, "uid": name, "labels": labels });
    let node = json!({ "metadata": metadata, "status": { "allocatable": { "pods": "110" } } });
    NodeView::of(&serde_json::from_value(node).unwrap())
}

/// A replica that leads, and whose watches have shown these and show nothing of what is written.
async fn replica(
    served: &Served,
    shown: &[(Kind, Value)],
) -> (mpsc::Sender<Input>, watch::Sender<Option<Term>>) {
    let (inputs, receiver) = mpsc::channel(INPUTS);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Listed::default());
    let connections = Connections { tenure, writer: served.writer(), listed };
    tokio::spawn(Controller::new(Jobs::new(SETTINGS), connections, receiver).run());
    for kind in [Kind::Broadcast, Kind::Cron] {
        inputs.send(Input::Object(kind, Shown::ListBegins)).await.unwrap();
        for (_, object) in shown.iter().filter(|(of, _)| *of == kind) {
            let filed = kind.read(serde_json::from_value(object.clone()).unwrap()).unwrap();
            inputs.send(Input::Object(kind, Shown::Applied(filed))).await.unwrap();
        }
        inputs.send(Input::Object(kind, Shown::ListEnds)).await.unwrap();
    }
    for input in [Input::Pod(Shown::ListEnds), Input::Job(Shown::ListEnds), Input::Node(Shown::ListEnds)] {
        inputs.send(input).await.unwrap();
    }
    lease.send_replace(Some(Term::of_test(tokio::time::Instant::now() + Duration::from_secs(3600))));
    (inputs, lease)
}

/// Objects are read at the start of a term, once for all jobs of a namespace, and none by itself. A replica
/// that follows on another one writes nothing where nothing is to be done, whatever its watches have shown.
#[tokio::test]
async fn a_term_begins_with_one_list_of_each_kind_for_all_jobs() {
    let served = Served::default();
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let job = json!({ "template": { "spec": pod } });
    let made = json!({ "spec": { "template": { "spec": pod } } });
    let cron = json!({ "schedule": "0 0 1 1 *", "paused": true, "template": { "jobTemplate": made } });
    let mut shown = Vec::new();
    for (kind, spec) in [(Kind::Broadcast, job), (Kind::Cron, cron)] {
        for number in 0..20 {
            let object = object(kind, &format!("{}-{number}", kind.plural()), spec.clone());
            served.put(kind.plural(), &object);
            shown.push((kind, object));
        }
    }
    let _one = replica(&served, &shown).await;
    served.until("all are planned", |served| served.count("PATCH broadcastjobs one") >= 20).await;
    served.rests().await;
    let writes = served.writes();
    let _two = replica(&served, &shown).await;
    served.until("all is read again", |served| served.count("GET broadcastjobs") == 2).await;
    served.rests().await;
    for plural in ["pods", "jobs", "advancedcronjobs", "broadcastjobs"] {
        let asked = (served.count(&format!("GET {plural}")), served.count(&format!("GET {plural} one")));
        assert_eq!(asked, (2, 0), "{plural}");
    }
    assert_eq!(served.writes(), writes, "{served:?}");
}

/// A namespace that cannot be read holds up none of the others, and is read again until it can be. Nothing
/// that was read is read again then, and nothing of it by itself.
#[rstest]
#[case::its_first_list("pods of bad", "GET pods", ("GET broadcastjobs", 2))]
#[case::its_last_list("broadcastjobs of bad", "GET broadcastjobs", ("GET broadcastjobs one", 0))]
#[tokio::test]
async fn a_namespace_that_cannot_be_read_waits_by_itself(
    #[case] refused: &str,
    #[case] again: &str,
    #[case] (others, times): (&str, usize),
) {
    let served = Served::default();
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let mut shown = Vec::new();
    for namespace in ["bad", "good", "well"] {
        let mut job = object(Kind::Broadcast, namespace, json!({ "template": { "spec": pod } }));
        job["metadata"]["namespace"] = namespace.into();
        served.put("broadcastjobs", &job);
        shown.push((Kind::Broadcast, job));
    }
    served.refuse(Method::GET, refused, 500);
    let _one = replica(&served, &shown).await;
    let is_planned = |served: &Served, name: &str| {
        served.get("broadcastjobs", name).is_some_and(|job| !job["status"].is_null())
    };
    let are_planned = |served: &Served| is_planned(served, "good") && is_planned(served, "well");
    served.until("the others are planned", are_planned).await;
    served.until("it is read again", |served| served.count(again) >= 5).await;
    assert!(!is_planned(&served, "bad"), "{served:?}");
    assert_eq!(served.count(others), times, "{served:?}");
    served.relent();
    served.until("it is planned", |served| is_planned(served, "bad")).await;
}

/// An API server, or a webhook before it, that has errors of its own is not asked for each pod of a job: what
/// it has failed on comes last in the next plan.
#[tokio::test]
async fn errors_of_the_api_server_are_few_requests_of_a_plan() {
    let served = Served::default();
    let nodes: Vec<String> = (0..9).map(|node| format!("n-{node}")).collect();
    nodes.iter().take(8).for_each(|node| served.refuse(Method::POST, node, 500));
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let job = object(Kind::Broadcast, "sweep", json!({ "template": { "spec": pod } }));
    served.put("broadcastjobs", &job);
    let (inputs, _lease) = replica(&served, &[(Kind::Broadcast, job)]).await;
    for name in &nodes {
        let view = node(name, &json!({}));
        inputs.send(Input::Node(Shown::Applied((name.clone(), view)))).await.unwrap();
    }
    served.until("the last one has its pod", |served| served.names("pods").len() == 1).await;
    // All is read between two plans.
    let tries = served.tries("POST pods", "GET broadcastjobs one");
    assert!(tries.len() >= 3 && tries.iter().all(|tries| *tries <= 5), "{tries:?}");
}

/// An admission policy that refuses pods on two nodes, or a webhook that fails on them, keeps no other node
/// waiting, however many pods may run at once.
#[rstest]
#[case::refused(403, json!({}), 3)]
#[case::one_at_a_time(403, json!({ "parallelism": 1 }), 1)]
#[case::a_webhook_fails(500, json!({}), 3)]
#[case::one_at_a_time_and_fails(500, json!({ "parallelism": 1 }), 1)]
#[tokio::test]
async fn a_node_that_nobody_may_use_keeps_no_other_waiting(
    #[case] code: u16,
    #[case] more: Value,
    #[case] made: usize,
) {
    let served = Served::default();
    ["cp-1", "cp-2"].into_iter().for_each(|node| served.refuse(Method::POST, node, code));
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let mut spec = json!({ "template": { "spec": pod } });
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let job = object(Kind::Broadcast, "sweep", spec);
    served.put("broadcastjobs", &job);
    let (inputs, _lease) = replica(&served, &[(Kind::Broadcast, job)]).await;
    for name in ["cp-1", "cp-2", "w-1", "w-2", "w-3"] {
        let view = node(name, &json!({}));
        inputs.send(Input::Node(Shown::Applied((name.to_owned(), view)))).await.unwrap();
    }
    served.until("the others have their pods", |served| served.names("pods").len() == made).await;
    served.until("it is said", |served| served.count("PATCH broadcastjobs one") > 0).await;
}

/// Somebody else writes the job at the same time: its status is decided anew, and not lost.
#[tokio::test]
async fn a_status_that_meets_a_conflict_is_written_again() {
    let served = Served::default();
    served.refuse(Method::PATCH, "sweep", 409);
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let job = object(Kind::Broadcast, "sweep", json!({ "template": { "spec": pod } }));
    served.put("broadcastjobs", &job);
    let (inputs, _lease) = replica(&served, &[(Kind::Broadcast, job)]).await;
    let view = node("n", &json!({}));
    inputs.send(Input::Node(Shown::Applied(("n".to_owned(), view)))).await.unwrap();
    served.until("it is tried again", |served| served.count("PATCH broadcastjobs one") > 1).await;
    let status = |served: &Served| served.get("broadcastjobs", "sweep").unwrap_or_default()["status"].clone();
    assert!(status(&served).is_null(), "{served:?}");
    served.relent();
    served.until("it is there", |served| status(served)["active"] == 1).await;
    assert_eq!(served.names("pods").len(), 1);
}

/// The program may have died between a write and its answer. Rows: owner of the job that has the name, and
/// whether it is the one that was to be made.
#[rstest]
#[case::its_own("nightly", true)]
#[case::of_another("other", false)]
#[tokio::test]
async fn a_job_that_is_there_already_is_the_one_that_was_to_be_made(
    #[case] owner: &str,
    #[case] is_its_own: bool,
) {
    let owners = json!([{ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob", "name": owner,
        "uid": owner, "controller": true }]);
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "namespace": "ns", "name": "nightly-1", "uid": "there", "resourceVersion": "7",
            "ownerReferences": owners },
    });
    let cron = object(Kind::Cron, "nightly", json!({ "schedule": "0 0 * * *", "template": {} }));
    let (there, of_cron) = (job.clone(), cron.clone());
    let writer = served::writer(move |method, _, body| match *method {
        Method::POST => json!({ "kind": "Status", "status": "Failure", "code": 409, "metadata": {},
            "message": "there", "reason": "AlreadyExists" }),
        Method::GET => there.clone(),
        _ => {
            let mut cron = of_cron.clone();
            cron["status"] = body["status"].clone();
            cron
        }
    });
    let filed = Kind::Cron.read(serde_json::from_value(cron).unwrap()).unwrap();
    let mut work = Work::<Jobs>::new(writer, filed.object.clone());
    let actions = vec![Action::Create(jobs::Kind::Job, job)];
    let plan = Plan { actions, status: None, status_first: false, again: None, notes: Vec::new() };
    let end = work.run(plan).await;
    let is_taken = matches!(work.wrote.first(), Some(Wrote::Job(job)) if job.uid == "there");
    assert_eq!((end == End::Done, is_taken, work.made), (is_its_own, is_its_own, is_its_own), "{end:?}");
    let says = |end: &End| matches!(end, End::Failed { text, .. } if text.contains("of another owner"));
    assert!(is_its_own || says(&end), "{end:?}");
}

/// A run that was refused before is made in a plan that is held back: nobody takes it for one that is not
/// there, and makes it twice when it has deleted itself.
#[tokio::test]
async fn a_run_that_is_made_beside_what_is_held_back_is_known_as_made() {
    let served = Served::default();
    served.refuse(Method::DELETE, "nightly-1", 429);
    let cron = object(Kind::Cron, "nightly", json!({ "schedule": "0 0 * * *", "template": {} }));
    let filed = Kind::Cron.read(serde_json::from_value(cron).unwrap()).unwrap();
    let mut work = Work::<Jobs>::new(served.writer(), filed.object.clone());
    let target = |name: &str| Target { name: name.to_owned(), uid: name.to_owned(), version: "1".to_owned() };
    let run =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": "ns", "name": "run" } });
    let actions =
        vec![Action::Forget(jobs::Kind::Job, target("nightly-1")), Action::Create(jobs::Kind::Job, run)];
    let plan = Plan { actions, status: None, status_first: false, again: None, notes: Vec::new() };
    let end = work.run(plan).await;
    assert!(matches!(&end, End::Held { refused: None, .. }), "{end:?}");
    assert!(work.made && served.names("jobs") == ["run"], "{served:?}");
}

/// A pod of a job on a node.
fn pod(name: &str, node: &str) -> Value {
    let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "name": "sweep", "uid": "sweep",
        "controller": true });
    json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
            "labels": { broadcast_job::UID_LABEL: "sweep" }, "ownerReferences": [owner] },
        "spec": { "nodeName": node, "containers": [] }, "status": { "phase": "Running" },
    })
}

/// A pod that nobody may delete, or whose deletion a webhook hangs on for a while, keeps no other node
/// waiting. What else is refused is said, rather than that it is held back.
#[rstest]
#[case::refused(403)]
#[case::held_back(429)]
#[case::a_webhook_fails(500)]
#[tokio::test]
async fn a_pod_that_may_not_be_deleted_keeps_no_node_waiting(#[case] code: u16) {
    let served = Served::default();
    served.refuse(Method::DELETE, "stays", code);
    served.refuse(Method::POST, "n-3", 403);
    let template = json!({
        "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never",
        "nodeSelector": { "takes": "jobs" },
    });
    let job = object(Kind::Broadcast, "sweep", json!({ "template": { "spec": template } }));
    served.put("broadcastjobs", &job);
    served.put("pods", &pod("stays", "n-0"));
    let (inputs, _lease) = replica(&served, &[(Kind::Broadcast, job)]).await;
    for name in ["n-0", "n-1", "n-2", "n-3"] {
        let labels = if name == "n-0" { json!({}) } else { json!({ "takes": "jobs" }) };
        let view = node(name, &labels);
        inputs.send(Input::Node(Shown::Applied((name.to_owned(), view)))).await.unwrap();
    }
    served.until("the others have their pods", |served| served.names("pods").len() == 3).await;
    served.until("it is tried again", |served| served.count("DELETE pods one") > 1).await;
    let says = |served: &Served| {
        let job = served.get("broadcastjobs", "sweep").unwrap_or_default();
        job["status"]["conditions"].to_string().contains("FailedWrite")
    };
    served.until("it is said", says).await;
}

/// A policy refuses the deletion of many pods of a job that has failed, or a webhook fails on it: all others
/// are gone soon.
#[rstest]
#[case::refused(403, 20)]
#[case::held_back(429, 20)]
#[case::a_webhook_fails(500, 10)]
#[tokio::test]
async fn pods_that_may_not_be_deleted_keep_no_others(#[case] code: u16, #[case] stay: usize) {
    let served = Served::default();
    let spec = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let mut job = object(Kind::Broadcast, "sweep", json!({ "template": { "spec": spec } }));
    job["status"] = json!({ "phase": "failed", "completionTime": "2026-01-01T00:00:00Z" });
    served.put("broadcastjobs", &job);
    for number in 0..100 {
        let name = format!("p-{number:02}");
        served.put("pods", &pod(&name, &format!("n-{number}")));
        if number < stay {
            served.refuse(Method::DELETE, &name, code);
        }
    }
    let _one = replica(&served, &[(Kind::Broadcast, job)]).await;
    served.until("the others are gone", |served| served.names("pods").len() == stay).await;
    let tries = served.count("DELETE pods one");
    assert!(tries <= 140, "{tries}: {served:?}");
}

/// An AdvancedCronJob that keeps no jobs of the past; its newest time is the last midnight.
fn nightly(of_job: &Value) -> Value {
    let pod = json!({ "containers": [{ "name": "main", "image": "a:1" }], "restartPolicy": "Never" });
    let mut spec = json!({ "template": { "spec": pod } });
    spec.as_object_mut().unwrap().extend(of_job.as_object().cloned().unwrap());
    let template = json!({ "jobTemplate": { "spec": spec } });
    let spec = json!({ "schedule": "@daily", "successfulJobsHistoryLimit": 0, "template": template });
    object(Kind::Cron, "nightly", spec)
}

/// A job of the past that nobody may delete keeps no run from its time, and no other job of the past.
#[rstest]
#[case::refused(403)]
#[case::held_back(429)]
#[case::a_webhook_fails(500)]
#[tokio::test]
async fn a_job_of_the_past_that_stays_keeps_no_run_waiting(#[case] code: u16) {
    let served = Served::default();
    served.refuse(Method::DELETE, "nightly-2", code);
    let cron = nightly(&json!({}));
    served.put("advancedcronjobs", &cron);
    for name in ["nightly-1", "nightly-2"] {
        let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob",
            "name": "nightly", "uid": "nightly", "controller": true });
        let job = json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
                "ownerReferences": [owner] },
            "status": { "conditions": [{ "type": "Complete", "status": "True" }] },
        });
        served.put("jobs", &job);
    }
    let _one = replica(&served, &[(Kind::Cron, cron)]).await;
    let runs = |served: &Served| {
        let jobs = served.names("jobs");
        let has = |name: &str| jobs.iter().any(|job| job == name);
        jobs.len() == 2 && has("nightly-2") && !has("nightly-1")
    };
    served.until("it runs, and the other one is gone", runs).await;
    let says = |served: &Served| {
        let cron = served.get("advancedcronjobs", "nightly").unwrap_or_default();
        cron["status"]["conditions"].to_string().contains("FailedWrite")
    };
    served.until("it is said", |served| code == 429 || says(served)).await;
}

/// A job that is held back was not made: that it would be gone soon makes no missed run of it.
#[tokio::test]
async fn a_run_that_is_held_back_is_made_later() {
    let served = Served::default();
    served.refuse(Method::POST, "jobs of ns", 429);
    let cron = nightly(&json!({ "ttlSecondsAfterFinished": 1 }));
    served.put("advancedcronjobs", &cron);
    let _one = replica(&served, &[(Kind::Cron, cron)]).await;
    served.until("it is tried again", |served| served.count("POST jobs") > 2).await;
    served.relent();
    served.until("it is made", |served| served.names("jobs").len() == 1).await;
    let cron = served.get("advancedcronjobs", "nightly").unwrap();
    assert!(!cron["status"]["missed"].to_string().contains("cannot be known"), "{cron}");
}
