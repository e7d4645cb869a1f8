//! A watch against an API server that lacks the kind at first.

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
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;
use tower::{Layer, service_fn};

use berth_base::outage::{ABSENT_PAUSE, PAUSES};
use berth_pace::Pace;

use super::*;
use crate::wire::Updates;

/// A client whose first `times` requests are answered with `code`, lists with one object, and watches never.
fn client(times: usize, code: u16) -> Client {
    let count = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request: Request<Body>| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        async move {
            // As it answers a path that it does not have: no Status, a line of text.
            if number < times {
                let body = Body::from(b"404 page not found\n".to_vec());
                return Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap());
            }
            if request.uri().query().unwrap_or_default().contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let list = json!({
                "kind": "ContainerUpdateRequestList", "apiVersion": "berth.dev/v1alpha1",
                "metadata": { "resourceVersion": "9" },
                "items": [{ "metadata": { "name": "u", "namespace": "shop", "resourceVersion": "7" } }],
            });
            Ok(Response::new(Body::from(serde_json::to_vec(&list).unwrap())))
        }
    });
    Client::new(service, "default")
}

/// A kind that is not installed is looked for again, slowly, and is not taken for a watch that broke.
#[rstest]
#[case::absent(404, ABSENT_PAUSE)]
#[case::broken(503, PAUSES[0])]
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_looked_for_again(#[case] code: u16, #[case] pause: Duration) {
    let (sender, mut inputs) = mpsc::channel(16);
    let metrics = Metrics::register(&mut Registry::default());
    let begun = Instant::now();
    let task = tokio::spawn(follow::<Updates>(client(1, code), sender, metrics, Lists::new().1));
    let mut next = async || inputs.recv().await.unwrap();
    assert!(matches!(next().await, Input::ListBegins(Kind::Update)));
    match code {
        404 => assert!(matches!(next().await, Input::Absent(Kind::Update))),
        _ => assert!(matches!(next().await, Input::Broke(Kind::Update))),
    }
    assert!(matches!(next().await, Input::ListBegins(Kind::Update)));
    let Input::Apply(object) = next().await else { panic!("no object") };
    assert!(matches!(*object, Object::Update(seen) if seen.name == "u"));
    assert!(matches!(next().await, Input::ListEnds(Kind::Update)));
    assert_eq!(begun.elapsed().as_millis(), pause.as_millis());
    task.abort();
}

/// A list comes in small pages: many large objects do not fit into memory at once.
#[rstest]
#[case::small_objects(false, "limit=50")]
#[case::large_ones(true, "limit=8")]
#[tokio::test]
async fn lists_come_in_small_pages(#[case] is_large: bool, #[case] limit: &str) {
    let (asked, mut queries) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        drop(asked.send(request.uri().query().unwrap_or_default().to_owned()));
        async { std::future::pending::<Result<Response<Body>, Infallible>>().await }
    });
    let (sender, _inputs) = mpsc::channel(16);
    let metrics = Metrics::register(&mut Registry::default());
    let client = Client::new(service, "default");
    let task = match is_large {
        true => tokio::spawn(follow::<Updates>(client, sender, metrics, Lists::new().1)),
        false => tokio::spawn(follow::<crate::wire::Pods>(client, sender, metrics, Lists::new().1)),
    };
    let query = queries.recv().await.unwrap();
    assert!(query.split('&').any(|part| part == limit), "{query}");
    task.abort();
}

/// A watch that ends at once with nothing said is no failure, and is asked again; but not as fast as can be.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_spaced() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let service = service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        // Where nothing spaces them time stands still, and the count goes on without it.
        let is_over = is_watch && counted.fetch_add(1, Ordering::Relaxed) >= 1000;
        async move {
            if is_over {
                std::future::pending::<()>().await;
            }
            let list = json!({ "kind": "ContainerUpdateRequestList", "apiVersion": "berth.dev/v1alpha1",
                "metadata": { "resourceVersion": "9" }, "items": [] });
            let body = if is_watch { Vec::new() } else { serde_json::to_vec(&list).unwrap() };
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        }
    });
    let (sender, mut inputs) = mpsc::channel(16);
    let metrics = Metrics::register(&mut Registry::default());
    let client = Client::new(Pace.layer(service), "default");
    let task = tokio::spawn(follow::<Updates>(client, sender, metrics, Lists::new().1));
    let ten_seconds = Instant::now() + Duration::from_secs(10);
    while let Ok(Some(_)) = tokio::time::timeout_at(ten_seconds, inputs.recv()).await {}
    let asked = count.load(Ordering::Relaxed);
    assert!((40..100).contains(&asked), "{asked} in ten seconds");
    task.abort();
}

