//! `berthctl upgrade` and `berthctl drain`: another berthd in the place of the one that runs, or none.

use std::path::PathBuf;

use berth_policy::time::later;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_proto::admin::upgrade_stage::Stage;
use berth_proto::admin::{DrainRequest, DrainState, StatusRequest, UpgradeRequest, UpgradeStage};
use clap::Args;
use tonic::Request;

use super::admin;
use super::cli::Global;
use super::duration;
use super::output::progress;
use super::shim;

/// How often the new berthd is asked while it is watched.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// For how long it may not reach the runtime: a runtime under load is asked with a short deadline, and that
/// is not the fault of the new berthd.
const UNREACHED: Duration = Duration::from_secs(10);

/// Flags of `berthctl upgrade`.
#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    /// The new program, as berthd sees the disk [default: the file it was started from, as it is now]
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// How long the new berthd may take to be ready; after that the old one goes on
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::seconds)]
    pub ready_within: u32,
    /// How long to watch the new berthd once it is ready
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    pub watch: Duration,
    /// Upgrade berth-shim in place of berthd: a new process of the file that it was started from [default
    /// socket: /run/berth/shim.sock]
    #[arg(
        long,
        value_name = "SOCKET",
        num_args = 0..=1,
        default_missing_value = shim::SOCKET,
        conflicts_with_all = ["to", "ready_within", "watch"]
    )]
    pub shim: Option<PathBuf>,
}

/// Flags of `berthctl drain`.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// Let berth-shim end too: first, while berthd still decides about its calls [default socket:
    /// /run/berth/shim.sock]
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = shim::SOCKET)]
    pub shim: Option<PathBuf>,
}

