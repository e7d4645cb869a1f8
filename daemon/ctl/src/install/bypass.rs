//! `berthctl bypass`: takes the kubelet off Berth, whatever state Berth is in.
//!
//! It needs no berthd, no API server and no journal: it removes the file that leads the kubelet to Berth,
//! wherever it is, and restarts the kubelet. The journal stays true: what it would restore is what is then
//! there.

mod takeover;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::super::cli::Global;
use super::super::{duration, output};
use super::carry_out::{reload, restart_kubelet};
use super::facts::Facts;
use super::from_pod::PodArgs;
use super::host::Host;
use super::places::{BERTHD, Flavour};
use super::ready::Watch;
use super::{InstallArgs, NodeArgs, changeable, install};

/// Flags of `bypass`.
#[derive(Args, Debug)]
pub(crate) struct BypassArgs {
    /// Lead the kubelet to Berth again
    #[arg(long)]
    pub undo: bool,
    /// Path takeover with a berth-shim: give the runtime its own place back, at this path [default:
    /// /run/containerd/containerd.sock]
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = takeover::RUNTIME)]
    pub takeover: Option<PathBuf>,
    /// How long the kubelet may take to be healthy again; with --undo, until everything is put back
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs `bypass`.
pub(crate) async fn bypass(global: &Global, args: &BypassArgs) -> Result<ExitCode> {
    if let Some(runtime) = &args.takeover {
        takeover::bypass(runtime, args.undo, args.timeout).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let host = Host::new(&args.node.root);
    if args.undo {
        if !host.exists(BERTHD) {
            bail!("Berth is not installed; berthctl install does it");
        }
        let node = args.node.clone();
        let pod = PodArgs::default();
        let again = InstallArgs {
            dry_run: false,
            timeout: args.timeout,
            runtime: None,
            upgrade: false,
            two_programs: false,
            one_program: false,
            kubeconfig: None,
            pod,
            node,
        };
        return install(global, &again).await;
    }
    let _lock = changeable(&host)?;
    let mut units = Vec::new();
    for flavour in Flavour::ALL {
        if host.exists(&flavour.drop_in()) && !units.contains(&flavour) {
            // k3s and its agent share theirs.
            units.extend(Flavour::ALL.into_iter().filter(|other| other.drop_in() == flavour.drop_in()));
        }
    }
    if units.is_empty() {
        bail!(
            "no file of berthctl install leads a kubelet to Berth; on path takeover give --takeover; if the kubelet's own \
             configuration leads there, set containerRuntimeEndpoint in it to the runtime's socket and restart the kubelet"
        );
    }
    for flavour in &units {
        if host.exists(&flavour.drop_in()) {
            output::progress(&format!("remove {}", flavour.drop_in()));
            host.remove(&flavour.drop_in())?;
        }
    }
    output::progress("systemctl daemon-reload");
    reload(&host).await?;
    // What is known of the kubelet only tells when it is healthy again; the way off Berth does not depend on
    // it.
    let facts = Facts::gather(&host, args.node.kubelet_unit).ok();
    let kubelet = facts.and_then(|facts| facts.kubelet);
    let only_one = units.len() == 1;
    for flavour in units {
        let active = host.ask_systemctl(&["is-enabled", "--quiet", flavour.unit()], args.timeout).await;
        if !only_one && !active.is_ok_and(|answer| answer.status.success()) {
            continue;
        }
        let watch = match kubelet.as_ref().filter(|kubelet| kubelet.flavour == flavour) {
            Some(kubelet) => Some(Watch::begin(&host, kubelet).await),
            None => None,
        };
        output::progress(&format!("systemctl restart {}", flavour.unit()));
        restart_kubelet(&host, flavour.unit()).await?;
        if let Some(watch) = watch {
            watch.healthy(args.timeout).await?;
        }
    }
    output::progress(
        "the kubelet speaks to the runtime itself; berthctl bypass --undo leads it to Berth again. The node keeps the label \
         berth.dev/order=true: cordon it if no pod may come that asks for that",
    );
    Ok(ExitCode::SUCCESS)
}
