//! Copies of programs that outlive berthd, and processes of them: the file of the first may belong to a
//! container that ends.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use berth_policy::time::later;
use tokio::process::{Child, Command};
use tracing::info;

/// A log that has grown longer begins anew; in bytes.
const LONG: u64 = 1 << 20;
/// How long a process may take to be there.
const READY: Duration = Duration::from_secs(20);
/// How often it is looked for meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A program and its log, in the folder of berthd's store. Not below /run, where many nodes let nothing be
/// run.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) file: PathBuf,
    pub(super) log: PathBuf,
}

impl Copied {
    pub(super) fn to(state_dir: &Path, name: &str) -> Self {
        Self { file: state_dir.join(name), log: state_dir.join(format!("{name}.log")) }
    }

    /// Makes the copy as `from` is now. A process that runs keeps the file that it was started from.
    pub(super) fn copy(&self, from: &Path) -> anyhow::Result<()> {
        let copied = || -> io::Result<()> {
            if let Some(directory) = self.file.parent() {
                fs::create_dir_all(directory)?;
            }
            let new = self.file.with_extension("new");
            fs::copy(from, &new)?;
            fs::set_permissions(&new, fs::Permissions::from_mode(0o700))?;
            fs::rename(new, &self.file)
        };
        copied().with_context(|| format!("copy {from:?} to {:?}", self.file))
    }

    /// Describes a process of this program, or of the copy that starts it, which writes to its log. Nothing
    /// of this process's environment is about it: no socket of systemd, no token, no configuration.
    pub(super) fn command(&self, program: &Path) -> io::Result<Command> {
        self.shorten()?;
        let log = File::options().create(true).mode(0o600).append(true).open(&self.log)?;
        let mut command = Command::new(program);
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    /// Empties a log that has grown long. Also while its process runs, which may be for months: it appends.
    pub(super) fn shorten(&self) -> io::Result<()> {
        if fs::metadata(&self.log).is_ok_and(|log| log.len() > LONG) {
            File::options().write(true).open(&self.log)?.set_len(0)?;
        }
        Ok(())
    }

    /// Waits until a process of this program is there. `may_yield`: one that ends well has found another one
    /// there, which is as good.
    ///
    /// # Errors
    /// It does not come up; its log says why.
    pub(super) async fn comes_up(
        &self,
        name: &str,
        mut process: Child,
        may_yield: bool,
        is_there: impl Fn() -> io::Result<bool>,
    ) -> anyhow::Result<()> {
        let until = later(Instant::now(), READY);
        while !is_there()? {
            if let Some(status) = process.try_wait()? {
                if may_yield && status.success() && is_there()? {
                    return Ok(());
                }
                bail!("{name} ended ({status}); {:?} says why", self.log);
            }
            if Instant::now() > until {
                process.kill().await?;
                bail!("{name} does not come up; {:?} may say why", self.log);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        info!(name, pid = process.id(), log = ?self.log, "Process started that outlives this one");
        // Takes note of its end, should that come before this process's own.
        tokio::spawn(async move { process.wait().await });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_has_grown_long_begins_anew_under_the_process_that_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let program = Copied::to(directory.path(), "p");
        program.shorten().unwrap();
        program.command("p".as_ref()).unwrap();
        let mut writes = File::options().append(true).open(&program.log).unwrap();
        let line = [b'x'; 1 << 10];
        let length = || fs::metadata(&program.log).unwrap().len();
        for _ in 0..5000 {
            writes.write_all(&line).unwrap();
            program.shorten().unwrap();
            assert!(length() <= LONG + 1024, "{}", length());
        }
        assert!((1024..LONG).contains(&length()), "what is written afterwards is at its beginning");
        assert_eq!(fs::read(&program.log).unwrap().first(), Some(&b'x'));
        // A short one is kept where another process is started.
        program.command("p".as_ref()).unwrap();
        assert!(length() >= 1024);
    }
}
