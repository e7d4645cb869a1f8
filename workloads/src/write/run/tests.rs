//! Plans at an API server that refuses some of their writes.

mod entries;
mod late;
mod make;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use berth_proto::crd::CloneSet;
use berth_workloads_policy::{action::Target, names::GRACE_ANNOTATION, plan::Cause};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::{
    events,
    kinds::Set,
    metrics::Metrics,
    write::{Report, Writer},
};

fn set() -> Set {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "namespace": "ns", "name": "shop", "uid": "set" },
        "spec": { "selector": {}, "template": {} },
    });
    Arc::new(serde_json::from_value::<CloneSet>(set).unwrap())
}

fn new(name: &str) -> Action {
    Action::CreatePod(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "ns", "name": name },
        "spec": { "containers": [] },
    }))
}

fn target(name: &str) -> Target {
    Target { name: name.to_owned(), uid: name.to_owned(), version: "1".to_owned() }
}

fn open(name: &str) -> Action {
    Action::PatchPodStatus(target(name), json!({ "status": { "conditions": [] } }))
}

/// Code of an answer: it is done, and a webhook has taken labels and owners off, and put an annotation back.
const CHANGED: u16 = 200;
/// No answer ever comes: a webhook hangs.
const HANGS: u16 = 0;
/// The API server takes no request.
const BUSY: u16 = 1;
/// Somebody has the name.
const TAKEN: u16 = 2;
/// The set's own pod has the name.
const OWN: u16 = 3;
/// There is no pod of that name any more.
const NONE: u16 = 4;

/// Requests, and the codes that they are answered with.
type Refused = &'static [(&'static str, u16)];

/// Three parts, in which two pods are made, one is deleted and two gates are opened, at an API server:
/// what it was asked, and the end.
async fn carried_out(refused: Refused) -> (String, End) {
    let mut plan = Plan { status: Some(json!({ "replicas": 2 })), ..Plan::default() };
    plan.actions = vec![new("a"), new("b"), Action::DeletePod(target("c")), open("d"), open("e")];
    plan.parts = vec![2, 3];
    let (asked, end, _) = carry_out(plan, refused).await;
    (asked, end)
}

/// Plan that is carried out at an API server: what it was asked, the end, and reasons of the Events.
async fn carry_out(plan: Plan, refused: Refused) -> (String, End, Vec<&'static str>) {
    let (asked, report, reasons) = report(plan, refused.to_vec()).await;
    (asked, report.end, reasons)
}

async fn report(plan: Plan, refused: Vec<(&str, u16)>) -> (String, Report, Vec<&'static str>) {
    report_after(plan, refused, &[]).await
}

/// Keys of what is put off.
fn late(report: &Report) -> Vec<String> {
    report.put_off.iter().flat_map(|late| late.names.clone()).collect()
}

