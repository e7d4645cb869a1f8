//! `berthctl get requests`: who asked for which containers to be recreated, and how far that is.

use std::time::Duration;

use anyhow::Result;
use berth_proto::admin::RecreateState;
use serde::Serialize;

use super::cli::Global;
use super::duration;
use super::follow::{self, Followed, containers, message};
use super::get::ListArgs;
use super::output::{self, Columns, full_name, or_dash};

/// Runs `get requests`.
pub(crate) async fn requests(global: &Global, args: &ListArgs) -> Result<()> {
    let requests = follow::list::<RecreateState>(global, args.name.as_deref()).await?;
    let shown = Shown { requests: requests.iter().map(ShownRequest::from).collect() };
    output::data(args.output.plain(), &shown, || text(&requests, args.output.columns()))
}

fn text(requests: &[RecreateState], columns: Columns) -> String {
    if requests.is_empty() {
        return "no requests on this node\n".to_owned();
    }
    let rows = requests.iter().map(|request| {
        let progress = request.progress();
        vec![
            request.name.clone(),
            full_name(&request.namespace, &request.pod),
            or_dash(&request.phase),
            containers(&progress),
            duration::short(Duration::from_millis(request.age_milliseconds)),
            or_dash(&message(&progress)),
            or_dash(&request.origin),
            or_dash(&request.file),
            or_dash(&request.pod_uid),
        ]
    });
    let few = ["NAME", "POD", "PHASE", "CONTAINERS", "AGE", "MESSAGE"];
    output::list(columns, &few, &["ORIGIN", "FILE", "POD UID"], rows)
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct Shown {
    requests: Vec<ShownRequest>,
}

/// A request as protobuf's JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownRequest {
    namespace: String,
    name: String,
    origin: String,
    file: String,
    pod: String,
    pod_uid: String,
    containers: Vec<ShownContainer>,
    phase: String,
    message: String,
    age_milliseconds: String,
    outcome: String,
    reason: String,
    objection: String,
}

#[derive(Debug, Serialize)]
struct ShownContainer {
    name: String,
    phase: String,
    message: String,
    killed: bool,
}

impl From<&RecreateState> for ShownRequest {
    fn from(request: &RecreateState) -> Self {
        let containers = request.containers.iter().map(|container| ShownContainer {
            name: container.name.clone(),
            phase: container.phase.clone(),
            message: container.message.clone(),
            killed: container.killed,
        });
        Self {
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            origin: request.origin.clone(),
            file: request.file.clone(),
            pod: request.pod.clone(),
            pod_uid: request.pod_uid.clone(),
            containers: containers.collect(),
            phase: request.phase.clone(),
            message: request.message.clone(),
            age_milliseconds: request.age_milliseconds.to_string(),
            outcome: request.outcome.clone(),
            reason: request.reason.clone(),
            objection: request.objection.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::admin::ContainerRecreateState;

    use super::*;

    #[test]
    fn a_row_says_how_it_ended_and_why_it_waits() {
        let container = |name: &str, phase: &str| ContainerRecreateState {
            name: name.into(),
            phase: phase.into(),
            ..ContainerRecreateState::default()
        };
        let request = |name: &str, phase: &str| RecreateState {
            namespace: "shop".into(),
            name: name.into(),
            pod: "web".into(),
            phase: phase.into(),
            age_milliseconds: 90_000,
            ..RecreateState::default()
        };
        let requests = [
            RecreateState {
                containers: vec![container("app", "Succeeded"), container("log", "Failed")],
                outcome: "Failed".into(),
                reason: "DeadlineExceeded".into(),
                message: "too late".into(),
                ..request("a", "Completed")
            },
            RecreateState { containers: vec![container("app", "")], ..request("b", "") },
            RecreateState {
                objection: "spec is immutable".into(),
                message: "x".into(),
                ..request("c", "Pending")
            },
            RecreateState {
                name: "d".into(),
                objection: "bad".into(),
                message: "bad".into(),
                ..RecreateState::default()
            },
        ];
        let expected = "\
NAME   POD        PHASE       CONTAINERS                      AGE     MESSAGE
a      shop/web   Completed   app (Succeeded), log (Failed)   1m30s   failed (DeadlineExceeded): too late
b      shop/web   -           app                             1m30s   -
c      shop/web   Pending     -                               1m30s   x; spec is immutable
d      -          -           -                               0ms     bad
";
        assert_eq!(text(&requests, Columns::Few), expected);
        let wide = text(&requests[..1], Columns::All);
        assert!(wide.contains("ORIGIN   FILE   POD UID"), "{wide}");
        assert_eq!(text(&[], Columns::Few), "no requests on this node\n");
        let json = serde_json::to_value(ShownRequest::from(&requests[0])).unwrap();
        assert_eq!(
            (&json["ageMilliseconds"], &json["containers"][1]["phase"]),
            (&"90000".into(), &"Failed".into())
        );
    }
}
