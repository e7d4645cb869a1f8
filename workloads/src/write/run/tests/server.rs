//! The API server of these tests: what it is asked in short, and how it answers what it refuses.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use berth_workloads_policy::names::GRACE_ANNOTATION;
use http::{Method, Request, Response, request::Parts};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use tower::service_fn;

use super::*;
use crate::{
    events,
    lane::pages,
    metrics::Metrics,
    write::{Report, Writer},
};

/// Code of an answer: it is done, and a webhook has taken labels and owners off, and put an annotation back.
pub(super) const CHANGED: u16 = 200;
/// No answer ever comes: a webhook hangs.
pub(super) const HANGS: u16 = 0;
/// The API server takes no request.
pub(super) const BUSY: u16 = 1;
/// Somebody has the name.
pub(super) const TAKEN: u16 = 2;
/// The set's own pod has the name.
pub(super) const OWN: u16 = 3;
/// There is no pod of that name any more.
pub(super) const NONE: u16 = 4;
/// It is deleted, and a finalizer holds it.
pub(super) const HELD: u16 = 5;

/// Requests, and the codes that they are answered with.
pub(super) type Refused = &'static [(&'static str, u16)];

/// Three parts, in which two pods are made, one is deleted and two gates are opened, at an API server:
/// what it was asked, and the end.
pub(super) async fn carried_out(refused: Refused) -> (String, End) {
    let mut plan = Plan { status: Some(json!({ "replicas": 2 })), ..Plan::default() };
    plan.actions = vec![new("a"), new("b"), Action::DeletePod(target("c")), open("d"), open("e")];
    plan.parts = vec![2, 3];
    let (asked, end, _) = carry_out(plan, refused).await;
    (asked, end)
}

/// Plan that is carried out at an API server: what it was asked, the end, and reasons of the Events.
pub(super) async fn carry_out(plan: Plan, refused: Refused) -> (String, End, Vec<&'static str>) {
    let (asked, report, reasons) = report(plan, refused.to_vec()).await;
    (asked, report.end, reasons)
}

/// The same, with all that is reported.
pub(super) async fn report(plan: Plan, refused: Vec<(&str, u16)>) -> (String, Report, Vec<&'static str>) {
    report_after(plan, refused, &[]).await
}

/// The same, after a plan that has put these off.
pub(super) async fn report_after(
    plan: Plan,
    refused: Vec<(&str, u16)>,
    put_off: &[&str],
) -> (String, Report, Vec<&'static str>) {
    let codes: BTreeMap<String, u16> =
        refused.into_iter().map(|(what, code)| (what.to_owned(), code)).collect();
    let codes = Arc::new(codes);
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, known) = (seen.clone(), codes.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (told, known) = (told.clone(), known.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let what = in_short(&parts, &body);
            told.lock().unwrap().push(what.clone());
            let code = known.get(&what).copied();
            if code == Some(HANGS) {
                std::future::pending::<()>().await;
            }
            let (status, answer) = answer(&what, &parts, &body, code);
            Ok::<_, Infallible>(Response::builder().status(status).body(Body::from(answer)).unwrap())
        }
    });
    let (events, mut told) = events::channel();
    let (client, metrics) = (Client::new(service, "ns"), Metrics::default());
    let writer = Writer { client, metrics, events, pages: pages() };
    let put_off = put_off.iter().map(|pod| (*pod).to_owned()).collect();
    let report = writer.carry_out(set(), plan, &put_off, BTreeMap::new()).await;
    let reasons = std::iter::from_fn(|| told.try_recv().ok().map(|(_, note)| note.reason)).collect();
    let asked = seen.lock().unwrap().clone();
    // A plan that fails nowhere has been refused nothing: nobody asked for what the test means.
    let all_well = report.end == End::Done && report.put_off.is_empty() && report.unadopted.is_empty();
    let unmet: Vec<_> = codes.keys().filter(|what| !asked.contains(what)).collect();
    assert!(!all_well || unmet.is_empty(), "{unmet:?} was never asked, but {asked:?}");
    (asked.join(" "), report, reasons)
}

/// Keys of what is put off.
pub(super) fn late(report: &Report) -> Vec<String> {
    report.put_off.iter().flat_map(|late| late.names.clone()).collect()
}

