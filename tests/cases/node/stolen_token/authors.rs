//! Authors of objects whose roles have more in them than they should: by a status, or by a request, they
//! would have a node do what they may not do themselves.

use serde_json::{Value, json};

use super::attempts::{Verb, Who, cluster, kruise, object, pod_update, request, spec, status, update};
use super::refusals::Row;
use super::world::B;

const STATUS: &str = "may not write the status of";

/// Writes to the status of each kind, by patches of all sorts.
pub(super) fn statuses() -> Vec<Row> {
    let was = json!({ "containers": [{ "name": "a", "image": "registry.example/x:1" }] });
    let rolled_back = json!({ "phase": "RollingBack", "previous": was });
    let pod = json!([{ "uid": "u", "namespace": "n", "name": "p", "revision": "r" }]);
    let probe = json!([{ "name": "p", "namespace": "n", "uid": "u", "IP": "10.0.0.1" }]);
    let table: [(&str, &str, String, Value); 7] = [
        ("ContainerRecreateRequest", "mine", request("/mine"), json!({ "phase": "Pending" })),
        ("ContainerUpdateRequest", "mine", update("/mine"), rolled_back),
        ("ImagePullJob", "job", kruise("imagepulljobs/job"), json!({ "desired": 9 })),
        ("PodProbeMarker", "marker", kruise("podprobemarkers/marker"), json!({ "matchedPods": 9 })),
        (
            "NodeImage",
            B,
            cluster(&format!("nodeimages/{B}")),
            json!({ "desiredImages": [{ "uid": "u", "image": "x" }] }),
        ),
        ("NodePodProbe", B, cluster(&format!("nodepodprobes/{B}")), json!({ "desiredPodProbes": probe })),
        ("NodePodUpdate", B, pod_update(&format!("/{B}")), json!({ "desiredPods": pod })),
    ];
    let mut rows = Vec::new();
    for (kind, name, path, written) in table {
        let mut applied = object(kind, name, Value::Null);
        applied["status"] = written.clone();
        let at = format!("{path}/status");
        rows.extend([
            (Who::Author, Verb::Merge, at.clone(), status(written), STATUS),
            (Who::Author, Verb::Apply, at.clone(), applied, STATUS),
            (Who::Author, Verb::Merge, at, json!({ "status": null }), STATUS),
        ]);
    }
    rows
}

/// Requests for containers of pods that the author may neither delete nor patch, nor run commands in.
pub(super) fn requests() -> Vec<Row> {
    use Verb::{Merge, Post};
    use Who::Author;
    const DELETE: &str = "author may not delete pod stolen-token/";
    const PATCH: &str = "author may not patch pod stolen-token/";
    let recreate = |pod: &str, more: Value| {
        let mut spec = json!({ "podName": pod, "containers": [{ "name": "a" }] });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        object("ContainerRecreateRequest", "made", spec)
    };
    let mut generated = recreate("theirs", Value::Null);
    generated["metadata"] = json!({ "generateName": "made-" });
    let image = json!([{ "name": "a", "image": "registry.example/x:1" }]);
    let change = |pod: &str, what: Value| {
        let mut spec = what;
        spec["podName"] = pod.into();
        object("ContainerUpdateRequest", "made", spec)
    };
    let marker = |probe: Value, more: Value| {
        let mut probe = json!({ "name": "p", "containerName": "a", "probe": probe });
        for (field, value) in more.as_object().into_iter().flatten() {
            probe[field] = value.clone();
        }
        let selector = json!({ "matchLabels": { "app": "mine" } });
        object("PodProbeMarker", "made", json!({ "selector": selector, "probes": [probe] }))
    };
    let dialled = || json!({ "tcpSocket": { "port": 80 } });
    let labelled = json!({ "markerPolicy": [{ "state": "Failed", "labels": { "allowed": "x" } }] });
    let run = json!({ "exec": { "command": ["true"] } });
    let immutable = "spec is immutable";
    vec![
        (Author, Post, request(""), recreate("mine", Value::Null), DELETE),
        (Author, Post, request(""), recreate("theirs", Value::Null), DELETE),
        (Author, Post, request(""), recreate("disposable2", Value::Null), DELETE),
        (
            Author,
            Post,
            request(""),
            recreate("theirs", json!({ "strategy": { "forceRecreate": true } })),
            DELETE,
        ),
        (Author, Post, request(""), generated, DELETE),
        (Author, Merge, request("/by-author"), spec(json!({ "podName": "theirs" })), immutable),
        (Author, Merge, request("/mine"), spec(json!({ "podName": "theirs" })), immutable),
        (Author, Merge, request("/mine"), spec(json!({ "containers": [{ "name": "b" }] })), immutable),
        (Author, Merge, update("/mine"), spec(json!({ "podName": "theirs" })), immutable),
        (Author, Post, update(""), change("theirs", json!({ "containers": image })), PATCH),
        (
            Author,
            Post,
            update(""),
            change("mine", json!({ "metadata": { "labels": { "allowed": "1" } } })),
            PATCH,
        ),
        (Author, Post, kruise("podprobemarkers"), marker(run, Value::Null), "to create pods/exec in it"),
        (Author, Post, kruise("podprobemarkers"), marker(dialled(), labelled), "to patch pods in it"),
        (
            Author,
            Post,
            kruise("podprobemarkers"),
            marker(dialled(), json!({ "podConditionType": "example.com/p" })),
            "to patch pods/status in it",
        ),
    ]
}
