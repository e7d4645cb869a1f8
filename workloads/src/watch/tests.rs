//! Tests of what watches hand on.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::{
    kinds::KINDS,
    served::{nested, reads},
};

fn set(name: &str, levels: usize) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "5" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "x": nested(levels) } },
        },
    })
}

/// Objects of one list, and then of the events of a watch.
fn answer(query: &str) -> String {
    if !query.contains("watch=true") {
        let items = [set("a", 1), set("deep", 200), set("b", 1)];
        return json!({ "metadata": { "resourceVersion": "5" }, "items": items }).to_string();
    }
    let event = |object| format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n");
    [set("c", 1), set("deep", 200), set("d", 1)].map(event).concat()
}

#[tokio::test]
async fn an_object_that_is_too_deep_holds_none_of_the_others_up() {
    let writer = reads(|_, query| {
        let is_small = query.split('&').any(|part| part == "limit=16");
        assert!(query.contains("watch=true") || is_small, "a small page: {query}");
        answer(query)
    });
    let (sender, mut inputs) = mpsc::channel(16);
    tokio::spawn(follow_sets(writer.client, KINDS[0], sender, writer.metrics.clone()));
    let mut seen = Vec::new();
    while seen.len() < 8 {
        let input = tokio::time::timeout(Duration::from_secs(20), inputs.recv()).await;
        let Ok(Some(Input::Set(_, shown))) = input else { panic!("{input:?} after {seen:?}") };
        seen.push(match shown {
            Shown::ListBegins => "list".to_owned(),
            Shown::ListEnds => "end".to_owned(),
            Shown::Applied(filed) => filed.object.name().to_owned(),
            Shown::Gone(uid) => format!("not {uid}"),
        });
    }
    assert_eq!(seen, ["list", "a", "not deep", "b", "end", "c", "not deep", "d"]);
}

#[test]
fn a_claim_with_too_many_owners_is_set_aside() {
    for (count, counts) in [(1, true), (50, true), (10_000, false)] {
        let owners: Vec<Value> = (0..count).map(|number| json!({ "apiVersion": "v1", "kind": "k", "name": "web", "uid": "web", "controller": number == 0 })).collect();
        let meta = json!({ "namespace": "ns", "name": "a", "uid": "a", "ownerReferences": owners });
        let claim = json!({ "metadata": meta });
        let view = Claims::view(serde_json::from_value(claim).unwrap());
        assert_eq!(view.is_some(), counts, "{count}");
    }
}
