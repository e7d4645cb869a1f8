//! Tests of what is known of the objects of nodes, and of whom news of them concern.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::kinds::KINDS;

fn node_updates(version: u64, sign: u64, entries: &[&str]) -> Shown<NodeUpdates> {
    let entries: Vec<_> = entries.iter().map(|uid| ("set", *uid)).collect();
    Shown::Applied(of_sets(version, sign, &entries))
}

/// Entries with the UIDs of their workloads.
fn of_sets(version: u64, sign: u64, entries: &[(&str, &str)]) -> NodeUpdates {
    with_report(version, sign, entries, &json!([]))
}

/// The same, and what the node says of pods.
fn with_report(version: u64, sign: u64, entries: &[(&str, &str)], pods: &Value) -> NodeUpdates {
    let entry = |(set, uid): &(&str, &str)| json!({ "uid": uid, "owner": "CloneSet/shop", "ownerUid": set, "namespace": "ns", "name": uid, "revision": "r" });
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": version.to_string() }, "spec": {},
        "status": {
            "features": KINDS.map(|kind| kind.feature).into_iter()
                .chain(["pod-template-hash/v1", "template-history/v1"]).collect::<Vec<_>>(),
            "renewTime": format!("2026-01-01T00:00:{sign:02}Z"),
            "desiredPods": entries.iter().map(entry).collect::<Vec<_>>(),
            "pods": pods,
        },
    });
    NodeUpdates::of(serde_json::from_value(object).unwrap())
}

/// Another workload has its first entry there by then.
#[test]
fn a_late_answer_takes_no_entry_of_another_workload_away() {
    let mut update_store = UpdateStore::default();
    let pods = |store: &UpdateStore, set| store.states(set).into_keys().collect::<Vec<_>>();
    update_store.take(Shown::Applied(of_sets(6, 1, &[("one", "a"), ("two", "b")])));
    update_store.wrote(of_sets(5, 1, &[("one", "a")]));
    assert_eq!(
        (pods(&update_store, "one"), pods(&update_store, "two")),
        (vec!["a".into()], vec!["b".into()])
    );
    update_store.wrote(of_sets(7, 1, &[("one", "a"), ("two", "c")]));
    assert_eq!(pods(&update_store, "two"), ["c"]);
    // The node is gone by then.
    update_store.take(Shown::Gone("u".to_owned()));
    update_store.wrote(of_sets(8, 1, &[("one", "a")]));
    update_store.listen(Instant::now());
    assert!(update_store.agents(KINDS[0]).present.is_empty() && update_store.next_silence().is_none());
    assert!(pods(&update_store, "one").is_empty());
}

/// Writes are made on what is known of the object of a node, so it is the newest that was shown or answered,
/// of the object that there is now.
#[test]
fn the_object_of_a_node_is_known_as_it_was_seen_last() {
    let mut update_store = UpdateStore::default();
    let another = |version| {
        let mut another = of_sets(version, 1, &[]);
        another.uid = "v".to_owned();
        another
    };
    let known = |store: &UpdateStore| {
        let known = store.of_nodes(["n", "unknown", "n"].into_iter());
        known.into_values().map(|one| (one.uid.clone(), one.version())).collect::<Vec<_>>()
    };
    let is = |uid: &str, version: u64| vec![(uid.to_owned(), version)];
    assert_eq!(known(&update_store), []);
    update_store.take(node_updates(2, 1, &["p"]));
    assert_eq!(known(&update_store), is("u", 2));
    // A sign of life alone.
    update_store.take(node_updates(3, 2, &["p"]));
    assert_eq!(known(&update_store), is("u", 3));
    update_store.wrote(of_sets(5, 2, &[]));
    update_store.take(node_updates(4, 2, &["p"]));
    assert_eq!(known(&update_store), is("u", 5));
    // The object was made anew, as a write was told; that the earlier one is gone is heard of later.
    update_store.wrote(another(7));
    // Nor does a late answer of the earlier one take its place.
    update_store.wrote(of_sets(6, 2, &[("set", "p")]));
    assert_eq!(known(&update_store), is("v", 7));
    update_store.take(Shown::Gone("u".to_owned()));
    update_store.listen(Instant::now());
    assert_eq!(known(&update_store), is("v", 7));
    assert!(update_store.agents(KINDS[0]).present.contains("n") && update_store.next_silence().is_some());
    update_store.take(Shown::ListBegins);
    update_store.take(Shown::Applied(another(8)));
    update_store.take(Shown::ListEnds);
    assert_eq!(known(&update_store), is("v", 8));
    update_store.take(Shown::Gone("v".to_owned()));
    assert_eq!(known(&update_store), []);
}

