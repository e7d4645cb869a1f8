//! Actions that the identities are not for, each with the reason it is refused for.

mod others;

use serde_json::{Value, json};

use super::attempts::{
    Attempt, EVENTS_OF_NODES, Refused, Verb, Who, again, annotated, bound, cluster, condition, core, event,
    event_of_node, events, kruise, labelled, leases, object, pod_image, pod_update, request, spec, status,
    token_of, update,
};
use super::world::{A, AGENTS, B, NAMESPACE, World};
use super::{authors, identities, labels, manager, metadata};

pub(super) fn refused(world: &World) -> Vec<Refused> {
    let mut all = requests();
    all.extend(pods());
    all.extend(objects());
    all.extend(pod_updates());
    all.extend(tokens(world));
    all.extend(others::anything_else());
    all.extend(manager::admission());
    all.extend(manager::writes());
    all.extend(manager::updates());
    all.extend(labels::moves());
    all.extend(metadata::of_node_objects());
    all.extend(identities::other_names());
    all.extend(authors::statuses());
    all.extend(authors::requests());
    let refused =
        |(who, verb, path, body, because)| Refused { attempt: Attempt::new(who, verb, path, body), because };
    let mut all: Vec<_> = all.into_iter().map(refused).collect();
    for who in [Who::Agent, Who::Kubelet, Who::Manager] {
        let mut attempt = Attempt::new(who, Verb::Get, core("secrets"), Value::Null);
        attempt.impersonate = true;
        all.push(Refused { attempt, because: "cannot impersonate" });
    }
    all
}

