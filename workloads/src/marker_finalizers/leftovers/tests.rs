//! Markers that are left from a time with the option.

use std::sync::{Arc, Mutex};

use berth_base::lease::Term;
use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::served;

/// Markers of the API server, and what was asked.
#[derive(Default)]
struct Server {
    markers: Vec<Value>,
    asked: Vec<String>,
}

fn marker(name: &str, finalizers: &[&str], is_deleted: bool) -> Value {
    json!({ "metadata": {
        "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1", "finalizers": finalizers,
        "deletionTimestamp": is_deleted.then_some("2026-01-01T00:00:00Z"),
    } })
}

/// Requests of so many seconds of a replica that leads; a list is answered with the code, if there is one.
async fn asked(markers: Vec<Value>, code: Option<u16>, seconds: u64) -> Vec<String> {
    let server = Arc::new(Mutex::new(Server { markers, asked: Vec::new() }));
    let shared = server.clone();
    let writer = served::writer(move |method, path, body| {
        let mut server = shared.lock().unwrap();
        let name = path.rsplit('/').next().unwrap();
        server.asked.push(format!("{method} {name} {}", body["metadata"]["finalizers"]));
        if let Some(code) = code {
            return json!({ "kind": "Status", "status": "Failure", "code": code, "metadata": {},
                "message": "no", "reason": "" });
        }
        if *method == Method::GET {
            let items = &server.markers;
            return json!({ "metadata": { "resourceVersion": "9" }, "items": items });
        }
        server.markers.retain(|one| one["metadata"]["name"] != name);
        let finalizers = &body["metadata"]["finalizers"];
        json!({ "metadata": { "namespace": "ns", "name": name, "finalizers": finalizers } })
    });
    let (lease, tenure) = Tenure::of_test();
    let until = tokio::time::Instant::now() + Duration::from_secs(3600);
    lease.send_replace(Some(Term::of_test(until)));
    let _ = timeout(Duration::from_secs(seconds), let_go(writer, tenure)).await;
    server.lock().unwrap().asked.clone()
}

const LIST: &str = "GET podprobemarkers null";

#[tokio::test(start_paused = true)]
async fn it_is_taken_off_what_is_deleted_and_nothing_is_asked_after_that() {
    let markers = vec![
        marker("goes", &["other", FINALIZER], true),
        marker("of-others", &["other"], true),
        marker("stays", &[], false),
    ];
    assert_eq!(asked(markers, None, 600).await, [LIST, r#"PATCH goes ["other"]"#]);
}

/// It may be deleted tomorrow.
#[tokio::test(start_paused = true)]
async fn one_that_stays_is_looked_at_again() {
    let all = asked(vec![marker("stays", &[FINALIZER], false)], None, 100).await;
    assert_eq!(all, [LIST; 4], "each half a minute");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_asks_once() {
    for code in [403, 404] {
        assert_eq!(asked(Vec::new(), Some(code), 600).await, [LIST], "{code}");
    }
    let all = asked(Vec::new(), Some(500), 100).await;
    assert_eq!(all, [LIST; 4], "it is tried again");
}
