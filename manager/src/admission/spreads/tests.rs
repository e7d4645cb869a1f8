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
    let kept = SpreadKept {
        namespace: "shop".to_owned(),
        name: "s".to_owned(),
        spread: Spread::parse(&serde_json::from_value(spread()["spec"].clone()).unwrap()),
    };
    let placer = Placer {
        client,
        spreads: watch::channel(View::of(BTreeMap::from([("shop/s".to_owned(), kept)]))).1,
        lists: Lists::new(watch::channel(View::default()).1, one_is_for_all_spreads),
        locks: ObjectLocks::default(),
    };
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true });
    let pod = json!({ "metadata": { "name": "web-1", "uid": "u", "ownerReferences": [owner],
        "annotations": { MATCHED: r#"{"name":"s","subset":"a"}"# } } });
    let (operation, namespace) = ("DELETE".to_owned(), "shop".to_owned());
    let request = Request { operation, namespace, old_object: pod, ..Request::default() };
    assert_eq!(placer.leave(&request).await, Verdict::AS_IT_IS);
    assert_eq!(seen.each(|request| request.method.clone()), asked);
}
