//! One attempt: who, what, where. And the words the tables of attempts are written in.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::world::{KUBELET, NAMESPACE};

/// By whose credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The agent's ServiceAccount, bound to node A.
    Agent,
    /// The agent's ServiceAccount, bound to no node.
    Unbound,
    /// The kubelet of node A.
    Kubelet,
    /// The manager.
    Manager,
    /// An account of the agent's name and role in another namespace, bound to node A.
    Moved,
    /// An account of the agent's role and another name, bound to node A.
    Renamed,
    /// An account of the manager's name and role in another namespace.
    MovedManager,
    /// An account of the agent's role in one namespace only, bound to node A.
    Local,
    /// In the group of the kubelets, with the name of none.
    InGroup,
    /// With the name of node A's kubelet, and its role, and not in the group.
    ByName,
    /// Has roles that let it write every status, and make and change requests; not delete or patch pods but
    /// one.
    Author,
    /// The account of an OpenKruise that runs beside Berth, with the roles of `Author`.
    OpenKruise,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Get,
    Post,
    Merge,
    /// A merge that knows which lists are maps, as kubectl makes it.
    Strategic,
    /// Server-side apply; the body must be a whole object.
    Apply,
    Delete,
}

pub(super) struct Attempt {
    pub(super) who: Who,
    verb: Verb,
    path: String,
    body: Value,
    pub(super) impersonate: bool,
}

pub(super) struct Refused {
    pub(super) attempt: Attempt,
    pub(super) because: &'static str,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} {} {}", self.who, self.verb, self.path, self.body)
    }
}

impl Attempt {
    pub(super) fn new(who: Who, verb: Verb, path: String, body: Value) -> Self {
        Self { who, verb, path, body, impersonate: false }
    }

    pub(super) fn request(&self) -> Result<http::Request<Vec<u8>>> {
        let (method, content) = match self.verb {
            Verb::Get => ("GET", "application/json"),
            Verb::Post => ("POST", "application/json"),
            Verb::Merge => ("PATCH", "application/merge-patch+json"),
            Verb::Strategic => ("PATCH", "application/strategic-merge-patch+json"),
            Verb::Apply => ("PATCH", "application/apply-patch+yaml"),
            Verb::Delete => ("DELETE", "application/json"),
        };
        let query = if matches!(self.verb, Verb::Apply) { "?fieldManager=test&force=true" } else { "" };
        let body = if self.body.is_null() { Vec::new() } else { serde_json::to_vec(&self.body)? };
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{query}", self.path))
            .header("content-type", content);
        let (user, groups): (_, &[&str]) = match self.who {
            _ if self.impersonate => ("admin", &["system:masters"]),
            Who::InGroup => ("intruder", &["system:nodes", "system:authenticated"]),
            Who::ByName => (KUBELET, &["system:authenticated"]),
            _ => ("", &[]),
        };
        if !user.is_empty() {
            request = request.header("impersonate-user", user);
        }
        for group in groups {
            request = request.header("impersonate-group", *group);
        }
        request.body(body).context("request")
    }

    /// No role lets it pass. Reads are the roles' alone, who may impersonate is somebody else, and no policy
    /// protects policies: Kubernetes does not ask them about each other.
    pub(super) fn stays_refused(&self) -> bool {
        matches!(self.who, Who::Agent | Who::Unbound | Who::Manager)
            && !matches!(self.verb, Verb::Get)
            && !self.impersonate
            && !self.path.contains("/validatingadmissionpolic")
    }
}

// === paths ===

pub(super) fn core(path: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{path}")
}

pub(super) fn kruise(path: &str) -> String {
    format!("/apis/apps.kruise.io/v1alpha1/namespaces/{NAMESPACE}/{path}")
}

pub(super) fn request(path: &str) -> String {
    kruise(&format!("containerrecreaterequests{path}"))
}

pub(super) fn cluster(path: &str) -> String {
    format!("/apis/apps.kruise.io/v1alpha1/{path}")
}

/// A `ContainerUpdateRequest`.
pub(super) fn update(path: &str) -> String {
    format!("/apis/berth.dev/v1alpha1/namespaces/{NAMESPACE}/containerupdaterequests{path}")
}

/// A `NodePodUpdate`.
pub(super) fn pod_update(path: &str) -> String {
    format!("/apis/berth.dev/v1alpha1/nodepodupdates{path}")
}

pub(super) fn leases(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

pub(super) fn events() -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
}

pub(super) fn token_of(account: &str) -> String {
    format!("/api/v1/namespaces/berth-system/serviceaccounts/{account}/token")
}

// === bodies ===

pub(super) fn status(status: Value) -> Value {
    json!({ "status": status })
}

pub(super) fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

pub(super) fn labelled(key: &str) -> Value {
    json!({ "metadata": { "labels": { key: "x" } } })
}

pub(super) fn condition(type_: &str, status: &str) -> Value {
    json!({ "type": type_, "status": status })
}

/// Makes an object of one of Berth's kinds.
pub(super) fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": version(kind), "kind": kind, "metadata": { "name": name },
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// The group and version of one of Berth's kinds.
pub(super) fn version(kind: &str) -> &'static str {
    match kind {
        "ContainerUpdateRequest" | "NodePodUpdate" => "berth.dev/v1alpha1",
        _ => "apps.kruise.io/v1alpha1",
    }
}

/// An object of one of Berth's kinds whose metadata has this besides.
pub(super) fn object_with(kind: &str, name: &str, field: &str, value: Value) -> Value {
    let mut object = object(kind, name, Value::Null);
    object["metadata"][field] = value;
    object
}

pub(super) fn annotated(key: &str) -> Value {
    json!({ "metadata": { "annotations": { key: "x" } } })
}

pub(super) fn pod_image(image: &str) -> Value {
    spec(json!({ "containers": [{ "name": "a", "image": image }] }))
}

pub(super) fn bound(kind: &str, name: &str, uid: &str, seconds: i64) -> Value {
    let bound = json!({ "kind": kind, "apiVersion": "v1", "name": name, "uid": uid });
    spec(json!({ "boundObjectRef": bound, "expirationSeconds": seconds }))
}

pub(super) fn event(name: &str, instance: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": name },
        "eventTime": "2026-07-02T10:00:00.000000Z", "action": "Test", "reason": "Test", "type": "Normal",
        "reportingController": "berth.dev/test", "reportingInstance": instance,
        "regarding": { "kind": "Pod", "namespace": NAMESPACE, "name": "mine" },
    })
}

/// Events about what is in no namespace.
pub(super) const EVENTS_OF_NODES: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// An event of an agent about a Node.
pub(super) fn event_of_node(name: &str, instance: &str, node: &str) -> Value {
    let mut event = event(name, instance);
    event["regarding"] = json!({ "apiVersion": "v1", "kind": "Node", "name": node, "uid": node });
    event
}

/// An event of the manager: in its own name, and about a request.
pub(super) fn event_of_manager(name: &str) -> Value {
    let mut event = event(name, "berth-manager-0");
    event["reportingController"] = json!("berth-manager");
    event["regarding"]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    event["regarding"]["kind"] = json!("ContainerRecreateRequest");
    event
}

/// All that may change of an event.
pub(super) fn again() -> Value {
    json!({ "series": { "count": 2, "lastObservedTime": "2026-07-02T10:01:00.000000Z" } })
}

pub(super) fn lease(name: &str) -> Value {
    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name } })
}
