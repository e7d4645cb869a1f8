//! `berthctl`: a crictl-style command line for a node.
//!
//! It speaks CRI to the runtime (through berthd where that runs) and the admin API to berthd. Nothing here
//! decides about an order or a restart: `play` and `stop-pod` do what a kubelet would do, so that what they
//! show is what a kubelet gets, and `recreate` and `update` ask berthd. Data goes to stdout, everything else
//! to stderr.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

mod admin;
mod channel;
mod check;
mod cli;
mod cri;
mod duration;
mod endpoint;
mod events;
mod explain;
mod filter;
mod findings;
mod follow;
mod get;
mod install;
mod manifest;
mod order;
mod output;
mod pages;
mod play;
mod pods;
mod probes;
mod protojson;
mod ps;
mod pull;
mod recreate;
mod requests;
mod select;
mod shim;
mod status;
mod stop;
mod swap;
mod sysdump;
mod timeline;
mod update;
mod updates;
mod upgrade;
mod usage;
mod version;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_berthd;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

use std::process::ExitCode;

use anyhow::Result;
use berth_proto::{causes, text::lines};
use clap::Parser;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use cli::{Cli, Command};
use install::from_pod::PodArgs;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| usage::mended(error, std::env::args()).exit());
    // The libraries below log every frame, which is more than anyone looks for here.
    let ours = if cli.global.debug { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("berthctl", ours)
        .with_target("berthd", ours);
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(output::colour());
    tracing_subscriber::registry().with(log.with_filter(filter)).init();
    let from_pod = match &cli.command {
        Command::Install(args) => args.pod,
        Command::Uninstall(args) => args.pod,
        _ => PodArgs::default(),
    };
    if from_pod.wanted() {
        return ended(from_pod.run());
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("berthctl: start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    ended(runtime.block_on(dispatch(cli)))
}

fn ended(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("berthctl: {}", lines(&causes::once(error.as_ref())));
        ExitCode::FAILURE
    })
}

async fn dispatch(cli: Cli) -> Result<ExitCode> {
    let global = &cli.global;
    match cli.command {
        Command::Play(args) => return play::play(global, &args).await,
        Command::StopPod(args) => stop::stop(global, &args).await?,
        Command::Pods(args) => pods::pods(global, &args).await?,
        Command::Ps(args) => ps::ps(global, &args).await?,
        Command::Recreate(args) => return recreate::recreate(global, &args).await,
        Command::Pull(args) => return pull::pull(global, &args).await,
        Command::Pulls(args) => pull::pulls(global, &args).await?,
        Command::Update(args) => return update::update(global, &args).await,
        Command::Swap(args) => return swap::swap(global, &args).await,
        Command::Get(what) => get::get(global, &what).await?,
        Command::Order(args) => order::order(global, &args).await?,
        Command::Explain(args) => return explain::explain(global, &args).await,
        Command::Events(args) => events::events(global, &args).await?,
        Command::Probes(args) => probes::probes(global, &args).await?,
        Command::Sysdump(args) => sysdump::sysdump(global, &args).await?,
        Command::Install(args) => return install::install(global, &args).await,
        Command::Uninstall(args) => return install::uninstall(&args).await,
        Command::Bypass(args) => return install::bypass::bypass(global, &args).await,
        Command::Doctor(args) => return install::doctor::doctor(global, &args).await,
        Command::Check(args) => return check::check(&args).await,
        Command::Status(args) => status::status(global, &args).await?,
        Command::Upgrade(args) => upgrade::upgrade(global, &args).await?,
        Command::Drain(args) => upgrade::drain(global, &args).await?,
        Command::Completion(args) => pages::completion(&args)?,
        Command::Man(args) => pages::man(&args)?,
        Command::Version(args) => version::version(global, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
