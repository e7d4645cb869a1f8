//! A full node, and clients that ask for far too much: does the kubelet notice?
//!
//! All parts are real. A node of 110 pods with 500 containers, of which the first of a pod starts first and
//! ends last, and is of an image that is asked for at each start. Pods are replaced, 100 a minute or as many
//! as the machine bears: none while a quarter of them is not Ready. One client asks for the version all the
//! time. `crowd` is that with [`crowd::Crowd`] on the same socket, `alone` is that without; `direct` is the
//! baseline of both: fewer pods on a node without berthd. In the end all pods are deleted at once, which
//! makes a hold of each.

mod crowd;

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_tests::node::{Berthd, Node};
use berth_tests::observe::{Caller, Calls};
use clap::Args;
use tokio::time::sleep;

use self::crowd::Crowd;
use crate::churn::{Bed, Churn, Harm, Shape, count};
use crate::manager::memory_mb;
use crate::process::{sum_of, text_of};
use crate::report::{Bench, Row};

const METRICS: &[&str] = &[
    "pods_per_min",
    "kubelet_errors",
    "failed_calls",
    "version_p99_ms",
    "complaints",
    "restarts",
    "failed_pods",
    "not_ready",
];

pub(crate) const BENCH: Bench = Bench {
    name: "overload",
    about: "110 pods with 500 containers, churn, and clients that ask for far too much; baseline: fewer pods without berthd",
    cases: &[(DIRECT, METRICS), (ALONE, METRICS), (CROWD, METRICS), (BERTHD, TAKEN)],
};
const DIRECT: &str = "direct";
const ALONE: &str = "alone";
const CROWD: &str = "crowd";
/// Case for the load that berthd takes and sheds, over the cases before.
const BERTHD: &str = "berthd";
const TAKEN: &[&str] =
    &["rss_before", "rss_alone", "rss_peak", "rss_after", "most_held", "shed_connections", "shed_requests"];
/// 50 containers in 11 pods.
const CONTAINERS: &[usize] = &[4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 5];
/// Replaced at once, and how often: 100 a minute.
const STEP: usize = 5;
const PAUSE: Duration = Duration::from_secs(3);
const ASK_PAUSE: Duration = Duration::from_millis(20);
/// After the crowd is gone.
const SETTLES: Duration = Duration::from_secs(20);

/// How full the node is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fullness {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Pods on the node; 11 have 50 containers.
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u32).range(11..))]
    pods: u32,
    /// Pods on the node without berthd.
    #[arg(long, default_value_t = 33, value_parser = clap::value_parser!(u32).range(11..))]
    direct_pods: u32,
    /// Seconds of churn in each case.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(10..))]
    seconds: u32,
}

/// One case.
struct Seen {
    calls: Calls,
    harm: Harm,
    replaced: f64,
    kubelet_errors: f64,
}

pub(crate) async fn run(options: &Fullness) -> Result<Vec<Row>> {
    let wants = |case| options.common.wants(case);
    let shape = |pods: u32| Shape { pods: pods as usize, containers: CONTAINERS, probes: false };
    let time = Duration::from_secs(options.seconds.into());
    let mut rows = Vec::new();
    let mut direct = None;
    if wants(DIRECT) {
        let bed = Bed::up(Node::builder().berth(false)).await?;
        let mut pods = Churn::begin(&bed, DIRECT, shape(options.direct_pods)).await?;
        let mut seen = replace(&bed, &mut pods, time).await.context(DIRECT)?;
        seen.harm = pods.end().await?;
        bed.down()?;
        rows.extend(rows_of(DIRECT, &seen, None)?);
        direct = Some(seen);
    }
    if wants(ALONE) || wants(CROWD) {
        let bed = Bed::up(Node::builder()).await?;
        let berthd = bed.node.berthd()?;
        let before = rss(berthd, "VmRSS")?;
        let mut pods = Churn::begin(&bed, "full", shape(options.pods)).await?;
        let mut cases = Vec::new();
        if wants(ALONE) {
            cases.push((ALONE, replace(&bed, &mut pods, time).await.context(ALONE)?));
        }
        let alone = rss(berthd, "VmRSS")?;
        if wants(CROWD) {
            let crowd = Crowd::come(berthd.socket()).await?;
            cases.push((CROWD, replace(&bed, &mut pods, time).await.context(CROWD)?));
            eprintln!("{CROWD}: {}", crowd.go().await);
            sleep(SETTLES).await;
        }
        let (after, peak) = (rss(berthd, "VmRSS")?, rss(berthd, "VmHWM")?);
        let metrics = berthd.metrics().await?;
        // All of them at once; what went wrong is counted over both cases, and told with the last.
        let (harm, held) = most_held(berthd, pods.end()).await?;
        bed.down()?;
        for (case, mut seen) in cases {
            seen.harm = harm.clone();
            rows.extend(rows_of(case, &seen, direct.as_ref())?);
        }
        if wants(BERTHD) {
            let row = |metric, unit, value| Row::new(&BENCH, BERTHD, metric, unit).measured(value, None, 1);
            rows.extend([
                row("rss_before", "MB", before),
                row("rss_alone", "MB", alone),
                row("rss_peak", "MB", peak),
                row("rss_after", "MB", after),
                row("most_held", "calls", held),
                row(
                    "shed_connections",
                    "connections",
                    sum_of(&metrics, "berth_shim_shed_total{what=\"connection\"")?,
                ),
                row("shed_requests", "requests", sum_of(&metrics, "berth_shim_shed_total{what=\"memory\"")?),
            ]);
        }
    }
    Ok(rows)
}

