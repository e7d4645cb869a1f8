use berth_workloads_policy::predownload::PullJobView;
use serde_json::{Value, json};

use super::*;
use crate::{
    kinds::KINDS,
    reading::Found,
    watch::{Pods, Revisions, Watched},
};

/// Bytes of all.
const MOST: usize = 100_000;

fn kind(name: &str) -> &'static Kind {
    KINDS.into_iter().find(|kind| kind.name == name).unwrap()
}

/// A workload that takes so many bytes, and has its name as its UID.
fn filed(kind: &'static Kind, namespace: &str, name: &str, bytes: usize) -> Filed<Set> {
    let object = serde_json::from_value(json!({
        "apiVersion": kind.api_version(), "kind": kind.name,
        "metadata": { "namespace": namespace, "name": name, "uid": name, "resourceVersion": "1" },
        "spec": {
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } } },
        },
    }));
    Filed::new(kind.read(object.unwrap()).unwrap()).weighing(bytes)
}

fn set(namespace: &str, name: &str, bytes: usize) -> Input {
    let kind = kind("CloneSet");
    Input::Set(kind, Shown::Applied(filed(kind, namespace, name, bytes)))
}

fn gone(name: &str) -> Input {
    Input::Set(kind("CloneSet"), Shown::Gone(name.to_owned()))
}

/// Metadata of an object of a CloneSet; of none when that is empty.
fn meta(namespace: &str, name: &str, version: &str, owner: &str) -> Value {
    let owners = json!([{ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": owner,
        "uid": owner, "controller": true }]);
    let owners = if owner.is_empty() { json!([]) } else { owners };
    json!({ "namespace": namespace, "name": name, "uid": name, "resourceVersion": version,
        "ownerReferences": owners })
}

/// A revision with a text of so many bytes.
fn revision(meta: Value, bytes: usize) -> Revision {
    let template = json!({ "spec": { "text": "x".repeat(bytes) } });
    let object = json!({ "metadata": meta, "data": { "spec": { "template": template } }, "revision": 1 });
    Revisions::view(serde_json::from_value(object).unwrap()).unwrap()
}

fn shown(revision: &Revision) -> Input {
    Input::Revision(Shown::Applied(revision.clone()))
}

fn some(sets: &[&str]) -> Concerned {
    Concerned::Some(sets.iter().map(|set| (*set).to_owned()).collect())
}

fn cluster(sets: &[(&str, &str, usize)]) -> Cluster {
    let mut cluster = Cluster::with_room(MOST);
    for (namespace, name, bytes) in sets {
        cluster.take(set(namespace, name, *bytes));
    }
    cluster
}

fn names(absent: &[Absent]) -> Vec<&str> {
    absent.iter().map(|absent| absent.name.as_str()).collect()
}

#[test]
fn the_largest_of_the_namespace_that_takes_most_is_set_aside() {
    let mut cluster = cluster(&[("a", "small", 10_000), ("b", "one", 30_000)]);
    assert_eq!(cluster.take(set("b", "two", 90_000)), some(&["two"]), "it is looked at");
    assert!(cluster.set("two").is_none() && cluster.set("one").is_some() && cluster.set("small").is_some());
    assert_eq!(names(&cluster.left_out()), ["two"]);
    assert_eq!(cluster.take(set("b", "two", 91_000)), Concerned::None);
    assert!(cluster.left_out().is_empty() && cluster.set("two").is_none(), "it is said once");
    assert_eq!(cluster.take(gone("one")), some(&["one"]));
    assert!(cluster.set("two").is_none() && cluster.returning("two").is_none());
    // Its author makes it smaller.
    cluster.take(set("b", "two", 50_000));
    assert!(cluster.set("two").is_some() && cluster.absent("two").is_none());
}

/// One that was known before it grew, with a pod.
#[test]
fn pods_of_a_set_that_is_set_aside_stay() {
    let mut cluster = cluster(&[("a", "small", 10_000), ("b", "web", 1000)]);
    let pod = json!({ "metadata": meta("b", "web-1", "1", "web") });
    let pod = Pods::view(serde_json::from_value(pod).unwrap()).unwrap();
    cluster.take(Input::Pod(Shown::Applied(pod)));
    let known = cluster.set("web").cloned().unwrap();
    assert_eq!(cluster.take(set("b", "web", 95_000)), some(&["web"]));
    assert!(cluster.set("web").is_none());
    // An answer to a plan of before comes late.
    cluster.wrote_set(known.clone());
    assert!(cluster.set("web").is_none());
    assert_eq!(cluster.pods_of(&known).len(), 1);
}

