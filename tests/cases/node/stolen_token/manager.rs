//! Writes that the manager is not for: everything but the status of our kinds, and there what a node says of
//! itself.

use serde_json::{Value, json};

use super::attempts::{
    Verb, Who, annotated, cluster, core, event, events, kruise, labelled, lease, leases, object, pod_update,
    request, spec, status, token_of, update,
};
use super::refusals::Row;
use super::world::B;

const OF_NODE: &str =
    "what a node has (imageStatuses, pulls, sealingKey, firstSyncStatus, podProbeStatuses) is the agent's";

const TAKES_LABEL: &str =
    "the manager takes the label crr.apps.kruise.io/active from requests that have ended";

/// The objects that the admission server stands on: none is patched, made or deleted, and no other of their
/// kinds is touched. Their contents are tried where a manager serves.
pub(super) fn admission() -> Vec<Row> {
    use Verb::{Delete, Get, Merge, Post};
    use Who::Manager;
    let ours = |path: &str| format!("/api/v1/namespaces/berth-system/{path}");
    let hooks = |path: &str| format!("/apis/admissionregistration.k8s.io/v1/{path}");
    let hook = json!({ "name": "x.berth.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://thief.example/" } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "made" } });
    let taken = json!({ "metadata": { "labels": { "crr.apps.kruise.io/active": null, "other": "x" } } });
    let mut rows = vec![
        (Manager, Get, ours("secrets"), Value::Null, "cannot list resource \"secrets\""),
        (Manager, Get, ours("secrets/another"), Value::Null, "cannot get resource \"secrets\""),
        (Manager, Post, ours("secrets"), secret, "cannot create resource \"secrets\""),
        (
            Manager,
            Delete,
            ours("secrets/berth-manager-admission"),
            Value::Null,
            "cannot delete resource \"secrets\"",
        ),
        (Manager, Get, ours("configmaps"), Value::Null, "cannot list resource \"configmaps\""),
        (
            Manager,
            Get,
            ours("configmaps/kube-root-ca.crt"),
            Value::Null,
            "cannot get resource \"configmaps\"",
        ),
        (Manager, Merge, request("/mine-done"), taken, TAKES_LABEL),
        (Manager, Merge, request("/mine"), annotated("a"), TAKES_LABEL),
        (Manager, Merge, request("/mine"), annotated("crr.apps.kruise.io/unready-acquired"), TAKES_LABEL),
        (
            Manager,
            Merge,
            request("/mine-done"),
            json!({ "metadata": { "finalizers": ["example.com/kept"] } }),
            TAKES_LABEL,
        ),
    ];
    for kind in ["mutating", "validating"] {
        let resource = format!("{kind}webhookconfigurations");
        let named = hooks(&format!("{resource}/berth-manager"));
        let (made, patched, deleted) = match kind {
            "mutating" => (
                "cannot create resource \"mutatingwebhookconfigurations\"",
                "cannot patch resource \"mutatingwebhookconfigurations\"",
                "cannot delete resource \"mutatingwebhookconfigurations\"",
            ),
            _ => (
                "cannot create resource \"validatingwebhookconfigurations\"",
                "cannot patch resource \"validatingwebhookconfigurations\"",
                "cannot delete resource \"validatingwebhookconfigurations\"",
            ),
        };
        let name = if kind == "mutating" {
            "MutatingWebhookConfiguration"
        } else {
            "ValidatingWebhookConfiguration"
        };
        let another = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": name,
            "metadata": { "name": "another" }, "webhooks": [hook] });
        rows.push((Manager, Post, hooks(&resource), another, made));
        rows.push((Manager, Merge, named.clone(), json!({ "webhooks": [hook] }), patched));
        rows.push((Manager, Delete, named, Value::Null, deleted));
    }
    rows
}

