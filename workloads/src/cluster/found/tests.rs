//! Workloads that a reading has found.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    kinds::KINDS,
    object::Filed,
    owned::Concerned,
    watch::{Input, Shown},
};

fn kind(name: &str) -> &'static Kind {
    KINDS.into_iter().find(|kind| kind.name == name).unwrap()
}

/// A StatefulSet, which pods without an owner may belong to by their names.
fn filed(version: u64) -> Filed<Set> {
    let kind = kind("StatefulSet");
    let object = serde_json::from_value(json!({
        "apiVersion": kind.api_version(), "kind": kind.name,
        "metadata": { "namespace": "ns", "name": "db", "uid": "db", "resourceVersion": version.to_string() },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } } },
        },
    }));
    kind.file(object.unwrap()).unwrap()
}

/// A list of nothing.
fn none<T>() -> Listed<T> {
    Listed { version: 9, objects: Vec::new() }
}

/// The leader before this one has acted on a version that the watch has not shown here. Rows: the version
/// that is known, what a list of version 9 has of it, the version that is decided on then, and whether that
/// is news.
#[rstest]
#[case::newer(3, Some(("db", Some(5))), Some(5), true)]
#[case::as_it_is_known(3, Some(("db", None)), Some(3), false)]
#[case::the_watch_was_faster(7, Some(("db", Some(5))), Some(7), false)]
#[case::gone(3, None, None, true)]
#[case::made_after_the_list(12, None, Some(12), false)]
#[case::another_of_its_name(3, Some(("other", None)), None, true)]
fn a_set_is_decided_on_as_it_is_now(
    #[case] known: u64,
    #[case] listed: Option<(&str, Option<u64>)>,
    #[case] decided: Option<u64>,
    #[case] is_news: bool,
) {
    let (mut cluster, kind) = (Cluster::default(), kind("StatefulSet"));
    cluster.take(Input::Set(kind, Shown::Applied(filed(known))));
    let objects: Vec<FoundSet> =
        listed.into_iter().map(|(uid, newer)| (uid.to_owned(), newer.map(filed))).collect();
    let sets = vec![(kind, Listed { version: 9, objects })];
    let found = Found { pods: none(), claims: none(), revisions: none(), sets };
    let news: &[&str] = if is_news { &["db"] } else { &[] };
    assert_eq!(cluster.found(&["db".to_owned()], found), news);
    let version = cluster.set("db").map(|set| set.meta().resource_version.clone().unwrap());
    assert_eq!(version, decided.map(|version| version.to_string()));
    assert_eq!(cluster.keyed("ns/db".to_owned()).is_empty(), decided.is_none(), "found by its name");
    // What the watch shows late takes nothing back.
    assert_eq!(cluster.take(Input::Set(kind, Shown::Applied(filed(3)))), Concerned::None);
    assert_eq!(cluster.set("db").is_some(), decided.is_some());
}

#[test]
fn a_reading_has_to_know_the_sets_of_its_namespaces() {
    let (mut cluster, kind) = (Cluster::default(), kind("StatefulSet"));
    cluster.take(Input::Set(kind, Shown::Applied(filed(3))));
    let known = cluster.known_sets(&BTreeSet::from(["ns", "other"].map(str::to_owned)));
    let (kind, versions) = &known["ns"][0];
    assert_eq!((kind.name, versions["db"]), ("StatefulSet", 3));
    assert!(known.len() == 1 && cluster.known_sets(&BTreeSet::new()).is_empty());
}