pub(super) type Row = (Who, Verb, String, Value, &'static str);

const OTHER_REQUEST: &str = "only requests that are assigned to its own node";
const ASSIGNMENT: &str = "the assignment (nodeName, podUID, containerStatusContexts) is the manager's";

/// Requests: by both identities of an agent.
fn requests() -> Vec<Row> {
    let contexts = json!([{ "name": "a", "containerID": "containerd://x", "restartCount": 0 }]);
    let contexts = || status(json!({ "containerStatusContexts": contexts }));
    let mut rows = Vec::new();
    for who in [Who::Agent, Who::Kubelet] {
        rows.extend(requests_of(who, request, "ContainerRecreateRequest", json!({ "name": "a" })));
        let container = json!({ "name": "a", "image": "registry.example/x:1" });
        rows.extend(requests_of(who, update, "ContainerUpdateRequest", container));
        rows.push((who, Verb::Merge, request("/mine/status"), contexts(), ASSIGNMENT));
    }
    rows
}

fn requests_of(who: Who, at: fn(&str) -> String, kind: &str, container: Value) -> Vec<Row> {
    use Verb::{Apply, Delete, Merge, Post};
    let mut moved = object(kind, "theirs", Value::Null);
    moved["status"] = json!({ "nodeName": A });
    let made = object(kind, "made", json!({ "podName": "p", "containers": [container] }));
    let other = || status(json!({ "message": "x" }));
    let (no_create, no_patch) = match kind {
        "ContainerUpdateRequest" => (
            "cannot create resource \"containerupdaterequests\"",
            "cannot patch resource \"containerupdaterequests\"",
        ),
        _ => (
            "cannot create resource \"containerrecreaterequests\"",
            "cannot patch resource \"containerrecreaterequests\"",
        ),
    };
    vec![
        (who, Merge, at("/theirs/status"), other(), OTHER_REQUEST),
        (who, Merge, at("/unassigned/status"), other(), OTHER_REQUEST),
        (who, Merge, at("/unassigned/status"), status(json!({ "nodeName": A })), OTHER_REQUEST),
        (who, Apply, at("/theirs/status"), moved, OTHER_REQUEST),
        (who, Merge, at("/mine/status"), status(json!({ "nodeName": B })), ASSIGNMENT),
        (who, Merge, at("/mine/status"), status(json!({ "nodeName": null })), ASSIGNMENT),
        (who, Merge, at("/mine/status"), status(json!({ "podUID": "x" })), ASSIGNMENT),
        (who, Merge, at("/mine/status"), json!({ "status": null }), ASSIGNMENT),
        (who, Delete, at("/theirs-done"), Value::Null, OTHER_REQUEST),
        (who, Delete, at("/theirs"), Value::Null, OTHER_REQUEST),
        (who, Delete, at("/mine"), Value::Null, "deletes only finished requests"),
        (who, Delete, at(""), Value::Null, "cannot deletecollection"),
        (who, Post, at(""), made, no_create),
        (who, Merge, at("/mine"), labelled("l"), no_patch),
    ]
}

const OTHER_POD: &str = "only pods of its own node";
const SPEC: &str = "nothing of a pod's spec but the images of its containers";
const STATUS: &str = "nothing of a pod's status but conditions";
const CONDITIONS: &str = "does not write the conditions of the kubelet and the control plane";
const KUBELET: &str = "cannot patch resource \"pods\"";

/// Pods: the agent's ServiceAccount changes little of its own, the kubelet nothing by patch.
fn pods() -> Vec<Row> {
    use Verb::{Delete, Merge, Post, Strategic};
    use Who::{Agent, Kubelet};
    let owner = json!([{ "apiVersion": "v1", "kind": "Node", "name": A, "uid": "u" }]);
    // One more than the server gave it.
    let toleration = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
    let more = json!([
        toleration("node.kubernetes.io/not-ready"),
        toleration("node.kubernetes.io/unreachable"),
        { "operator": "Exists" },
    ]);
    let command = json!([{ "name": "a", "image": "registry.example/a:2", "command": ["sh"] }]);
    let before = |image: &str| spec(json!({ "initContainers": [{ "name": "i", "image": image }] }));
    let with = |more: Value| status(json!({ "conditions": [condition("ContainersReady", "False"), more] }));
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" }, "spec": {
        "nodeName": A, "containers": [{ "name": "a", "image": "registry.example/a" }] } });
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "mine" } });
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "mine" }, "target": { "kind": "Node", "name": A } });
    let ephemeral = spec(json!({ "ephemeralContainers": [{ "name": "e", "image": "registry.example/e" }] }));
    let resize =
        spec(json!({ "containers": [{ "name": "a", "resources": { "requests": { "cpu": "20m" } } }] }));
    let mut rows = vec![
        (Agent, Strategic, core("pods/theirs"), pod_image("registry.example/x:1"), OTHER_POD),
        (Agent, Merge, core("pods/theirs"), labelled("l"), OTHER_POD),
        (Agent, Merge, core("pods/theirs/status"), with(condition("KruisePodReady", "False")), OTHER_POD),
        (
            Agent,
            Merge,
            core("pods/mine"),
            spec(json!({ "containers": command })),
            "pod updates may not change fields",
        ),
        (Agent, Merge, core("pods/mine"), spec(json!({ "activeDeadlineSeconds": 1 })), SPEC),
        (Agent, Strategic, core("pods/mine"), before("registry.example/x:1"), SPEC),
        (Agent, Strategic, core("pods/theirs"), before("registry.example/x:1"), OTHER_POD),
        (Agent, Merge, core("pods/mine"), annotated("kubernetes.io/config.mirror"), "mirror pod annotation"),
        (Agent, Merge, core("pods/theirs"), annotated("apps.kruise.io/inplace-update-state"), OTHER_POD),
        (Agent, Merge, core("pods/mine"), spec(json!({ "tolerations": more })), SPEC),
        (
            Agent,
            Merge,
            core("pods/mine"),
            json!({ "metadata": { "ownerReferences": owner } }),
            "owners nor finalizers",
        ),
        (
            Agent,
            Merge,
            core("pods/mine"),
            json!({ "metadata": { "finalizers": ["x.example/y"] } }),
            "owners nor finalizers",
        ),
        (Agent, Merge, core("pods/mine/status"), status(json!({ "phase": "Failed" })), STATUS),
        (
            Agent,
            Merge,
            core("pods/mine/status"),
            status(json!({ "podIP": "10.0.0.9", "podIPs": [{ "ip": "10.0.0.9" }] })),
            STATUS,
        ),
        (Agent, Merge, core("pods/mine/status"), status(json!({ "message": "x" })), STATUS),
        (Agent, Merge, core("pods/mine/status"), with(condition("Ready", "True")), CONDITIONS),
        (Agent, Merge, core("pods/mine/status"), with(condition("DisruptionTarget", "True")), CONDITIONS),
        (
            Agent,
            Merge,
            core("pods/mine/status"),
            status(json!({ "conditions": [condition("ContainersReady", "True")] })),
            CONDITIONS,
        ),
        (Agent, Merge, core("pods/mine/status"), status(json!({ "conditions": [] })), CONDITIONS),
        (Agent, Merge, core("pods/mine/status"), labelled("l"), "not with its status"),
        (
            Agent,
            Merge,
            core("pods/mine/ephemeralcontainers"),
            ephemeral,
            "cannot patch resource \"pods/ephemeralcontainers\"",
        ),
        (Agent, Merge, core("pods/mine/resize"), resize, "cannot patch resource \"pods/resize\""),
        (Kubelet, Merge, core("pods/mine"), pod_image("registry.example/x"), KUBELET),
        (Kubelet, Merge, core("pods/theirs"), labelled("l"), KUBELET),
        (
            Kubelet,
            Merge,
            core("pods/theirs/status"),
            with(condition("x", "True")),
            "spec.nodeName set to itself",
        ),
        (Kubelet, Delete, core("pods/theirs"), Value::Null, "spec.nodeName set to itself"),
    ];
    for who in [Agent, Who::Manager] {
        rows.extend([
            (who, Post, core("pods"), pod.clone(), "cannot create resource \"pods\""),
            (who, Delete, core("pods/mine"), Value::Null, "cannot delete resource \"pods\""),
            (who, Delete, core("pods"), Value::Null, "cannot deletecollection resource \"pods\""),
            (
                who,
                Post,
                core("pods/mine/eviction"),
                eviction.clone(),
                "cannot create resource \"pods/eviction\"",
            ),
            (
                who,
                Post,
                core("pods/mine/binding"),
                binding.clone(),
                "cannot create resource \"pods/binding\"",
            ),
            (
                who,
                Post,
                core("pods/mine/exec?command=sh&stdout=true"),
                Value::Null,
                "cannot create resource \"pods/exec\"",
            ),
        ]);
    }
    rows
}

