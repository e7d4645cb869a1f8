//! Rows of nodes: what their labels say, and the agent's sign of life in the `NodePodUpdate`. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    object::{age, ago, label, list, text},
    table::Sheet,
};

/// An agent without a sign of life for so long counts as none, as for berth-workloads.
const SILENT: SignedDuration = SignedDuration::from_mins(10);

/// Agent of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Agent {
    /// Its last sign of life.
    renewed: String,
    features: Vec<String>,
    /// Reason for which an entry cannot be carried out.
    not_understood: Option<String>,
}

/// The agent that an object tells of; `None`: none has written to it.
pub(super) fn agent(object: Value) -> Option<(String, Agent)> {
    let features: Vec<String> =
        list(&object, "/status/features").filter_map(Value::as_str).map(str::to_owned).collect();
    let understood = list(&object, "/status/conditions").find(|one| one["type"] == "Understood");
    let not_understood = understood.filter(|one| one["status"] == "False");
    let agent = Agent {
        renewed: text(&object, "/status/renewTime").to_owned(),
        not_understood: not_understood.map(|one| text(one, "/message").to_owned()),
        features,
    };
    (!agent.features.is_empty()).then(|| (text(&object, "/metadata/name").to_owned(), agent))
}

/// A row of a node; `None`: it runs no containers of Linux.
pub(super) fn row(node: &Value, agents: &BTreeMap<String, Agent>, now: Timestamp) -> Option<Vec<String>> {
    if label(node, "kubernetes.io/os") == "windows" || label(node, "type") == "virtual-kubelet" {
        return None;
    }
    let name = text(node, "/metadata/name");
    let agent = agents.get(name);
    let renewed = agent.map(|agent| ago(&agent.renewed, now)).unwrap_or_default();
    let lives = match agent {
        None => "none",
        Some(agent) => match agent.renewed.parse::<Timestamp>() {
            Ok(time) if now.duration_since(time) <= SILENT => "alive",
            _ => "silent",
        },
    };
    let note = match (lives, agent.and_then(|agent| agent.not_understood.as_deref())) {
        // A service says of itself nothing more while it has the kubelet's identity.
        ("none", _) if label(node, "berth.dev/path") == "inline" => {
            "may not change pods, or has gone: docs/install.md#permissions-for-updates"
        }
        ("none", _) => "install it there: docs/install.md",
        ("silent", _) => "berthctl doctor on that node says why",
        (_, Some(message)) => message,
        _ => "",
    };
    Some(vec![
        name.to_owned(),
        lives.to_owned(),
        renewed,
        label(node, "berth.dev/path").to_owned(),
        label(node, "berth.dev/order").to_owned(),
        note.to_owned(),
        agent.map(|agent| agent.features.join(",")).unwrap_or_default(),
        age(node, now),
    ])
}

pub(super) fn sheet(rows: Vec<Vec<String>>) -> Sheet {
    Sheet { columns: &["NAME", "AGENT", "SEEN", "PATH", "ORDER", "NOTE"], wide: &["FEATURES", "AGE"], rows }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::ListOutput;

    #[test]
    fn a_node_is_shown_with_its_agent() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let object = |name: &str, renewed: &str, conditions: Value| {
            json!({ "metadata": { "name": name }, "status": {
                "features": ["owners/v1", "swaps/v1"], "renewTime": renewed, "conditions": conditions } })
        };
        let agents: BTreeMap<_, _> = [
            object("a", "2026-01-01T00:59:00Z", json!([])),
            object("b", "2026-01-01T00:20:00Z", json!([])),
            object(
                "d",
                "2026-01-01T00:59:30Z",
                json!([{ "type": "Understood", "status": "False", "message": "entry 3" }]),
            ),
            json!({ "metadata": { "name": "c" }, "status": {} }),
        ]
        .into_iter()
        .filter_map(agent)
        .collect();
        let node = |name: &str, labels: Value| json!({ "metadata": { "name": name, "labels": labels } });
        let nodes = [
            node("a", json!({ "berth.dev/path": "inline", "berth.dev/order": "true" })),
            node("b", json!({ "berth.dev/path": "beside", "berth.dev/order": "false" })),
            node("c", json!({})),
            node("d", json!({ "berth.dev/path": "takeover", "berth.dev/order": "true" })),
            node("e", json!({ "berth.dev/path": "inline", "berth.dev/order": "true" })),
            node("w", json!({ "kubernetes.io/os": "windows" })),
            node("v", json!({ "type": "virtual-kubelet" })),
        ];
        let rows: Vec<_> = nodes.iter().filter_map(|node| row(node, &agents, now)).collect();
        let expected = "\
NAME   AGENT    SEEN   PATH       ORDER   NOTE
a      alive    60s    inline     true    -
b      silent   40m    beside     false   berthctl doctor on that node says why
c      none     -      -          -       install it there: docs/install.md
d      alive    30s    takeover   true    entry 3
e      none     -      inline     true    may not change pods, or has gone: docs/install.md#permissions-for-updates
";
        assert_eq!(sheet(rows.clone()).text(ListOutput::Table, "").unwrap(), expected);
        assert!(sheet(rows).text(ListOutput::Wide, "").unwrap().contains("owners/v1,swaps/v1"));
    }
}