/// The same, after a plan that has put these off.
async fn report_after(
    plan: Plan,
    refused: Vec<(&str, u16)>,
    put_off: &[&str],
) -> (String, Report, Vec<&'static str>) {
    let refused: Vec<(String, u16)> =
        refused.into_iter().map(|(what, code)| (what.to_owned(), code)).collect();
    let refused = Arc::new(refused);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (seen, refused) = (seen.clone(), refused.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path();
            let last = path.rsplit('/').find(|part| *part != "status").unwrap_or_default();
            let what = match parts.method {
                Method::POST => format!("+{}", body["metadata"]["name"].as_str().unwrap_or_default()),
                Method::DELETE => format!("-{last}"),
                Method::GET if path.contains("clonesets") => "read".to_owned(),
                // The workloads may not get a pod.
                Method::GET if path.ends_with("/pods") => format!("find {}", named(&parts.uri)),
                _ if path.contains("clonesets") => "status".to_owned(),
                _ => format!("open {last}"),
            };
            seen.lock().unwrap().push(what.clone());
            let code = refused.iter().find(|(refused, _)| *refused == what).map(|(_, code)| *code);
            if code == Some(HANGS) {
                std::future::pending::<()>().await;
            }
            if code == Some(BUSY) {
                let text = Body::from(b"Too many requests, please try again later.\n".to_vec());
                return Ok(Response::builder().status(429).body(text).unwrap());
            }
            if code == Some(TAKEN) {
                let taken = json!({
                    "kind": "Status", "status": "Failure", "code": 409, "metadata": {}, "message": "",
                    "reason": "AlreadyExists",
                });
                let answer = Body::from(serde_json::to_vec(&taken).unwrap());
                return Ok(Response::builder().status(409).body(answer).unwrap());
            }
            if let Some(name) = what.strip_prefix("find ")
                && code.is_none_or(|code| code == OWN || code == NONE)
            {
                let owner = json!([{
                    "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "shop", "uid": "set",
                    "controller": true,
                }]);
                let owners = if code == Some(OWN) { owner } else { json!([]) };
                let meta =
                    json!({ "name": name, "uid": name, "resourceVersion": "2", "ownerReferences": owners });
                let items =
                    if code == Some(NONE) { json!([]) } else { json!([{ "metadata": meta, "spec": {} }]) };
                let list = json!({ "metadata": { "resourceVersion": "5" }, "items": items });
                return Ok(Response::builder().body(Body::from(serde_json::to_vec(&list).unwrap())).unwrap());
            }
            let answer = match code {
                Some(CHANGED) => json!({ "metadata": {
                    "name": last, "uid": last, "resourceVersion": "2", "annotations": { GRACE_ANNOTATION: "{}" },
                } }),
                Some(code) => json!({
                    "kind": "Status", "status": "Failure", "code": code, "metadata": {},
                    "message": format!("{what} is refused"), "reason": "",
                }),
                None => {
                    let uid = if path.contains("clonesets") { "set" } else { last };
                    let mut meta = json!({ "name": last, "uid": uid, "resourceVersion": "2" });
                    for part in ["labels", "ownerReferences"] {
                        meta[part] = body["metadata"][part].clone();
                    }
                    if let Some(labels) = meta["labels"].as_object_mut() {
                        labels.retain(|_, value| !value.is_null());
                    }
                    json!({ "metadata": meta, "spec": {} })
                }
            };
            let answer = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code.unwrap_or(200)).body(answer).unwrap())
        }
    });
    let (events, mut told) = events::channel();
    let writer = Writer { client: Client::new(service, "ns"), metrics: Metrics::default(), events };
    let put_off = put_off.iter().map(|pod| (*pod).to_owned()).collect();
    let report = writer.carry_out(set(), plan, &put_off, BTreeMap::new()).await;
    let reasons = std::iter::from_fn(|| told.try_recv().ok().map(|(_, note)| note.reason)).collect();
    (asked.lock().unwrap().join(" "), report, reasons)
}

/// Name of the one object that a list is asked for.
fn named(uri: &http::Uri) -> &str {
    let query = uri.query().unwrap_or_default();
    let selector = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
    selector.unwrap_or_default()
}

