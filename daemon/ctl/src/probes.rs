//! `berthctl probes`: the probes of PodProbeMarkers on this node, and where they stand.

use std::time::Duration;

use anyhow::Result;
use berth_proto::admin::{ProbeStanding, ProbesRequest};
use clap::Args;
use serde::Serialize;

use super::cli::Global;
use super::output::{self, Columns, ListOutputArgs, full_name, or_dash};
use super::{admin, duration};

/// Flags of `probes`.
#[derive(Args, Debug)]
pub(crate) struct ProbesArgs {
    /// A pod name, namespace/name or UID [default: every pod]
    #[arg(value_name = "POD")]
    pub pod: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: ListOutputArgs,
}

/// Runs `probes`.
pub(crate) async fn probes(global: &Global, args: &ProbesArgs) -> Result<()> {
    let mut client = admin::connect(global).await?;
    let request = ProbesRequest { pod: args.pod.clone().unwrap_or_default() };
    let answer = client.probes(admin::request(global, request)).await;
    let probes = answer.map_err(|status| admin::failed("Probes", &status))?.into_inner().probes;
    let shown = Shown { probes: probes.iter().map(ShownProbe::from).collect() };
    output::data(args.output.plain(), &shown, || text(&probes, args.pod.is_some(), args.output.columns()))
}

fn text(probes: &[ProbeStanding], of_a_pod: bool, columns: Columns) -> String {
    if probes.is_empty() {
        let of = if of_a_pod { "of that pod " } else { "" };
        return format!(
            "no probe {of}is wanted on this node; kubectl get nodepodprobe NODE -o yaml shows what is asked for\n"
        );
    }
    let rows = probes.iter().map(|probe| {
        vec![
            full_name(&probe.namespace, &probe.pod),
            probe.container.clone(),
            probe.name.clone(),
            probe.state.clone(),
            short(probe.state_milliseconds),
            next(probe),
            or_dash(&probe.message),
            probe.last_run_milliseconds.map_or("-".to_owned(), |ago| format!("{} ago", short(ago))),
            probe.pod_uid.clone(),
        ]
    });
    let few = ["POD", "CONTAINER", "PROBE", "STATE", "FOR", "NEXT", "MESSAGE"];
    output::list(columns, &few, &["LAST RUN", "POD UID"], rows)
}

/// Text about its next run.
fn next(probe: &ProbeStanding) -> String {
    match probe.due_milliseconds {
        _ if probe.running => "runs".to_owned(),
        Some(0) => "waits for its turn".to_owned(),
        Some(due) => format!("in {}", short(due)),
        None => "-".to_owned(),
    }
}

fn short(milliseconds: u64) -> String {
    duration::short(Duration::from_millis(milliseconds))
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct Shown {
    probes: Vec<ShownProbe>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownProbe {
    namespace: String,
    pod: String,
    pod_uid: String,
    container: String,
    name: String,
    state: String,
    state_milliseconds: String,
    message: String,
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run_milliseconds: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_milliseconds: Option<String>,
}

impl From<&ProbeStanding> for ShownProbe {
    fn from(probe: &ProbeStanding) -> Self {
        Self {
            namespace: probe.namespace.clone(),
            pod: probe.pod.clone(),
            pod_uid: probe.pod_uid.clone(),
            container: probe.container.clone(),
            name: probe.name.clone(),
            state: probe.state.clone(),
            state_milliseconds: probe.state_milliseconds.to_string(),
            message: probe.message.clone(),
            running: probe.running,
            last_run_milliseconds: probe.last_run_milliseconds.map(|ago| ago.to_string()),
            due_milliseconds: probe.due_milliseconds.map(|due| due.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Node, global};
    use crate::fake_berthd::Berthd;

    fn probe(name: &str, state: &str, due: Option<u64>) -> ProbeStanding {
        ProbeStanding {
            namespace: "game".into(),
            pod: "room-0".into(),
            pod_uid: "u-1".into(),
            container: "app".into(),
            name: name.into(),
            state: state.into(),
            state_milliseconds: 61_000,
            due_milliseconds: due,
            last_run_milliseconds: Some(2000),
            ..ProbeStanding::default()
        }
    }

    #[test]
    fn a_row_says_where_a_probe_stands_and_when_it_runs_next() {
        let probes = [
            ProbeStanding { message: "players: 3".into(), ..probe("idle#players", "Failed", Some(4000)) },
            ProbeStanding { running: true, ..probe("idle#quiet", "Unknown", None) },
            probe("idle#slow", "Succeeded", Some(0)),
        ];
        let expected = "\
POD           CONTAINER   PROBE          STATE       FOR    NEXT                 MESSAGE
game/room-0   app         idle#players   Failed      1m1s   in 4.0s              players: 3
game/room-0   app         idle#quiet     Unknown     1m1s   runs                 -
game/room-0   app         idle#slow      Succeeded   1m1s   waits for its turn   -
";
        assert_eq!(text(&probes, false, Columns::Few), expected);
        assert!(text(&probes, false, Columns::All).contains("2.0s ago   u-1"));
        assert!(text(&[], true, Columns::Few).starts_with("no probe of that pod is wanted"));
        let json = serde_json::to_value(ShownProbe::from(&probes[1])).unwrap();
        assert_eq!((&json["lastRunMilliseconds"], json.get("dueMilliseconds")), (&"2000".into(), None));
    }

    #[tokio::test]
    async fn berthd_is_asked() {
        let node = Node::new(|_, _| Ok(()));
        Berthd::default().serve(&node);
        let args = ProbesArgs { pod: None, output: ListOutputArgs::default() };
        probes(&global(&node), &args).await.unwrap();
    }
}
