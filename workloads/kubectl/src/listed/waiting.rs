//! Rows of pods in which something waits, from what stands in the pods and in the open requests for them.
//! Pure. A container waits where its status says so in the words of the agent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    object::{ago, condition, label, list, text},
    request,
    table::Sheet,
};

/// Beginning of what the kubelet repeats of the agent's answers.
const ORDER: &str = "launch order: ";
/// Gate that requests close, and updates in place.
const GATES: [&str; 2] = ["KruisePodReady", "InPlaceUpdateReady"];
/// Label of a pod: where its workload has it between its creation and its end.
const STATE: &str = "lifecycle.apps.kruise.io/state";
/// Annotation of a pod: time at which it got its `lifecycle.apps.kruise.io/state`.
const STATE_SINCE: &str = "lifecycle.apps.kruise.io/timestamp";

/// Open requests, by `NAMESPACE/POD`.
pub(super) type Open = BTreeMap<String, Vec<String>>;

/// The pod of a request, and the sentence about it.
pub(super) fn held_by(request: &Value) -> (String, String) {
    let (namespace, name) = (text(request, "/metadata/namespace"), text(request, "/metadata/name"));
    let kind = text(request, "/kind");
    let kind = if kind.is_empty() { "request" } else { kind };
    let pod = format!("{namespace}/{}", text(request, "/spec/podName"));
    (pod, format!("{kind} {name} is {}", request::progress(request)))
}

pub(super) fn by_pod(all: impl Iterator<Item = (String, String)>) -> Open {
    let mut open = Open::new();
    for (pod, sentence) in all {
        open.entry(pod).or_default().push(sentence);
    }
    open
}

/// The rows of a pod; `None`: nothing waits in it.
pub(super) fn rows(pod: &Value, open: &Open, now: Timestamp) -> Option<Vec<Vec<String>>> {
    let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
    // What waits, since when, and why.
    let mut waits: Vec<(String, String, String)> = Vec::new();
    for status in list(pod, "/status/containerStatuses") {
        let message = text(status, "/state/waiting/message");
        // A kubelet puts words of its own before it.
        if let Some((_, why)) = message.split_once(ORDER) {
            let since = ago(text(pod, "/status/startTime"), now);
            waits.push((format!("container {}", text(status, "/name")), since, why.to_owned()));
        }
    }
    for gate in GATES {
        if let Some(shut) = condition(pod, gate).filter(|one| one["status"] == "False") {
            let since = ago(text(shut, "/lastTransitionTime"), now);
            waits.push((format!("gate {gate}"), since, holders(shut)));
        }
    }
    let state = label(pod, STATE);
    if state.starts_with("Preparing") {
        let since = pod["metadata"]["annotations"][STATE_SINCE].as_str().unwrap_or_default();
        let why = format!("{state}: a hook of its workload holds it");
        waits.push(("lifecycle".to_owned(), ago(since, now), why));
    }
    for sentence in open.get(&format!("{namespace}/{name}")).into_iter().flatten() {
        waits.push(("request".to_owned(), String::new(), sentence.clone()));
    }
    let node = text(pod, "/spec/nodeName");
    let row = |(what, since, why): (String, String, String)| {
        vec![
            namespace.to_owned(),
            name.to_owned(),
            what,
            since,
            why,
            node.to_owned(),
            text(pod, "/metadata/uid").to_owned(),
        ]
    };
    let rows: Vec<_> = waits.into_iter().map(row).collect();
    (!rows.is_empty()).then_some(rows)
}

/// Writers that hold a gate shut: a JSON list of them, or another text.
fn holders(shut: &Value) -> String {
    let message = text(shut, "/message");
    let entries: Vec<Value> = serde_json::from_str(message).unwrap_or_default();
    let entry = |one: &Value| format!("{} {}", text(one, "/userAgent"), text(one, "/key"));
    match entries.iter().map(entry).collect::<Vec<_>>().join(", ") {
        held if !held.is_empty() => format!("held by {held}"),
        _ if message.is_empty() => text(shut, "/reason").to_owned(),
        _ => message.to_owned(),
    }
}

pub(super) fn sheet(rows: Vec<Vec<String>>) -> Sheet {
    Sheet { columns: &["NAMESPACE", "POD", "WAITS", "SINCE", "WHY"], wide: &["NODE", "POD UID"], rows }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::ListOutput;

    #[test]
    fn a_pod_is_shown_with_all_that_waits_in_it() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let open = by_pod(
            [json!({ "kind": "ContainerUpdateRequest", "metadata": { "namespace": "shop", "name": "u" },
                "spec": { "podName": "web" }, "status": { "phase": "Pending", "nodeName": "n1" } })]
            .iter()
            .map(held_by),
        );
        let pod = json!({
            "metadata": { "namespace": "shop", "name": "web", "labels": { "lifecycle.apps.kruise.io/state": "PreparingDelete" },
                "annotations": { "lifecycle.apps.kruise.io/timestamp": "2026-01-01T00:50:00Z" } },
            "status": {
                "startTime": "2026-01-01T00:59:00Z",
                "containerStatuses": [
                    { "name": "app", "state": { "waiting": { "reason": "CreateContainerError",
                        "message": "launch order: waiting for container(s) db" } } },
                    { "name": "db", "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such tag" } } }],
                "conditions": [
                    { "type": "KruisePodReady", "status": "False", "lastTransitionTime": "2026-01-01T00:58:00Z",
                        "message": "[{\"userAgent\":\"ContainerRecreateRequest\",\"key\":\"shop/a\"}]" },
                    { "type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate" }] } });
        let rows = rows(&pod, &open, now).unwrap();
        let expected = "\
NAMESPACE   POD   WAITS                     SINCE   WHY
shop        web   container app             60s     waiting for container(s) db
shop        web   gate KruisePodReady       2m      held by ContainerRecreateRequest shop/a
shop        web   gate InPlaceUpdateReady   -       StartInPlaceUpdate
shop        web   lifecycle                 10m     PreparingDelete: a hook of its workload holds it
shop        web   request                   -       ContainerUpdateRequest u is Pending; waits for the agent of node n1
";
        assert_eq!(sheet(rows).text(ListOutput::Table, "").unwrap(), expected);
    }

    #[test]
    fn a_pod_in_which_nothing_waits_has_no_row() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let pod = json!({ "metadata": { "name": "a", "labels": { "lifecycle.apps.kruise.io/state": "Normal" } },
            "status": { "conditions": [{ "type": "KruisePodReady", "status": "True" }], "containerStatuses": 7 } });
        assert_eq!(rows(&pod, &Open::new(), now), None);
    }
}