const OTHER_OBJECT: &str = "only objects that have the name of its own node";
const NO_COPY: &str = "but a copy of status.desiredImages";
const DESIRED: &str = "what is desired (desiredImages, desiredPodProbes, desiredPods) is the manager's";

/// `NodeImage` and `NodePodProbe`: by both identities of an agent.
fn objects() -> Vec<Row> {
    use Verb::{Delete, Merge, Post};
    let images = json!({ "images": { "registry.example/a": { "tags": [{ "tag": "1" }] } } });
    let pod = json!({ "name": "p", "namespace": "n", "uid": "u", "IP": "10.0.0.1" });
    let kinds = [
        (
            "NodeImage",
            "nodeimages",
            images,
            json!({ "desiredImages": [{ "uid": "u", "image": "x" }] }),
            // What is sealed to this, the thief could open.
            json!({ "sealingKey": "x" }),
            NO_COPY,
        ),
        (
            "NodePodProbe",
            "nodepodprobes",
            json!({ "podProbes": [pod] }),
            json!({ "desiredPodProbes": [pod] }),
            json!({ "podProbeStatuses": [] }),
            "but a copy of status.desiredPodProbes",
        ),
    ];
    let mut rows = Vec::new();
    for (kind, plural, filled, desired, own, spec_refused) in kinds {
        let at = |name: &str, rest: &str| cluster(&format!("{plural}/{name}{rest}"));
        for who in [Who::Agent, Who::Kubelet] {
            rows.extend([
                (who, Post, cluster(plural), object(kind, "node-c", Value::Null), OTHER_OBJECT),
                (
                    who,
                    Post,
                    cluster(plural),
                    object(kind, A, filled.clone()),
                    "makes only objects with an empty spec",
                ),
                (who, Merge, at(B, "/status"), status(json!({ "conditions": [] })), OTHER_OBJECT),
                (who, Merge, at(B, "/status"), status(own.clone()), OTHER_OBJECT),
                (who, Merge, at(A, "/status"), status(desired.clone()), DESIRED),
                (who, Merge, at(A, ""), spec(filled.clone()), spec_refused),
                (who, Merge, at(A, ""), labelled("l"), "an agent changes no metadata"),
                (who, Merge, at(B, ""), spec(json!({})), OTHER_OBJECT),
                (who, Delete, at(A, ""), Value::Null, "cannot delete resource"),
                (who, Delete, at(B, ""), Value::Null, "cannot delete resource"),
            ]);
        }
    }
    for who in [Who::Agent, Who::Kubelet] {
        let images = || cluster(&format!("nodeimages/{A}"));
        let owner = json!({ "uid": "of-nobody", "fieldPath": "status.desiredImages" });
        let strange = json!({ "tags": [{ "tag": "1", "ownerReferences": [owner] }] });
        let secret = json!({ "tags": [], "pullSecrets": [{ "namespace": "n", "name": "s" }] });
        rows.extend([
            (who, Merge, images(), spec(json!({ "images": { "a": strange } })), NO_COPY),
            (who, Merge, images(), spec(json!({ "images": { "a": secret } })), NO_COPY),
            (
                who,
                Merge,
                kruise("imagepulljobs/job/status"),
                status(json!({ "desired": 9 })),
                "cannot patch resource",
            ),
            (
                who,
                Merge,
                kruise("podprobemarkers/marker/status"),
                status(json!({ "matchedPods": 9 })),
                "cannot patch resource",
            ),
        ]);
    }
    rows
}

