//! The stub runtime and berthd, each in its process, and what the kernel says of berthd.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use berth_tests::{fake::FakeKubelet, node::programs as node_programs, wait::await_condition};
use tokio::process::{Child, Command};

use super::STUB_COMMAND;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Programs between the kubelet and the runtime.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Programs {
    /// `berthd` has the socket.
    One,
    /// `berth-shim` has it, and `berthd` decides.
    Two,
}

/// All run; dropped, all are killed.
pub(super) struct Processes {
    runtime: PathBuf,
    berthd: PathBuf,
    stub: Child,
    ours: Vec<Child>,
    pids: Vec<u32>,
}

// === impl Processes ===

impl Processes {
    /// Starts both, with their sockets in `directory`, and waits until they answer.
    pub(super) async fn start(directory: &Path) -> Result<Self> {
        Self::start_as(directory, Programs::One).await
    }

    /// Starts the runtime and these programs.
    pub(super) async fn start_as(directory: &Path, programs: Programs) -> Result<Self> {
        let (runtime, berthd) = (directory.join("runtime.sock"), directory.join("cri.sock"));
        let own = std::env::current_exe().context("our own path")?;
        let stub = spawn(Command::new(own).arg(STUB_COMMAND).arg(&runtime))?;
        answers(&runtime).await?;
        let config = directory.join("berthd.yaml");
        fs::write(&config, configuration(directory, &runtime, &berthd, programs)?)?;
        let mut ours = Vec::new();
        if programs == Programs::Two {
            let mut shim = Command::new(node_programs::berth("berth-shim")?);
            shim.arg("--socket").arg(&berthd).arg("--shim-socket").arg(directory.join("shim.sock"));
            shim.arg("--runtime-endpoint").arg(&runtime).arg("--kubelet-processes").arg(own_name()?);
            ours.push(spawn(&mut shim)?);
        }
        ours.push(spawn(Command::new(node_programs::berth("berthd")?).arg("--config").arg(&config))?);
        answers(&berthd).await?;
        let pids = ours.iter().map(|child| child.id().context("it has ended")).collect::<Result<_>>()?;
        Ok(Self { runtime, berthd, stub, ours, pids })
    }

    pub(super) fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub(super) fn berthd(&self) -> &Path {
        &self.berthd
    }

    /// The processor time that our programs have used so far.
    pub(super) fn cpu_us(&self) -> Result<f64> {
        self.pids.iter().map(|pid| cpu_us(*pid)).sum()
    }

    /// The memory that our programs have now.
    pub(super) fn rss_mb(&self) -> Result<f64> {
        self.pids.iter().map(|pid| rss_mb(*pid)).sum()
    }

    /// The same, of the one that has the calls.
    pub(super) fn first_rss_mb(&self) -> Result<f64> {
        rss_mb(*self.pids.first().context("no program runs")?)
    }

    /// Ends all.
    pub(super) async fn stop(mut self) -> Result<()> {
        for child in &mut self.ours {
            child.kill().await?;
        }
        Ok(self.stub.kill().await?)
    }
}

/// The processor time of all threads, in nanoseconds of the scheduler: ticks are too coarse for an idle
/// process.
fn cpu_us(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has just ended has used what it has used.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += text.split_whitespace().next().context("schedstat")?.parse::<f64>()?;
    }
    Ok(nanoseconds / 1000.0)
}

/// The memory that a process has now.
pub(crate) fn rss_mb(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes / 1000.0)
}

/// This process is the kubelet.
fn own_name() -> Result<String> {
    Ok(fs::read_to_string("/proc/self/comm")?.trim_end().to_owned())
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.kill_on_drop(true).spawn().with_context(|| format!("start {:?}", command.as_std().get_program()))
}

async fn answers(socket: &Path) -> Result<()> {
    await_condition(format!("{} answers", socket.display()), START_LIMIT, || async {
        FakeKubelet::connect(socket).await?.call("/runtime.v1.RuntimeService/Version", &[]).await
    })
    .await?;
    Ok(())
}

fn configuration(directory: &Path, runtime: &Path, berthd: &Path, programs: Programs) -> Result<String> {
    let shim = match programs {
        Programs::One => String::new(),
        Programs::Two => format!("shimSocket: {}\n", directory.join("shim.sock").display()),
    };
    Ok(format!(
        "apiVersion: berth.dev/v1alpha1
kind: BerthdConfiguration
socket: {berthd}
{shim}kubeletProcesses: [{kubelet}]
runtimeEndpoint: unix://{runtime}
adminSocket: {directory}/admin.sock
stateDir: {directory}/state
httpAddress: 127.0.0.1:0
podView:
  mode: none
",
        berthd = berthd.display(),
        runtime = runtime.display(),
        directory = directory.display(),
        kubelet = own_name()?,
    ))
}
