//! `berthctl check`: whether a cluster can take Berth in, and whether Berth works in it.
//!
//! ```text
//!   API server ──▶ read ──▶ Facts ──▶ verdicts (pure) ──▶ findings
//! ```
//!
//! A part that may not be read is said and takes nothing else away.

mod facts;
mod ownership;
mod read;
mod releases;
mod verdicts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use berthd::base::deadline::later;
use clap::Args;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{Instant, sleep};

use super::duration;
use super::findings::Report;
use super::output::OutputArgs;

/// Pause between two rounds of checks with `--wait`.
const POLL: Duration = Duration::from_secs(2);
/// Failure to find a kubeconfig, in the words of `kubectl berth`.
const NO_KUBECONFIG: &str = "no kubeconfig that can be used: give one by --kubeconfig or KUBECONFIG";

/// Flags of `check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Before Berth is installed: look only at what would be in its way
    #[arg(long)]
    pub pre: bool,
    /// Repeat the checks until none fails, for at most this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub wait: Option<Duration>,
    /// Path of the kubeconfig [default: those of KUBECONFIG, else ~/.kube/config, else the pod's own]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the context in the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Runs `check`.
pub(crate) async fn check(args: &CheckArgs) -> Result<ExitCode> {
    let client = client(args).await?;
    let until = later(Instant::now(), args.wait.unwrap_or_default());
    loop {
        let facts = read::facts(&client).await;
        let report = Report { checks: verdicts::checks(&facts, args.pre, Timestamp::now()) };
        if !report.fails() || Instant::now() >= until {
            return report.show(args.output.format);
        }
        sleep(POLL).await;
    }
}

async fn client(args: &CheckArgs) -> Result<Client> {
    // A second installation changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &args.kubeconfig {
        Some(path) => {
            let failed = || format!("--kubeconfig {}", path.display());
            // It says itself which file.
            std::fs::File::open(path).with_context(failed)?;
            let read = Kubeconfig::read_from(path).with_context(failed)?;
            Config::from_custom_kubeconfig(read, &options).await.with_context(failed)?
        }
        None if args.context.is_some() => Config::from_kubeconfig(&options).await.context(NO_KUBECONFIG)?,
        None => Config::infer().await.context(NO_KUBECONFIG)?,
    };
    // A refused request is said, not repeated for minutes.
    config.default_retry = false;
    Client::try_from(config).context("client of the API server")
}
