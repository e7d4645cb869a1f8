//! The `berth-shim` of a berthd: a program of the suite's on a socket that it keeps, or one that berthd has
//! started in the runtime's place.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use super::super::programs;
use super::super::run_dir::Run;
use super::super::service::Service;
use super::{Berthd, ENDS_WITHIN, SHIM_SOCKET};

/// Starts a `berth-shim`, which waits for its berthd, on a socket that outlives it.
pub(super) fn start(
    run: &Arc<Run>,
    socket: &Path,
    agent: &Path,
    runtime: &Path,
    kubelet: Option<&str>,
) -> Result<(Service, UnixListener)> {
    let sockets = [("--socket", socket), ("--shim-socket", agent), ("--runtime-endpoint", runtime)];
    let args = sockets.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]);
    let kubelet = kubelet.map(|name| format!("--kubelet-processes={name}"));
    let args = args.chain(kubelet).collect();
    let service = Service::new(run, "berth-shim", programs::berth("berth-shim")?, args).grace(ENDS_WITHIN);
    let kept = UnixListener::bind(socket).with_context(|| socket.display().to_string())?;
    service.start_on(kept.try_clone().context("the kept socket")?.into())?;
    Ok((service, kept))
}

impl Berthd {
    /// The process of `berth-shim`, where that has the data path.
    pub fn shim(&self) -> Option<&Service> {
        self.shim.as_ref()
    }

    /// Means the `berth-shim` that berthd has started, whichever process it is, and tells which.
    pub async fn follow_shim(&self) -> Result<u32> {
        let shim = self.shim.as_ref().context("the data path is berthd's own")?;
        let state = berth_shim::remote::look(&self.admin.with_file_name(SHIM_SOCKET)).await?;
        if shim.pid() != Some(state.pid) {
            shim.succeeded_by(state.pid)?;
        }
        Ok(state.pid)
    }

    /// Crashes its shim and starts it again. Its socket is kept, as systemd does it: whoever connects
    /// meanwhile waits.
    pub async fn crash_shim(&self) -> Result<()> {
        self.replace_shim()?;
        self.serving().await
    }

    /// The same, and waits for nothing: berthd may stand still.
    pub fn replace_shim(&self) -> Result<()> {
        self.shim.as_ref().context("the data path is berthd's own")?.kill()?;
        self.start_shim()
    }

    /// Starts its shim, which has ended, on the socket that is kept.
    pub fn start_shim(&self) -> Result<()> {
        let (Some(shim), Some(kept)) = (&self.shim, &self.kept) else {
            bail!("the data path is berthd's own, or it starts the shim itself")
        };
        shim.start_on(kept.try_clone().context("the kept socket")?.into())
    }

    /// Has its shim give its place to a new process of its program, and means that one from then on.
    pub async fn upgrade_shim(&self) -> Result<()> {
        let shim = self.shim.as_ref().context("the data path is berthd's own")?;
        let ready = berth_shim::remote::upgrade(&self.admin.with_file_name(SHIM_SOCKET), |_| ()).await?;
        shim.succeeded_by(ready.pid)
    }
}
