//! Copies of programs that outlive berthd: the file of the first may belong to a container that ends.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context;
use tokio::process::Command;

/// A log that has grown longer begins anew; in bytes.
const LONG: u64 = 1 << 20;

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
        let long = fs::metadata(&self.log).is_ok_and(|log| log.len() > LONG);
        let log = File::options().create(true).mode(0o600).append(true).open(&self.log)?;
        if long {
            log.set_len(0)?;
        }
        let mut command = Command::new(program);
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}
