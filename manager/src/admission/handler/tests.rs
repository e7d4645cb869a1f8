//! Decisions on what is sent: every review is answered, and an object that is refused by now may lose its
//! finalizers.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    admission::{
        configuration::announcements, lists::Lists, locks::ObjectLocks, review, spreads::SpreadKept,
        view::follow_owned,
    },
    served,
};

/// A client of an API server that has nothing.
fn client() -> Client {
    served::client(|_| served::failure(404)).0
}

/// A view that lists nothing.
async fn empty<V: PartialEq + Send + Sync + 'static>() -> watch::Receiver<View<V>> {
    let (view, mut shown) = watch::channel(View::default());
    let all = Api::<Namespace>::all(client());
    tokio::spawn(follow_owned(false, all, "nothing", |_| None, None, view));
    shown.changed().await.unwrap();
    shown
}

/// A manager with all of that switched off.
async fn handler() -> Handler {
    Handler {
        client: client(),
        counter: protection::Counter::new(client()),
        namespace: "berth-system".to_owned(),
        sets: empty().await,
        namespaces: empty().await,
        coming: announcements().0,
        webhooks: watch::channel(Webhooks::Off).1,
        entries: empty().await,
        guard: Arc::new(Guard { client: client(), budgets: empty().await, locks: ObjectLocks::default() }),
        placer: Placer {
            client: client(),
            spreads: empty().await,
            locks: ObjectLocks::default(),
            lists: Lists::new(empty().await, |_| false),
        },
        spreads: false,
        restorer: Restorer {
            client: client(),
            states: empty().await,
            lists: Lists::new(empty().await, |_| false),
        },
        pod_states: false,
        limits: false,
        pod_readiness_gate: false,
        any_metadata: false,
        template_defaults: true,
    }
}

#[rstest]
#[case::set(Route::CheckSets, json!({ "patchPodMetadata": [{ "annotations": { "not.listed/any-more": "1" } }] }))]
#[case::spread(Route::CheckSpreads, json!({ "subsets": [] }))]
#[case::state(Route::CheckStates, json!({ "targetRef": {} }))]
#[case::budget(Route::CheckBudgets, json!({ "maxUnavailable": -1 }))]
#[tokio::test]
async fn one_that_is_deleted_loses_its_finalizers(#[case] route: Route, #[case] spec: Value) {
    let handler = handler().await;
    let object = |finalizers: &[&str], deleted: bool, label: &str| {
        let deleted = deleted.then_some("2026-07-02T10:00:00Z");
        let metadata = json!({ "name": "x", "finalizers": finalizers, "deletionTimestamp": deleted,
            "labels": { "l": label } });
        json!({ "metadata": metadata, "spec": spec })
    };
    let update = |object: Value, old_object: Value| Request { object, old_object, ..Request::default() };
    let foreground = &["foregroundDeletion"];
    let goes = update(object(&[], true, "a"), object(foreground, true, "a"));
    assert_eq!(handler.decide(route.clone(), &goes).await, Verdict::AS_IT_IS);
    for (what, request) in [
        ("a new one", update(object(&[], false, "a"), Value::Null)),
        ("another label", update(object(&[], false, "b"), object(&[], false, "a"))),
        ("another spec", {
            let mut request = goes.clone();
            request.object["spec"]["more"] = json!(1);
            request
        }),
    ] {
        let verdict = handler.decide(route.clone(), &request).await;
        assert!(matches!(verdict, Verdict::Refused { .. }), "{what}: {verdict:?}");
    }
}