/// `NodePodUpdate`, whose spec has no fields: a kubelet makes none.
fn pod_updates() -> Vec<Row> {
    use Verb::{Apply, Delete, Merge, Post};
    use Who::{Agent, Kubelet};
    let at = |name: &str, rest: &str| pod_update(&format!("/{name}{rest}"));
    let desired = json!([{ "uid": "v", "namespace": "n", "name": "p", "revision": "r" }]);
    let pods = json!([{ "uid": "u", "revision": "r", "phase": "Succeeded" }]);
    let mut applied = object("NodePodUpdate", A, Value::Null);
    applied["status"] = json!({ "desiredPods": desired });
    let made = |name: &str| object("NodePodUpdate", name, Value::Null);
    let no_create = "cannot create resource \"nodepodupdates\"";
    let mut rows = vec![
        (Agent, Post, pod_update(""), made("node-c"), OTHER_OBJECT),
        (Kubelet, Post, pod_update(""), made("node-c"), no_create),
        (Kubelet, Post, pod_update(""), made(A), no_create),
    ];
    for who in [Agent, Kubelet] {
        rows.extend([
            (who, Merge, at(B, "/status"), status(json!({ "conditions": [] })), OTHER_OBJECT),
            (who, Merge, at(B, "/status"), status(json!({ "pods": pods })), OTHER_OBJECT),
            (who, Merge, at(B, "/status"), status(json!({ "desiredPods": desired })), OTHER_OBJECT),
            (who, Merge, at(A, "/status"), status(json!({ "desiredPods": desired })), DESIRED),
            (who, Merge, at(A, "/status"), status(json!({ "desiredPods": null })), DESIRED),
            (who, Apply, at(A, "/status"), applied.clone(), DESIRED),
            (who, Merge, at(A, ""), labelled("l"), "cannot patch resource"),
            (who, Delete, at(A, ""), Value::Null, "cannot delete resource"),
            (who, Delete, at(B, ""), Value::Null, "cannot delete resource"),
        ]);
    }
    rows
}

