//! The stub runtime and berthd, each in its process, and what the kernel says of berthd.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use berth_tests::{fake::FakeKubelet, node::programs, wait::await_condition};
use nix::unistd::{SysconfVar, sysconf};
use tokio::process::{Child, Command};

use super::STUB_COMMAND;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Both run; dropped, both are killed.
pub(super) struct Processes {
    runtime: PathBuf,
    berthd: PathBuf,
    stub: Child,
    agent: Child,
    pid: u32,
}

// === impl Processes ===

impl Processes {
    /// Starts both, with their sockets in `directory`, and waits until they answer.
    pub(super) async fn start(directory: &Path) -> Result<Self> {
        let (runtime, berthd) = (directory.join("runtime.sock"), directory.join("cri.sock"));
        let own = std::env::current_exe().context("our own path")?;
        let stub = spawn(Command::new(own).arg(STUB_COMMAND).arg(&runtime))?;
        answers(&runtime).await?;
        let config = directory.join("berthd.yaml");
        fs::write(&config, configuration(directory, &runtime, &berthd))?;
        let agent = spawn(Command::new(programs::berth("berthd")?).arg("--config").arg(&config))?;
        answers(&berthd).await?;
        let pid = agent.id().context("berthd has ended")?;
        Ok(Self { runtime, berthd, stub, agent, pid })
    }

    pub(super) fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub(super) fn berthd(&self) -> &Path {
        &self.berthd
    }

    /// The processor time berthd has used so far.
    pub(super) fn cpu_us(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The second field is the name in brackets, and may hold anything.
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks = || fields.next().context("/proc/PID/stat")?.parse::<f64>().context("/proc/PID/stat");
        let ticks = ticks()? + ticks()?;
        let per_second = sysconf(SysconfVar::CLK_TCK)?.context("clock ticks")?;
        Ok(ticks * 1e6 / per_second as f64)
    }

    /// The memory berthd has now.
    pub(super) fn rss_mb(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1000.0)
    }

    /// Ends both.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.agent.kill().await?;
        Ok(self.stub.kill().await?)
    }
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

fn configuration(directory: &Path, runtime: &Path, berthd: &Path) -> String {
    format!(
        "apiVersion: berth.dev/v1alpha1
kind: BerthdConfiguration
socket: {berthd}
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
    )
}
