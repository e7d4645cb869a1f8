//! `berthctl get updates`: who asked for which pods to be updated in place, and how far that is.

use std::time::Duration;

use anyhow::Result;
use berth_proto::admin::{ContainerUpdateState, TwinSwapState, UpdateState};
use serde::Serialize;

use super::cli::Global;
use super::duration;
use super::follow::{self, Followed, containers, message};
use super::get::ListArgs;
use super::output::{self, Columns, full_name, or_dash};

/// Runs `get updates`.
pub(crate) async fn updates(global: &Global, args: &ListArgs) -> Result<()> {
    let updates = follow::list::<UpdateState>(global, args.name.as_deref()).await?;
    let shown = Shown { updates: updates.iter().map(ShownUpdate::from).collect() };
    output::data(args.output.plain(), &shown, || text(&updates, args.output.columns()))
}

fn text(updates: &[UpdateState], columns: Columns) -> String {
    if updates.is_empty() {
        return "no updates on this node\n".to_owned();
    }
    let rows = updates.iter().map(|update| {
        let progress = update.progress();
        vec![
            update.name.clone(),
            update.origin.clone(),
            full_name(&update.namespace, &update.pod),
            or_dash(&update.phase),
            containers(&progress),
            duration::short(Duration::from_millis(update.age_milliseconds)),
            or_dash(&message(&progress)),
            or_dash(&swaps(&update.swaps)),
            or_dash(&update.revision),
            or_dash(&update.pod_uid),
        ]
    });
    let few = ["NAME", "ORIGIN", "POD", "PHASE", "CONTAINERS", "AGE", "MESSAGE"];
    output::list(columns, &few, &["SWAPS", "REVISION", "POD UID"], rows)
}

/// Steps of swaps, and which twin works.
fn swaps(swaps: &[TwinSwapState]) -> String {
    let swap = |swap: &TwinSwapState| match swap.working.as_str() {
        "" => format!("{} ({})", swap.name, swap.step),
        working => format!("{} ({}, {working} works)", swap.name, swap.step),
    };
    swaps.iter().map(swap).collect::<Vec<_>>().join(", ")
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct Shown {
    updates: Vec<ShownUpdate>,
}

/// An update as protobuf's JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownUpdate {
    namespace: String,
    name: String,
    origin: String,
    pod: String,
    pod_uid: String,
    revision: String,
    containers: Vec<ShownContainer>,
    swaps: Vec<ShownSwap>,
    phase: String,
    message: String,
    age_milliseconds: String,
    outcome: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct ShownContainer {
    name: String,
    phase: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct ShownSwap {
    name: String,
    working: String,
    step: String,
}

impl From<&UpdateState> for ShownUpdate {
    fn from(update: &UpdateState) -> Self {
        let container = |container: &ContainerUpdateState| ShownContainer {
            name: container.name.clone(),
            phase: container.phase.clone(),
            message: container.message.clone(),
        };
        let swap = |swap: &TwinSwapState| ShownSwap {
            name: swap.name.clone(),
            working: swap.working.clone(),
            step: swap.step.clone(),
        };
        Self {
            namespace: update.namespace.clone(),
            name: update.name.clone(),
            origin: update.origin.clone(),
            pod: update.pod.clone(),
            pod_uid: update.pod_uid.clone(),
            revision: update.revision.clone(),
            containers: update.containers.iter().map(container).collect(),
            swaps: update.swaps.iter().map(swap).collect(),
            phase: update.phase.clone(),
            message: update.message.clone(),
            age_milliseconds: update.age_milliseconds.to_string(),
            outcome: update.outcome.clone(),
            reason: update.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whose_it_is_and_how_it_ended() {
        let container = |name: &str, phase: &str| ContainerUpdateState {
            name: name.into(),
            phase: phase.into(),
            ..ContainerUpdateState::default()
        };
        let update = |name: &str, origin: &str, phase: &str| UpdateState {
            namespace: "shop".into(),
            name: name.into(),
            origin: origin.into(),
            pod: "web".into(),
            phase: phase.into(),
            age_milliseconds: 90_000,
            ..UpdateState::default()
        };
        let updates = [
            UpdateState {
                containers: vec![container("main", "Succeeded"), container("side", "Failed")],
                outcome: "Failed".into(),
                reason: "ImageNotPulled".into(),
                message: "no such tag".into(),
                ..update("again", "api", "Completed")
            },
            UpdateState { containers: vec![container("main", "")], ..update("web-x7k2p", "admin", "") },
            UpdateState { message: "pulling web:v3".into(), ..update("web", "controller", "Updating") },
        ];
        let expected = "\
NAME        ORIGIN       POD        PHASE       CONTAINERS                        AGE     MESSAGE
again       api          shop/web   Completed   main (Succeeded), side (Failed)   1m30s   failed (ImageNotPulled): no such tag
web-x7k2p   admin        shop/web   -           main                              1m30s   -
web         controller   shop/web   Updating    -                                 1m30s   pulling web:v3
";
        assert_eq!(text(&updates, Columns::Few), expected);
        let wide = text(&updates[..1], Columns::All);
        assert!(wide.contains("SWAPS   REVISION   POD UID"), "{wide}");
        assert_eq!(text(&[], Columns::Few), "no updates on this node\n");
        let json = serde_json::to_value(ShownUpdate::from(&updates[0])).unwrap();
        assert_eq!(
            (&json["ageMilliseconds"], &json["containers"][1]["phase"], &json["reason"]),
            (&"90000".into(), &"Failed".into(), &"ImageNotPulled".into())
        );
    }

    #[test]
    fn a_swap_says_its_step_and_which_twin_works() {
        let swap = |name: &str, working: &str, step: &str| TwinSwapState {
            name: name.into(),
            working: working.into(),
            step: step.into(),
        };
        let update = UpdateState {
            swaps: vec![swap("mesh", "mesh-2", "Migrating"), swap("log", "", "Pending")],
            ..UpdateState::default()
        };
        let wide = text(std::slice::from_ref(&update), Columns::All);
        assert!(wide.contains("mesh (Migrating, mesh-2 works), log (Pending)"), "{wide}");
        let json = serde_json::to_value(ShownUpdate::from(&update)).unwrap();
        assert_eq!(json["swaps"][0]["working"], "mesh-2");
        assert_eq!(json["swaps"][1]["step"], "Pending");
    }
}
