//! Cold upgrades of the pods of a real node: some of them at a time, and at first without those that the
//! partition keeps. A pod's time is that from when it is asked for until it shows that the new sidecar is
//! ready. The sidecar ends as soon as it is told to, so its stop is in these times and next to nothing.
//!
//! The first upgrade of a pod is a figure of its own. Each later one finds an exited instance of the sidecar,
//! removes it, and waits until the kubelet has seen that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{Manager, Node};
use berth_tests::wait::await_condition;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::BENCH;
use super::admitted::{injected, stored};
use super::follow::follow;
use crate::Options;
use crate::report::Row;

pub(super) const CASE: &str = "cold-20";
pub(super) const METRICS: &[&str] = &["first_pod_s", "pod_s", "longest_s", "elapsed_s", "restarts"];
const NAMESPACE: &str = "default";
const LABEL: &str = "upgraded";
const PODS: usize = 20;
/// Pods that the partition keeps at first.
const KEPT: usize = 5;
const MOST_UNAVAILABLE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) async fn run(options: &Options) -> Result<Vec<Row>> {
    if !options.wants(CASE) {
        return Ok(Vec::new());
    }
    let node = Node::updating().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    let bed = Bed::begin(&node).await?;
    let (mut first, mut later, mut elapsed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.runs {
        let image = if round % 2 == 0 { BUSYBOX_NEXT } else { BUSYBOX };
        let begun = Instant::now();
        let of_pods = bed.upgrade(image).await?;
        elapsed.push(begun.elapsed().as_secs_f64());
        eprintln!("{CASE}: {of_pods:.2?}");
        let times = if round == 0 { &mut first } else { &mut later };
        times.extend(of_pods);
    }
    let restarts = bed.restarts_of_apps().await?;
    let pods = first.len() + later.len();
    let longest = first.iter().chain(&later).copied().fold(0.0, f64::max);
    // One run has no later round, and the list says that there is a figure.
    let after: &[f64] = if later.is_empty() { &first } else { &later };
    drop((manager, bed));
    node.down()?;
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("first_pod_s", "s").medians(&first, &[])?,
        row("pod_s", "s").medians(after, &[])?,
        row("longest_s", "s").measured(longest, None, pods),
        row("elapsed_s", "s").medians(&elapsed, &[])?,
        row("restarts", "").measured(f64::from(restarts), None, pods),
    ])
}

fn set(image: &str, partition: usize) -> Value {
    let sidecar = Container::new("log").image(image);
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": { "name": CASE },
        "spec": {
            "selector": { "matchLabels": { LABEL: CASE } },
            "updateStrategy": { "type": "RollingUpdate", "partition": partition, "maxUnavailable": MOST_UNAVAILABLE },
            "containers": [sidecar.json()],
        },
    })
}

/// A set and its pods, which are watched.
struct Bed {
    sets: Api<SidecarSet>,
    pods: Api<Pod>,
    seen: Arc<Seen>,
    _watches: JoinSet<()>,
}

impl Bed {
    async fn begin(node: &Node) -> Result<Self> {
        let client = node.client().await?;
        let (sets, pods) = (Api::all(client.clone()), Api::<Pod>::namespaced(client.clone(), NAMESPACE));
        let first = sets.create(&PostParams::default(), &stored(set(BUSYBOX, 0), None)?).await?;
        let make = stream::iter(0..PODS).map(|number| {
            let name = format!("{CASE}-{number}");
            let manifest =
                PodManifest::new(NAMESPACE, &name).label(LABEL, CASE).container(Container::new("app"));
            let (pods, pod) = (pods.clone(), injected(&first, NAMESPACE, &manifest));
            async move { pods.create(&PostParams::default(), &pod?).await.context("make a pod").map(drop) }
        });
        make.buffer_unordered(4).try_collect::<()>().await?;
        let seen = Arc::new(Seen::default());
        let mut watches = JoinSet::new();
        watches.spawn(follow(pods.clone(), seen.clone(), Seen::pod));
        watches.spawn(follow(Api::<NodePodUpdate>::all(client), seen.clone(), Seen::asked));
        let bed = Self { sets, pods, seen, _watches: watches };
        bed.reached(PODS).await?;
        Ok(bed)
    }

