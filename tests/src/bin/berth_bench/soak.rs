//! Does berthd stay as large as it is? Half an hour of everything that comes and goes.
//!
//! All parts are real. Twenty pods of two ordered containers with exec probes, of which a few are replaced
//! each minute; single containers are recreated; an image is pulled and removed; a client cancels calls in
//! the middle, commands in containers among them, and opens connections that it leaves open-ended, or drops
//! without a word. Every 30 s berthd is looked at. After a warm-up of a sixth of the time a straight line is
//! laid through what was seen: flat is what it grows by from end to end, at most a twentieth of its
//! beginning, or [`NOISE`]. The baseline of each row is its beginning.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ExecSyncRequest;
use berth_tests::fake::{FakeKubelet, framed};
use berth_tests::node::Node;
use berth_tests::observe::{Caller, Cri};
use clap::Args;
use prost::Message;
use tokio::time::sleep;

use crate::churn::{Bed, Churn, NAMESPACE, Shape, count};
use crate::process::{GAUGES, Sample, sample, slope};
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "soak",
    about: "half an hour of churn, recreates, pulls, cancelled calls: what berthd takes at its end; baseline: at its beginning",
    cases: &[
        ("rss", &["last", "per_hour", "flat"]),
        ("fds", &["last", "per_hour", "flat"]),
        ("threads", &["last", "per_hour", "flat"]),
        ("tasks", &["last", "per_hour", "flat"]),
        ("known", &["last", "per_hour", "flat"]),
        (
            HARM,
            &[
                "failed_calls",
                "answered_calls",
                "pods",
                "complaints",
                "recreated",
                "restarts",
                "failed_pods",
                "not_ready",
            ],
        ),
    ],
};
const HARM: &str = "harm";
const SHAPE: Shape = Shape { pods: 20, containers: &[2], probes: true };
const EVERY: Duration = Duration::from_secs(30);
/// Interval of the steps; each step replaces a pod.
const STEP: Duration = Duration::from_secs(12);
/// A container is recreated in each so many steps.
const RECREATE: u32 = 3;
const PULL_PAUSE: Duration = Duration::from_secs(5);
const ASK_PAUSE: Duration = Duration::from_millis(200);
/// Connections of one step.
const CONNECTIONS: usize = 20;
/// Number of samples at either end, whose mean counts.
const END: usize = 4;
/// Largest difference that is no growth: of megabytes, descriptors, threads, tasks, objects.
const NOISE: f64 = 3.0;

/// For how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Length {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Minutes from the moment when all pods are Ready.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(6..))]
    minutes: u32,
}

