//! `berth-bench`: measures Berth against the same work without it, in the same run.
//!
//! A bench is a module with the constant `BENCH` (its name, cases and metrics) and a function `run` that
//! gives rows; to add one, list it in [`BENCHES`] and call it in [`run`]. What a case does is described in
//! the module's own head.

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]

mod agents;
mod churn;
mod crowd;
mod figures;
mod handover;
mod idle;
mod images;
mod jobs;
mod launch;
mod manager;
mod overload;
mod probes;
mod process;
mod proxy;
mod proxy_bench;
mod recreate;
mod report;
mod scale;
mod sidecarset;
mod soak;
mod update;
mod workloads;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::report::{Bench, Row};

/// Every bench, in the order of `berth-bench list`.
const BENCHES: &[Bench] = &[
    proxy_bench::BENCH,
    proxy::two_programs::BENCH,
    launch::BENCH,
    recreate::BENCH,
    update::BENCH,
    jobs::BENCH,
    probes::BENCH,
    manager::BENCH,
    images::BENCH,
    sidecarset::BENCH,
    workloads::BENCH,
    scale::BENCH,
    handover::BENCH,
    overload::BENCH,
    soak::BENCH,
];

#[derive(Parser)]
#[command(version, about = "Measures Berth against the same work without it.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the benches, their cases and metrics.
    List,
    /// CRI calls through berthd against a direct connection, and berthd's cost on an idle node.
    Proxy(Options),
    /// `berth-shim` and `berthd` as two programs, against `berthd` alone.
    Shim(Options),
    /// Runs all benches, and writes their tables into the page of figures.
    Figures(figures::Figures),
    /// The stub runtime of `proxy`, in a process of its own.
    #[command(name = proxy::STUB_COMMAND, hide = true)]
    ProxyStub { socket: PathBuf },
    /// Time until all containers of a pod are Ready, ordered against plain.
    Launch(Options),
    /// Eight recreates of one container in a row: running, completed, down.
    Recreate(Options),
    /// Updates in place in a row, by image and by env, and two ordered batches.
    Update(Options),
    /// From a Job's main container's exit to its pod's end, by what the sidecar does when it is told to end.
    Jobs(Options),
    /// Time until requests made at once are assigned, and the manager's memory and CPU.
    Manager(manager::Large),
    /// Time until a pod shows what a probe finds, what probes cost, and more of them than the node is to
    /// bear.
    Probes(Options),
    /// Errors that occur when berthd is replaced ten times while 60 pods come and go.
    Handover(Options),
    /// A full node with churn, and clients that ask for far too much.
    Overload(overload::Fullness),
    /// Whether berthd stays as large as it is while everything comes and goes for half an hour.
    Soak(soak::Length),
    /// Time that an ImagePullJob takes beyond the pull itself; time until an image is on many nodes; with the
    /// manager killed.
    Images(images::Scale),
    /// Time that the admission of a pod takes with 50 SidecarSets; an upgrade of 30,000 pods: time, writes of
    /// a pod, memory and CPU of the manager; cold upgrades and swaps of pods of one node.
    Sidecarset(sidecarset::Scale),
    /// A CloneSet that grows and rolls out beside a Deployment; what berth-workloads costs at rest.
    Workloads(workloads::Scale),
    /// Both programs beside 5,000 nodes and 100,000 pods with all kinds in use: memory, CPU and calls at
    /// rest, and calls of a rollout.
    Scale(scale::Size),
}

/// Options that all benches take.
#[derive(Args, Clone, Debug)]
struct Options {
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// Measurements of each case and of its baseline.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only this case; may be given more than once.
    #[arg(long = "case")]
    cases: Vec<String>,
}

impl Options {
    /// Whether a case is to be run.
    fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }

    /// A misspelt case would silently measure nothing.
    fn check(&self, bench: &Bench) -> Result<()> {
        for case in &self.cases {
            if !bench.cases.iter().any(|(name, _)| name == case) {
                bail!("{} has no case {case}: see `berth-bench list`", bench.name);
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let command = Cli::parse().command;
    let (bench, options) = match &command {
        Command::List => return report::list(BENCHES),
        Command::Figures(options) => return figures::run(options, BENCHES).await,
        Command::ProxyStub { socket } => return proxy::serve_stub(socket).await,
        Command::Proxy(options) => (proxy_bench::BENCH, options),
        Command::Shim(options) => (proxy::two_programs::BENCH, options),
        Command::Launch(options) => (launch::BENCH, options),
        Command::Recreate(options) => (recreate::BENCH, options),
        Command::Update(options) => (update::BENCH, options),
        Command::Jobs(options) => (jobs::BENCH, options),
        Command::Manager(options) => (manager::BENCH, &options.common),
        Command::Probes(options) => (probes::BENCH, options),
        Command::Handover(options) => (handover::BENCH, options),
        Command::Overload(options) => (overload::BENCH, &options.common),
        Command::Soak(options) => (soak::BENCH, &options.common),
        Command::Images(options) => (images::BENCH, &options.common),
        Command::Sidecarset(options) => (sidecarset::BENCH, &options.common),
        Command::Workloads(options) => (workloads::BENCH, &options.common),
        Command::Scale(options) => (scale::BENCH, &options.common),
    };
    options.check(&bench)?;
    let rows = run(&command).await.with_context(|| format!("bench {}", bench.name))?;
    report::print(&rows, options.json)
}

async fn run(command: &Command) -> Result<Vec<Row>> {
    match command {
        Command::Proxy(options) => proxy_bench::run(options).await,
        Command::Shim(options) => proxy::two_programs::run(options).await,
        Command::Launch(options) => launch::run(options).await,
        Command::Recreate(options) => recreate::run(options).await,
        Command::Update(options) => update::run(options).await,
        Command::Jobs(options) => jobs::run(options).await,
        Command::Manager(options) => manager::run(options).await,
        Command::Probes(options) => probes::run(options).await,
        Command::Handover(options) => handover::run(options).await,
        Command::Overload(options) => overload::run(options).await,
        Command::Soak(options) => soak::run(options).await,
        Command::Images(options) => images::run(options).await,
        Command::Sidecarset(options) => sidecarset::run(options).await,
        Command::Workloads(options) => workloads::run(options).await,
        Command::Scale(options) => scale::run(options).await,
        Command::List | Command::Figures(_) | Command::ProxyStub { .. } => Ok(Vec::new()),
    }
}
