//! Plans at an API server that refuses some of their writes.

mod adopt;
mod entries;
mod late;
mod make;
mod parts;
mod reasons;
mod server;

use std::sync::Arc;

use berth_proto::crd::CloneSet;
use berth_workloads_policy::action::{InPlaceUpdate, Target};
use serde_json::{Value, json};

use self::server::{
    BUSY, CHANGED, HANGS, HELD, NONE, OWN, Refused, TAKEN, carried_out, carry_out, late, report, report_after,
};
use super::*;
use crate::kinds::Set;

fn set() -> Set {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "namespace": "ns", "name": "shop", "uid": "set" },
        "spec": { "selector": {}, "template": {} },
    });
    Arc::new(serde_json::from_value::<CloneSet>(set).unwrap())
}

fn new(name: &str) -> Action {
    Action::CreatePod(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "ns", "name": name },
        "spec": { "containers": [] },
    }))
}

fn target(name: &str) -> Target {
    Target { name: name.to_owned(), uid: name.to_owned(), version: "1".to_owned() }
}

fn open(name: &str) -> Action {
    Action::PatchPodStatus(target(name), json!({ "status": { "conditions": [] } }))
}

/// Update of a pod of a node; its name is its UID.
fn update(node: &str, pod: &str) -> InPlaceUpdate {
    InPlaceUpdate {
        node: node.to_owned(),
        name: pod.to_owned(),
        uid: pod.to_owned(),
        revision: "shop-new".to_owned(),
        attempt: 0,
        generation: Some(1),
        images: Default::default(),
        labels: Default::default(),
        annotations: Default::default(),
        grace_seconds: None,
    }
}