/// Clients watch for these reasons.
#[tokio::test]
async fn what_is_told_of_a_write_to_a_pod() {
    let delete = || Action::DeletePod(target("c"));
    let patch = || {
        let labels = json!({ "a": "b", "gone": null });
        Action::PatchPod(target("c"), json!({ "metadata": { "labels": labels } }))
    };
    let mark =
        || Action::MarkRevision(target("c"), json!({ "metadata": { "labels": { "a": "b", "gone": null } } }));
    let ended = || {
        let annotations = json!({ GRACE_ANNOTATION: null, "unread": "b" });
        Action::PatchPod(target("c"), json!({ "metadata": { "annotations": annotations } }))
    };
    let table: [(Action, Option<Cause>, Refused, &[&str]); 12] = [
        (delete(), None, &[], &["SuccessfulDelete"]),
        (delete(), None, &[("-c", 403)], &["FailedDelete"]),
        (delete(), Some(Cause::Update), &[], &["SuccessfulDelete", "SuccessfulUpdatePodReCreate"]),
        (delete(), Some(Cause::Update), &[("-c", 403)], &["FailedUpdatePodReCreate"]),
        (patch(), None, &[], &[]),
        (patch(), Some(Cause::Repair), &[], &["SuccessfulUpdate"]),
        (patch(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (patch(), Some(Cause::Repair), &[("open c", CHANGED)], &["FailedUpdate"]),
        (mark(), None, &[], &[]),
        (mark(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
        (ended(), None, &[], &[]),
        (ended(), None, &[("open c", CHANGED)], &["FailedUpdate"]),
    ];
    for (action, cause, refused, reasons) in table {
        let mut plan = Plan { actions: vec![action.clone()], ..Plan::default() };
        plan.causes.extend(cause.map(|cause| ("c".to_owned(), cause)));
        assert_eq!(carry_out(plan, refused).await.2, reasons, "{action:?} {cause:?}");
    }
}

#[tokio::test]
async fn a_failure_keeps_nothing_else_from_being_written() {
    let scale = |what: &str| End::ScaleFailed(format!("{what} is refused"));
    let held =
        |what: &str| End::Held(Box::new(End::ScaleFailed(format!("held back for now: {what} is refused"))));
    let update = |what: &str| End::UpdateFailed(format!("{what} is refused"));
    let all = "+a +b -c open d open e status";
    let table: [(Refused, &str, End); 10] = [
        (&[], all, End::Done),
        (&[("+a", 403)], all, scale("+a")),
        // A webhook fails on one pod.
        (&[("+a", 500)], all, scale("+a")),
        (&[("+b", 403)], all, scale("+b")),
        (&[("-c", 429)], all, held("-c")),
        (&[("+a", 503), ("-c", 429), ("open d", 403)], all, scale("+a")),
        // What is held back for long hides no failure.
        (&[("-c", 429), ("open d", 403)], all, update("open d")),
        (&[("open d", 403)], all, update("open d")),
        (&[("open d", 500)], all, update("open d")),
        // The picture is old: all is decided anew, and what has failed goes on counting.
        (&[("open d", 409)], "+a +b -c open d", End::Changed),
    ];
    for (refused, asked, end) in table {
        assert_eq!(carried_out(refused).await, (asked.to_owned(), end), "{refused:?}");
    }
    assert_eq!(
        carried_out(&[("+a", 403), ("open d", 409)]).await,
        ("+a +b -c open d status".to_owned(), scale("+a"))
    );
}

/// A webhook that hangs has the default of ten seconds, or up to thirty.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_keeps_nothing_else_from_being_written() {
    let (asked, end) = carried_out(&[("+a", HANGS)]).await;
    assert_eq!(asked, "+a +b -c open d open e status");
    assert!(matches!(&end, End::ScaleFailed(text) if text.contains("no answer")), "{end:?}");
    let plan = Plan { actions: ["0", "1", "2", "3"].map(open).to_vec(), ..Plan::default() };
    let (asked, report, reasons) = report(plan, vec![("open 0", HANGS), ("open 2", HANGS)]).await;
    assert_eq!((asked.as_str(), report.unread), ("open 0 open 1 open 2 open 3", true));
    assert_eq!(late(&report), ["0", "2"]);
    assert_eq!((reasons.len(), report.end.is_failure()), (2, true));
    let plan = Plan { actions: ["0", "1", "2", "3"].map(open).to_vec(), ..Plan::default() };
    let hang = vec![("open 0", HANGS), ("open 1", HANGS), ("open 2", HANGS)];
    let (asked, report, _) = self::report(plan, hang).await;
    assert_eq!(
        (asked.as_str(), late(&report)),
        ("open 0 open 1 open 2", ["0", "1", "2"].map(str::to_owned).to_vec())
    );
}

/// All of these are in one part.
#[tokio::test]
async fn a_pod_that_cannot_be_written_to_is_set_aside_with_its_claims() {
    let forget = || Action::ForgetInPlace { node: "n".to_owned(), uid: "x".to_owned() };
    let delete = |name: &str| Action::DeletePod(target(name));
    let claim = |name: &str| Action::DeleteClaim(target(name));
    let table: [(Vec<Action>, Refused, &str); 7] = [
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("z")],
            &[],
            "-x -of-x -y -of-y open z",
        ),
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("z")],
            &[("-x", 429)],
            "-x -y -of-y open z",
        ),
        (
            vec![delete("x"), claim("of-x"), delete("y"), claim("of-y"), open("x"), claim("of-x")],
            &[("-x", 500)],
            "-x -y -of-y",
        ),
        // Its update is not taken back, so it is not deleted.
        (vec![forget(), delete("x"), claim("of-x"), delete("y")], &[("open n", 503)], "open n -y"),
        // A claim is a claim alone: what has to wait for it is none of this plan.
        (vec![claim("c"), claim("d"), delete("x"), claim("of-x")], &[("-c", 403)], "-c -d -x -of-x"),
        (
            vec![delete("x"), claim("of-x"), claim("more"), delete("y")],
            &[("-of-x", 403)],
            "-x -of-x -more -y",
        ),
        ((0..20).map(|_| open("z")).collect(), &[("open z", 403)], "open z"),
    ];
    for (actions, refused, asked) in table {
        let plan = Plan { actions, ..Plan::default() };
        assert_eq!(carry_out(plan, refused).await.0, asked, "{refused:?}");
    }
    let many = (0..20).map(|at| open(&format!("p{at}"))).collect();
    let all: Vec<String> = (0..20).map(|at| format!("open p{at}")).collect();
    let refused = all.iter().map(|what| (what.as_str(), 403)).collect::<Vec<_>>();
    let asked = report(Plan { actions: many, ..Plan::default() }, refused).await.0;
    assert_eq!(asked, all[..MOST_ASIDE].join(" "), "what refuses all is not asked a thousand times");
}