/// Replaces pods for a while, and waits until all are Ready.
async fn replace(bed: &Bed, pods: &mut Churn<'_>, time: Duration) -> Result<Seen> {
    let errors_before = kubelet_errors(bed).await?;
    let caller = Caller::timing(bed.node.cri_socket(), ASK_PAUSE)?;
    let (began, mut replaced) = (Instant::now(), 0);
    while began.elapsed() < time {
        let step = Instant::now();
        if pods.unready().await? <= pods.names.len() / 4 {
            pods.step(STEP).await?;
            replaced += STEP;
        }
        sleep(PAUSE.saturating_sub(step.elapsed())).await;
    }
    pods.await_ready().await?;
    let took = began.elapsed().as_secs_f64();
    let calls = caller.finish().await?;
    calls.failed.iter().take(10).for_each(|failed| eprintln!("failed: {failed}"));
    let seen = Seen {
        harm: Harm::default(),
        replaced: count(replaced) * 60.0 / took,
        kubelet_errors: kubelet_errors(bed).await? - errors_before,
        calls,
    };
    // Said at once: what follows may take long on a busy machine.
    eprintln!(
        "{:.1} pods a minute, {} calls of the kubelet failed, Version p99 {:.1} ms",
        seen.replaced,
        seen.kubelet_errors,
        p99_ms(&seen.calls.took)
    );
    Ok(seen)
}

fn rows_of(case: &'static str, seen: &Seen, direct: Option<&Seen>) -> Result<Vec<Row>> {
    let row = |metric, unit, of: fn(&Seen) -> f64| {
        Row::new(&BENCH, case, metric, unit).measured(of(seen), direct.map(of), 1)
    };
    Ok(vec![
        row("pods_per_min", "1/min", |seen| seen.replaced),
        row("kubelet_errors", "calls", |seen| seen.kubelet_errors),
        row("failed_calls", "calls", |seen| count(seen.calls.failed.len())),
        row("version_p99_ms", "ms", |seen| p99_ms(&seen.calls.took)),
        row("complaints", "Events", |seen| seen.harm.complaints.into()),
        row("restarts", "containers", |seen| seen.harm.restarts.into()),
        row("failed_pods", "pods", |seen| count(seen.harm.failed_pods)),
        row("not_ready", "times", |seen| u8::from(seen.harm.not_ready).into()),
    ])
}

fn p99_ms(took: &[Duration]) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort();
    let at = sorted.len() * 99 / 100;
    sorted.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
}

/// CRI calls that the kubelet saw fail, without those that the launch order has refused, which is how it
/// holds a container back.
async fn kubelet_errors(bed: &Bed) -> Result<f64> {
    const ERRORS: &str = "kubelet_runtime_operations_errors_total";
    let metrics = bed.node.kubelet()?.metrics().await?;
    eprintln!("kubelet: {}", text_of(&metrics, ERRORS));
    let refused = match bed.node.berthd() {
        Ok(berthd) => sum_of(&berthd.metrics().await?, "berth_shim_refused_total{")?,
        Err(_) => 0.0,
    };
    Ok(sum_of(&metrics, ERRORS)? - refused)
}

/// The most calls that were held at once while this was done.
async fn most_held<T>(berthd: &Berthd, work: impl Future<Output = Result<T>>) -> Result<(T, f64)> {
    let (mut work, mut most): (_, f64) = (pin!(work), 0.0);
    loop {
        // Cancel-safe: the work goes on where it was.
        tokio::select! {
            done = &mut work => return Ok((done?, most)),
            () = sleep(Duration::from_millis(500)) => {
                most = most.max(sum_of(&berthd.metrics().await?, "berth_shim_held ")?);
            }
        }
    }
}

fn rss(berthd: &Berthd, line: &str) -> Result<f64> {
    memory_mb(berthd.service().pid().context("berthd does not run")?, line)
}