    /// Waits until so many pods are up to date, and no other ones.
    async fn reached(&self, count: usize) -> Result<()> {
        await_condition(format!("{count} of {PODS} pods are up to date"), PATIENCE, async || {
            let set = self.sets.get(CASE).await?;
            let status = set.status.context("no status")?;
            let number = |count: usize| i32::try_from(count).ok();
            let all = [status.matched_pods, status.updated_pods, status.updated_ready_pods];
            let wanted = [number(PODS), number(count), number(count)];
            ensure!(status.observed_generation == set.metadata.generation && all == wanted, "{status:?}");
            Ok(())
        })
        .await
    }

    /// Upgrades all pods to an image, those that the partition keeps last. Returns the times of the pods.
    async fn upgrade(&self, image: &str) -> Result<Vec<f64>> {
        self.seen.now().begin(image);
        self.edit(image, KEPT).await?;
        self.reached(PODS - KEPT).await?;
        let early = self.seen.now().asked.len();
        ensure!(early == PODS - KEPT, "{early} pods were asked for, with a partition of {KEPT} of {PODS}");
        self.edit(image, 0).await?;
        self.reached(PODS).await?;
        let mut times = Vec::new();
        let shown = await_condition("all pods show it", PATIENCE, async || {
            let shown = self.seen.now().shown.clone();
            ensure!(shown.len() == PODS, "{} of {PODS}", shown.len());
            Ok(shown)
        })
        .await?;
        let seen = self.seen.now();
        for (pod, shown) in &shown {
            let asked = seen.asked.get(pod).with_context(|| format!("{pod} was never asked for"))?;
            times.push(shown.saturating_duration_since(*asked).as_secs_f64());
        }
        let most = seen.most_unavailable;
        ensure!(most <= MOST_UNAVAILABLE, "{most} pods were not available at once");
        Ok(times)
    }

    async fn edit(&self, image: &str, partition: usize) -> Result<()> {
        await_condition(format!("the set gets {image}"), PATIENCE, async || {
            let old = serde_json::to_value(self.sets.get(CASE).await?)?;
            let mut next = old.clone();
            next["spec"] = set(image, partition)["spec"].take();
            // Its status may have been written meanwhile.
            self.sets.replace(CASE, &PostParams::default(), &stored(next, Some(&old))?).await?;
            Ok(())
        })
        .await
    }

    /// Sum over all pods; nothing restarts an app.
    async fn restarts_of_apps(&self) -> Result<i32> {
        let pods =
            self.pods.list(&kube::api::ListParams::default().labels(&format!("{LABEL}={CASE}"))).await?;
        let statuses = pods.items.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let apps = statuses.flatten().filter(|status| status.name == "app");
        Ok(apps.map(|status| status.restart_count).sum())
    }
}

/// Knowledge of the watches.
#[derive(Default)]
struct Seen(Mutex<Round>);

/// One upgrade of all pods.
#[derive(Default)]
struct Round {
    image: String,
    /// When the entry of a pod came.
    asked: BTreeMap<String, Instant>,
    /// When a pod showed the new sidecar as ready.
    shown: BTreeMap<String, Instant>,
    unavailable: BTreeSet<String>,
    most_unavailable: usize,
}

impl Round {
    fn begin(&mut self, image: &str) {
        *self = Self { image: image.to_owned(), ..Self::default() };
    }
}

impl Seen {
    fn now(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self, object: NodePodUpdate) {
        let (at, mut seen) = (Instant::now(), self.now());
        for entry in object.status.unwrap_or_default().desired_pods {
            if entry.containers.iter().any(|one| one.image == seen.image) {
                seen.asked.entry(entry.name).or_insert(at);
            }
        }
    }

    fn pod(&self, pod: Pod) {
        let (at, mut seen) = (Instant::now(), self.now());
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let of_spec = pod.spec.iter().flat_map(|spec| &spec.containers).find(|one| one.name == "log");
        let image = of_spec.and_then(|one| one.image.clone()).unwrap_or_default();
        let is_ready = statuses.clone().any(|one| one.name == "log" && one.ready && one.image == image);
        let name = pod.name_any();
        if !is_ready {
            seen.unavailable.insert(name);
            seen.most_unavailable = seen.most_unavailable.max(seen.unavailable.len());
            return;
        }
        seen.unavailable.remove(&name);
        if image == seen.image {
            seen.shown.entry(name).or_insert(at);
        }
    }
}
