//! `--on-node`: `berthctl` is in a pod, and is to change the node that the pod is on (`deploy/host`).
//!
//! ```text
//!   pod:  berthctl install --on-node --stay      copies the programs to the node, starts a second one, waits, and stays
//!           '-- the same --leave-container       leaves session, cgroups and mounts of the container, and becomes
//!   node:         /var/lib/berth/release/berthctl install
//! ```
//!
//! The second one outlives the pod: a node is not left half changed because its pod was deleted. Of the
//! container's env it has the settings of berthd. Both are single-threaded up to there, because only such a
//! process can enter other mounts.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use berthd::succession::takeover::host::{in_a_container, leave};
use clap::Args;

use super::env;
use super::host::Host;
use super::places::STATE_DIR;
use crate::output::progress;

/// Where the programs are put, at the same path in the pod and on the node: below [`STATE_DIR`].
const RELEASE: &str = "/var/lib/berth/release";
/// Where programs are on a node.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Is there once what the pod was made for has succeeded.
const DONE: &str = "/var/lib/berth/release/done";
const PROGRAMS: [&str; 2] = ["berthd", "berthctl"];
/// The one that images need not have.
const SHIM: &str = "berth-shim";
const ON_NODE: &str = "--on-node";
const STAY: &str = "--stay";
const LEAVE: &str = "--leave-container";

/// Flags of what may be asked for from a pod.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct PodArgs {
    /// From a privileged pod with hostPID and the node's /var/lib/berth: change the node that the pod is on
    #[arg(long)]
    on_node: bool,
    /// With --on-node: stay when it is done, and also when it failed, so that the pod does not try again and
    /// again
    #[arg(long, requires = "on_node")]
    stay: bool,
    /// With --on-node: succeed if the pod's work is done, and do nothing; for its probe
    #[arg(long, requires = "on_node")]
    is_done: bool,
    /// How --on-node calls itself
    #[arg(long, hide = true, requires = "on_node")]
    leave_container: bool,
}

impl PodArgs {
    /// Tells whether this is to be done before anything else is started.
    pub(crate) fn wanted(self) -> bool {
        self.on_node
    }

    /// Does it, or becomes who does it.
    pub(crate) fn run(self) -> Result<ExitCode> {
        if self.is_done {
            return Ok(if Path::new(DONE).exists() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if self.leave_container {
            leave(true).context("leave the container; the pod needs hostPID and privileged")?;
            let program = Path::new(RELEASE).join("berthctl");
            let ours = [ON_NODE, STAY, LEAVE];
            let args =
                std::env::args_os().skip(1).filter(|arg| !ours.iter().any(|own| OsStr::new(own) == arg));
            let mut command = Command::new(&program);
            command.args(args).env_clear().env("PATH", PATH).envs(env::picked(std::env::vars_os()));
            let error = command.current_dir("/").exec();
            return Err(error).with_context(|| format!("run {} on the node", program.display()));
        }
        if !in_a_container()? {
            bail!("{ON_NODE} is for a pod with hostPID; here berthctl is on its node: leave it out");
        }
        let code = self.carry_out()?;
        if !self.stay {
            return Ok(code);
        }
        match code == ExitCode::SUCCESS {
            true => progress("done; this pod stays"),
            false => progress("failed; this pod stays so that it is not tried again: delete it to try again"),
        }
        // The usual end of a pod is SIGTERM, which ends this process as it is.
        loop {
            std::thread::park();
        }
    }

    fn carry_out(self) -> Result<ExitCode> {
        let own = std::env::current_exe().context("where berthctl is")?;
        let folder = own.parent().unwrap_or(Path::new("/"));
        let node = Host::new(Path::new("/"));
        for dir in [STATE_DIR, RELEASE] {
            node.make_dir(dir, 0o700).with_context(|| format!("make {dir}"))?;
        }
        node.remove(DONE)?;
        let shim = folder.join(SHIM).exists().then_some(SHIM);
        for program in PROGRAMS.into_iter().chain(shim) {
            node.copy(&folder.join(program), &format!("{RELEASE}/{program}"), 0o755)?;
        }
        let args: Vec<OsString> = std::env::args_os().skip(1).chain([LEAVE.into()]).collect();
        let status =
            Command::new(&own).args(args).status().context("start the one that leaves the container")?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
        // Not after `uninstall --purge`, which has taken the folder away.
        if node.exists(RELEASE) {
            node.write(DONE, b"", 0o600)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
