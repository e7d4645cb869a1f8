//! Bench of a replacement of berthd, as a node sees it, while its pods come and go.
//!
//! All parts are real. Pods of two ordered containers with exec probes, one of an image that is asked for at
//! each start, are made and deleted all the time; four clients call the CRI socket all the time, and one
//! pulls and removes an image. On a node with two programs berthd is killed and started anew (`kill-agent`),
//! told to end and started anew (`restart-agent`), stopped for ten seconds by SIGSTOP (`stop-agent-10s`), and
//! berth-shim gives its place to another (`upgrade-shim`) or is killed and started anew on its socket, which
//! systemd keeps (`kill-shim`). On a node with one program (`one-`) berthd is upgraded by `berthctl upgrade`,
//! killed with its socket kept, killed so that the new one binds it anew, and stopped for ten seconds. Then
//! everything is counted that went wrong: calls of the clients, restarts of containers, pods that failed,
//! what the kubelet complains of, and whether the node was ever not Ready. `none` and `one-none` are the same
//! churn with nothing replaced, the baselines of the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_tests::node::{Builder, Node};
use berth_tests::observe::Caller;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::sleep;

use crate::Options;
use crate::churn::{Bed, Churn, Harm, Shape, count};
use crate::report::{Bench, Row, median};

const METRICS: &[&str] = &[
    "failed_calls",
    "unsent_calls",
    "complaints",
    "restarts",
    "failed_pods",
    "not_ready",
    "pods",
    "pods_per_min",
    "answered_calls",
    "replaced_s",
];

pub(crate) const BENCH: Bench = Bench {
    name: "handover",
    about: "berthd or berth-shim replaced ten times while 60 pods come and go; baseline: the same churn without",
    cases: &[
        ("none", METRICS),
        ("kill-agent", METRICS),
        ("restart-agent", METRICS),
        ("stop-agent-10s", METRICS),
        ("upgrade-shim", METRICS),
        ("kill-shim", METRICS),
        ("one-none", METRICS),
        ("one-upgrade", METRICS),
        ("one-kill", METRICS),
        ("one-kill-rebind", METRICS),
        ("one-stop-10s", METRICS),
    ],
};
/// Prefix of the cases with one program.
const ONE: &str = "one-";
const SHAPE: Shape = Shape { pods: 60, containers: &[2], probes: true };
/// Made and deleted in one step.
const STEP: usize = 2;
/// Between two steps of the churn.
const PAUSE: Duration = Duration::from_secs(3);
/// Between two replacements.
const APART: Duration = Duration::from_secs(9);
const REPLACED: usize = 10;
const STOPPED: Duration = Duration::from_secs(10);
/// Between two pulls of the client that pulls.
const PULL_PAUSE: Duration = Duration::from_millis(500);

/// Counted over one case.
#[derive(Clone, Debug, Default)]
struct Seen {
    harm: Harm,
    failed_calls: f64,
    unsent_calls: f64,
    answered: f64,
    replaced_s: Vec<f64>,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let wanted = || BENCH.cases.iter().map(|&(case, _)| case).filter(|case| options.wants(case));
    let (one, two): (Vec<_>, Vec<_>) = wanted().partition(|case| case.starts_with(ONE));
    let mut rows = Vec::new();
    for (cases, builder) in [(two, Node::builder().two_programs()), (one, Node::builder())] {
        if !cases.is_empty() {
            rows.extend(on_a_node(builder, &cases).await?);
        }
    }
    Ok(rows)
}

/// Cases on one node, one after the other.
async fn on_a_node(builder: Builder, cases: &[&'static str]) -> Result<Vec<Row>> {
    let bed = Bed::up(builder).await?;
    let mut rows = Vec::new();
    let mut without = None;
    for case in cases {
        let seen = churn(&bed, case).await.with_context(|| (*case).to_owned())?;
        eprintln!("{case}: {seen:?}");
        rows.extend(rows_of(case, &seen, without.as_ref()));
        if case.ends_with("none") {
            without = Some(seen);
        }
    }
    bed.down()?;
    Ok(rows)
}

fn rows_of(case: &'static str, seen: &Seen, without: Option<&Seen>) -> Vec<Row> {
    let row = |metric, unit, count: fn(&Seen) -> f64| {
        Row::new(&BENCH, case, metric, unit).measured(count(seen), without.map(count), 1)
    };
    let mut rows = vec![
        row("failed_calls", "calls", |seen| seen.failed_calls),
        row("unsent_calls", "calls", |seen| seen.unsent_calls),
        row("complaints", "Events", |seen| seen.harm.complaints.into()),
        row("restarts", "containers", |seen| seen.harm.restarts.into()),
        row("failed_pods", "pods", |seen| count(seen.harm.failed_pods)),
        row("not_ready", "times", |seen| u8::from(seen.harm.not_ready).into()),
        row("pods", "pods", |seen| count(seen.harm.pods)),
        row("pods_per_min", "1/min", |seen| {
            count(seen.harm.pods - SHAPE.pods) * 60.0 / seen.harm.took.as_secs_f64()
        }),
        row("answered_calls", "calls", |seen| seen.answered),
    ];
    if let Some(replaced) = median(&seen.replaced_s) {
        rows.push(Row::new(&BENCH, case, "replaced_s", "s").measured(replaced, None, seen.replaced_s.len()));
    }
    rows
}

async fn churn(bed: &Bed, case: &str) -> Result<Seen> {
    let berthd = bed.node.berthd()?;
    let mut pods = Churn::begin(bed, &format!("handover-{case}"), SHAPE).await?;
    let caller = Caller::start(berthd.socket())?.pulling(berthd.socket(), &bed.loose, PULL_PAUSE)?;
    let mut seen = Seen::default();
    let mut next = Instant::now() + APART;
    let mut rounds = 0;
    while rounds < REPLACED {
        pods.step(STEP).await?;
        sleep(PAUSE).await;
        if Instant::now() < next {
            continue;
        }
        rounds += 1;
        let began = Instant::now();
        match case {
            "kill-agent" | "one-kill-rebind" => berthd.crash().await?,
            "restart-agent" => berthd.restart().await?,
            "one-upgrade" => berthd.upgrade(&berthd.program()?, &["--watch=0s"]).await?,
            "one-kill" => berthd.crash_on_kept_socket().await?,
            "upgrade-shim" => berthd.upgrade_shim().await?,
            "kill-shim" => berthd.crash_shim().await?,
            "stop-agent-10s" | "one-stop-10s" => {
                let pid = berthd.service().pid().context("berthd does not run")?;
                let pid = Pid::from_raw(i32::try_from(pid).context("pid")?);
                kill(pid, Signal::SIGSTOP).context("stop berthd")?;
                sleep(STOPPED).await;
                kill(pid, Signal::SIGCONT).context("let berthd go on")?;
            }
            _ => {}
        }
        if !case.ends_with("none") {
            seen.replaced_s.push(began.elapsed().as_secs_f64());
        }
        next = Instant::now() + APART;
    }
    pods.await_ready().await?;
    let calls = caller.finish().await?;
    (seen.answered, seen.failed_calls) = (count(calls.answered), count(calls.failed.len()));
    seen.unsent_calls = count(calls.unsent);
    let mut why: BTreeMap<&str, usize> = BTreeMap::new();
    calls.failed.iter().for_each(|failed| *why.entry(failed).or_default() += 1);
    why.iter().for_each(|(why, times)| eprintln!("{case}: {times} x {why}"));
    seen.harm = pods.end().await?;
    Ok(seen)
}
