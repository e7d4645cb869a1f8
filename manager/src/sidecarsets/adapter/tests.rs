//! The watch against an API server that refuses it at first.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::service_fn;

use super::*;

/// A ControllerRevision that an object of this kind decides on.
fn object(name: &str, kind: &str, number: i64) -> Value {
    json!({
        "metadata": {
            "namespace": "kruise-system", "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "5",
            "labels": { SET_LABEL: "s", "apps.kruise.io/sidecarset-custom-version": "v" },
            "ownerReferences": [{ "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "s", "uid": "u", "controller": true }],
        },
        "revision": number,
    })
}

/// Answers of the API server: a refusal, a list, and the events of a watch.
fn answer(number: usize, is_watch: bool) -> (u16, String) {
    if number == 0 {
        let text = "controllerrevisions is forbidden";
        let refusal = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": text });
        return (403, refusal.to_string());
    }
    if !is_watch {
        let items = [object("one", "SidecarSet", 1), object("other", "CloneSet", 1)];
        return (200, json!({ "metadata": { "resourceVersion": "5" }, "items": items }).to_string());
    }
    let event = |kind: &str, object: Value| format!("{}\n", json!({ "type": kind, "object": object }));
    let events = [
        event("ADDED", object("two", "SidecarSet", 2)),
        event("MODIFIED", object("one", "SidecarSet", 3)),
        event("MODIFIED", object("one", "CloneSet", 3)),
        event("DELETED", object("two", "SidecarSet", 2)),
    ];
    (200, events.concat())
}

#[tokio::test(start_paused = true)]
async fn what_sets_decide_on_is_shown() {
    let count = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<Body>| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        assert_eq!(path, "/apis/apps/v1/namespaces/kruise-system/controllerrevisions");
        assert!(query.contains("labelSelector=kruise.io%2Fsidecarset-name"), "{query}");
        let is_watch = query.contains("watch=true");
        assert!(is_watch || query.contains("limit=32"), "a small page: {query}");
        async move {
            // One watch says something, and the next ones nothing any more.
            if is_watch && number > 2 {
                std::future::pending::<()>().await;
            }
            let (code, body) = answer(number, is_watch);
            let body = Body::from(body.into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let (sender, mut events) = mpsc::channel(16);
    let task = tokio::spawn(follow_filed(Client::new(service, "ns"), "kruise-system".to_owned(), sender));
    let mut seen = Vec::new();
    while seen.len() < 9 {
        let event =
            timeout(Duration::from_secs(20), events.recv()).await.expect("an event").expect("a watch");
        seen.push(match event {
            FiledEvent::ListBegins => "list".to_owned(),
            FiledEvent::ListEnds => "end".to_owned(),
            FiledEvent::Gone(uid) => format!("not {uid}"),
            FiledEvent::Applied(one) => {
                let FiledRevision { name, owner, number, custom_version, .. } = one;
                format!("{name} of {owner}: {number} {}", custom_version.unwrap_or_default())
            }
        });
    }
    let expected = [
        "list",
        "list",
        "one of u: 1 v",
        "not uid-of-other",
        "end",
        "two of u: 2 v",
        "one of u: 3 v",
        "not uid-of-one",
        "not uid-of-two",
    ];
    assert_eq!(seen, expected);
    task.abort();
}
