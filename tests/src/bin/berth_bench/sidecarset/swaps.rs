//! Hot upgrades of a web server under requests: ten in a row, for each way in which the next version comes to
//! listen; and one pod to which everything happens that may. The pod is injected here, as admission does it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet, UpdatePhase};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{Manager, NODE_NAME, Node};
use berth_tests::observe::Recorder;
use berth_tests::swaps::{
    Endings, LABEL, Load, Pace, Parts, Sockets, address, bring_images, is_swapped, set, sidecar, web,
};
use berth_tests::wait::await_condition;
use berthd::agent::fault::Point;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::BENCH;
use super::admitted::{injected, stored};
use crate::Options;
use crate::report::Row;

pub(super) const HANDED_OVER: &str = "swaps-handed-over";
pub(super) const SHARED: &str = "swaps-shared";
pub(super) const FAULTS: &str = "swaps-faults";
pub(super) const METRICS: &[&str] = &[
    "swap_s",
    "longest_s",
    "migration_s",
    "drain_s",
    "stop_s",
    "beyond_s",
    "longest_beyond_s",
    "failed",
    "requests",
];
const NAMESPACE: &str = "default";
const PACE: Pace = Pace { anew: 200, kept: 50 };
const SWAPS: u32 = 10;
/// Seconds that a new version has to take over.
const MIGRATION: u32 = 15;
/// How long the API server is away in the middle of a swap: longer than the hook takes.
const AWAY: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(120);
/// Logs are followed within it.
const FOLLOWS: Duration = Duration::from_millis(500);

pub(super) async fn run(options: &Options) -> Result<Vec<Row>> {
    if ![HANDED_OVER, SHARED, FAULTS].iter().any(|case| options.wants(case)) {
        return Ok(Vec::new());
    }
    let node = Node::updating().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    bring_images(&node, SWAPS + 1).await?;
    let mut rows = Vec::new();
    for (case, sockets) in [(HANDED_OVER, Sockets::HandedOver), (SHARED, Sockets::Shared)] {
        if options.wants(case) {
            rows.extend(in_a_row(&node, case, sockets).await?);
        }
    }
    if options.wants(FAULTS) {
        rows.extend(with_faults(&node).await?);
    }
    drop(manager);
    node.down()?;
    Ok(rows)
}

async fn in_a_row(node: &Node, case: &'static str, sockets: Sockets) -> Result<Vec<Row>> {
    let (bed, load) = Bed::begin(node, case, sockets).await?;
    let recorder = Recorder::watch(&node.containerd().cri()?, NAMESPACE, bed.name);
    let (mut times, mut parts) = (Vec::new(), Vec::new());
    for number in 2..=SWAPS + 1 {
        let tag = number.to_string();
        let endings = Endings::follow(&bed.pods, bed.name);
        // The logs are followed from before the edit.
        tokio::time::sleep(FOLLOWS).await;
        let (begun, at) = (Instant::now(), clock()?);
        bed.image(&tag).await?;
        bed.serves(&tag).await?;
        times.push(begun.elapsed().as_secs_f64());
        let over = clock()?;
        let pod = bed.pods.get(bed.name).await?;
        let history = recorder.so_far();
        let read = Parts::read((&bed.pods, &pod), &tag, (at, over), endings, &history).await?;
        eprintln!("{case}: {read:.2?}");
        parts.push(read);
        bed.settled().await?;
    }
    eprintln!("{case}: {times:.2?}");
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let of = |part: fn(&Parts) -> f64| parts.iter().map(part).collect::<Vec<_>>();
    let (longest, beyond) = (most(&times), of(Parts::beyond));
    let row = |metric, unit| Row::new(&BENCH, case, metric, unit);
    let mut rows = vec![
        row("swap_s", "s").medians(&times, &[])?,
        row("longest_s", "s").measured(longest, None, times.len()),
        row("migration_s", "s").medians(&of(|parts| parts.migration), &[])?,
        row("drain_s", "s").medians(&of(|parts| parts.drain), &[])?,
        row("stop_s", "s").medians(&of(|parts| parts.stop), &[])?,
        row("beyond_s", "s").medians(&beyond, &[])?,
        row("longest_beyond_s", "s").measured(most(&beyond), None, beyond.len()),
    ];
    rows.extend(outcome(case, &load, times.len()));
    Ok(rows)
}

/// The clock of this machine, by which the runtime and logs have their times too.
fn clock() -> Result<i64> {
    i64::try_from(Timestamp::now().as_nanosecond()).context("clock")
}

