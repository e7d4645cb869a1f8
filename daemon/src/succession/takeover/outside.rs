//! `berthd outside`: leaves berthd's container, session and cgroups, and becomes another program there.

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, ensure};

use super::host;

/// Flags of `berthd outside`.
#[derive(Clone, Debug, clap::Args)]
pub struct OutsideFlags {
    /// Leave the container of berthd first
    #[arg(long)]
    pub host: bool,
    /// The program, by its path outside
    pub program: PathBuf,
    /// Its arguments
    #[arg(last = true)]
    pub args: Vec<String>,
}

/// Becomes the program.
///
/// # Errors
/// The container cannot be left, or the program is not there.
pub fn become_program(flags: &OutsideFlags) -> anyhow::Result<()> {
    host::leave(flags.host)?;
    ensure!(
        flags.program.exists(),
        "{:?} is not seen here: the host must have it at the same path",
        flags.program
    );
    let error = Command::new(&flags.program).args(&flags.args).exec();
    Err(error).with_context(|| format!("start {:?}", flags.program))
}
