//! Hot upgrades of a web server under requests: ten in a row and five of a pod at rest, for each way in which
//! the next version comes to listen; three pods of one node at once; and one pod to which everything happens
//! that may. The pods are injected here, as admission does it.

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
use super::written::Written;
use crate::Options;
use crate::churn::count;
use crate::report::Row;

pub(super) const HANDED_OVER: &str = "swaps-handed-over";
pub(super) const SHARED: &str = "swaps-shared";
pub(super) const THREE: &str = "swaps-of-three";
pub(super) const FAULTS: &str = "swaps-faults";
pub(super) const METRICS: &[&str] = &[
    "swap_s",
    "longest_s",
    "rested_s",
    "longest_rested_s",
    "migration_s",
    "drain_s",
    "stop_s",
    "beyond_s",
    "longest_beyond_s",
    "writes_per_swap",
    "failed",
    "requests",
];
pub(super) const METRICS_OF_THREE: &[&str] = &["elapsed_s", "writes_per_swap"];
const NAMESPACE: &str = "default";
const PACE: Pace = Pace { anew: 200, kept: 50 };
const SWAPS: u32 = 10;
/// Swaps after those, each of a pod at rest, and how much later each begins than the one before: at five
/// moments between two looks of the kubelet.
const RESTED: u32 = 5;
const LATER: Duration = Duration::from_millis(200);
/// Time after a swap in which the kubelet's worker comes to rest: after what it saw last it looks at the pod
/// twice more, a second apart, and a patch that comes before that waits for the second look.
const REST: Duration = Duration::from_secs(3);
/// Pods that are swapped at once, and how often.
const PODS: usize = 3;
const ROUNDS: u32 = 3;
/// Seconds that a new version has to take over.
const MIGRATION: u32 = 15;
/// How long the API server is away in the middle of a swap: longer than the hook takes.
const AWAY: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(120);
/// Logs are followed within it.
const FOLLOWS: Duration = Duration::from_millis(500);

pub(super) async fn run(options: &Options) -> Result<Vec<Row>> {
    if ![HANDED_OVER, SHARED, THREE, FAULTS].iter().any(|case| options.wants(case)) {
        return Ok(Vec::new());
    }
    let node = Node::updating().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    bring_images(&node, SWAPS + RESTED + 1).await?;
    let mut rows = Vec::new();
    for (case, sockets) in [(HANDED_OVER, Sockets::HandedOver), (SHARED, Sockets::Shared)] {
        if options.wants(case) {
            rows.extend(in_a_row(&node, case, sockets).await?);
        }
    }
    if options.wants(THREE) {
        rows.extend(of_three(&node).await?);
    }
    if options.wants(FAULTS) {
        rows.extend(with_faults(&node).await?);
    }
    drop(manager);
    node.down()?;
    Ok(rows)
}

async fn in_a_row(node: &Node, case: &'static str, sockets: Sockets) -> Result<Vec<Row>> {
    let bed = Bed::begin(node, case, sockets, 1).await?;
    let load = bed.load().await?;
    let recorder = Recorder::watch(&node.containerd().cri()?, NAMESPACE, &bed.pod(0));
    let written = Written::follow(&node.client().await?, NAMESPACE);
    let before = written.at_rest().await?;
    let (mut times, mut parts, mut rested) = (Vec::new(), Vec::new(), Vec::new());
    for number in 2..=SWAPS + 1 {
        let (time, read) = bed.swap(&recorder, number, FOLLOWS).await?;
        times.push(time);
        parts.push(read);
    }
    for number in 1..=RESTED {
        let pause = REST + LATER * number;
        rested.push(bed.swap(&recorder, SWAPS + 1 + number, pause).await?.0);
    }
    let writes = written.at_rest().await? - before;
    eprintln!("{case}: {times:.2?}, at rest {rested:.2?}, {writes} writes");
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let of = |part: fn(&Parts) -> f64| parts.iter().map(part).collect::<Vec<_>>();
    let (longest, beyond) = (most(&times), of(Parts::beyond));
    let swaps = times.len() + rested.len();
    let row = |metric, unit| Row::new(&BENCH, case, metric, unit);
    let mut rows = vec![
        row("swap_s", "s").medians(&times, &[])?,
        row("longest_s", "s").measured(longest, None, times.len()),
        row("rested_s", "s").medians(&rested, &[])?,
        row("longest_rested_s", "s").measured(most(&rested), None, rested.len()),
        row("migration_s", "s").medians(&of(|parts| parts.migration), &[])?,
        row("drain_s", "s").medians(&of(|parts| parts.drain), &[])?,
        row("stop_s", "s").medians(&of(|parts| parts.stop), &[])?,
        row("beyond_s", "s").medians(&beyond, &[])?,
        row("longest_beyond_s", "s").measured(most(&beyond), None, beyond.len()),
        row("writes_per_swap", "").measured(f64::from(writes) / count(swaps), None, swaps),
    ];
    rows.extend(outcome(case, &load, swaps));
    Ok(rows)
}

