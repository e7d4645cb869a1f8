//! Places at an API server that fails.

use std::collections::BTreeMap;

use berth_spread::MATCHED;
use http::Method;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{admission::configuration::one_is_for_all_spreads, served};

#[test]
fn numbers_and_controllers() {
    assert_eq!((ordinal("web-7"), ordinal("web-x7"), ordinal("web")), (Some(7), None, None));
    let pod = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": true},
    ]}});
    assert_eq!(controller(&pod).map(|owner| owner.name), Some("web-1".to_owned()));
    assert_eq!(controller(&json!({})), None);
}

/// WorkloadSpread `s` of ReplicaSet `web`, where subset `a` has a limit and `web-1` is one of its pods.
fn spread() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread",
        "metadata": { "namespace": "shop", "name": "s", "uid": "s", "resourceVersion": "1" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web" },
            "subsets": [{ "name": "a", "maxReplicas": 3 }, { "name": "b" }],
        },
        "status": { "subsetStatuses": [{ "name": "a", "missingReplicas": 2 }, { "name": "b", "missingReplicas": -1 }] },
    })
}

/// Rows: requests that fail, and those that are made.
#[rstest]
#[case::all_is_well(None, &[Method::GET, Method::PUT])]
#[case::not_read(Some(Method::GET), &[Method::GET])]
#[case::not_written(Some(Method::PUT), &[Method::GET, Method::PUT])]
#[tokio::test]
async fn a_pod_goes_though_its_place_cannot_be_given_back(
    #[case] fails: Option<Method>,
    #[case] asked: &[Method],
) {
    let answer = move |request: &http::request::Parts| {
        if fails.as_ref() == Some(&request.method) { served::failure(500) } else { spread() }
    };
    let (client, seen) = served::client(answer);
    let (operation, namespace) = ("DELETE".to_owned(), "shop".to_owned());
    let request = Request { operation, namespace, old_object: pod("web-1"), ..Request::default() };
    assert_eq!(placer(client).leave(&request).await, Verdict::AS_IT_IS);
    assert_eq!(seen.each(|request| request.method.clone()), asked);
}

/// Places by that spread.
fn placer(client: Client) -> Placer {
    let kept = SpreadKept {
        namespace: "shop".to_owned(),
        name: "s".to_owned(),
        spread: Spread::parse(&serde_json::from_value(spread()["spec"].clone()).unwrap()),
        is_bare: false,
        bytes: 0,
    };
    Placer {
        client,
        spreads: watch::channel(View::of(BTreeMap::from([("shop/s".to_owned(), kept)]))).1,
        lists: Lists::new(watch::channel(View::default()).1, one_is_for_all_spreads),
        locks: ObjectLocks::default(),
    }
}

/// A pod of its subset `a`.
fn pod(name: &str) -> Value {
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true });
    json!({ "metadata": { "name": name, "uid": "u", "ownerReferences": [owner],
        "annotations": { MATCHED: r#"{"name":"s","subset":"a"}"# } } })
}

/// Nobody knows who sent the name of a new pod, or the identity of the request; the status gets either.
#[rstest]
#[case::a_name("web-1".to_owned(), String::new(), true)]
#[case::an_identity(String::new(), "u".to_owned(), true)]
#[case::no_name_of_a_pod("w".repeat(254), String::new(), false)]
#[case::no_identity(String::new(), "u".repeat(254), false)]
#[tokio::test]
async fn a_place_is_for_a_name_of_a_pod(#[case] name: String, #[case] uid: String, #[case] is_placed: bool) {
    let (client, seen) = served::client(|_| spread());
    let namespace = "shop".to_owned();
    let request = Request { uid, namespace, object: pod(&name), ..Request::default() };
    let verdict = placer(client).place(&request).await;
    assert_eq!(matches!(verdict, Verdict::Allowed { object: Some(_), .. }), is_placed, "{verdict:?}");
    assert_eq!(seen.count() > 0, is_placed);
}

/// A large one is read when a pod comes, for its part in the pod, and so is one for which there is no room.
/// Rows: its workload by then, and the length of a text in it.
#[rstest]
#[case::as_it_was("web", MOST_KEPT, true)]
#[case::another_one("other", MOST_KEPT, false)]
#[case::no_room("web", 10, true)]
#[tokio::test]
async fn a_large_spread_is_read_when_a_pod_comes(
    #[case] workload: &str,
    #[case] letters: usize,
    #[case] is_placed: bool,
) {
    let mut shown = spread();
    let annotations = json!({ "note": "x".repeat(letters) });
    shown["spec"]["subsets"][0]["patch"] = json!({ "metadata": { "annotations": annotations } });
    let kept = read(serde_json::from_value(shown.clone()).unwrap()).unwrap();
    assert_eq!((kept.is_bare, kept.bytes > letters), (letters == MOST_KEPT, true));
    let kept = (BOUND.bare)(kept);
    let bare = kept.spread.as_ref().unwrap();
    assert!(kept.is_bare && bare.subsets.iter().all(|subset| subset.patch.is_none()));
    shown["spec"]["targetRef"]["name"] = workload.into();
    let (client, _) = served::client(move |_| shown.clone());
    let spreads = watch::channel(View::of(BTreeMap::from([("shop/s".to_owned(), kept)]))).1;
    let placer = Placer { spreads, ..placer(client) };
    let request = Request { namespace: "shop".to_owned(), object: pod("web-1"), ..Request::default() };
    match placer.place(&request).await {
        Verdict::Allowed { object: Some(pod), .. } => {
            assert!(is_placed && pod["metadata"]["annotations"]["note"].is_string());
        }
        other => assert!(!is_placed && other == Verdict::AS_IT_IS, "{other:?}"),
    }
}
