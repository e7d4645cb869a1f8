//! Update: one pod, its image changed five times in a row, an annotation that its env reads five times in a row, and two
//! ordered batches, by ContainerUpdateRequests.
//!
//! All parts are real: manager, berthd with the token and the policies of `deploy/`, kubelet, containerd. The pod has the
//! readiness gate of in-place updates, and the images are on the node. `ready_s` is from the request to the pod's being
//! Ready again with all of it running what was asked for, as the request's end says; the baseline is the same pod deleted
//! and created again. Times of instances are the runtime's.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{CONTAINER_PRIORITY, Container, PodManifest};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{Manager, Node};
use berth_tests::observe::{Cri, Instance};
use berth_tests::update::Update;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::Options;
use crate::report::{Bench, Row};

const ONE: &[&str] = &["ready_s", "down_s"];

pub(crate) const BENCH: Bench = Bench {
    name: "update",
    about: "request to Ready with what was asked for, and how long containers were down; baseline: a new pod",
    cases: &[
        ("image-1", ONE),
        ("image-2", ONE),
        ("image-3", ONE),
        ("image-4", ONE),
        ("image-5", ONE),
        ("env-1", ONE),
        ("env-2", ONE),
        ("env-3", ONE),
        ("env-4", ONE),
        ("env-5", ONE),
        ("two-batches", ONE),
    ],
};
const ROUNDS: usize = 5;
/// Nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";
const GATE: &str = "InPlaceUpdateReady";
/// The containers, the higher one first.
const NAMES: [&str; 2] = ["high", "low"];

/// One update, in seconds; how long each container was down that was restarted.
#[derive(Clone, Copy, Debug)]
struct Times {
    ready: f64,
    down: [f64; 2],
}

struct Bed {
    client: Client,
    pods: Api<Pod>,
    cri: Cri,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::updating().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    let client = node.client().await?;
    let pods = Api::namespaced(client.clone(), NAMESPACE);
    let bed = Bed { client, pods, cri: node.containerd().cri()? };

    let (mut series, mut anew) = (Vec::new(), Vec::new());
    for run in 0..options.runs {
        let pod = format!("pod-{run}");
        anew.push(bed.deleted_and_created(&pod).await?);
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let image = if round % 2 == 0 { BUSYBOX_NEXT } else { BUSYBOX };
            times.push(
                bed.updated(&pod, &format!("{pod}-image-{round}"), Update::new(&pod).image("high", image))
                    .await?,
            );
        }
        for round in 0..ROUNDS {
            let update = Update::new(&pod).annotation("value", &format!("{round}"));
            times.push(bed.updated(&pod, &format!("{pod}-annotation-{round}"), update).await?);
        }
        let both = Update::new(&pod).image("high", BUSYBOX).image("low", BUSYBOX_NEXT);
        times.push(bed.updated(&pod, &format!("{pod}-both"), both).await?);
        eprintln!("run {run}: {times:.2?}");
        bed.remove(&pod).await?;
        series.push(times);
    }
    drop(manager);
    node.down()?;

    let mut rows = Vec::new();
    for (place, &(case, metrics)) in
        BENCH.cases.iter().enumerate().filter(|(_, (case, _))| options.wants(case))
    {
        let pick = |what: fn(&Times) -> f64| -> Vec<f64> {
            series.iter().filter_map(|times| times.get(place)).map(what).collect()
        };
        for &metric in metrics {
            let row = Row::new(&BENCH, case, metric, "s");
            rows.push(match metric {
                "ready_s" => row.medians(&pick(|times| times.ready), &anew)?,
                // Of two containers the one that was down longer.
                _ => row.medians(&pick(|times| times.down[0].max(times.down[1])), &[])?,
            });
        }
    }
    Ok(rows)
}

impl Bed {
    /// Leaves a pod of this name running; what it takes to delete it and to create it again.
    async fn deleted_and_created(&self, pod: &str) -> Result<f64> {
        self.create(pod).await?;
        let begun = Instant::now();
        self.remove(pod).await?;
        self.create(pod).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    async fn create(&self, pod: &str) -> Result<()> {
        let value = json!({
            "name": "VALUE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['value']" } }
        });
        let high = Container::new(NAMES[0]).env_entry(value).env(CONTAINER_PRIORITY, "1");
        let manifest = PodManifest::new(NAMESPACE, pod)
            .spec("readinessGates", json!([{ "conditionType": GATE }]))
            .container(high)
            .container(Container::new(NAMES[1]).env(CONTAINER_PRIORITY, "0"));
        self.pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
        let open = json!({ "status": { "conditions": [{ "type": GATE, "status": "True" }] } });
        self.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(&open)).await?;
        await_condition(format!("{pod} is Ready"), PATIENCE, async || self.is_ready(pod).await).await
    }

    async fn is_ready(&self, pod: &str) -> Result<()> {
        let status = self.pods.get(pod).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        ensure!(ready.is_some_and(|condition| condition.status == "True"), "not yet");
        Ok(())
    }

    async fn remove(&self, pod: &str) -> Result<()> {
        self.pods.delete(pod, &DeleteParams::default()).await.context("delete a pod")?;
        await_condition(format!("{pod} is gone"), PATIENCE, async || {
            ensure!(self.pods.get_opt(pod).await?.is_none(), "not yet");
            Ok(())
        })
        .await
    }

    async fn updated(&self, pod: &str, name: &str, update: Update) -> Result<Times> {
        let before = [self.newest(pod, NAMES[0]).await?, self.newest(pod, NAMES[1]).await?];
        let begun = Instant::now();
        update.create(&self.client, NAMESPACE, name).await?.succeeded().await?;
        await_condition(format!("{pod} is Ready"), PATIENCE, async || self.is_ready(pod).await).await?;
        let ready = begun.elapsed().as_secs_f64();
        let mut down = [0.0; 2];
        for (place, old) in before.iter().enumerate() {
            let new = self.newest(pod, NAMES[place]).await?;
            if new.id != old.id {
                let old = self.cri.container(&old.id).await?.context("the old instance is gone")?;
                let nanoseconds = (new.started_at - old.finished_at).max(0).unsigned_abs();
                down[place] = Duration::from_nanos(nanoseconds).as_secs_f64();
            }
        }
        ensure!(down[0] > 0.0, "{name} restarted nothing");
        Ok(Times { ready, down })
    }

    async fn newest(&self, pod: &str, name: &str) -> Result<Instance> {
        let all = self.cri.containers(NAMESPACE, pod).await?;
        let running = all
            .into_iter()
            .rfind(|instance| instance.name == name && instance.finished_at == 0 && instance.started_at > 0);
        running.with_context(|| format!("{name} does not run in {pod}"))
    }
}