const OWN_NODE: &str = "only for tokens that are bound to its own node";
const NO_NODE: &str = "denied request: ";

const NO_TOKEN: &str = "cannot create resource \"serviceaccounts/token\"";

/// A next token, for which nobody has the right; and a token that is bound to no node.
fn tokens(world: &World) -> Vec<Row> {
    use Verb::{Merge, Post};
    use Who::{Agent, Kubelet, Unbound};
    let own = || bound("Node", A, &world.uid, 3600);
    vec![
        (Agent, Post, token_of("berth-agent"), own(), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), bound("Node", A, &world.uid, 600), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), bound("Node", A, &world.uid, 86_400), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), bound("Node", B, "", 3600), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), bound("Pod", A, "", 3600), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), spec(json!({ "expirationSeconds": 3600 })), NO_TOKEN),
        (Agent, Post, token_of("berth-manager"), own(), NO_TOKEN),
        (Agent, Post, token_of("berth-agent"), bound("Pod", AGENTS[0], &world.agents[0], 3600), NO_TOKEN),
        (Kubelet, Post, token_of("berth-agent"), own(), "node requested token not bound to a pod"),
        (Kubelet, Post, token_of("berth-agent"), spec(json!({})), "node requested token not bound to a pod"),
        (
            Kubelet,
            Post,
            token_of("berth-agent"),
            bound("Pod", AGENTS[1], &world.agents[1], 3600),
            "bound to a pod scheduled on a different node",
        ),
        (
            Kubelet,
            Post,
            token_of("berth-manager"),
            bound("Pod", AGENTS[0], &world.agents[0], 3600),
            "no relationship found",
        ),
        (Unbound, Post, token_of("berth-agent"), own(), NO_TOKEN),
        (Unbound, Post, token_of("berth-agent"), bound("Node", "", "", 3600), NO_TOKEN),
        (Unbound, Merge, request("/mine/status"), status(json!({ "message": "x" })), NO_NODE),
        (Unbound, Merge, request("/unassigned/status"), status(json!({ "message": "x" })), NO_NODE),
        (Unbound, Merge, core("pods/mine"), labelled("berth.dev/l"), NO_NODE),
        (Unbound, Post, cluster("nodeimages"), object("NodeImage", "node-c", Value::Null), NO_NODE),
        (Unbound, Merge, update("/mine/status"), status(json!({ "message": "x" })), NO_NODE),
        (Unbound, Merge, update("/unassigned/status"), status(json!({ "message": "x" })), NO_NODE),
        (Unbound, Post, pod_update(""), object("NodePodUpdate", "node-c", Value::Null), NO_NODE),
        (Unbound, Post, events(), event("x", A), NO_NODE),
    ]
}

/// With `deploy/token-renewal`, and a role that lets it make any token.
pub(super) fn of_renewal(world: &World) -> Vec<Refused> {
    use Who::{Agent, Unbound};
    let own = |seconds| bound("Node", A, &world.uid, seconds);
    let rows = [
        (Agent, token_of("berth-agent"), bound("Node", B, "", 3600), OWN_NODE),
        (Agent, token_of("berth-agent"), bound("Pod", A, "", 3600), OWN_NODE),
        (Agent, token_of("berth-agent"), spec(json!({ "expirationSeconds": 3600 })), OWN_NODE),
        (Agent, token_of("berth-agent"), own(3601), "only for tokens of an hour at most"),
        (Agent, token_of("berth-agent"), own(86_400), "only for tokens of an hour at most"),
        (Agent, token_of("berth-manager"), own(3600), "only for tokens of its own ServiceAccount"),
        (Unbound, token_of("berth-agent"), own(3600), OWN_NODE),
        (Unbound, token_of("berth-agent"), bound("Node", "", "", 3600), OWN_NODE),
    ];
    let refused =
        |(who, path, body, because)| Refused { attempt: Attempt::new(who, Verb::Post, path, body), because };
    rows.into_iter().map(refused).collect()
}
