//! `berthctl doctor`: is everything as Berth needs it, and if not, what to do.

mod checks;
pub(crate) mod cluster;
mod services;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::super::cli::Global;
use super::super::findings::{Check, Report};
use super::super::output::OutputArgs;
use super::NodeArgs;
use super::facts::Facts;
use super::host::Host;

/// Flags of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs `doctor`.
pub(crate) async fn doctor(global: &Global, args: &DoctorArgs) -> Result<ExitCode> {
    let host = Host::new(&args.node.root);
    let mut all = Vec::new();
    let facts = match Facts::gather(&host, args.node.kubelet_unit) {
        Ok(facts) => facts,
        Err(error) => {
            all.push(Check::fail("kubelet", format!("{error:#}"), "mend that file"));
            Facts::default()
        }
    };
    let is_service = checks::is_service(&host, &facts);
    all.extend(checks::files(&host, &facts, is_service));
    if host.is_this() {
        all.extend(services::checks(global, &host, &facts, is_service).await);
        all.extend(cluster::checks(&host, &facts).await);
        all.extend(checks::machine(&host));
    }
    Report { checks: all }.show(args.output.format)
}