/// A webhook that does not answer takes many seconds each time. Rows: codes of the pods in their order, those
/// that were put off before, what is asked, and what is put off now.
#[tokio::test]
async fn errors_of_the_api_server_end_their_part_and_the_others_come_first_then() {
    type Row = (&'static [u16], &'static [&'static str], &'static str, &'static [&'static str]);
    let table: [Row; 7] = [
        (&[500, 0, 503, 0, 500, 0, 0], &[], "0 1 2 3 4", &["0", "2", "4"]),
        (&[500, 0, 503, 0, 500, 0, 0], &["0", "2", "4"], "1 3 5 6 0 2 4", &["0", "2", "4"]),
        (&[500, 500, 0], &[], "0 1 2", &["0", "1"]),
        (&[403, 403, 403, 500, 403, 0], &[], "0 1 2 3 4 5", &["0", "1", "2", "3", "4"]),
        (&[500, 500, 500, 500, 500, 500], &["0", "1", "2"], "3 4 5", &["3", "4", "5"]),
        (&[0, 0, 0], &["1"], "0 2 1", &[]),
        (&[0, 0, 0], &["0", "1", "2", "gone"], "0 1 2", &[]),
    ];
    for (codes, before, asked, put_off) in table {
        let actions: Vec<Action> = (0..codes.len()).map(|at| open(&at.to_string())).collect();
        let names: Vec<String> = (0..codes.len()).map(|at| format!("open {at}")).collect();
        let refused = names.iter().zip(codes).filter(|(_, code)| **code > 0);
        let refused = refused.map(|(name, code)| (name.as_str(), *code)).collect();
        let plan = Plan { actions, ..Plan::default() };
        let (was_asked, report, _) = report_after(plan, refused, before).await;
        assert_eq!(was_asked.replace("open ", ""), asked, "{codes:?} {before:?}");
        assert_eq!(late(&report), put_off, "{codes:?} {before:?}");
    }
    // They are counted over all parts, and each part is tried.
    let actions = ["0", "1", "2", "3", "4", "5"].map(open).to_vec();
    let plan = Plan { actions, parts: vec![2, 4], ..Plan::default() };
    let all = ["open 0", "open 1", "open 2", "open 3", "open 4", "open 5"];
    let refused = all.iter().map(|what| (*what, 500)).collect();
    assert_eq!(report(plan, refused).await.0, "open 0 open 1 open 2 open 4");
    // Claims of a pod stay behind it.
    let claim = |name: &str| Action::DeleteClaim(target(name));
    let delete = |name: &str| Action::DeletePod(target(name));
    let actions = vec![claim("first"), delete("x"), claim("of-x"), delete("y"), claim("of-y"), new("z")];
    let plan = Plan { actions, ..Plan::default() };
    assert_eq!(report_after(plan, Vec::new(), &["x"]).await.0, "-first -y -of-y +z -x -of-x");
}