/// The object of a node was made anew, and no agent has written to it: a pod that waited for one would wait
/// for ever.
#[test]
fn a_new_object_has_no_agent_before_one_says_so() {
    for shown_in_a_list in [false, true] {
        let mut update_store = UpdateStore::default();
        update_store.take(node_updates(2, 1, &["p"]));
        update_store.listen(Instant::now());
        let mut bare = of_sets(7, 1, &[]);
        (bare.uid, bare.has_agent, bare.labels_hash, bare.recalls) = ("a".to_owned(), false, false, false);
        bare.checks.clear();
        if shown_in_a_list {
            update_store.take(Shown::ListBegins);
            update_store.take(node_updates(2, 1, &["p"]));
        }
        update_store.wrote(bare);
        if shown_in_a_list {
            update_store.take(Shown::ListEnds);
        }
        let known = update_store.of_nodes(["n"].into_iter());
        assert_eq!(known.get("n").map(|one| one.uid.as_str()), Some("a"));
        update_store.take(Shown::Gone("u".to_owned()));
        update_store.listen(Instant::now());
        let agents = update_store.agents(KINDS[0]);
        assert!(agents.present.is_empty() && agents.updating.is_empty(), "{shown_in_a_list}");
        assert!(agents.labelling.is_empty() && agents.recalling.is_empty(), "{shown_in_a_list}");
        assert!(update_store.next_silence().is_none(), "{shown_in_a_list}");
    }
}

/// News of these sets, and of the pods of the node or of nobody's.
fn news(sets: &[&str], of_node: bool) -> News {
    let sets = sets.iter().map(|set| (*set).to_owned()).collect();
    News { all: false, sets, nodes: of_node.then(|| "n".to_owned()).into_iter().collect() }
}

/// An object that is read for a write has what the watch has not shown yet: the report on the pod of another
/// workload. When the watch shows it, it is known, and no news.
#[test]
fn an_answer_tells_others_what_they_have_not_seen_yet() {
    let mut update_store = UpdateStore::default();
    update_store.take(node_updates(1, 1, &[]));
    update_store.wrote(of_sets(2, 1, &[("one", "a"), ("two", "b")]));
    let report = json!([{ "uid": "b", "owner": "CloneSet/shop", "revision": "r", "phase": "Failed" }]);
    let failed = |version, pod: &str| with_report(version, 1, &[("one", pod), ("two", "b")], &report);
    assert_eq!(update_store.wrote(failed(4, "c")), news(&["one", "two"], false));
    assert_eq!(update_store.take(Shown::Applied(failed(4, "c"))), news(&[], false));
    // What is its own alone concerns nobody else.
    assert_eq!(update_store.wrote(failed(5, "d")), news(&["one"], false));
    let late = of_sets(4, 1, &[("one", "c"), ("two", "b")]);
    assert_eq!(update_store.wrote(late), news(&[], false));
    let mut able = of_sets(6, 1, &[("one", "d"), ("two", "b")]);
    able.checks.clear();
    assert_eq!(update_store.wrote(able), news(&["two"], true), "its agent is another one");
}

#[test]
fn a_sign_of_life_concerns_no_workload_and_silence_those_of_its_node() {
    let (mut update_store, start) = (UpdateStore::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(update_store.take(node_updates(1, 1, &[])), news(&[], true), "an agent has come");
    assert_eq!(update_store.listen(start), news(&[], false));
    assert_eq!(update_store.take(node_updates(2, 1, &["p"])), news(&["set"], false));
    assert_eq!(update_store.take(node_updates(3, 2, &["p"])), news(&[], false));
    assert_eq!(update_store.listen(at(300)), news(&[], false));
    assert_eq!(update_store.next_silence(), Some(at(900)));
    // The watch is broken for a while.
    update_store.is_deaf();
    assert_eq!([899, 1498].map(|second| update_store.listen(at(second))), [(); 2].map(|()| news(&[], false)));
    assert_eq!(update_store.listen(at(1499)), news(&["set"], true), "silent");
    let agents = update_store.agents(KINDS[0]);
    assert!(agents.silent.contains("n") && agents.present.contains("n") && agents.updating.contains("n"));
    assert!(agents.labelling.contains("n") && agents.recalling.contains("n"));
    update_store.take(node_updates(4, 3, &["p"]));
    assert_eq!(update_store.listen(at(1500)), news(&["set"], true), "it is back");
    assert!(update_store.agents(KINDS[0]).silent.is_empty());
    // Its node is gone, and a list says so.
    update_store.take(Shown::ListBegins);
    update_store.take(Shown::ListEnds);
    update_store.listen(at(1600));
    let agents = update_store.agents(KINDS[0]);
    assert!(agents.present.is_empty() && agents.recalling.is_empty());
    assert!(update_store.next_silence().is_none());
}
