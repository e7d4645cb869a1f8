//! Begin and end of a central program: memory and log are set up in the same order, all work is done on one
//! thread, and the end has the same codes.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use tracing::{error, warn};
use tracing_subscriber::filter::Targets;

use crate::telemetry::{self, LogFormat};

/// sysexits(3): the command line is wrong. Nothing was bound.
const EX_USAGE: u8 = 64;

/// Runs a program from its command line until `serve` ends. `log` finds in the configuration what is logged,
/// and how that looks.
pub fn main<C, F>(log: impl FnOnce(&C) -> (Targets, LogFormat), serve: impl FnOnce(C) -> F) -> ExitCode
where
    C: Parser,
    F: Future<Output = anyhow::Result<()>>,
{
    let config = match C::try_parse() {
        Ok(config) => config,
        Err(error) => {
            let code = if error.use_stderr() { EX_USAGE } else { 0 };
            // Nothing is left to be done if even this cannot be written.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let unsettled = berth_malloc::settle();
    // After the last exec, which would undo it. The manager and the distribution read Secrets: no core file
    // has their memory.
    let undumped = nix::sys::prctl::set_dumpable(false);
    let (filter, format) = log(&config);
    telemetry::init(filter, format);
    if let Err(error) = unsettled {
        warn!(%error, "Memory settings not made, large lists will keep more memory");
    }
    if let Err(error) = undumped {
        warn!(%error, "Core files not switched off");
    }
    match block_on(serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let command = C::command();
            error!(program = command.get_name(), error = format!("{error:#}"), "Program ended");
            ExitCode::FAILURE
        }
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // One provider for the process; without it rustls panics at the first use when features bring in two.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider is installed already"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
