//! `berthd outside`: leaves berthd's container, session and cgroups, and becomes another program there.

use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

use anyhow::{Context, ensure};
use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    },
};
use tracing::warn;

use super::host;

/// Flags of `berthd outside`.
#[derive(Clone, Debug, clap::Args)]
pub struct OutsideFlags {
    /// Leave the container of berthd first
    #[arg(long)]
    pub host: bool,
    /// Give up all capabilities, for good
    #[arg(long)]
    pub confined: bool,
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
    if flags.confined
        && let Err(error) = confine()
    {
        // Where even that is forbidden it has few of them.
        warn!(%error, "Capabilities not given up");
    }
    let error = Command::new(&flags.program).args(&flags.args).exec();
    Err(error).with_context(|| format!("start {:?}", flags.program))
}

/// Sees to it that the next program has no capability, and gets none by any program that it starts. It may
/// open what belongs to root all the same, as root.
fn confine() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1_u64.rotate_left(bit))) {
        match remove_capability_from_bounding_set(capability) {
            // The kernel has no more.
            Err(Errno::INVAL) => break,
            removed => removed?,
        }
    }
    clear_ambient_capability_set()?;
    // What is permitted until then is not inherited.
    let own = capabilities(None)?;
    set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..own })
}
