//! Sees to it that there is a guardian.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use berth_policy::time::later;

use anyhow::{Context, bail};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use tokio::process::{Child, Command};
use tracing::info;

use super::{Paths, host};

/// How long a guardian may take to be there.
const READY: Duration = Duration::from_secs(20);
/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(100);
/// A log that has grown longer begins anew; in bytes.
const LONG: u64 = 1 << 20;

/// The guardian of a place, whether it runs or not.
#[derive(Debug)]
pub(super) struct Guardian {
    socket: PathBuf,
    lock: PathBuf,
    /// A copy of berthd's program: that one's file may belong to a container that ends. Not below /run, where
    /// many nodes let nothing be run.
    program: PathBuf,
    log: PathBuf,
}

impl Guardian {
    pub(super) fn of(paths: &Paths, state_dir: &Path) -> Self {
        Self {
            socket: paths.front().to_owned(),
            lock: paths.guardian(),
            program: state_dir.join("guardian"),
            log: state_dir.join("guardian.log"),
        }
    }

    /// Starts one if there is none, and waits until it watches.
    ///
    /// # Errors
    /// It does not come up; its log says why.
    pub(super) async fn ensure(&self) -> anyhow::Result<()> {
        if self.watches()? {
            return Ok(());
        }
        self.copy_program().with_context(|| format!("{:?}", self.program))?;
        let contained = host::in_a_container()?;
        let mut child =
            self.spawn(contained).with_context(|| format!("{:?} does not start", self.program))?;
        let until = later(Instant::now(), READY);
        while !self.watches()? {
            if let Some(status) = child.try_wait()? {
                // One that ends well has found another one.
                if status.success() && self.watches()? {
                    return Ok(());
                }
                bail!("the guardian ended ({status}); {:?} says why", self.log);
            }
            if Instant::now() > until {
                child.kill().await?;
                bail!("the guardian does not come up; {:?} may say why", self.log);
            }
            tokio::time::sleep(LOOK).await;
        }
        info!(pid = child.id(), log = ?self.log, "Guardian started");
        // Takes note of its end, should that come before this process's own.
        tokio::spawn(async move { child.wait().await });
        Ok(())
    }

    /// Whether somebody has the guardian's lock.
    fn watches(&self) -> io::Result<bool> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&self.lock)?;
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    fn copy_program(&self) -> io::Result<()> {
        if let Some(directory) = self.program.parent() {
            fs::create_dir_all(directory)?;
        }
        let new = self.program.with_extension("new");
        fs::copy("/proc/self/exe", &new)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o700))?;
        // A guardian that runs keeps the file it was started from.
        fs::rename(new, &self.program)
    }

    fn spawn(&self, contained: bool) -> io::Result<Child> {
        let long = fs::metadata(&self.log).is_ok_and(|log| log.len() > LONG);
        let mut options = File::options();
        options.create(true).mode(0o600).append(true);
        let log = options.open(&self.log)?;
        if long {
            log.set_len(0)?;
        }
        let mut command = Command::new(&self.program);
        command.arg("guardian").arg("--socket").arg(&self.socket);
        if contained {
            command.arg("--host");
        }
        // Nothing of this process's environment is about it: no socket of systemd, no token, no
        // configuration.
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
    }
}