/// A watch that ends in its time goes on from where it was: nothing is listed again as time passes. Rows: how
/// the API server says of one that its version is gone, and the lists of an hour.
#[rstest]
#[case::each_ends_in_its_time("not", 1)]
#[case::one_breaks("in the watch", 2)]
#[case::one_is_refused("by its status", 2)]
#[tokio::test(start_paused = true)]
async fn only_a_watch_that_breaks_lists_anew(#[case] says: &'static str, #[case] wanted: usize) {
    let (lists, watches) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (of_lists, of_watches) = (lists.clone(), watches.clone());
    let service = service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        let counter = if is_watch { &of_watches } else { &of_lists };
        let number = counter.fetch_add(1, Ordering::Relaxed);
        async move {
            let gone = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version", "reason": "Expired", "code": 410 });
            let says = if number == 30 { says } else { "not" };
            let (code, body) = match (is_watch, says) {
                (false, _) => {
                    let list = json!({ "kind": "ContainerUpdateRequestList",
                        "apiVersion": "berth.dev/v1alpha1", "metadata": { "resourceVersion": "9" },
                        "items": [] });
                    (200, list.to_string())
                }
                (true, "in the watch") => (200, format!("{}\n", json!({ "type": "ERROR", "object": gone }))),
                (true, "by its status") => (410, gone.to_string()),
                (true, _) => {
                    tokio::time::sleep(Duration::from_secs(WATCH_SECONDS.into())).await;
                    (200, String::new())
                }
            };
            let body = Body::from(body.into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let (sender, mut inputs) = mpsc::channel(16);
    let metrics = Metrics::register(&mut Registry::default());
    let client = Client::new(service, "default");
    let task = tokio::spawn(follow::<Updates>(client, sender, metrics, Lists::new().1));
    let hour = Instant::now() + Duration::from_secs(3600);
    while let Ok(Some(_)) = tokio::time::timeout_at(hour, inputs.recv()).await {}
    assert_eq!(lists.load(Ordering::Relaxed), wanted);
    let watched = watches.load(Ordering::Relaxed);
    assert!((55..=62).contains(&watched), "{watched} watches in an hour");
    task.abort();
}

/// A kind is listed anew when somebody asks, and no other one is; two large ones at most come in at once.
#[tokio::test(start_paused = true)]
async fn a_list_is_made_when_it_is_asked_for() {
    let (relists, lists) = Lists::new();
    let metrics = Metrics::register(&mut Registry::default());
    let (sender, mut inputs) = mpsc::channel(16);
    let task = tokio::spawn(follow::<Updates>(client(0, 200), sender, metrics, lists.clone()));
    let mut next = async || tokio::time::timeout(Duration::from_secs(5), inputs.recv()).await;
    for _ in 0..2 {
        assert!(matches!(next().await, Ok(Some(Input::ListBegins(Kind::Update)))));
        assert!(matches!(next().await, Ok(Some(Input::Apply(_)))));
        assert!(matches!(next().await, Ok(Some(Input::ListEnds(Kind::Update)))));
        assert!(next().await.is_err(), "nobody asks");
        relists.send_modify(|asked| asked[Kind::Request as usize] += 1);
        assert!(next().await.is_err(), "it is another kind's");
        relists.send_modify(|asked| asked[Kind::Update as usize] += 1);
    }
    task.abort();
    let places = [lists.place().await, lists.place().await];
    assert!(places.iter().all(Option::is_some));
    let third = tokio::time::timeout(Duration::from_secs(1), lists.place()).await;
    assert!(third.is_err());
}
