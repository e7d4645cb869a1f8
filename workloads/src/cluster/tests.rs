//! Tests of what concerns whom.

use berth_workloads_policy::{in_place::InPlacePhase, plan::NodeView};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    owned::Listed,
    watch::{Pods, Revisions, Watched},
};

fn set(kind: &'static Kind, name: &str, spec: Value) -> Input {
    set_of(kind, name, name, spec)
}

fn set_of(kind: &'static Kind, name: &str, uid: &str, spec: Value) -> Input {
    let object = serde_json::from_value(json!({
        "apiVersion": kind.api_version(), "kind": kind.name,
        "metadata": { "namespace": "ns", "name": name, "uid": uid, "resourceVersion": "1" },
        "spec": spec,
    }));
    Input::Set(kind, Shown::Applied(Filed::new(kind.read(object.unwrap()).unwrap())))
}

fn spec(extra: Value) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "app": "a" } },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "nodeSelector": { "disk": "ssd" } } },
    });
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn kind(name: &str) -> &'static Kind {
    KINDS.into_iter().find(|kind| kind.name == name).unwrap()
}

fn some(sets: &[&str]) -> Concerned {
    Concerned::Some(sets.iter().map(|set| (*set).to_owned()).collect())
}

#[test]
fn a_node_concerns_those_whose_pods_it_places() {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("DaemonSet"), "log", spec(json!({}))));
    cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
    let node = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let view = NodeView { name: "n".to_owned(), labels, taints: Vec::new() };
        Input::Node(Shown::Applied(("u".to_owned(), view)))
    };
    assert_eq!(cluster.take(Input::Node(Shown::ListBegins)), Concerned::None);
    assert_eq!(cluster.take(node(&[("disk", "ssd")])), Concerned::None, "the list has just begun");
    assert_eq!(cluster.take(Input::Node(Shown::ListEnds)), Concerned::All);
    assert_eq!(cluster.take(node(&[])), some(&["log"]));
    assert_eq!(cluster.take(node(&[("disk", "ssd")])), some(&["log"]));
    assert_eq!(cluster.take(node(&[("disk", "ssd")])), Concerned::None, "as it was");
    assert_eq!(cluster.take(node(&[("disk", "ssd"), ("other", "1")])), some(&[]));
    assert_eq!(cluster.take(Input::Node(Shown::Gone("u".to_owned()))), some(&["log"]));
}

#[test]
fn a_claim_concerns_the_set_that_it_is_named_after() {
    let mut cluster = Cluster::default();
    let claims = json!({ "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] });
    cluster.take(set(kind("StatefulSet"), "db", spec(claims)));
    let claim = |name: &str| {
        let claim =
            json!({ "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" } });
        let claim = serde_json::from_value(claim).unwrap();
        Input::Claim(Shown::Applied(berth_workloads_policy::clone_set::ClaimView::of(&claim)))
    };
    assert_eq!(cluster.take(claim("data-db-0")), some(&["db"]));
    assert_eq!(cluster.take(claim("data-web-0")), some(&[]));
    assert_eq!(cluster.take(Input::Claim(Shown::Gone("data-db-0".to_owned()))), some(&["db"]));
    let gone = cluster.take(Input::Set(kind("StatefulSet"), Shown::Gone("db".to_owned())));
    assert_eq!(gone, some(&["db"]), "what is remembered of it is to go");
    assert_eq!(cluster.take(claim("data-db-1")), some(&[]), "the set is gone");
}

#[test]
fn a_pod_without_an_owner_concerns_the_set_that_it_is_named_after() {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("StatefulSet"), "db", spec(json!({}))));
    cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
    let pod = |name: &str, version: &str, owner: &str| {
        let owners = json!([{ "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": owner,
            "uid": owner, "controller": true }]);
        let owners = if owner.is_empty() { json!([]) } else { owners };
        let meta = json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": version,
            "ownerReferences": owners });
        let pod = serde_json::from_value(json!({ "metadata": meta })).unwrap();
        Input::Pod(Shown::Applied(Pods::view(pod).unwrap()))
    };
    cluster.take(set(kind("DaemonSet"), "log", spec(json!({}))));
    assert_eq!(cluster.take(pod("db-0", "1", "")), some(&["db"]));
    assert_eq!(cluster.take(pod("log-bcdfg", "1", "")), some(&["log"]));
    assert_eq!(cluster.take(pod("web-bcdfg", "1", "")), some(&[]), "a CloneSet adopts nothing");
    assert_eq!(cluster.take(pod("other-0", "1", "")), some(&[]));
    assert_eq!(cluster.take(pod("db-0", "2", "db")), some(&["db", "db"]), "adopted");
    assert_eq!(cluster.take(pod("db-0", "3", "")), some(&["db", "db"]), "given free");
    assert_eq!(cluster.take(Input::Pod(Shown::Gone("db-0".to_owned()))), some(&["db"]));
    for name in ["bare", "my-nginx", "log-bcdf"] {
        let bare = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        assert_eq!(Pods::view(bare), None, "no set's");
    }
    // Two kinds of one name: each is told, and takes what its names look like.
    let daemons = kind("DaemonSet");
    cluster.take(set_of(daemons, "db", "db-of-nodes", spec(json!({}))));
    assert_eq!(cluster.take(pod("db-1", "4", "")), some(&["db", "db-of-nodes"]));
    cluster.take(Input::Set(daemons, Shown::Gone("db-of-nodes".to_owned())));
    assert_eq!(cluster.take(pod("db-2", "5", "")), some(&["db"]));
}

