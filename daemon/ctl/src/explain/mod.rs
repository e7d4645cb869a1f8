//! `berthctl explain`: why the containers of a pod are where they are, and what led there.
//!
//! berthd gives facts; [`sentences`] makes words of them. [`mod@file`] is about a pod that is not there yet.

mod file;
mod sentences;

use std::process::ExitCode;

use anyhow::{Result, bail};
use berth_proto::admin::admin_client::AdminClient;
use berth_proto::admin::{
    ContainerFacts, EventsRequest, ExplainRequest, PodFacts, PullsRequest, RequestsRequest, StatusRequest,
    UpdatesRequest,
};
use clap::Args;
use serde::Serialize;
use tonic::transport::Channel;
use tonic::{Code, Request};

use self::sentences::Snapshot;
use super::admin;
use super::cli::Global;
use super::events::{self, ShownEvent};
use super::output::{self, OutputArgs};

/// Flags of `explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// A pod name, namespace/name, UID or the beginning of a sandbox ID [default: every pod in which
    /// something waits or is under way]
    #[arg(value_name = "POD")]
    pub pod: Option<String>,
    /// The manifest of a Pod, or of an object with a template of pods, of which it is said what would happen;
    /// - reads it from stdin
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pod", "last"])]
    pub file: Option<String>,
    /// How many entries of its timeline are shown, the newest ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub last: usize,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs `explain`.
pub(crate) async fn explain(global: &Global, args: &ExplainArgs) -> Result<ExitCode> {
    if let Some(file) = &args.file {
        return file::explain(file, args.output.format);
    }
    let mut client = admin::connect(global).await?;
    let wanted = args.pod.clone().unwrap_or_default();
    let request = admin::request(global, ExplainRequest { pod: wanted.clone() });
    let answer = client.explain(request).await.map_err(|status| admin::failed("Explain", &status))?;
    let mut pods = answer.into_inner().pods;
    if pods.is_empty() && !wanted.is_empty() {
        bail!(
            "berthd knows no pod {wanted:?} on this node; berthctl pods lists those there are, kubectl get pods -o wide \
             says where others run"
        );
    }
    let snapshot = snapshot(&mut client, global).await?;
    if wanted.is_empty() {
        pods.retain(|pod| snapshot.is_busy(pod));
    }
    let explained: Vec<Explained> = pods.iter().map(|pod| Explained::of(pod, &snapshot, args.last)).collect();
    output::data(args.output.format, &Shown { pods: &explained }, || text(&explained))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for all facts but the pods themselves.
async fn snapshot(client: &mut AdminClient<Channel>, global: &Global) -> Result<Snapshot> {
    fn ask<T>(global: &Global, message: T) -> Request<T> {
        admin::request(global, message)
    }
    let status = client.status(ask(global, StatusRequest {})).await;
    let status = status.map_err(|status| admin::failed("Status", &status))?.into_inner();
    let requests = client.requests(ask(global, RequestsRequest::default())).await;
    let requests = requests.map_err(|status| admin::failed("Requests", &status))?.into_inner().requests;
    let pulls = client.pulls(ask(global, PullsRequest::default())).await;
    let pulls = pulls.map_err(|status| admin::failed("Pulls", &status))?.into_inner().pulls;
    let events = client.events(ask(global, EventsRequest::default())).await;
    let events = events.map_err(|status| admin::failed("Events", &status))?.into_inner().events;
    let updates = match client.updates(ask(global, UpdatesRequest::default())).await {
        Ok(updates) => updates.into_inner().updates,
        // A node without an API server has none.
        Err(status) if status.code() == Code::FailedPrecondition => Vec::new(),
        Err(status) => return Err(admin::failed("Updates", &status)),
    };
    Ok(Snapshot { path: status.path, requests, updates, pulls, events })
}

/// A pod, explained.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    namespace: String,
    name: String,
    uid: String,
    sandbox_id: String,
    /// Sentences about the whole pod.
    about: Vec<String>,
    containers: Vec<ExplainedContainer>,
    /// Its timeline, oldest first.
    events: Vec<ShownEvent>,
}

/// A container, explained.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplainedContainer {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    state: String,
    ready: bool,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    waiting_for: Vec<String>,
    /// The sentence about it.
    why: String,
}