/// Runs `berthctl upgrade`.
pub(crate) async fn upgrade(global: &Global, args: &UpgradeArgs) -> Result<()> {
    if let Some(socket) = &args.shim {
        return shim::upgrade(socket).await;
    }
    let began = Instant::now();
    let mut client = admin::connect(global).await?;
    let program = match &args.to {
        Some(path) => path.to_str().context("--to: not a UTF-8 path")?.to_owned(),
        None => String::new(),
    };
    // No deadline: every step has its own.
    let request = UpgradeRequest { program, timeout_seconds: args.ready_within };
    let stages = client.upgrade(Request::new(request)).await;
    let mut stages = stages.map_err(|status| admin::failed("Upgrade", &status))?.into_inner();
    let (mut reached, mut version, mut pid) = (Stage::Unknown, String::new(), 0);
    let failure = loop {
        match stages.message().await {
            Ok(Some(stage)) => {
                reached = stage.stage();
                match reached {
                    Stage::Checked => version.clone_from(&stage.version),
                    Stage::Started => pid = stage.pid,
                    Stage::Unknown | Stage::Given | Stage::Ready | Stage::TakenBack => {}
                }
                progress(&format!("{:>7}  {}", duration::short(began.elapsed()), words(&stage)));
            }
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    match failure {
        Some(status) if reached == Stage::TakenBack => bail!("not upgraded: {}", status.message()),
        Some(status) => bail!("not upgraded, nothing was changed: {}", status.message()),
        None => ensure!(
            reached == Stage::Ready,
            "berthd went away before it said how it ended; berthctl status says who serves now"
        ),
    }
    watch(global, pid, args.watch).await?;
    let took = duration::short(began.elapsed());
    progress(&format!("{took:>7}  berthd {version} has run well for {}", duration::short(args.watch)));
    Ok(())
}

fn words(stage: &UpgradeStage) -> String {
    let UpgradeStage { program, version, pid, .. } = stage;
    match stage.stage() {
        Stage::Unknown => "a stage this berthctl does not know".to_owned(),
        Stage::Checked => format!("{program} is berthd {version} and takes the configuration"),
        Stage::Started => format!("started as process {pid}"),
        Stage::Given => "given the sockets and the store".to_owned(),
        Stage::Ready => "it serves; the old berthd stays until its last call has ended".to_owned(),
        Stage::TakenBack => "it is ended, and the old program serves".to_owned(),
    }
}

/// Asks the berthd that answers now who it is, for a while.
async fn watch(global: &Global, pid: u32, time: Duration) -> Result<()> {
    let until = later(Instant::now(), time);
    let mut unreached_since = None;
    loop {
        let mut client = admin::connect(global).await.context("the new berthd does not answer")?;
        let answer = client.status(admin::request(global, StatusRequest {})).await;
        let status = answer.map_err(|status| admin::failed("Status", &status))?.into_inner();
        ensure!(
            status.pid == pid,
            "process {} answers, a berthd {}: process {pid} has ended; see its log",
            status.pid,
            status.version
        );
        let runtime = status.runtime.unwrap_or_default();
        let now = Instant::now();
        if runtime.reachable {
            unreached_since = None;
            if now >= until {
                return Ok(());
            }
        } else {
            let since = *unreached_since.get_or_insert(now);
            ensure!(
                now < later(since, UNREACHED),
                "the new berthd does not reach the runtime: {}",
                runtime.error
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Runs `berthctl drain`.
pub(crate) async fn drain(global: &Global, args: &DrainArgs) -> Result<()> {
    if let Some(socket) = &args.shim {
        shim::drain(socket).await?;
    }
    let began = Instant::now();
    let mut client = admin::connect(global).await?;
    let states = client.drain(Request::new(DrainRequest {})).await;
    let mut states = states.map_err(|status| admin::failed("Drain", &status))?.into_inner();
    let mut open = None;
    // An error is the end of berthd, which is what was asked for; whether all had ended by then shows in what
    // was said last.
    while let Ok(Some(state)) = states.message().await {
        let DrainState { connections, held } = state;
        let took = duration::short(began.elapsed());
        progress(&format!("{took:>7}  {connections} connections with open calls, {held} calls held"));
        open = Some(connections);
    }
    match open {
        Some(0) => Ok(()),
        Some(connections) => {
            Err(anyhow!("berthd ended with {connections} connections still open (drainTimeout)"))
        }
        None => Err(anyhow!("berthd went away without a word")),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;
    use crate::fake::{Node, global};
    use crate::fake_berthd::Berthd;

    fn stages(pid: u32, reached: &[Stage], end: Option<Status>) -> Vec<Result<UpgradeStage, Status>> {
        let stage = |stage: &Stage| UpgradeStage {
            stage: (*stage).into(),
            version: "2.0.0".into(),
            program: "/x/berthd".into(),
            pid,
        };
        reached.iter().map(stage).map(Ok).chain(end.map(Err)).collect()
    }

    #[tokio::test]
    async fn an_upgrade_is_well_when_the_new_one_answers() {
        use Stage::{Checked, Given, Ready, Started, TakenBack};
        let slow = || Some(Status::deadline_exceeded("the new berthd was not ready within 30s"));
        let table = [
            (stages(7, &[Checked, Started, Given, Ready], None), None),
            (
                stages(8, &[Checked, Started, Given, Ready], None),
                Some("process 7 answers, a berthd 1.2.3: process 8 has ended"),
            ),
            (
                stages(8, &[], Some(Status::invalid_argument("\"/x\" is no executable file"))),
                Some("not upgraded, nothing was changed: \"/x\" is no executable file"),
            ),
            (
                stages(8, &[Checked, Started, Given, TakenBack], slow()),
                Some("not upgraded: the new berthd was not ready"),
            ),
            (stages(8, &[Checked, Started], None), Some("berthd went away before it said how it ended")),
        ];
        for (upgrade_stages, expected) in table {
            let node = Node::new(|_, _| Ok(()));
            Berthd { upgrade: upgrade_stages.clone(), ..Berthd::default() }.serve(&node);
            let args = UpgradeArgs {
                to: Some("/x/berthd".into()),
                ready_within: 30,
                watch: Duration::ZERO,
                shim: None,
            };
            let told = upgrade(&global(&node), &args).await.map_err(|error| format!("{error:#}"));
            match expected {
                None => told.unwrap(),
                Some(words) => {
                    let error = told.unwrap_err();
                    assert!(error.contains(words), "{upgrade_stages:?}: {error}");
                }
            }
        }
    }

    /// A busy runtime is late with an answer now and then.
    #[tokio::test]
    async fn a_runtime_that_is_late_once_is_no_failure() {
        let node = Node::new(|_, _| Ok(()));
        let upgrade_stages = stages(7, &[Stage::Checked, Stage::Started, Stage::Given, Stage::Ready], None);
        let berthd = Berthd { upgrade: upgrade_stages, unreached: 1.into(), ..Berthd::default() };
        let berthd = berthd.serve(&node);
        let args =
            UpgradeArgs { to: Some("/x/berthd".into()), ready_within: 30, watch: Duration::ZERO, shim: None };
        upgrade(&global(&node), &args).await.unwrap();
        assert_eq!(berthd.unreached.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_drain_is_well_when_nothing_was_left() {
        let state = |connections| DrainState { connections, held: 0 };
        let table = [
            (vec![state(2), state(0)], None),
            (vec![state(2), state(1)], Some("1 connections still open")),
            (vec![], Some("without a word")),
        ];
        for (states, expected) in table {
            let node = Node::new(|_, _| Ok(()));
            Berthd { drain: states.clone(), ..Berthd::default() }.serve(&node);
            let told =
                drain(&global(&node), &DrainArgs { shim: None }).await.map_err(|error| error.to_string());
            match expected {
                None => told.unwrap(),
                Some(words) => assert!(told.unwrap_err().contains(words), "{states:?}"),
            }
        }
    }
}
