//! `berthctl stop-pod`: ends a pod as the kubelet does: all containers told at once, then the sandbox.
//!
//! An exit order is berthd's doing: it holds StopContainer of a container until those before it have ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use berth_policy::launch_priority::PLAN_ANNOTATION;
use berth_proto::cri::{Container, ContainerState, PodSandbox};
use berthd::base::deadline::later;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::cli::Global;
use super::cri::Cri;
use super::manifest::keys;
use super::output::{self, Format, OutputArgs, progress};
use super::timeline::{self, Phase, Row};
use super::{duration, select};

/// How long a sandbox may refuse to go.
const SETTLE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);

/// Flags of `stop-pod`.
#[derive(Args, Debug)]
pub(crate) struct StopArgs {
    /// The pod: an ID, a name, namespace/name, a UID, or the beginning of an ID or name
    #[arg(value_name = "POD")]
    pub pod: String,
    /// Grace from the stop signal to SIGKILL [default: the pod's terminationGracePeriodSeconds]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Leave the stopped pod in place instead of removing it
    #[arg(long)]
    pub keep: bool,
    /// Show when each container ended
    #[arg(long)]
    pub timeline: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The end of a pod. Containers in the order they ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ended {
    pod_sandbox_id: String,
    containers: Vec<EndedContainer>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EndedContainer {
    name: String,
    priority: Option<i32>,
    container_id: String,
    /// Since the stop began.
    ended_milliseconds: u64,
    exit_code: i32,
    reason: String,
}

/// Runs `stop-pod`.
pub(crate) async fn stop(global: &Global, args: &StopArgs) -> Result<()> {
    let cri = Cri::connect(global).await?;
    let sandbox = select::sandbox(&cri, &args.pod).await?;
    if !sandbox.annotations.contains_key(keys::DATA_DIR) {
        progress("note: berthctl has not played this pod; a kubelet that knows it will start it again");
    }
    let ended = take_down(&cri, &sandbox, args.timeout, args.keep).await?;
    if args.output.format != Format::Table {
        return output::data(args.output.format, &ended, String::new);
    }
    output::print(&format!("{}\n", sandbox.id))?;
    if args.timeline { output::print(&ended.picture()) } else { Ok(()) }
}

/// Stops the containers of a sandbox, then the sandbox, and removes it unless it is to be kept.
pub(crate) async fn take_down(
    cri: &Cri,
    sandbox: &PodSandbox,
    grace: Option<Duration>,
    keep: bool,
) -> Result<Ended> {
    let plan: BTreeMap<String, i32> = sandbox
        .annotations
        .get(PLAN_ANNOTATION)
        .and_then(|plan| serde_json::from_str(plan).ok())
        .unwrap_or_default();
    let mut tasks = JoinSet::new();
    let (began, epoch) = (Instant::now(), SystemTime::now());
    for container in cri.containers_of(&sandbox.id).await? {
        if container.state() == ContainerState::ContainerRunning {
            tasks.spawn(end(cri.clone(), container, grace, began, epoch));
        }
    }
    let mut containers = Vec::new();
    let mut failures = Vec::new();
    while let Some(done) = tasks.join_next().await {
        match done.context("the task that stops a container")? {
            Ok(mut ended) => {
                ended.priority = plan.get(&ended.name).copied();
                let EndedContainer { name, ended_milliseconds, exit_code, .. } = &ended;
                progress(&format!("{name}: ended after {ended_milliseconds} ms with exit code {exit_code}"));
                containers.push(ended);
            }
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    if !failures.is_empty() {
        // StopPodSandbox would kill the rest without grace; that is for the user to decide.
        bail!("the pod is left as it is, try again: {}", failures.join("; "));
    }
    containers.sort_by_key(|container| container.ended_milliseconds);
    end_sandbox(cri, &sandbox.id, keep).await?;
    if !keep {
        remove_data(sandbox)?;
    }
    let what = if keep { "stopped" } else { "removed" };
    progress(&format!("pod {}: {what}", select::describe(sandbox)));
    Ok(Ended { pod_sandbox_id: sandbox.id.clone(), containers })
}

/// Stops and removes the sandbox. A container that was being started when the stop began may still be on its
/// way, and the runtime refuses to remove it until it has arrived: so it is tried again for a while, as the
/// kubelet would.
async fn end_sandbox(cri: &Cri, id: &str, keep: bool) -> Result<()> {
    let give_up = later(Instant::now(), SETTLE);
    loop {
        let ended = match cri.stop_sandbox(id).await {
            Ok(()) if !keep => cri.remove_sandbox(id).await,
            stopped => stopped,
        };
        match ended {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > give_up => return Err(error.into()),
            Err(error) => tracing::debug!(%error, "the sandbox has not ended yet"),
        }
        sleep(RETRY).await;
    }
}

/// preStop, then StopContainer with what is left of the grace.
async fn end(
    cri: Cri,
    container: Container,
    grace: Option<Duration>,
    began: Instant,
    epoch: SystemTime,
) -> Result<EndedContainer> {
    let name = container.metadata.clone().unwrap_or_default().name;
    let declared =
        container.annotations.get(keys::GRACE).and_then(|seconds| seconds.parse().ok()).unwrap_or(30);
    let grace = grace.map_or(declared, |grace| grace.as_secs_f64().ceil() as u64);
    let mut left = grace;
    if let Some(json) = container.annotations.get(keys::PRE_STOP)
        && grace > 0
    {
        let started = Instant::now();
        pre_stop(&cri, json, &container.id, &name, grace).await;
        left = left.saturating_sub(started.elapsed().as_secs());
    }
    // The kubelet leaves every container 2 s, however long its hook took.
    let left = if grace == 0 { 0 } else { left.max(2) };
    cri.stop(&container.id, i64::try_from(left).unwrap_or(i64::MAX), &name).await?;
    let answered = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let status = cri.status(&container.id, &name).await?;
    Ok(EndedContainer {
        name,
        priority: None,
        container_id: container.id,
        ended_milliseconds: since(epoch, status.finished_at).unwrap_or(answered).min(answered),
        exit_code: status.exit_code,
        reason: status.reason,
    })
}

/// Milliseconds from `epoch` to a CRI time; none for a time before it.
fn since(epoch: SystemTime, nanoseconds: i64) -> Option<u64> {
    let at = UNIX_EPOCH
        .checked_add(Duration::from_nanos(u64::try_from(nanoseconds).ok().filter(|at| *at > 0)?))?;
    u64::try_from(at.duration_since(epoch).ok()?.as_millis()).ok()
}

/// The hook in the container's annotation.
#[derive(Deserialize)]
struct Hook {
    exec: Option<HookExec>,
    sleep: Option<HookSleep>,
}

#[derive(Deserialize)]
struct HookExec {
    command: Vec<String>,
}

#[derive(Deserialize)]
struct HookSleep {
    seconds: u64,
}

/// Runs the hook for at most the grace. A failed hook does not keep the container from being stopped.
async fn pre_stop(cri: &Cri, json: &str, id: &str, name: &str, grace: u64) {
    let grace = Duration::from_secs(grace);
    let hook = match serde_json::from_str(json) {
        Ok(Hook { exec: Some(exec), .. }) => {
            match timeout(grace, cri.exec(id, exec.command, Some(grace), name)).await {
                Ok(Ok(done)) if done.exit_code == 0 => return,
                Ok(Ok(done)) => format!("ended with exit code {}", done.exit_code),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "has not ended within the grace".to_owned(),
            }
        }
        Ok(Hook { sleep: Some(sleep), .. }) => {
            return tokio::time::sleep(grace.min(Duration::from_secs(sleep.seconds))).await;
        }
        Ok(_) => "is of a kind that berthctl cannot run and is left out".to_owned(),
        Err(error) => format!("cannot be read from its annotation: {error}"),
    };
    progress(&format!("{name}: the preStop hook {hook}"));
}

/// Removes the pod's data directory, if berthctl made it.
fn remove_data(sandbox: &PodSandbox) -> Result<()> {
    let (Some(dir), Some(metadata)) = (sandbox.annotations.get(keys::DATA_DIR), &sandbox.metadata) else {
        return Ok(());
    };
    let dir = Path::new(dir);
    // An annotation is not a licence to remove anything: only a directory named like the pod's UID is the
    // pod's.
    if metadata.uid.is_empty() || !dir.is_absolute() || dir.file_name() != Some(metadata.uid.as_ref()) {
        progress(&format!(
            "note: the data directory {} is not named like the pod's UID and is left alone",
            dir.display()
        ));
        return Ok(());
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove the pod's data directory {}", dir.display()))
        }
        _ => Ok(()),
    }
}

impl Ended {
    /// The picture, those first that ended first.
    fn picture(&self) -> String {
        let total = self.containers.iter().map(|container| container.ended_milliseconds).max().unwrap_or(0);
        let rows: Vec<Row> = self
            .containers
            .iter()
            .map(|container| Row {
                name: container.name.clone(),
                priority: container.priority,
                phases: vec![(0, container.ended_milliseconds, Phase::Stop)],
                note: format!("{} ms", container.ended_milliseconds),
            })
            .collect();
        timeline::draw(&rows, total, timeline::LINE, "ENDED", timeline::ascii_only())
    }
}