/// The watch is late, and the leader before this one has deleted the pod of one that is set aside.
#[test]
fn a_reading_tells_of_those_that_are_set_aside_too() {
    let mut cluster = cluster(&[("a", "small", 10_000), ("b", "one", 1000), ("b", "web", 95_000)]);
    assert!(cluster.set("web").is_none() && cluster.set("one").is_some());
    let pod = json!({ "metadata": meta("b", "web-1", "1", "web") });
    let pod = Pods::view(serde_json::from_value(pod).unwrap()).unwrap();
    cluster.take(Input::Pod(Shown::Applied(pod)));
    let found = Found {
        pods: Listed { version: 9, objects: Vec::new() },
        claims: Listed { version: 9, objects: Vec::new() },
        revisions: Listed { version: 9, objects: Vec::new() },
        sets: Vec::new(),
    };
    assert!(cluster.pods.get("web-1").is_some());
    let sets = cluster.sets_in(&BTreeSet::from(["b".to_owned()]));
    assert_eq!(sets["b"], ["one", "web"]);
    assert_eq!(cluster.found(&sets["b"], found), ["web"]);
    assert!(cluster.pods.get("web-1").is_none());
}

#[test]
fn what_was_set_aside_is_fetched_when_there_is_room() {
    let two = || filed(kind("CloneSet"), "b", "two", 61_000);
    let sets = [("a", "small", 10_000), ("b", "one", 60_000), ("b", "two", 61_000)];
    let mut cluster = cluster(&sets);
    assert_eq!(names(&cluster.left_out()), ["two"]);
    assert_eq!(cluster.brought_back(two()), Concerned::None, "there is none");
    assert_eq!(cluster.take(gone("one")), some(&["one", "two"]));
    assert_eq!(cluster.all_returning().collect::<Vec<_>>(), ["two"]);
    assert!(cluster.set("two").is_none());
    assert_eq!(cluster.brought_back(two()), some(&["two"]));
    assert!(cluster.set("two").is_some() && cluster.all_returning().next().is_none());
    assert_eq!(cluster.brought_back(two()), Concerned::None, "the watch was faster");
}

/// Each row: what shows that a workload is gone that is set aside.
#[test]
fn one_that_is_gone_does_not_come_back() {
    let kind = kind("CloneSet");
    let relisted = vec![
        Input::Set(kind, Shown::ListBegins),
        set("a", "small", 10_000),
        set("b", "one", 60_000),
        Input::Set(kind, Shown::ListEnds),
    ];
    for inputs in [vec![gone("two")], relisted] {
        let mut cluster = cluster(&[("a", "small", 10_000), ("b", "one", 60_000), ("b", "two", 61_000)]);
        inputs.into_iter().for_each(|input| drop(cluster.take(input)));
        assert!(cluster.absent("two").is_none() && cluster.set("one").is_some());
        assert_eq!(cluster.brought_back(filed(kind, "b", "two", 61_000)), Concerned::None);
        cluster.wrote_set(filed(kind, "b", "two", 61_000).object);
        assert!(cluster.set("two").is_none());
    }
}

/// A list that comes in, as at the start, is not known as a whole first.
#[test]
fn there_is_no_more_while_a_list_comes_in() {
    let mut cluster = Cluster::with_room(MOST);
    let kind = kind("CloneSet");
    cluster.take(Input::Set(kind, Shown::ListBegins));
    for number in 0..20 {
        cluster.take(set("b", &format!("large-{number:02}"), 60_000));
    }
    cluster.take(set("a", "small", 10_000));
    cluster.take(Input::Set(kind, Shown::ListEnds));
    assert_eq!(cluster.sets().collect::<Vec<_>>(), ["large-00", "small"]);
    assert_eq!(cluster.left_out().len(), 19);
}

/// A workload whose revisions are too large is set aside with them, and planned when all are known again.
#[test]
fn no_set_is_planned_without_the_templates_of_its_revisions() {
    let mut cluster = cluster(&[("a", "small", 10_000), ("b", "web", 1000)]);
    let one = revision(meta("b", "web-1", "1", "web"), 50_000);
    cluster.take(shown(&one));
    assert_eq!(cluster.lack(&cluster.set("web").cloned().unwrap()), None);
    cluster.take(shown(&revision(meta("b", "web-2", "2", "web"), 60_000)));
    assert!(cluster.set("web").is_none());
    assert!(cluster.revisions.iter().all(Revision::is_bare) && cluster.revisions.len() == 2);
    cluster.take(shown(&revision(meta("b", "web-2", "3", "web"), 60_000)));
    assert!(cluster.revisions.iter().all(Revision::is_bare), "it was written to");
    cluster.take(Input::Revision(Shown::Gone("web-2".to_owned())));
    assert!(cluster.returning("web").is_some());
    cluster.brought_back(filed(kind("CloneSet"), "b", "web", 1000));
    let web = cluster.set("web").cloned().unwrap();
    assert_eq!(cluster.lack(&web), Some(Lack::Templates));
    cluster.read_revisions("web", Listed { version: 9, objects: vec![one.clone()] });
    assert_eq!(cluster.lack(&web), None);
    assert_eq!(cluster.revisions_of(&web), [&one]);
}