async fn with_faults(node: &Node) -> Result<Vec<Row>> {
    let (bed, load) = Bed::begin(node, FAULTS, Sockets::HandedOver).await?;
    let tell = |what: &str| {
        let (answered, failed, first) = load.outcome();
        eprintln!("{what}: {answered} requests answered, {failed} failed {}", first.unwrap_or_default());
    };
    let berthd = node.berthd()?;
    let there = [Point::SwapStarting, Point::SwapStarted, Point::SwapFinishing, Point::SwapFinished];
    berthd.dies_at_each(&there.map(Point::name), PATIENCE, async || bed.image("2").await).await?;
    bed.swapped("2").await?;
    tell("berthd killed on the way, swapped");
    let back = [Point::SwapReturning, Point::SwapReturned, Point::Unholding, Point::Unheld];
    berthd.dies_at_each(&back.map(Point::name), PATIENCE, async || bed.image("hangs").await).await?;
    bed.returned("2").await?;
    tell("a hook that hangs, berthd killed on the way back, returned");

    bed.image("slow").await?;
    await_condition("the new version starts", PATIENCE, async || {
        let pod = bed.pods.get(bed.name).await?;
        let mut images = pod.spec.iter().flat_map(|spec| &spec.containers).map(|one| one.image.as_deref());
        ensure!(images.any(|image| image == Some(&*web("slow"))), "not yet");
        Ok(())
    })
    .await?;
    let api = node.api()?;
    api.service().kill()?;
    tokio::time::sleep(AWAY).await;
    api.service().start()?;
    api.ready().await?;
    bed.swapped("slow").await?;
    tell("API server away, swapped");

    for tag in ["none", "dies"] {
        bed.image(tag).await?;
        bed.returned("slow").await?;
        tell(&format!("{}, returned", web(tag)));
        // The entry goes with this: the next one that has failed is of the next version.
        bed.image("slow").await?;
        bed.swapped("slow").await?;
    }
    bed.image("3").await?;
    bed.swapped("3").await?;
    tell("swapped");
    Ok(outcome(FAULTS, &load, 1).into())
}

fn outcome(case: &'static str, load: &Load, runs: usize) -> [Row; 2] {
    let (answered, failed, first) = load.outcome();
    if let Some(first) = first {
        eprintln!("{case}: {failed} requests failed: {first}");
    }
    let row = |metric| Row::new(&BENCH, case, metric, "");
    // A few million at the most.
    let count = |number: usize| u32::try_from(number).map_or(f64::NAN, f64::from);
    [
        row("failed").measured(count(failed), None, runs),
        row("requests").measured(count(answered + failed), None, runs),
    ]
}

/// A set, and a pod of its name.
struct Bed {
    name: &'static str,
    sockets: Sockets,
    sets: Api<SidecarSet>,
    pods: Api<Pod>,
    updates: Api<NodePodUpdate>,
}

impl Bed {
    async fn begin(node: &Node, name: &'static str, sockets: Sockets) -> Result<(Self, Load)> {
        let client = node.client().await?;
        let bed = Self {
            name,
            sockets,
            sets: Api::all(client.clone()),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            updates: Api::all(client),
        };
        let set = stored(set(name, "1", sockets, MIGRATION), None)?;
        let set = bed.sets.create(&PostParams::default(), &set).await.context("make the set")?;
        let manifest = PodManifest::new(NAMESPACE, name).label(LABEL, name).container(Container::new("app"));
        let pod = injected(&set, NAMESPACE, &manifest)?;
        bed.pods.create(&PostParams::default(), &pod).await.context("make the pod")?;
        bed.swapped("1").await?;
        let load = Load::begin(&address(&bed.pods.get(name).await?)?, PACE);
        Ok((bed, load))
    }

    /// Edits the set, as admission stores it.
    async fn image(&self, tag: &str) -> Result<()> {
        await_condition(format!("{} gets {}", self.name, web(tag)), PATIENCE, async || {
            let old = serde_json::to_value(self.sets.get(self.name).await?)?;
            let mut next: Value = old.clone();
            next["spec"]["containers"] = json!([sidecar(tag, self.sockets)]);
            let next = stored(next, Some(&old))?;
            // Its status may have been written meanwhile.
            self.sets.replace(self.name, &PostParams::default(), &next).await.context("edit the set")
        })
        .await
        .map(drop)
    }

    /// Waits until this version serves alone.
    async fn serves(&self, tag: &str) -> Result<()> {
        await_condition(format!("{} serves in {}", web(tag), self.name), PATIENCE, async || {
            is_swapped(&self.pods.get(self.name).await?, tag)
        })
        .await
    }

    /// Waits until the set says so, and nothing is asked for any more.
    async fn settled(&self) -> Result<()> {
        await_condition(format!("{} is up to date", self.name), PATIENCE, async || {
            let set = self.sets.get(self.name).await?;
            let status = set.status.context("no status")?;
            let all = (status.updated_pods, status.ready_pods) == (Some(1), Some(1));
            ensure!(status.observed_generation == set.metadata.generation && all, "{status:?}");
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.desired_pods.is_empty(), "{status:?}");
            Ok(())
        })
        .await
    }

    async fn swapped(&self, tag: &str) -> Result<()> {
        self.serves(tag).await?;
        self.settled().await
    }

    /// Waits until the new version was given up, and this one serves as before.
    async fn returned(&self, tag: &str) -> Result<()> {
        await_condition(format!("the swap of {} is given up", self.name), PATIENCE, async || {
            let status = self.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            let entry = status.pods.first().context("no entry")?;
            ensure!(entry.phase == UpdatePhase::Failed, "{entry:?}");
            ensure!(entry.reason.as_deref() == Some("MigrationTimeout"), "{entry:?}");
            Ok(())
        })
        .await?;
        self.serves(tag).await
    }
}