pub(crate) async fn run(options: &Length) -> Result<Vec<Row>> {
    let bed = Bed::up(Node::builder()).await?;
    let berthd = bed.node.berthd()?;
    let mut pods = Churn::begin(&bed, "soak", SHAPE).await?;
    let caller =
        Caller::timing(berthd.socket(), ASK_PAUSE)?.pulling(berthd.socket(), &bed.loose, PULL_PAUSE)?;
    let began = Instant::now();
    let whole = Duration::from_secs(60) * options.minutes;
    let (mut samples, mut recreated): (Vec<Sample>, u32) = (Vec::new(), 0);
    let (mut steps, mut next) = (0, whole / 6);
    while began.elapsed() < whole {
        let step = Instant::now();
        pods.step(1).await?;
        steps += 1;
        // The one pod is soon to go. A runtime of this age may lose a container in which a command was cut
        // off, and then neither ends nor starts anything in that pod: the other one is to be restarted.
        let (goes, stays) = (pods.names[1].clone(), pods.names[SHAPE.pods / 2].clone());
        ill_mannered(berthd.socket(), &goes).await?;
        // A busy machine may not have brought it up yet.
        if steps % RECREATE == 0 && pods.unready().await? == 0 {
            berthd.ctl(&["recreate", &stays, "c1", "--no-wait", "--deadline=60s", "--ttl=60s"]).await?;
            recreated += 1;
        }
        if began.elapsed() >= next {
            next = began.elapsed() + EVERY;
            let seen = sample(berthd, began.elapsed()).await?;
            eprintln!("{:>6.1} min: {:?}", seen.at, seen.values);
            samples.push(seen);
        }
        sleep(STEP.saturating_sub(step.elapsed())).await;
    }
    let calls = caller.finish().await?;
    calls.failed.iter().take(10).for_each(|failed| eprintln!("failed: {failed}"));
    let harm = pods.end().await?;
    bed.down()?;

    let mut rows = Vec::new();
    for (at, (name, unit)) in GAUGES.into_iter().enumerate() {
        let seen: Vec<_> = samples.iter().map(|sample| (sample.at, sample.values[at])).collect();
        rows.extend(rows_of(name, unit, &seen)?);
    }
    let row = |metric, unit, value| Row::new(&BENCH, HARM, metric, unit).measured(value, None, 1);
    rows.extend([
        row("failed_calls", "calls", count(calls.failed.len())),
        row("answered_calls", "calls", count(calls.answered)),
        row("pods", "pods", count(harm.pods)),
        row("complaints", "Events", harm.complaints.into()),
        row("recreated", "containers", recreated.into()),
        row("restarts", "containers", harm.restarts.into()),
        row("failed_pods", "pods", count(harm.failed_pods)),
        row("not_ready", "times", u8::from(harm.not_ready).into()),
    ]);
    Ok(rows.into_iter().filter(|row| options.common.wants(row.case())).collect())
}

fn rows_of(name: &'static str, unit: &'static str, seen: &[(f64, f64)]) -> Result<[Row; 3]> {
    ensure!(seen.len() >= 2 * END, "{} samples are too few", seen.len());
    let mean = |seen: &[(f64, f64)]| seen.iter().map(|pair| pair.1).sum::<f64>() / count(seen.len());
    let (first, last) = (mean(&seen[..END]), mean(&seen[seen.len() - END..]));
    let per_minute = slope(seen);
    let grown = per_minute * (seen[seen.len() - 1].0 - seen[0].0);
    let flat = grown <= (first / 20.0).max(NOISE);
    let row = |metric, unit| Row::new(&BENCH, name, metric, unit);
    Ok([
        row("last", unit).measured(last, Some(first), seen.len()),
        row("per_hour", unit).measured(per_minute * 60.0, None, seen.len()),
        row("flat", "yes or no").measured(u8::from(flat).into(), None, seen.len()),
    ])
}

/// Does what ill-mannered clients do: commands and lists that are taken back, connections that end without a
/// word.
async fn ill_mannered(socket: &Path, pod: &str) -> Result<()> {
    let client = FakeKubelet::connect(socket).await?;
    let containers = Cri::connect(socket)?.states(NAMESPACE, pod).await?;
    let (container, _) = containers.first().context("a pod without containers")?;
    let command = ["/bin/sleep", "1000"].map(str::to_owned).to_vec();
    let exec = ExecSyncRequest { container_id: container.clone(), cmd: command, timeout: 0 };
    let mut taken_back = Vec::new();
    for (method, message) in [
        ("ExecSync", exec.encode_to_vec()),
        ("ListContainers", Vec::new()),
        ("ListPodSandbox", Vec::new()),
        ("GetContainerEvents", Vec::new()),
    ] {
        let mut call = client.open(&format!("/runtime.v1.RuntimeService/{method}"), &[]).await?;
        call.send.send_data(framed(&message), true)?;
        taken_back.push(call);
    }
    // The command runs by now: one that is cut off while it is made is what such a runtime stumbles over.
    sleep(Duration::from_secs(3)).await;
    drop(taken_back);
    for number in 0..CONNECTIONS {
        let other = FakeKubelet::connect(socket).await?;
        let answer = other.call("/runtime.v1.RuntimeService/Version", &[]).await?;
        ensure!(answer.status() == Some(0), "Version: {}", answer.message());
        if number % 2 == 0 {
            other.vanish();
        }
    }
    client.vanish();
    Ok(())
}
