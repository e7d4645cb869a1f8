//! Events, writes and lists, and which set has what then.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[derive(Clone, Debug)]
struct Object(&'static str, u64, &'static str);

impl Stored for Object {
    fn uid(&self) -> &str {
        self.0
    }

    fn version(&self) -> u64 {
        self.1
    }
}

impl Ownable for Object {
    fn owner(&self) -> &str {
        self.2
    }
}

fn of(owned: &Owned<Object>, owner: &str) -> Vec<&'static str> {
    owned.of(owner).map(|object| object.0).collect()
}

#[test]
fn an_object_is_found_by_its_owner_of_today() {
    let mut owned = Owned::default();
    assert_eq!(owned.take(Shown::Applied(Object("a", 1, "x"))), Concerned::Some(vec!["x".to_owned()]));
    assert_eq!(owned.take(Shown::Applied(Object("a", 1, "x"))), Concerned::None);
    let moved = owned.take(Shown::Applied(Object("a", 2, "y")));
    assert_eq!(moved, Concerned::Some(vec!["y".to_owned(), "x".to_owned()]));
    assert_eq!((of(&owned, "x"), of(&owned, "y")), (vec![], vec!["a"]));
    owned.wrote(Object("b", 3, "y"));
    owned.ended("a");
    assert_eq!(of(&owned, "y"), ["b"]);
    assert_eq!(owned.take(Shown::Gone("b".to_owned())), Concerned::Some(vec!["y".to_owned()]));
    assert_eq!(owned.len(), 0);
}

#[test]
fn what_is_read_at_once_is_all_there_is() {
    let mut owned = Owned::default();
    for object in [Object("gone", 1, "x"), Object("others", 1, "y"), Object("unselected", 1, "x")] {
        owned.wrote(object);
    }
    owned.wrote(Object("newer", 9, "x"));
    let listed = Listed { version: 5, objects: vec![Object("new", 2, "x")] };
    owned.found_by(&["x"], listed, |object| object.0 != "unselected");
    let all = ["new", "newer", "unselected"];
    assert_eq!((of(&owned, "x"), of(&owned, "y")), (all.to_vec(), vec!["others"]));
    // A watch that is late does not bring it back.
    owned.take(Shown::Applied(Object("gone", 3, "x")));
    assert_eq!(of(&owned, "x"), all);
}

#[test]
fn what_is_newer_than_a_list_is_not_gone_by_it() {
    let mut owned = Owned::default();
    for object in [Object("gone", 4, "x"), Object("newer", 6, "x"), Object("others", 1, "z")] {
        owned.take(Shown::Applied(object));
    }
    let objects = vec![Object("unseen", 3, "x"), Object("seen", 2, "y")];
    owned.found(&["x", "y"], Listed { version: 5, objects });
    let all = ["x", "y", "z"].map(|owner| of(&owned, owner));
    assert_eq!(all, [vec!["newer", "unseen"], vec!["seen"], vec!["others"]]);
    // Nothing known is older than no version.
    owned.found(&["x"], Listed { version: 0, objects: Vec::new() });
    assert_eq!(of(&owned, "x"), ["newer", "unseen"]);
    // A watch that is late does not bring it back; one that is newer than the list knows better.
    owned.take(Shown::Applied(Object("gone", 5, "x")));
    assert_eq!(of(&owned, "x"), ["newer", "unseen"]);
    owned.take(Shown::Applied(Object("gone", 6, "x")));
    assert_eq!(of(&owned, "x"), ["gone", "newer", "unseen"]);
}

/// A pod of set `x` at version 1, changed so.
fn pod(version: u32, change: fn(&mut Value)) -> PodView {
    let mut pod = json!({
        "metadata": {
            "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": version.to_string(), "labels": { "app": "a" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "CloneSet", "name": "x", "uid": "x", "controller": true }],
        },
        "spec": { "nodeName": "n", "containers": [] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    change(&mut pod);
    PodView::of(&serde_json::from_value(pod).unwrap())
}

/// A kubelet says more of a pod than a set looks at.
#[rstest]
#[case::another_version(|_: &mut Value| {}, false)]
#[case::an_annotation(|pod: &mut Value| pod["metadata"]["annotations"] = json!({ "a": "b" }), false)]
#[case::an_address(|pod: &mut Value| pod["status"]["podIP"] = "10.0.0.1".into(), false)]
#[case::a_state(|pod: &mut Value| pod["status"]["containerStatuses"] =
    json!([{ "name": "c", "image": "i", "imageID": "j", "ready": true, "restartCount": 0 }]), false)]
#[case::a_restart(|pod: &mut Value| pod["status"]["containerStatuses"] =
    json!([{ "name": "c", "image": "i", "imageID": "j", "ready": true, "restartCount": 1 }]), true)]
#[case::not_ready(|pod: &mut Value| pod["status"]["conditions"][0]["status"] = "False".into(), true)]
#[case::a_label(|pod: &mut Value| pod["metadata"]["labels"]["app"] = "b".into(), true)]
#[case::it_goes(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(), true)]
#[case::ended(|pod: &mut Value| pod["status"]["phase"] = "Failed".into(), true)]
#[case::another_owner(|pod: &mut Value| pod["metadata"]["ownerReferences"][0]["uid"] = "y".into(), true)]
fn a_version_that_changes_nothing_concerns_nobody(#[case] change: fn(&mut Value), #[case] concerns: bool) {
    let mut owned = Owned::default();
    owned.take(Shown::Applied(pod(1, |_| {})));
    let concerned = owned.take(Shown::Applied(pod(2, change)));
    assert_eq!(concerned != Concerned::None, concerns);
    assert_eq!(owned.get("u").map(|pod| pod.version.as_str()), Some("2"), "writes are based on the newest");
}
