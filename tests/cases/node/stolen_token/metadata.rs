//! Objects of the node that are made with more than a name: what keeps them from being deleted, or has others
//! deleted with them.

use serde_json::json;

use super::attempts::{Verb, Who, cluster, object_with, pod_update};
use super::refusals::Row;
use super::world::{A, B};

const PLAIN: &str = "makes only objects without finalizers and annotations";
const OWNED: &str = "makes only objects that its own node owns";

pub(super) fn of_node_objects() -> Vec<Row> {
    let owner =
        |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u" });
    let with = |field: &str| {
        let mut owner = owner("Node", A);
        owner[field] = true.into();
        json!([owner])
    };
    let other_group = json!([{ "apiVersion": "apps/v1", "kind": "Node", "name": A, "uid": "u" }]);
    let table = [
        ("finalizers", json!(["x.example/y"]), PLAIN),
        ("annotations", json!({ "example.com/a": "1" }), PLAIN),
        ("ownerReferences", json!([owner("Node", B)]), OWNED),
        ("ownerReferences", json!([owner("Pod", A)]), OWNED),
        ("ownerReferences", json!([owner("Node", A), owner("Node", B)]), OWNED),
        ("ownerReferences", with("controller"), OWNED),
        ("ownerReferences", with("blockOwnerDeletion"), OWNED),
        ("ownerReferences", other_group, OWNED),
    ];
    let mut rows = Vec::new();
    for (field, value, because) in table {
        let mut of = |who, kind, path: String| {
            rows.push((who, Verb::Post, path, object_with(kind, A, field, value.clone()), because));
        };
        for who in [Who::Agent, Who::Kubelet] {
            of(who, "NodeImage", cluster("nodeimages"));
            of(who, "NodePodProbe", cluster("nodepodprobes"));
        }
        of(Who::Agent, "NodePodUpdate", pod_update(""));
    }
    rows
}