/// Rows: what is refused, what is asked, and the UIDs of what was not adopted.
#[tokio::test]
async fn one_that_cannot_be_adopted_keeps_nothing_from_being_written() {
    let adopts = |names: &[String]| {
        let owner = json!({ "apiVersion": "v1", "kind": "CloneSet", "name": "shop", "uid": "set", "controller": true });
        let patch = json!({ "metadata": { "ownerReferences": [owner] } });
        let adopt = |name: &String| Action::AdoptPod(target(name), patch.clone());
        let revision = Action::AdoptRevision(target("r"), patch.clone());
        let actions: Vec<Action> = [revision].into_iter().chain(names.iter().map(adopt)).collect();
        Plan { parts: vec![actions.len()], actions, ..Plan::default() }
    };
    let all = "read open r read open a read open b +c";
    let table: [(Refused, &str, &[&str]); 6] = [
        (&[], all, &[]),
        (&[("open r", CHANGED), ("open b", CHANGED)], all, &["r", "b"]),
        (&[("open r", 422)], all, &["r"]),
        (&[("open a", 403), ("open b", 500)], all, &["a", "b"]),
        (&[("read", 403)], "read read read +c", &["r", "a", "b"]),
        // The picture is old.
        (&[("open r", 409)], "read open r", &[]),
    ];
    for (refused, asked, unadopted) in table {
        let mut plan = adopts(&["a".to_owned(), "b".to_owned()]);
        plan.actions.push(new("c"));
        let (was_asked, report, reasons) = report(plan, refused.to_vec()).await;
        assert_eq!(was_asked, asked, "{refused:?}");
        let uids: Vec<&str> = report.unadopted.iter().map(|(uid, _)| uid.as_str()).collect();
        assert_eq!(uids, unadopted, "{refused:?}");
        let said = reasons.iter().filter(|reason| **reason == "FailedUpdate").count();
        assert_eq!(said, unadopted.len(), "{refused:?}");
        let end = if asked.ends_with("+c") { End::Done } else { End::Changed };
        let is_server_error = refused.iter().any(|(_, code)| *code == 500);
        assert_eq!((report.end, report.unread), (end, is_server_error), "{refused:?}");
    }
    let many: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    let refused: Vec<String> = many.iter().map(|name| format!("open {name}")).collect();
    let refused = refused.iter().map(|what| (what.as_str(), 403)).collect();
    let (asked, report, _) = report(adopts(&many), refused).await;
    assert_eq!((report.unadopted.len(), asked.matches("open p").count()), (16, 16), "{asked}");
    let refused: Vec<String> = many.iter().map(|name| format!("open {name}")).collect();
    let refused = refused.iter().map(|what| (what.as_str(), 500)).collect();
    let (asked, report, _) = self::report(adopts(&many), refused).await;
    assert_eq!((report.unadopted.len(), asked.matches("open p").count()), (3, 3), "{asked}");
}