#[test]
fn a_revision_without_an_owner_concerns_the_set_that_it_is_named_after() {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("StatefulSet"), "my-db", spec(json!({}))));
    let revision = |name: &str, owners: Value| {
        let meta = json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
            "ownerReferences": owners });
        let data = json!({ "spec": { "template": { "$patch": "replace" } } });
        Revisions::view(
            serde_json::from_value(json!({ "metadata": meta, "data": data, "revision": 1 })).unwrap(),
        )
    };
    let shown = |name: &str| Input::Revision(Shown::Applied(revision(name, json!([])).unwrap()));
    assert_eq!(cluster.take(shown("my-db-bcdfg")), some(&["my-db"]));
    assert_eq!(cluster.take(shown("db-bcdfg")), some(&[]));
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "my-db", "uid": "u" }]);
    assert_eq!(revision("my-db-bcdfg", owner), None, "somebody's");
}

#[test]
fn kinds_are_listed_apart() {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("DaemonSet"), "log", spec(json!({}))));
    for shown in [Shown::ListBegins, Shown::ListEnds] {
        cluster.take(Input::Set(kind("CloneSet"), shown));
    }
    assert!(cluster.set("log").is_some(), "a list of another kind takes nothing away");
    let listed: Vec<_> = cluster.listed().into_iter().filter(|(_, listed)| *listed).collect();
    assert_eq!(listed, [("clonesets", true)]);
}

/// An agent that comes is news for those with pods on its node, and for none of the thousands of others.
#[test]
fn an_agent_concerns_those_with_pods_on_its_node() {
    let mut cluster = Cluster::default();
    for name in ["web", "shop", "idle"] {
        cluster.take(set(kind("CloneSet"), name, spec(json!({}))));
    }
    cluster.take(set(kind("StatefulSet"), "db", spec(json!({}))));
    for (name, owner, node) in [("web-1", "web", "n"), ("shop-1", "shop", "m"), ("db-0", "", "n")] {
        let owners = json!([{ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": owner,
            "uid": owner, "controller": true }]);
        let owners = if owner.is_empty() { json!([]) } else { owners };
        let pod = json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name, "ownerReferences": owners },
            "spec": { "nodeName": node, "containers": [] },
        });
        let pod = Pods::view(serde_json::from_value(pod).unwrap()).unwrap();
        cluster.take(Input::Pod(Shown::Applied(pod)));
    }
    let object = |features: Value| {
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": "n", "uid": "u", "resourceVersion": "1" },
            "spec": {}, "status": { "features": features },
        });
        Input::NodeUpdates(Shown::Applied(NodeUpdates::of(serde_json::from_value(object).unwrap())))
    };
    assert_eq!(cluster.take(object(json!([kind("CloneSet").feature]))), some(&["db", "web"]));
    assert_eq!(cluster.take(Input::NodeUpdates(Shown::Gone("u".to_owned()))), some(&["db", "web"]));
}

/// Each row: restarts of its container, and how far the update is: the report of its node comes later.
#[rstest]
#[case::the_container_of_before(0, InPlacePhase::Pending)]
#[case::the_next_one(1, InPlacePhase::Done)]
fn an_update_has_ended_when_its_pod_shows_it(#[case] restarts: i32, #[case] phase: InPlacePhase) {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
    let entry = json!({ "uid": "p", "owner": "CloneSet/web", "ownerUid": "web", "namespace": "ns",
        "name": "web-1", "revision": "web-5d4" });
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "1" },
        "spec": {}, "status": { "desiredPods": [entry] },
    });
    let object = NodeUpdates::of(serde_json::from_value(object).unwrap());
    cluster.take(Input::NodeUpdates(Shown::Applied(object)));
    let word = r#"{"revision":"web-5d4","attempt":0,"restarts":{"main":1}}"#;
    let labels = json!({ "controller-revision-hash": "web-5d4" });
    let metadata = json!({ "namespace": "ns", "name": "web-1", "uid": "p", "labels": labels });
    let pod = json!({ "metadata": metadata, "status": {
        "conditions": [
            { "type": "Ready", "status": "True" },
            { "type": "InPlaceUpdateReady", "status": "True", "message": word },
        ],
        "containerStatuses": [
            { "name": "main", "image": "a:2", "imageID": "d", "ready": true, "restartCount": restarts },
        ],
    } });
    let pod = PodView::of(&serde_json::from_value(pod).unwrap());
    let web = cluster.set("web").unwrap();
    assert_eq!(cluster.in_place(Arc::as_ref(web), &[&pod])["p"].phase, phase);
}