/// Swaps of some pods of the node at once: they share the writes to the node's object.
async fn of_three(node: &Node) -> Result<Vec<Row>> {
    let bed = Bed::begin(node, THREE, Sockets::HandedOver, PODS).await?;
    let written = Written::follow(&node.client().await?, NAMESPACE);
    let before = written.at_rest().await?;
    let mut times = Vec::new();
    for number in 2..=ROUNDS + 1 {
        let (begun, tag) = (Instant::now(), number.to_string());
        bed.image(&tag).await?;
        bed.swapped(&tag).await?;
        times.push(begun.elapsed().as_secs_f64());
        tokio::time::sleep(REST).await;
    }
    let writes = written.at_rest().await? - before;
    let swaps = times.len() * PODS;
    eprintln!("{THREE}: {times:.2?}, {writes} writes");
    let row = |metric, unit| Row::new(&BENCH, THREE, metric, unit);
    Ok(vec![
        row("elapsed_s", "s").medians(&times, &[])?,
        row("writes_per_swap", "").measured(f64::from(writes) / count(swaps), None, swaps),
    ])
}

/// The clock of this machine, by which the runtime and logs have their times too.
fn clock() -> Result<i64> {
    i64::try_from(Timestamp::now().as_nanosecond()).context("clock")
}

async fn with_faults(node: &Node) -> Result<Vec<Row>> {
    let bed = Bed::begin(node, FAULTS, Sockets::HandedOver, 1).await?;
    let load = bed.load().await?;
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
        let pod = bed.pods.get(&bed.pod(0)).await?;
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
    [
        row("failed").measured(count(failed), None, runs),
        row("requests").measured(count(answered + failed), None, runs),
    ]
}

/// A set and its pods.
struct Bed {
    name: &'static str,
    sockets: Sockets,
    count: usize,
    sets: Api<SidecarSet>,
    pods: Api<Pod>,
    updates: Api<NodePodUpdate>,
}

impl Bed {
    async fn begin(node: &Node, name: &'static str, sockets: Sockets, count: usize) -> Result<Self> {
        let client = node.client().await?;
        let bed = Self {
            name,
            sockets,
            count,
            sets: Api::all(client.clone()),
            pods: Api::namespaced(client.clone(), NAMESPACE),
            updates: Api::all(client),
        };
        let mut set = set(name, "1", sockets, MIGRATION);
        set["spec"]["updateStrategy"] = json!({ "type": "RollingUpdate", "maxUnavailable": "100%" });
        let set =
            bed.sets.create(&PostParams::default(), &stored(set, None)?).await.context("make the set")?;
        for name in bed.all() {
            let manifest =
                PodManifest::new(NAMESPACE, &name).label(LABEL, bed.name).container(Container::new("app"));
            let pod = injected(&set, NAMESPACE, &manifest)?;
            bed.pods.create(&PostParams::default(), &pod).await.context("make a pod")?;
        }
        bed.swapped("1").await?;
        Ok(bed)
    }

    /// Name of a pod.
    fn pod(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// Names of all pods.
    fn all(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| self.pod(number))
    }

    /// Begins to ask the first pod.
    async fn load(&self) -> Result<Load> {
        Ok(Load::begin(&address(&self.pods.get(&self.pod(0)).await?)?, PACE))
    }

    /// Swaps the first pod to this version, `pause` after what was before. Returns the seconds that it took
    /// and their parts.
    async fn swap(&self, recorder: &Recorder, version: u32, pause: Duration) -> Result<(f64, Parts)> {
        let (name, tag) = (self.pod(0), version.to_string());
        let endings = Endings::follow(&self.pods, &name);
        // The logs are followed from before the edit.
        tokio::time::sleep(pause).await;
        let (begun, at) = (Instant::now(), clock()?);
        self.image(&tag).await?;
        self.serves(&tag).await?;
        let time = begun.elapsed().as_secs_f64();
        let over = clock()?;
        let pod = self.pods.get(&name).await?;
        let history = recorder.so_far();
        let read = Parts::read((&self.pods, &pod), &tag, (at, over), endings, &history).await?;
        eprintln!("{}: {read:.2?}", self.name);
        self.settled().await?;
        Ok((time, read))
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
            for name in self.all() {
                is_swapped(&self.pods.get(&name).await?, tag).context(name)?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until the set says so, and nothing is asked for any more.
    async fn settled(&self) -> Result<()> {
        await_condition(format!("{} is up to date", self.name), PATIENCE, async || {
            let set = self.sets.get(self.name).await?;
            let status = set.status.context("no status")?;
            let count = i32::try_from(self.count).ok();
            let all = (status.updated_pods, status.ready_pods) == (count, count);
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
