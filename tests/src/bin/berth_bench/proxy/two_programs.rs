//! The price of a data path in a program of its own: the same calls through `berth-shim` with a `berthd` that
//! decides, and through `berthd` alone (the baseline), in turns within one run.
//!
//! `version` and `list500` pass without a look, `create`, `stop` and `status` are of a pod and a container
//! that nothing is known of: each is a question to berthd. `relists` is what an idle kubelet asks for each
//! second, more often. `idle-40-pods` needs a node and is measured there.

use std::time::Duration;

use anyhow::Result;
use berth_tests::fake::FakeKubelet;
use tokio::time::interval;

use super::{
    load::{CREATE, Load, Round, SANDBOXES, STATUS, STOP, VERSION, list},
    median,
    processes::{Processes, Programs},
};
use crate::{
    Options, idle,
    report::{Bench, Row},
};

pub(crate) const BENCH: Bench = Bench {
    name: "shim",
    about: "berth-shim and berthd as two programs; baseline: berthd alone, containerd's CPU for idle-40-pods",
    cases: &[
        ("idle", &["rss_mb"]),
        ("version-c1", METRICS),
        ("version-c16", METRICS),
        ("list500-c1", METRICS),
        ("create-c1", METRICS),
        ("create-c16", METRICS),
        ("stop-c1", METRICS),
        ("status-c1", METRICS),
        ("relists", &["cpu_us_per_relist"]),
        ("after", &["rss_mb", "shim_rss_mb"]),
        (idle::CASE, &["cpu_s_per_min", "rss_mb", "shim_rss_mb"]),
    ],
};
const METRICS: &[&str] = &["p50_us", "p99_us", "cpu_us_per_call"];
const ROUNDS: usize = 15;
/// Relists of a kubelet in five minutes, in fifteen seconds.
const RELISTS: u32 = 300;
const RELIST_EACH: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let directories = [tempfile::tempdir()?, tempfile::tempdir()?];
    let one = Processes::start_as(directories[0].path(), Programs::One).await?;
    let two = Processes::start_as(directories[1].path(), Programs::Two).await?;
    let both = [&two, &one];
    let mut rows = Vec::new();
    let mut row =
        |case: &'static str, metric: &'static str, unit: &'static str, value: [f64; 2], runs: usize| {
            if options.wants(case) {
                rows.push(Row::new(&BENCH, case, metric, unit).measured(value[0], Some(value[1]), runs));
            }
        };
    row("idle", "rss_mb", "MB", [two.rss_mb()?, one.rss_mb()?], 1);
    let loads = [
        Load { case: "version-c1", call: VERSION, concurrency: 1, calls: 1000 },
        Load { case: "version-c16", call: VERSION, concurrency: 16, calls: 200 },
        Load { case: "list500-c1", call: list(), concurrency: 1, calls: 50 },
        Load { case: "create-c1", call: CREATE, concurrency: 1, calls: 500 },
        Load { case: "create-c16", call: CREATE, concurrency: 16, calls: 100 },
        Load { case: "stop-c1", call: STOP, concurrency: 1, calls: 500 },
        Load { case: "status-c1", call: STATUS, concurrency: 1, calls: 500 },
    ];
    for load in loads.iter().filter(|load| options.wants(load.case)) {
        let [two, one] = measure(load, both).await?;
        row(load.case, "p50_us", "us", [two.p50, one.p50], ROUNDS);
        row(load.case, "p99_us", "us", [two.p99, one.p99], ROUNDS);
        row(load.case, "cpu_us_per_call", "us", [two.cpu, one.cpu], ROUNDS);
    }
    if options.wants("relists") {
        let cpu = [relists(&two).await?, relists(&one).await?];
        row("relists", "cpu_us_per_relist", "us", cpu, 1);
    }
    row("after", "rss_mb", "MB", [two.rss_mb()?, one.rss_mb()?], 1);
    // The first program is the data path on both sides.
    let paths = [two.first_rss_mb()?, one.first_rss_mb()?];
    row("after", "shim_rss_mb", "MB", paths, 1);
    two.stop().await?;
    one.stop().await?;
    if options.wants(idle::CASE) {
        rows.extend(idle::run_two_programs().await?);
    }
    Ok(rows)
}

/// Cost of a case on one side.
struct Cost {
    p50: f64,
    p99: f64,
    cpu: f64,
}

async fn measure(load: &Load, both: [&Processes; 2]) -> Result<[Cost; 2]> {
    let mut kubelets = Vec::new();
    for processes in both {
        let kubelet = FakeKubelet::connect(processes.berthd()).await?;
        load.call.once(&kubelet).await?;
        kubelets.push(kubelet);
    }
    let mut rounds: [Vec<Round>; 2] = Default::default();
    let mut cpu = [0.0; 2];
    for number in 0..ROUNDS {
        // Who goes first changes, so that neither always finds the caches warm.
        for turn in [number % 2, 1 - number % 2] {
            let before = both[turn].cpu_us()?;
            rounds[turn].push(load.round(&kubelets[turn]).await?);
            cpu[turn] += both[turn].cpu_us()? - before;
        }
    }
    let calls = (load.calls * load.concurrency * ROUNDS) as f64;
    Ok([0, 1].map(|side| Cost {
        p50: median(rounds[side].iter().map(|round| round.p50_us)),
        p99: median(rounds[side].iter().map(|round| round.p99_us)),
        cpu: cpu[side] / calls,
    }))
}

/// The processor time of one relist, with all that is done beside it.
async fn relists(processes: &Processes) -> Result<f64> {
    let kubelet = FakeKubelet::connect(processes.berthd()).await?;
    let relist = list();
    let mut tick = interval(RELIST_EACH);
    let before = processes.cpu_us()?;
    for _ in 0..RELISTS {
        tick.tick().await;
        SANDBOXES.once(&kubelet).await?;
        relist.once(&kubelet).await?;
    }
    Ok((processes.cpu_us()? - before) / f64::from(RELISTS))
}
