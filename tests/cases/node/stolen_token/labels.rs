//! Moves of pods of the stolen node into what selects others: by their labels, and by what their owners know
//! them by.

use serde_json::{Value, json};

use super::attempts::{Verb, Who, annotated, condition, core, labelled, pod_image, status};
use super::refusals::Row;
use super::world::OPEN;

const OWNERS: &str = "is its owner's, and an agent never changes it";
const UNLISTED: &str = "does not let agents change";
const CONDITIONS: &str = "others without a domain that are not in the annotation berth.dev/agent-labels";

/// By these a pod is found by its owner, or counted by it; and what is settled before its containers are
/// started.
const OF_OWNERS: [&str; 11] = [
    "pod-template-hash",
    "pod-template-generation",
    "controller-uid",
    "controller-revision-hash",
    "job-name",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "apps.kruise.io/cloneset-instance-id",
    "apps.kruise.io/container-launch-priority",
];

/// Keys that the Namespace does not list, some of them nearly.
const NOT_LISTED: [&str; 12] = [
    "app",
    "app.kubernetes.io/name",
    "k8s-app",
    "allowed2",
    "listed",
    "example.com",
    "sub.example.com/a",
    "example.org/a",
    "apps.kruise.io/specified-delete",
    "policy.kruise.io/delete-protection",
    "controller.kubernetes.io/pod-deletion-cost",
    "istio.io/rev",
];

pub(super) fn moves() -> Vec<Row> {
    use Verb::{Merge, Strategic};
    let mine = || core("pods/mine");
    // Where every key may be written.
    let open = || format!("/api/v1/namespaces/{OPEN}/pods/mine");
    let agent = |verb, path, body, because| (Who::Agent, verb, path, body, because);
    let mut rows = Vec::new();
    for key in OF_OWNERS {
        rows.extend([
            agent(Merge, mine(), labelled(key), OWNERS),
            agent(Strategic, open(), labelled(key), OWNERS),
            agent(Merge, open(), annotated(key), OWNERS),
        ]);
    }
    for key in NOT_LISTED {
        rows.extend([
            agent(Merge, mine(), labelled(key), UNLISTED),
            // A deletion cost is a number.
            agent(Strategic, mine(), json!({ "metadata": { "annotations": { key: "1" } } }), UNLISTED),
        ]);
    }
    let cloned = || core("pods/cloned");
    let revision = |hash: &str, revision: &str| json!({ "pod-template-hash": hash, "controller-revision-hash": revision });
    let hashed = |hash: &str, name: &str| json!({ "metadata": { "labels": revision(hash, name) } });
    let labels = |labels: Value| json!({ "metadata": { "labels": labels } });
    let with_image = |labels: Value| {
        let mut body = pod_image("registry.example/a:9");
        body["metadata"] = json!({ "labels": labels });
        body
    };
    rows.extend([
        // The ReplicaSet, the Service and the NetworkPolicy of the namespace.
        agent(Merge, mine(), labels(json!({ "app": "theirs", "pod-template-hash": "2" })), OWNERS),
        agent(Strategic, mine(), with_image(json!({ "app": "theirs", "pod-template-hash": "2" })), OWNERS),
        agent(Merge, mine(), labels(json!({ "app": "theirs" })), UNLISTED),
        agent(Strategic, mine(), with_image(json!({ "app": "theirs" })), UNLISTED),
        agent(Merge, mine(), labels(json!({ "role": "db" })), UNLISTED),
        agent(Merge, mine(), labels(json!({ "allowed": "1", "role": "db" })), UNLISTED),
        // Out of its owner's.
        agent(Merge, mine(), labels(json!({ "app": null })), UNLISTED),
        agent(Merge, mine(), labels(json!({ "pod-template-hash": null })), OWNERS),
        agent(Merge, open(), labels(json!({ "pod-template-hash": null })), OWNERS),
        agent(Merge, open(), json!({ "metadata": { "labels": null } }), OWNERS),
        agent(Merge, mine(), labels(json!({ "controller-revision-hash": null })), OWNERS),
        agent(Merge, mine(), json!({ "metadata": { "generateName": "x-" } }), "nothing of a pod's metadata"),
        // Its CloneSet's revision names its hash: no other one, not without an update, and of no other pod.
        agent(Merge, cloned(), hashed("d4", "web-d4"), OWNERS),
        agent(Strategic, cloned(), with_image(revision("c3", "web-b2")), OWNERS),
        agent(Strategic, cloned(), with_image(revision("web-b2", "web-b2")), OWNERS),
        agent(Strategic, cloned(), with_image(json!({ "pod-template-hash": null })), OWNERS),
        agent(Strategic, mine(), with_image(revision("b2", "web-b2")), OWNERS),
        agent(Strategic, open(), with_image(revision("b2", "web-b2")), OWNERS),
    ]);
    for type_ in ["Idle", "listed", "PodReady", "kubernetes.io/x", "cloud.k8s.io/x"] {
        let body = status(json!({ "conditions": [condition(type_, "True")] }));
        rows.push(agent(Strategic, core("pods/mine/status"), body, CONDITIONS));
    }
    rows
}
