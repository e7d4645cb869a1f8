//! Actions that the identities are for.

use serde_json::{Value, json};

use super::attempts::{
    Attempt, EVENTS_OF_NODES, Verb, Who, bound, cluster, condition, core, event, event_of_manager,
    event_of_node, events, kruise, lease, leases, object, object_with, pod_image, pod_update, request, spec,
    status, token_of, update,
};
use super::world::{A, AGENTS, OPEN, World};

/// Must succeed, in this order; the attempts after them find what they left.
pub(super) fn controls(world: &World) -> Vec<Attempt> {
    use Verb::{Apply, Delete, Merge, Post, Strategic};
    use Who::{Agent, Author, Kubelet, Manager, OpenKruise};
    let mut applied = object("ContainerRecreateRequest", "mine", Value::Null);
    applied["status"] = json!({ "phase": "Recreating", "message": "stopping a" });
    let mut updating = object("ContainerUpdateRequest", "mine", Value::Null);
    let was = json!({ "containers": [{ "name": "a", "image": "registry.example/a:0" }] });
    updating["status"] = json!({ "phase": "RollingBack", "message": "pulling", "previous": was });
    let pods = json!([{ "uid": "u", "revision": "r", "phase": "Updating" }]);
    let mut owned = object_with("NodeImage", A, "labels", json!({ "zone": "a" }));
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Node", "name": A, "uid": world.uid }]);
    let mut revised = pod_image("registry.example/a:3");
    revised["metadata"] = json!({ "labels": { "controller-revision-hash": "2" } });
    let mut cloned = pod_image("registry.example/a:2");
    cloned["metadata"] =
        json!({ "labels": { "pod-template-hash": "b2", "controller-revision-hash": "web-b2" } });
    let made = object(
        "ContainerRecreateRequest",
        "by-author",
        json!({ "podName": "disposable", "containers": [{ "name": "a" }] }),
    );
    let desired = json!([{ "uid": "u", "image": "registry.example/a:1" }]);
    let owner = json!({ "uid": "u", "fieldPath": "status.desiredImages" });
    let copy = json!({ "tag": "1", "ownerReferences": [owner] });
    let assigned = json!({ "nodeName": A, "podUID": "u" });
    let silent =
        json!({ "phase": "Completed", "completionTime": "2026-07-02T10:00:00Z", "message": "silent" });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": { "resource": "pods", "verb": "patch" } },
    });
    let taken_out = json!([
        condition("KruisePodReady", "False"),
        condition("Ready", "False"),
        condition("SidecarSetUpgradable", "False"),
        condition("game.kruise.io/idle", "True"),
        condition("Listed", "True"),
        condition("ContainersReady", "False")
    ]);
    let of_pod = |probe: Value| json!({ "name": "p", "namespace": "n", "uid": "u", "probes": [probe] });
    let probe = json!({ "name": "m#p", "containerName": "a", "probe": { "exec": { "command": ["true"] } } });
    let copied = of_pod(probe.clone());
    let mut marked = probe;
    marked["podConditionType"] = json!("example.com/up");
    let marked = of_pod(marked);
    let table = [
        (Agent, Apply, request("/mine/status"), applied.clone()),
        (Agent, Delete, request("/done-agent"), Value::Null),
        (Agent, Merge, core("pods/mine/status"), status(json!({ "conditions": taken_out }))),
        (Agent, Strategic, core("pods/mine"), pod_image("registry.example/a:2")),
        (
            Agent,
            Merge,
            core("pods/mine"),
            json!({ "metadata": { "labels": { "allowed": "1", "berth.dev/l": "1" }, "annotations": {
                "example.com/a": "1",
                "apps.kruise.io/inplace-update-state": "{}",
                "apps.kruise.io/runtime-containers-meta": "{}",
                "kruise.io/sidecarset-inplace-update-state": "{}",
                "kruise.io/sidecarset-hash": "{}",
                "kruise.io/sidecarset-injected-list": "mesh",
            } } }),
        ),
        (Agent, Merge, core("pods/mine"), json!({ "metadata": { "labels": { "allowed": null } } })),
        (Agent, Strategic, core("pods/mine"), revised),
        (Agent, Strategic, core("pods/cloned"), cloned),
        (
            Agent,
            Merge,
            core("pods/mine"),
            json!({ "metadata": { "labels": { "controller-revision-hash": "3" }, "annotations": {
                "apps.kruise.io/inplace-update-state": "{\"revision\":\"3\"}" } } }),
        ),
        (
            Agent,
            Merge,
            format!("/api/v1/namespaces/{OPEN}/pods/mine"),
            json!({ "metadata": { "labels": { "app": "1" }, "annotations": {
                "controller.kubernetes.io/pod-deletion-cost": "-10" } } }),
        ),
        (
            Agent,
            Merge,
            format!("/api/v1/nodes/{A}"),
            json!({ "metadata": { "labels": { "berth.dev/path": "beside", "berth.dev/order": "false" } } }),
        ),
        (Agent, Post, cluster("nodeimages"), owned),
        (Agent, Merge, cluster(&format!("nodeimages/{A}/status")), status(json!({ "pulling": 1 }))),
        (Agent, Apply, update("/mine/status"), updating.clone()),
        (Agent, Delete, update("/done-agent"), Value::Null),
        (Agent, Post, pod_update(""), object("NodePodUpdate", A, Value::Null)),
        (Agent, Merge, pod_update(&format!("/{A}/status")), status(json!({ "pods": pods }))),
        (Agent, Post, events(), event("of-agent", A)),
        (Agent, Post, EVENTS_OF_NODES.to_owned(), event_of_node("of-node", A, A)),
        (Agent, Post, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), review),
        // As a berthd does that is a service (boundToPod).
        (Kubelet, Post, token_of("berth-agent"), bound("Pod", AGENTS[0], &world.agents[0], 3600)),
        (Kubelet, Apply, request("/mine/status"), applied),
        (Kubelet, Delete, request("/done-kubelet"), Value::Null),
        (Kubelet, Post, cluster("nodepodprobes"), object("NodePodProbe", A, json!({}))),
        (Kubelet, Merge, cluster(&format!("nodepodprobes/{A}/status")), status(json!({ "conditions": [] }))),
        (
            Manager,
            Merge,
            cluster(&format!("nodepodprobes/{A}/status")),
            status(json!({ "desiredPodProbes": [marked] })),
        ),
        (Agent, Merge, cluster(&format!("nodepodprobes/{A}")), json!({ "spec": { "podProbes": [copied] } })),
        (Kubelet, Apply, update("/mine/status"), updating),
        (Kubelet, Delete, update("/done-kubelet"), Value::Null),
        (Kubelet, Merge, pod_update(&format!("/{A}/status")), status(json!({ "conditions": [] }))),
        (Manager, Merge, request("/new/status"), status(assigned.clone())),
        (Manager, Merge, request("/new/status"), status(silent.clone())),
        (Manager, Merge, update("/new/status"), status(assigned)),
        (Manager, Merge, update("/new/status"), status(silent)),
        (
            Manager,
            Merge,
            cluster(&format!("nodeimages/{A}/status")),
            status(json!({ "desiredImages": desired })),
        ),
        (
            Agent,
            Merge,
            cluster(&format!("nodeimages/{A}")),
            spec(json!({ "images": { "registry.example/a": { "tags": [copy] } } })),
        ),
        // What stands under another name stays as it is.
        (
            Agent,
            Merge,
            cluster(&format!("nodeimages/{A}")),
            spec(json!({ "images": { "registry.example/b": { "tags": [copy] } } })),
        ),
        (
            Kubelet,
            Merge,
            cluster(&format!("nodeimages/{A}")),
            spec(json!({ "images": { "registry.example/a": null, "registry.example/b": null } })),
        ),
        (Manager, Merge, kruise("imagepulljobs/job/status"), status(json!({ "desired": 1 }))),
        (Manager, Delete, kruise("imagepulljobs/done-with-ttl"), Value::Null),
        (Manager, Merge, kruise("podprobemarkers/marker/status"), status(json!({ "matchedPods": 1 }))),
        (Manager, Post, leases("berth-system"), lease("berth-manager")),
        (Manager, Post, events(), event_of_manager("of-manager")),
        (Author, Post, request(""), made),
        (
            OpenKruise,
            Merge,
            pod_update(&format!("/{A}/status")),
            status(
                json!({ "desiredPods": [{ "uid": "u", "namespace": "n", "name": "p", "revision": "r" }] }),
            ),
        ),
        (OpenKruise, Merge, kruise("imagepulljobs/job/status"), status(json!({ "desired": 2 }))),
        (OpenKruise, Merge, update("/unassigned/status"), status(json!({ "message": "of OpenKruise" }))),
    ];
    table.map(|(who, verb, path, body)| Attempt::new(who, verb, path, body)).into()
}

/// Writes that an agent may make where `deploy/token-renewal` is applied.
pub(super) fn renewal(world: &World) -> Attempt {
    Attempt::new(Who::Agent, Verb::Post, token_of("berth-agent"), bound("Node", A, &world.uid, 3600))
}