/// The answer for programs.
#[derive(Serialize)]
struct Shown<'a> {
    pods: &'a [Explained],
}

impl Explained {
    fn of(pod: &PodFacts, snapshot: &Snapshot, last: usize) -> Self {
        let of_pod = snapshot.events.iter().filter(|event| event.pod_uid == pod.uid);
        let mut events: Vec<ShownEvent> = of_pod.rev().take(last).map(ShownEvent::from).collect();
        events.reverse();
        let container = |container: &ContainerFacts| ExplainedContainer {
            name: container.name.clone(),
            priority: container.priority,
            state: container.state.clone(),
            ready: container.ready,
            attempt: container.attempt,
            exit_code: container.exit_code,
            waiting_for: container.waiting_for.clone(),
            why: sentences::container(container, pod),
        };
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            sandbox_id: pod.sandbox_id.clone(),
            about: snapshot.about(pod),
            containers: pod.containers.iter().map(container).collect(),
            events,
        }
    }
}

fn text(pods: &[Explained]) -> String {
    if pods.is_empty() {
        return "every container on this node runs as it should; berthctl explain POD says more about one\n"
            .to_owned();
    }
    pods.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(pod: &Explained) -> String {
    let sandbox = match pod.sandbox_id.as_str() {
        "" => "no sandbox yet".to_owned(),
        id => format!("sandbox {}", output::id(id, false)),
    };
    let mut text = format!("Pod {}/{}, {sandbox}\n", pod.namespace, pod.name);
    for line in &pod.about {
        text += &format!("  {line}\n");
    }
    text.push('\n');
    let rows = pod.containers.iter().map(|container| vec![container.name.clone(), container.why.clone()]);
    text += &output::table(&["CONTAINER", "IT"], rows);
    if !pod.events.is_empty() {
        text.push('\n');
        text += &events::table(&pod.events);
    }
    text
}

#[cfg(test)]
mod tests {
    use berth_proto::admin::Occurrence;

    use super::*;

    #[test]
    fn a_page_about_a_pod() {
        let container = |name: &str, state: &str, ready: bool| ContainerFacts {
            name: name.into(),
            state: state.into(),
            ready,
            priority: Some(if name == "db" { 10 } else { 0 }),
            readiness: "ReadinessProbe".into(),
            running_milliseconds: 3200,
            ..ContainerFacts::default()
        };
        let web = ContainerFacts {
            waiting_for: vec!["db".into()],
            waiting_milliseconds: 3100,
            ..container("web", "Absent", false)
        };
        let pod = PodFacts {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u".into(),
            sandbox_id: "0123456789abcdef".into(),
            seen: true,
            containers: vec![container("db", "Running", false), web],
            ..PodFacts::default()
        };
        let event = |uid: &str, container: &str, text: &str, times| Occurrence {
            namespace: "shop".into(),
            pod: "web".into(),
            pod_uid: uid.into(),
            container: container.into(),
            what: "Started".into(),
            text: text.into(),
            times,
            age_milliseconds: 3000,
            first_age_milliseconds: 9000,
        };
        let events = vec![
            event("u", "", "its sandbox was created", 1),
            event("other", "x", "was started", 1),
            event("u", "db", "was started", 1),
            event("u", "web", "its creation is refused", 3),
        ];
        let snapshot = Snapshot { path: "inline".into(), events, ..Snapshot::default() };
        let explained = Explained::of(&pod, &snapshot, 2);
        let expected = "\
Pod shop/web, sandbox 0123456789abc
  Launch order: db (10), then web (0).

CONTAINER   IT
db          runs for 3.2s and is not Ready: its readiness probe has not succeeded yet
web         is not created yet: waits for db (running, not Ready) for 3.1s; the kubelet asks again

AGE    CONTAINER   WHAT HAPPENED
3.0s   db          was started
3.0s   web         its creation is refused (3 times in 6.0s)
";
        assert_eq!(text(std::slice::from_ref(&explained)), expected);
        let json = serde_json::to_value(&explained).unwrap();
        assert_eq!(json["containers"][1]["waitingFor"][0], "db");
        assert_eq!(json["events"][1]["times"], 3);
        assert!(text(&[]).starts_with("every container"));
    }
}
