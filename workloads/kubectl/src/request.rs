//! Requests to recreate or update containers: how far one is, and how it ended. Pure.
//!
//! Both kinds, and those that OpenKruise carried out: its requests have no conditions, and say in the phases
//! of their containers which failed.

use serde_json::Value;

use crate::object::{condition, list, text};

/// End of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    /// Why, as a word, where that is told.
    Failed(String),
}

impl End {
    /// Text of a column: `Complete`, or `Failed (PodNotFound)`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Complete => "Complete".to_owned(),
            Self::Failed(reason) if reason.is_empty() => "Failed".to_owned(),
            Self::Failed(reason) => format!("Failed ({reason})"),
        }
    }
}

/// End of a request; `None`: it has none yet.
pub(crate) fn end(request: &Value) -> Option<End> {
    let holds = |kind| condition(request, kind).filter(|one| one["status"] == "True");
    if let Some(failed) = holds("Failed") {
        return Some(End::Failed(text(failed, "/reason").to_owned()));
    }
    if holds("Complete").is_some() {
        return Some(End::Complete);
    }
    let failed = states(request).any(|state| state["phase"] == "Failed");
    match text(request, "/status/phase") {
        "Failed" => Some(End::Failed(String::new())),
        "Completed" | "Succeeded" if failed => Some(End::Failed(String::new())),
        "Completed" | "Succeeded" => Some(End::Complete),
        _ => None,
    }
}

/// Containers of a request, with their phases where they have one: `app (Succeeded), log`.
pub(crate) fn containers(request: &Value) -> String {
    let names = list(request, "/spec/containers").map(|one| text(one, "/name"));
    let swaps = list(request, "/spec/swaps").map(|one| text(one, "/name"));
    let shown = names.chain(swaps).map(|name| {
        match states(request).find(|state| state["name"] == name).map(|state| text(state, "/phase")) {
            Some(phase) if !phase.is_empty() => format!("{name} ({phase})"),
            _ => name.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn states(request: &Value) -> impl Iterator<Item = &Value> {
    list(request, "/status/containerRecreateStates").chain(list(request, "/status/containerUpdateStates"))
}

/// Words of a request: what it waits for, or has to say.
pub(crate) fn message(request: &Value) -> String {
    let said = match text(request, "/status/message") {
        "" => list(request, "/status/conditions")
            .filter(|one| one["type"] == "Failed")
            .map(|one| text(one, "/message"))
            .next()
            .unwrap_or_default(),
        said => said,
    };
    if said.is_empty() && text(request, "/status/nodeName").is_empty() {
        return "not assigned to a node yet: berth-manager does it".to_owned();
    }
    if said.is_empty() && text(request, "/status/phase") == "Pending" {
        return format!("waits for the agent of node {}", text(request, "/status/nodeName"));
    }
    said.to_owned()
}

/// A line about one that has not ended.
pub(crate) fn progress(request: &Value) -> String {
    let phase = match text(request, "/status/phase") {
        "" => "Pending",
        phase => phase,
    };
    let (containers, message) = (containers(request), message(request));
    let containers = if containers.is_empty() { containers } else { format!(": {containers}") };
    let message = if message.is_empty() { message } else { format!("; {message}") };
    format!("{phase}{containers}{message}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_end_is_said_by_a_condition_or_as_openkruise_says_it() {
        let failed = |reason: &str| Some(End::Failed(reason.to_owned()));
        for (status, expected) in [
            (json!({}), None),
            (json!({ "phase": "Recreating" }), None),
            (
                json!({ "phase": "Completed", "conditions": [{ "type": "Complete", "status": "True" }] }),
                Some(End::Complete),
            ),
            (
                json!({ "phase": "Completed", "conditions": [{ "type": "Failed", "status": "True", "reason": "PodNotFound" }] }),
                failed("PodNotFound"),
            ),
            (
                json!({ "phase": "Recreating", "conditions": [{ "type": "PreRecreateGrace", "status": "True" }] }),
                None,
            ),
            (
                json!({ "phase": "Completed", "containerRecreateStates": [{ "name": "a", "phase": "Succeeded" }] }),
                Some(End::Complete),
            ),
            (
                json!({ "phase": "Completed", "containerRecreateStates": [{ "name": "a", "phase": "Failed" }] }),
                failed(""),
            ),
            (json!({ "phase": "Failed" }), failed("")),
            // Of whatever type a foreign controller has written.
            (json!({ "phase": 7, "conditions": "none" }), None),
        ] {
            assert_eq!(end(&json!({ "status": status })), expected, "{status}");
        }
        assert_eq!(
            [End::Complete.shown(), End::Failed("Late".into()).shown()],
            ["Complete", "Failed (Late)"]
        );
    }

    #[test]
    fn a_line_says_what_it_waits_for() {
        let spec = json!({ "containers": [{ "name": "app" }, { "name": "log" }] });
        for (status, line) in [
            (json!({}), "Pending: app, log; not assigned to a node yet: berth-manager does it"),
            (
                json!({ "phase": "Pending", "nodeName": "n1" }),
                "Pending: app, log; waits for the agent of node n1",
            ),
            (
                json!({ "phase": "Recreating", "nodeName": "n1", "containerRecreateStates": [{ "name": "app", "phase": "Recreating" }] }),
                "Recreating: app (Recreating), log",
            ),
            (
                json!({ "phase": "Updating", "nodeName": "n", "message": "pulling" }),
                "Updating: app, log; pulling",
            ),
        ] {
            assert_eq!(progress(&json!({ "spec": spec, "status": status })), line);
        }
    }
}