/// The manager: nothing but the status of our kinds, and there not what a node says of itself.
pub(super) fn writes() -> Vec<Row> {
    use Verb::{Delete, Merge, Post};
    use Who::Manager;
    let states = json!([{ "name": "a", "phase": "Succeeded" }]);
    let image = json!({ "x": { "tags": [{ "tag": "1", "phase": "Succeeded" }] } });
    let probe = json!([{ "name": "p", "namespace": "n", "uid": "u" }]);
    let made = object(
        "ContainerRecreateRequest",
        "made",
        json!({ "podName": "p", "containers": [{ "name": "a" }] }),
    );
    let of_node = OF_NODE;
    let unfinished = "the manager deletes only finished jobs that have a ttlSecondsAfterFinished";
    let node_image = || cluster(&format!("nodeimages/{B}/status"));
    let pulls = json!([{ "uid": "u", "phase": "Succeeded" }]);
    vec![
        (
            Manager,
            Post,
            events(),
            event("x", "berth-manager-0"),
            "the Events of the manager are in its own name",
        ),
        (Manager, Post, request(""), made, "cannot create resource \"containerrecreaterequests\""),
        (Manager, Merge, request("/mine"), labelled("l"), TAKES_LABEL),
        (
            Manager,
            Delete,
            request("/mine-done"),
            Value::Null,
            "the manager deletes only finished requests that have a ttlSecondsAfterFinished",
        ),
        (
            Manager,
            Merge,
            request("/mine/status"),
            status(json!({ "containerRecreateStates": states })),
            "is the agent's, once it has answered",
        ),
        (
            Manager,
            Merge,
            request("/mine/status"),
            json!({ "status": null }),
            "is the agent's, once it has answered",
        ),
        (
            Manager,
            Merge,
            request("/mine-done/status"),
            status(json!({ "phase": "Pending" })),
            "the manager changes no finished request",
        ),
        (
            Manager,
            Merge,
            request("/mine-done/status"),
            status(json!({ "completionTime": null })),
            "the manager changes no finished request",
        ),
        (
            Manager,
            Merge,
            cluster(&format!("nodeimages/{B}/status")),
            status(json!({ "imageStatuses": image })),
            of_node,
        ),
        (Manager, Merge, node_image(), status(json!({ "pulls": pulls })), of_node),
        (Manager, Merge, node_image(), status(json!({ "sealingKey": "mine" })), of_node),
        (Manager, Delete, kruise("imagepulljobs/with-ttl"), Value::Null, unfinished),
        (Manager, Delete, kruise("imagepulljobs/done"), Value::Null, unfinished),
        (
            Manager,
            Merge,
            cluster(&format!("nodepodprobes/{B}/status")),
            status(json!({ "podProbeStatuses": probe })),
            of_node,
        ),
        (
            Manager,
            Post,
            cluster("nodeimages"),
            object("NodeImage", "node-c", Value::Null),
            "cannot create resource \"nodeimages\"",
        ),
        (
            Manager,
            Merge,
            cluster(&format!("nodeimages/{B}")),
            labelled("l"),
            "cannot patch resource \"nodeimages\"",
        ),
        (
            Manager,
            Delete,
            cluster(&format!("nodepodprobes/{B}")),
            Value::Null,
            "cannot delete resource \"nodepodprobes\"",
        ),
        (
            Manager,
            Merge,
            kruise("imagepulljobs/job"),
            labelled("l"),
            "cannot patch resource \"imagepulljobs\"",
        ),
        (Manager, Merge, core("pods/mine"), labelled("l"), "cannot patch resource \"pods\""),
        (
            Manager,
            Merge,
            core("pods/mine/status"),
            status(json!({ "message": "x" })),
            "cannot patch resource \"pods/status\"",
        ),
        (Manager, Post, leases("berth-system"), lease("another"), "the only lease of the manager"),
        (
            Manager,
            Post,
            leases("kube-node-lease"),
            lease("berth-manager"),
            "cannot create resource \"leases\"",
        ),
        (
            Manager,
            Post,
            token_of("berth-agent"),
            spec(json!({})),
            "cannot create resource \"serviceaccounts/token\"",
        ),
        (
            Manager,
            Post,
            token_of("berth-manager"),
            spec(json!({})),
            "cannot create resource \"serviceaccounts/token\"",
        ),
    ]
}

/// The manager and in-place updates: it asks for them and does not say how they go.
pub(super) fn updates() -> Vec<Row> {
    use Verb::{Delete, Merge, Post};
    use Who::Manager;
    let states = json!([{ "name": "a", "phase": "Succeeded" }]);
    let was = json!({ "containers": [{ "name": "a", "image": "registry.example/x:1" }] });
    let pods = json!([{ "uid": "u", "revision": "r", "phase": "Succeeded" }]);
    let container = json!({ "name": "a", "image": "registry.example/x:1" });
    let made = object("ContainerUpdateRequest", "made", json!({ "podName": "p", "containers": [container] }));
    let answered = "containerUpdateStates is the agent's, once it has answered";
    let previous = "what the pod was before an update (previous) is the agent's";
    let finished = "the manager changes no finished request";
    let no_patch = "cannot patch resource \"nodepodupdates\"";
    let of_node = "what a node says of its updates (pods, features, renewTime, conditions) is the agent's";
    let of_others = "of desiredPods the manager writes the entries of SidecarSets alone";
    let features = json!(["swaps/v1"]);
    let desired = json!([{ "uid": "u", "namespace": "n", "name": "p", "revision": "r" }]);
    vec![
        (Manager, Post, update(""), made, "cannot create resource \"containerupdaterequests\""),
        (Manager, Merge, update("/mine"), labelled("l"), "cannot patch resource \"containerupdaterequests\""),
        (
            Manager,
            Delete,
            update("/mine-done"),
            Value::Null,
            "cannot delete resource \"containerupdaterequests\"",
        ),
        (
            Manager,
            Merge,
            update("/mine/status"),
            status(json!({ "containerUpdateStates": states })),
            answered,
        ),
        (Manager, Merge, update("/mine/status"), status(json!({ "containerUpdateStates": null })), answered),
        (Manager, Merge, update("/mine/status"), json!({ "status": null }), answered),
        (Manager, Merge, update("/mine/status"), status(json!({ "previous": was })), previous),
        (Manager, Merge, update("/unassigned/status"), status(json!({ "previous": was })), previous),
        (Manager, Merge, update("/mine-done/status"), status(json!({ "phase": "Pending" })), finished),
        (Manager, Merge, update("/mine-done/status"), status(json!({ "completionTime": null })), finished),
        (Manager, Merge, pod_update(&format!("/{B}/status")), status(json!({ "pods": pods })), of_node),
        (
            Manager,
            Merge,
            pod_update(&format!("/{B}/status")),
            status(json!({ "features": features })),
            of_node,
        ),
        (
            Manager,
            Merge,
            pod_update(&format!("/{B}/status")),
            status(json!({ "desiredPods": desired })),
            of_others,
        ),
        (Manager, Merge, pod_update(&format!("/{B}")), labelled("l"), no_patch),
        (
            Manager,
            Post,
            pod_update(""),
            object("NodePodUpdate", "node-c", Value::Null),
            "cannot create resource \"nodepodupdates\"",
        ),
        (
            Manager,
            Delete,
            pod_update(&format!("/{B}")),
            Value::Null,
            "cannot delete resource \"nodepodupdates\"",
        ),
    ]
}
