//! Bench of the data path: the same calls to the same runtime, direct and through berthd, in turns within one
//! run.
//!
//! Three processes, as on a node: this one is the kubelet, which decodes what it gets; a stub in a process of
//! its own is the runtime, which encodes what it answers and cuts it into frames as grpc-go does; and berthd
//! is the real one, with no pod view. Without the work of the two ends a ratio would say nothing about a
//! node.

mod load;
mod processes;
mod stub;
pub(crate) mod two_programs;

use std::path::Path;

use anyhow::Result;
use berth_tests::fake::FakeKubelet;

use self::{
    load::{Load, Round, VERSION, list},
    processes::Processes,
};

pub(crate) use self::{processes::rss_mb, stub::serve as serve_stub};

/// The hidden subcommand that runs [`serve_stub`] with a socket path as its argument.
pub(crate) const STUB_COMMAND: &str = "proxy-stub";

/// The cases and their metrics. `idle-40-pods` needs a node and is measured there.
pub(crate) const CASES: [(&str, &[&str]); 6] = [
    ("idle", &["rss_mb"]),
    ("version-c1", METRICS),
    ("version-c16", METRICS),
    ("list500-c1", METRICS),
    ("list500-c16", METRICS),
    ("idle-40-pods", &["cpu_s_per_min", "rss_mb"]),
];
const METRICS: &[&str] = &["p50_us", "p99_us", "calls_per_s", "cpu_us_per_call", "rss_mb"];

/// Direct and through, in turns, so that what else the machine does meets both.
const ROUNDS: usize = 15;

/// One row of the result.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) case: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) unit: &'static str,
    /// Through berthd; the median of the rounds.
    pub(crate) value: f64,
    /// Direct; `None` where there is no such thing.
    pub(crate) baseline: Option<f64>,
    pub(crate) runs: usize,
}

/// Measures all cases but `idle-40-pods`, and reports each row as soon as it is known.
pub(crate) async fn run(mut report: impl FnMut(Measured)) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let processes = Processes::start(directory.path()).await?;
    report(Measured {
        case: "idle",
        metric: "rss_mb",
        unit: "MB",
        value: processes.rss_mb()?,
        baseline: None,
        runs: 1,
    });
    let loads = [
        Load { case: "version-c1", call: VERSION, concurrency: 1, calls: 1000 },
        Load { case: "version-c16", call: VERSION, concurrency: 16, calls: 200 },
        Load { case: "list500-c1", call: list(), concurrency: 1, calls: 100 },
        Load { case: "list500-c16", call: list(), concurrency: 16, calls: 8 },
    ];
    for load in loads {
        measure(&load, &processes, &mut report).await?;
    }
    processes.stop().await
}

async fn measure(load: &Load, processes: &Processes, report: &mut impl FnMut(Measured)) -> Result<()> {
    let direct = connect(load, processes.runtime()).await?;
    let through = connect(load, processes.berthd()).await?;
    let mut rounds: Vec<(Round, Round)> = Vec::new();
    let mut cpu_us = 0.0;
    for number in 0..ROUNDS {
        let mut measured = [None, None];
        // Who goes first changes, so that neither always finds the caches warm.
        for turn in [number % 2, 1 - number % 2] {
            let kubelet = [&direct, &through][turn];
            let before = processes.cpu_us()?;
            measured[turn] = Some(load.round(kubelet).await?);
            if turn == 1 {
                cpu_us += processes.cpu_us()? - before;
            }
        }
        if let [Some(direct), Some(through)] = measured {
            rounds.push((direct, through));
        }
    }
    let mut row = |metric, unit, of: fn(&Round) -> f64| {
        report(Measured {
            case: load.case,
            metric,
            unit,
            value: median(rounds.iter().map(|(_, through)| of(through))),
            baseline: Some(median(rounds.iter().map(|(direct, _)| of(direct)))),
            runs: ROUNDS,
        });
    };
    row("p50_us", "us", |round| round.p50_us);
    row("p99_us", "us", |round| round.p99_us);
    row("calls_per_s", "1/s", |round| round.calls_per_s);
    let calls = (load.calls * load.concurrency * ROUNDS) as f64;
    let alone = [("cpu_us_per_call", "us", cpu_us / calls), ("rss_mb", "MB", processes.rss_mb()?)];
    for (metric, unit, value) in alone {
        report(Measured { case: load.case, metric, unit, value, baseline: None, runs: ROUNDS });
    }
    Ok(())
}

/// A connection that has made its first call.
async fn connect(load: &Load, socket: &Path) -> Result<FakeKubelet> {
    let kubelet = FakeKubelet::connect(socket).await?;
    load.call.once(&kubelet).await?;
    Ok(kubelet)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
