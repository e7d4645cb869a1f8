//! Sees to it that there is a guardian.

use std::{
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use tokio::process::Child;

use super::{Paths, copied::Copied, host};

/// The guardian of a place, whether it runs or not.
#[derive(Debug)]
pub(super) struct Guardian {
    socket: PathBuf,
    /// The socket on which the `berth-shim` in the place answers, where there is one.
    shim: Option<PathBuf>,
    lock: PathBuf,
    program: Copied,
}

impl Guardian {
    pub(super) fn of(paths: &Paths, state_dir: &Path, shim: Option<&Path>) -> Self {
        Self {
            socket: paths.front().to_owned(),
            shim: shim.map(Path::to_owned),
            lock: paths.guardian(),
            program: Copied::to(state_dir, "guardian"),
        }
    }

    /// The copy of this program that it runs, which can start others where it stands.
    pub(super) fn program(&self) -> &Path {
        &self.program.file
    }

    /// Keeps its log short.
    pub(super) fn shorten_log(&self) -> io::Result<()> {
        self.program.shorten()
    }

    /// Makes the copy of this program.
    pub(super) fn provide(&self) -> anyhow::Result<()> {
        self.program.copy("/proc/self/exe".as_ref())
    }

    /// Starts one if there is none, and waits until it watches.
    ///
    /// # Errors
    /// It does not come up; its log says why.
    pub(super) async fn ensure(&self) -> anyhow::Result<()> {
        if self.watches()? {
            return Ok(());
        }
        self.provide()?;
        let contained = host::in_a_container()?;
        let guardian =
            self.spawn(contained).with_context(|| format!("{:?} does not start", self.program()))?;
        self.program.comes_up("guardian", guardian, true, || self.watches()).await
    }

    /// Tells whether somebody has the guardian's lock.
    fn watches(&self) -> io::Result<bool> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&self.lock)?;
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    fn spawn(&self, contained: bool) -> io::Result<Child> {
        let mut command = self.program.command(self.program())?;
        command.arg("guardian").arg("--socket").arg(&self.socket);
        if let Some(shim) = &self.shim {
            command.arg("--shim-socket").arg(shim);
        }
        if contained {
            command.arg("--host");
        }
        command.spawn()
    }
}