/// Where one entry is for all spreads of a namespace, nothing is written for one more: none is announced, and
/// no reconciler looks at all of them.
#[rstest]
#[case::one_more("shop", &["other"], 0)]
#[case::the_first("shop", &[], 1)]
#[case::made_anew("shop", &["web"], 1)]
#[case::of_another_namespace("store", &["other"], 1)]
#[tokio::test]
async fn a_spread_that_is_asked_about_is_not_announced(
    #[case] namespace: &str,
    #[case] known: &[&str],
    #[case] announced: usize,
) {
    let spec = |name: &str| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name });
        json!({ "targetRef": target, "subsets": [{ "name": "a" }] })
    };
    let request = |name: &str| Request {
        namespace: namespace.to_owned(),
        object: json!({ "metadata": { "name": name }, "spec": spec(name) }),
        ..Request::default()
    };
    let kept = known.iter().copied().filter_map(|name| SpreadKept::coming(&request(name)));
    let kept: BTreeMap<_, _> = kept.map(|kept| (format!("{namespace}/{}", kept.name), kept)).collect();
    let spaces = json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["shop"] });
    let entry = json!({
        "name": "pods.workloadspreads.berth.dev", "admissionReviewVersions": ["v1"], "clientConfig": {},
        "sideEffects": "NoneOnDryRun", "namespaceSelector": { "matchExpressions": [spaces] },
    });
    let entries = serde_json::from_value(json!({ "metadata": {}, "webhooks": [entry] })).unwrap();
    let entries = View::of(BTreeMap::from([("berth-manager".to_owned(), entries)]));
    let all = handler().await;
    let handler = Handler {
        entries: watch::channel(entries).1,
        placer: Placer { spreads: watch::channel(View::of(kept)).1, ..all.placer },
        spreads: true,
        ..all
    };
    assert_eq!(handler.decide(Route::CheckSpreads, &request("web")).await, Verdict::AS_IT_IS);
    assert_eq!(handler.coming.spreads.borrow().len(), announced);
}

/// Reviews as no API server sends them: fields that are missing or of another type, objects that are not
/// there, and all subresources on all paths. Each has an answer, or says what is not ready.
#[tokio::test(start_paused = true)]
async fn every_review_is_answered() {
    let all = handler().await;
    let handler = Handler { spreads: true, pod_states: true, limits: true, pod_readiness_gate: true, ..all };
    // A conversion is no decision.
    let routes = Route::all().into_iter().filter(|route| *route != Route::Convert);
    let containers = json!([null, 1, {}, { "name": 2, "env": {}, "ports": "x" }]);
    let shapes = [
        Value::Null,
        json!({}),
        json!({ "metadata": null, "spec": null, "status": null }),
        json!({ "metadata": 1, "spec": "x", "status": [], "deleteOptions": true, "kind": {} }),
        json!({
            "metadata": { "name": 7, "labels": [1], "annotations": "x", "ownerReferences": {} }, "spec": [],
        }),
        json!({
            "kind": "Pod", "metadata": { "namespace": 1, "labels": { "a": 1 }, "ownerReferences": [1, {}] },
            "spec": { "containers": containers, "initContainers": {}, "volumes": 0, "podName": ["p"] },
        }),
        json!({
            "kind": "CloneSet", "spec": {
                "selector": 1, "template": { "spec": { "containers": containers } }, "updateStrategy": 5,
                "scaleStrategy": { "podsToDelete": [1, "../x", ""] }, "patchPodMetadata": {}, "subsets": 1,
            },
        }),
    ];
    for route in routes {
        for operation in ["CREATE", "UPDATE", "DELETE"] {
            for sub_resource in ["", "status", "scale", "eviction", "binding", "ephemeralcontainers"] {
                for object in &shapes {
                    for old_object in [Value::Null, object.clone()] {
                        let request = Request {
                            uid: "u".to_owned(),
                            operation: operation.to_owned(),
                            sub_resource: sub_resource.to_owned(),
                            object: object.clone(),
                            old_object,
                            ..Request::default()
                        };
                        let verdict = handler.decide(route.clone(), &request).await;
                        let Ok(answer) = review::answer(&request, verdict) else { continue };
                        let answer: Value = serde_json::from_slice(&answer).unwrap();
                        assert_eq!(answer["response"]["uid"], "u", "{route:?} {request:?}");
                    }
                }
            }
        }
    }
}