#[test]
fn a_set_waits_for_revisions_that_it_may_adopt() {
    let kind = kind("StatefulSet");
    let mut cluster = cluster(&[("a", "small", 10_000)]);
    cluster.take(Input::Set(kind, Shown::Applied(filed(kind, "b", "db", 1000))));
    let db = cluster.set("db").cloned().unwrap();
    let concerned = cluster.take(shown(&revision(meta("b", "db-bcdfg", "1", ""), 120_000)));
    assert_eq!(concerned, some(&["db", "db"]));
    assert_eq!(cluster.lack(&db), Some(Lack::Room));
    assert!(cluster.set("db").is_some(), "it is small");
    cluster.take(Input::Revision(Shown::Gone("db-bcdfg".to_owned())));
    assert_eq!(cluster.lack(&db), None);
}

/// A reading of a namespace holds no template twice, and none for which there is no room.
#[test]
fn a_reading_spares_templates() {
    let mut cluster = cluster(&[("a", "small", 10_000), ("b", "web", 1000)]);
    let known = revision(meta("a", "small-1", "1", "small"), 10_000);
    let large = revision(meta("b", "web-1", "1", "web"), 120_000);
    for one in [&known, &large] {
        cluster.take(shown(one));
    }
    let spared = cluster.spared(&BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert!(spared.of(large).is_bare());
    let raised = Revision { version: "5".to_owned(), number: 7, ..known.clone() };
    let read = spared.of(raised.clone());
    assert!(read.template.is_empty() && read.number == 7);
    let new = revision(meta("a", "small-2", "6", "small"), 100);
    let revisions = vec![read, spared.of(new.clone())];
    let found = Found {
        pods: Listed { version: 9, objects: Vec::new() },
        claims: Listed { version: 9, objects: Vec::new() },
        revisions: Listed { version: 9, objects: revisions },
        sets: Vec::new(),
    };
    cluster.found(&["small".to_owned()], found);
    let small = cluster.set("small").cloned().unwrap();
    assert_eq!(cluster.revisions_of(&small), [&raised, &new]);
}

/// An owner is a UID, and whoever may make pods may write any.
#[test]
fn what_names_an_owner_of_another_namespace_is_none_of_its() {
    let mut cluster = cluster(&[("a", "web", 1000)]);
    for namespace in ["a", "evil"] {
        let pod = json!({ "metadata": meta(namespace, &format!("pod-{namespace}"), "1", "web") });
        let pod = Pods::view(serde_json::from_value(pod).unwrap()).unwrap();
        cluster.take(Input::Pod(Shown::Applied(pod)));
        let name = format!("web-{namespace}");
        let bytes = if namespace == "a" { 100 } else { 200_000 };
        cluster.take(shown(&revision(meta(namespace, &name, "1", "web"), bytes)));
        let meta = serde_json::from_value(meta(namespace, &format!("job-{namespace}"), "1", "web"));
        cluster.take(Input::PullJob(Shown::Applied(PullJobView::of(&meta.unwrap()))));
    }
    let web = cluster.set("web").cloned().expect("it has room, whatever others name it");
    let pods: Vec<&str> = cluster.pods_of(&web).into_iter().map(|pod| pod.name.as_str()).collect();
    let revisions: Vec<&str> = cluster.revisions_of(&web).into_iter().map(|one| one.name.as_str()).collect();
    let jobs: Vec<&str> = cluster.pull_jobs_of(&web).into_iter().map(|job| job.name.as_str()).collect();
    assert_eq!((pods, revisions, jobs), (vec!["pod-a"], vec!["web-a"], vec!["job-a"]));
    assert_eq!(cluster.lack(&web), None);
}

/// It is there: a set that knew nothing of it would make another one.
#[test]
fn a_set_waits_for_a_pod_with_too_many_labels() {
    let mut cluster = cluster(&[("a", "web", 1000)]);
    let web = cluster.set("web").cloned().unwrap();
    let pod = |version: &str, count: usize| {
        let mut meta = meta("a", "web-1", version, "web");
        meta["labels"] = (0..count).map(|number| (format!("label-{number}"), json!("x"))).collect();
        let pod = Pods::view(serde_json::from_value(json!({ "metadata": meta })).unwrap()).unwrap();
        Input::Pod(Shown::Applied(pod))
    };
    let table = [("1", 50, None), ("2", 10_000, Some(Lack::Labels("web-1".to_owned()))), ("3", 50, None)];
    for (version, count, lack) in table {
        assert_eq!(cluster.take(pod(version, count)), some(&["web"]));
        assert_eq!(cluster.lack(&web), lack);
        assert_eq!(cluster.pods_of(&web).len(), 1);
    }
}
