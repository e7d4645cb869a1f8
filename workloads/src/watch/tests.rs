//! Tests of what watches hand on.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
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

/// Each page is a question of its own to the API server: for 5,000 nodes there would be 300, and for 10,000
/// claims twice as many.
#[tokio::test]
async fn nodes_and_claims_come_in_larger_pages() {
    let (asks, mut asked) = mpsc::unbounded_channel();
    let writer = reads(move |path, query| {
        if !query.contains("watch=true") {
            let limit = query.split('&').find(|part| part.starts_with("limit=")).unwrap_or_default();
            drop(asks.send(format!("{} {limit}", path.rsplit('/').next().unwrap_or_default())));
        }
        json!({ "metadata": { "resourceVersion": "5" }, "items": [] }).to_string()
    });
    let (sender, _inputs) = mpsc::channel(16);
    let (client, metrics) = (writer.client.clone(), writer.metrics.clone());
    tokio::spawn(follow::<Nodes>(client.clone(), sender.clone(), metrics.clone()));
    tokio::spawn(follow::<Claims>(client.clone(), sender.clone(), metrics.clone()));
    tokio::spawn(follow::<NodePodUpdates>(client, sender, metrics));
    let mut listed = BTreeSet::new();
    while listed.len() < 3 {
        let next = tokio::time::timeout(Duration::from_secs(20), asked.recv()).await;
        listed.extend(next.unwrap());
    }
    let limits = ["nodepodupdates limit=16", "nodes limit=100", "persistentvolumeclaims limit=100"];
    assert_eq!(Vec::from_iter(listed), limits);
}

/// A page is in memory as a whole before it is read, and each namespace with spreads has a watch of its own.
#[tokio::test]
async fn lists_of_pods_come_in_two_at_a_time() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let writer = reads(move |_, query| {
        if !query.contains("watch=true") {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let meta = json!({ "namespace": "ns", "name": "a", "uid": "a", "resourceVersion": "5" });
        json!({ "metadata": { "resourceVersion": "5" }, "items": [{ "metadata": meta }] }).to_string()
    });
    let mut all = Vec::new();
    for _ in 0..5 {
        // The pod of a list waits until the list's begin is taken.
        let (sender, inputs) = mpsc::channel(1);
        tokio::spawn(follow::<Pods>(writer.client.clone(), sender, writer.metrics.clone()));
        all.push(inputs);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(begun.load(Ordering::Relaxed) <= 2);
    let ended = tokio::time::timeout(Duration::from_secs(20), join_all(all.into_iter().map(ends))).await;
    assert_eq!(ended.unwrap(), [true; 5]);
}

/// Tells whether a list comes to its end.
async fn ends(mut inputs: mpsc::Receiver<Input>) -> bool {
    while let Some(input) = inputs.recv().await {
        if input.is_end() {
            return true;
        }
    }
    false
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
        let owner = |number| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "a", "uid": "a",
                "controller": number == 0 })
        };
        let owners: Vec<Value> = (0..count).map(owner).collect();
        let meta = json!({ "namespace": "ns", "name": "a", "uid": "a", "ownerReferences": owners });
        let claim = json!({ "metadata": meta });
        let view = Claims::view(serde_json::from_value(claim).unwrap());
        assert_eq!(view.is_some(), counts, "{count}");
    }
}