/// A request: `+` makes, `-` deletes, `find` lists the one pod of a name, `open` is any other one about an
/// object, `read` and `status` are of the set.
fn in_short(parts: &Parts, body: &Value) -> String {
    let path = parts.uri.path();
    match parts.method {
        Method::POST => format!("+{}", body["metadata"]["name"].as_str().unwrap_or_default()),
        Method::DELETE => format!("-{}", named(path)),
        Method::GET if path.contains("clonesets") => "read".to_owned(),
        // The workloads may get neither a pod nor a claim.
        Method::GET if path.ends_with("/pods") || path.ends_with("/persistentvolumeclaims") => {
            format!("find {}", selected(&parts.uri))
        }
        _ if path.contains("clonesets") => "status".to_owned(),
        _ => format!("open {}", named(path)),
    }
}

/// Name of the object that a path is about.
fn named(path: &str) -> &str {
    path.rsplit('/').find(|part| *part != "status").unwrap_or_default()
}

/// Name of the one object that a list is asked for.
fn selected(uri: &http::Uri) -> &str {
    let query = uri.query().unwrap_or_default();
    let selector = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
    selector.unwrap_or_default()
}

/// Status and body of an answer. A code that no such request is answered with is a mistake of the test.
fn answer(what: &str, parts: &Parts, body: &Value, code: Option<u16>) -> (u16, Vec<u8>) {
    let pod = what.strip_prefix("find ");
    let (status, answer) = match (pod, code) {
        (_, Some(BUSY)) => return (429, b"Too many requests, please try again later.\n".to_vec()),
        (Some(pod), None) => (200, list(&[there(pod, json!([]))])),
        (Some(pod), Some(OWN)) => {
            let owner = json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "shop", "uid": "set",
                "controller": true,
            });
            (200, list(&[there(pod, json!([owner]))]))
        }
        (Some(_), Some(NONE)) => (200, list(&[])),
        (None, None) => (200, done(parts, body)),
        (None, Some(TAKEN)) if what.starts_with('+') => {
            let taken = json!({
                "kind": "Status", "status": "Failure", "code": 409, "metadata": {}, "message": "",
                "reason": "AlreadyExists",
            });
            (409, taken)
        }
        (None, Some(CHANGED)) => {
            let name = named(parts.uri.path());
            let meta = json!({
                "name": name, "uid": name, "resourceVersion": "2", "annotations": { GRACE_ANNOTATION: "{}" },
            });
            (200, json!({ "metadata": meta }))
        }
        (None, Some(HELD)) if what.starts_with('-') => {
            let name = named(parts.uri.path());
            let meta = json!({
                "name": name, "uid": name, "resourceVersion": "2", "finalizers": ["a.example.com/b"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            });
            (200, json!({ "metadata": meta, "revision": 1 }))
        }
        (_, Some(code @ 400..)) => {
            let failure = json!({
                "kind": "Status", "status": "Failure", "code": code, "metadata": {},
                "message": format!("{what} is refused"), "reason": "",
            });
            (code, failure)
        }
        (_, Some(code)) => panic!("{what} is never answered with {code}"),
    };
    (status, serde_json::to_vec(&answer).unwrap())
}

fn list(items: &[Value]) -> Value {
    json!({ "metadata": { "resourceVersion": "5" }, "items": items })
}

/// A pod that is there.
fn there(name: &str, owners: Value) -> Value {
    let meta = json!({ "name": name, "uid": name, "resourceVersion": "2", "ownerReferences": owners });
    json!({ "metadata": meta, "spec": {} })
}

/// Object of which a request was carried out.
fn done(parts: &Parts, body: &Value) -> Value {
    let path = parts.uri.path();
    let name = named(path);
    let uid = if path.contains("clonesets") { "set" } else { name };
    let mut meta = json!({ "name": name, "uid": uid, "resourceVersion": "2" });
    for part in ["labels", "ownerReferences"] {
        meta[part] = body["metadata"][part].clone();
    }
    if let Some(labels) = meta["labels"].as_object_mut() {
        labels.retain(|_, value| !value.is_null());
    }
    let mut object = json!({ "metadata": meta, "spec": {} });
    // Of what is written, what is looked at again.
    let part = if path.contains("clonesets") { "spec" } else { "status" };
    for part in [part, "revision"] {
        if let Some(written) = body.get(part) {
            object[part] = written.clone();
        }
    }
    object
}