/// A set was deleted without its pods, and made anew, while a node was at the update of one of them. The pod
/// may say the new revision already, and nobody is at the rest. Each row: the node's answer, and whether it
/// counts.
#[rstest]
#[case::none_yet(None, false)]
#[case::it_is_refused(Some("Failed"), false)]
#[case::it_was_done_before(Some("Succeeded"), true)]
fn an_update_that_was_left_behind_is_asked_for_anew(#[case] answer: Option<&str>, #[case] counts: bool) {
    let mut cluster = Cluster::default();
    cluster.take(set(kind("StatefulSet"), "db", spec(json!({}))));
    let entry = json!({ "uid": "p", "owner": "StatefulSet/db", "ownerUid": "before", "namespace": "ns",
        "name": "db-0", "revision": "db-5d4" });
    let answers = answer.map(|phase| {
        json!({ "uid": "p", "owner": "StatefulSet/db", "ownerUid": "before", "revision": "db-5d4",
            "phase": phase })
    });
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "1" }, "spec": {},
        "status": { "desiredPods": [entry], "pods": answers.into_iter().collect::<Vec<_>>() },
    });
    let object = NodeUpdates::of(serde_json::from_value(object).unwrap());
    cluster.take(Input::NodeUpdates(Shown::Applied(object)));
    let metadata = json!({ "namespace": "ns", "name": "db-0", "uid": "p" });
    let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n", "containers": [] } });
    let pod = PodView::of(&serde_json::from_value(pod).unwrap());
    let db = cluster.set("db").unwrap();
    let phase = cluster.in_place(Arc::as_ref(db), &[&pod])["p"].phase.clone();
    assert_eq!(phase == InPlacePhase::Done, counts);
    assert_eq!(matches!(phase, InPlacePhase::NotAskedFor { since: None, .. }), !counts);
}

/// Each row: whether the workload of an entry is there, whether its pod is, and whether the entry stays when
/// the object of its node is written next.
#[rstest]
#[case::both(true, true, true)]
#[case::its_workload_takes_it_away(true, false, true)]
#[case::a_pod_that_was_left_behind(false, true, true)]
#[case::neither(false, false, false)]
fn an_entry_that_nobody_takes_away_goes_with_the_next_write(
    #[case] has_set: bool,
    #[case] has_pod: bool,
    #[case] stays: bool,
) {
    let mut cluster = Cluster::default();
    if has_set {
        cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
    }
    if has_pod {
        let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "web",
            "controller": true });
        let meta = json!({ "namespace": "ns", "name": "web-1", "uid": "p", "resourceVersion": "1",
            "ownerReferences": [owner] });
        let pod = Pods::view(serde_json::from_value(json!({ "metadata": meta })).unwrap()).unwrap();
        cluster.take(Input::Pod(Shown::Applied(pod)));
    }
    let entry = json!({ "uid": "p", "owner": "CloneSet/web", "ownerUid": "web", "namespace": "ns",
        "name": "web-1", "revision": "web-5d4" });
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "1" },
        "spec": {}, "status": { "desiredPods": [entry] },
    });
    let object = NodeUpdates::of(serde_json::from_value(object).unwrap());
    cluster.take(Input::NodeUpdates(Shown::Applied(object)));
    let next = Action::ForgetInPlace { node: "n".to_owned(), uid: "another".to_owned() };
    let known = cluster.node_updates_of(&[next]);
    let body = known["n"].changed(&[]).body;
    let left = body.map(|body| body["status"]["desiredPods"].clone());
    assert_eq!(left, (!stays).then(|| json!([])));
}

/// A list by labels does not have a pod whose label was taken off a moment ago: it is still the set's, which
/// is to give it free. Each row: whether a write has ended it, labels that the watch shows late, and whether
/// it is known then.
#[rstest]
#[case::gone(false, json!({ "app": "a" }), false)]
#[case::relabelled(false, json!({ "app": "other" }), true)]
#[case::deleted_here(true, json!({ "app": "other" }), false)]
fn a_pod_that_was_relabelled_is_not_gone_by_a_list(
    #[case] is_ended: bool,
    #[case] late: Value,
    #[case] is_known: bool,
) {
    let pod = |version: &str, labels: &Value| {
        let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "web",
            "controller": true });
        let meta = json!({ "namespace": "ns", "name": "web-1", "uid": "p", "resourceVersion": version,
            "labels": labels, "ownerReferences": [owner] });
        Input::Pod(Shown::Applied(
            Pods::view(serde_json::from_value(json!({ "metadata": meta })).unwrap()).unwrap(),
        ))
    };
    let mut cluster = Cluster::default();
    cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
    cluster.take(pod("1", &json!({ "app": "a" })));
    if is_ended {
        cluster.pods.ended("p");
    }
    cluster.pods.found_by(&["web"], Listed { version: 5, objects: Vec::new() }, |_| true);
    assert_eq!(cluster.pods.len(), 0);
    cluster.take(pod("3", &late));
    assert_eq!(cluster.pods.of("web").count() == 1, is_known);
    // It has the label again, after the list.
    cluster.take(pod("6", &json!({ "app": "a" })));
    assert_eq!(cluster.pods.of("web").count() == 1, !is_ended);
}
