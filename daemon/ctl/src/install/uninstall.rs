//! `berthctl uninstall`: puts everything back from the journal. Pods are not touched.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::super::{duration, output};
use super::from_pod::PodArgs;
use super::host::Host;
use super::journal::Journal;
use super::places::{BERTH_SHIM, BERTHCTL, BERTHD, STATE_DIR};
use super::{NodeArgs, changeable, put_back, show};

/// The administrator's folder.
const CONFIG_DIR: &str = "/etc/berth";

/// Flags of `uninstall`.
#[derive(Args, Debug)]
pub(crate) struct UninstallArgs {
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Remove the configuration and the state of berthd too
    #[arg(long)]
    pub purge: bool,
    /// Go without a journal: remove the units and drop-ins that an installation would have written
    #[arg(long)]
    pub force: bool,
    /// How long the node may take to be Ready again before that is said
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// From where.
    #[command(flatten)]
    pub pod: PodArgs,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs `uninstall`.
pub(crate) async fn uninstall(args: &UninstallArgs) -> Result<ExitCode> {
    let host = Host::new(&args.node.root);
    let mut journal = match Journal::load(&host) {
        Ok(Some(journal)) => journal,
        Ok(None) if args.force => Journal::assumed(&host),
        Ok(None) if Journal::assumed(&host).changes.is_empty() => bail!("Berth is not installed"),
        Ok(None) => bail!(
            "Berth is here, but there is no journal of what berthctl install has changed; --force removes its units and \
             drop-ins (berthctl bypass only takes the kubelet off Berth)"
        ),
        Err(_) if args.force => Journal::assumed(&host),
        Err(error) => {
            return Err(error.context(
                "--force removes Berth's units and drop-ins without it (berthctl bypass only takes the kubelet off Berth)",
            ));
        }
    };
    if args.dry_run {
        let steps: Vec<String> = journal.undo(0).iter().map(|step| show::undo(step) + "\n").collect();
        output::print(&steps.concat())?;
        return Ok(ExitCode::SUCCESS);
    }
    let _lock = changeable(&host)?;
    put_back(&host, &mut journal, 0, args.node.kubelet_unit, args.timeout).await?;
    if args.purge {
        for dir in [STATE_DIR, CONFIG_DIR] {
            output::progress(&format!("remove {dir}/"));
            host.remove_tree(dir)?;
        }
    }
    let ours = [BERTHD, BERTH_SHIM, BERTHCTL, CONFIG_DIR, STATE_DIR];
    let left: Vec<&str> = ours.into_iter().filter(|path| host.exists(path)).collect();
    match left.as_slice() {
        [] => output::progress("Berth is removed"),
        left => output::progress(&format!("Berth is removed; left: {}", left.join(", "))),
    }
    Ok(ExitCode::SUCCESS)
}
