//! Update: one pod without the readiness gate of in-place updates, its image changed once; one with it, its
//! image changed five times in a row, an annotation that its env reads five times in a row, and two ordered
//! batches, by ContainerUpdateRequests; and the image of a CloneSet with one pod (`clone_set`).
//!
//! All parts are real: manager, berthd with the token and the policies of `deploy/`, kubelet, containerd. The
//! images are on the node, and the pod has been at rest. `ready_s` is from the request to the pod's being
//! Ready again with all of it running what was asked for, as the request's end says; the baseline is the same
//! pod deleted and created again. `floor_s` is what the kubelet takes for the same patches when somebody
//! makes them by hand. Times of instances are the runtime's.

mod clone_set;
mod floor;

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
/// Metrics of the cases that can be done by hand.
const BY_HAND: &[&str] = &["ready_s", "down_s", "floor_s"];

pub(crate) const BENCH: Bench = Bench {
    name: "update",
    about: "request to Ready with what was asked for, and how long containers were down; baseline: a new pod",
    cases: &[
        ("no-gate", BY_HAND),
        ("image-1", BY_HAND),
        ("image-2", ONE),
        ("image-3", ONE),
        ("image-4", ONE),
        ("image-5", ONE),
        ("env-1", ONE),
        ("env-2", ONE),
        ("env-3", ONE),
        ("env-4", ONE),
        ("env-5", ONE),
        ("two-batches", BY_HAND),
        (CLONE_SET, &["ready_s"]),
    ],
};
const CLONE_SET: &str = "clone-set";
const ROUNDS: usize = 5;
/// Before each update: for a second or two after a start the kubelet has looks at the pod left to take, and a
/// patch that comes then waits for them. Nobody updates a pod as often.
const REST: Duration = Duration::from_millis(2500);
/// How much longer each time, so that patches come at all moments between two of the kubelet's looks.
const SPREAD: Duration = Duration::from_millis(170);
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

    let (mut series, mut anew, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let mut sets = Vec::new();
    for run in 0..options.runs {
        let by_hand = format!("by-hand-{run}");
        floors.push([
            floor::image(&bed, &by_hand, run as usize).await?,
            floor::gated(&bed, &by_hand, run as usize).await?,
            floor::two(&bed, &by_hand, run as usize).await?,
        ]);
        let mut times = vec![bed.without_gate(&format!("open-{run}"), run as usize).await?];
        let pod = format!("pod-{run}");
        anew.push(bed.deleted_and_created(&pod).await?);
        for round in 0..ROUNDS {
            let image = if round % 2 == 0 { BUSYBOX_NEXT } else { BUSYBOX };
            rest(round).await;
            times.push(
                bed.updated(&pod, &format!("{pod}-image-{round}"), Update::new(&pod).image("high", image))
                    .await?,
            );
        }
        for round in 0..ROUNDS {
            let update = Update::new(&pod).annotation("value", &format!("{round}"));
            rest(round).await;
            times.push(bed.updated(&pod, &format!("{pod}-annotation-{round}"), update).await?);
        }
        rest(run as usize).await;
        let both = Update::new(&pod).image("high", BUSYBOX).image("low", BUSYBOX_NEXT);
        times.push(bed.updated(&pod, &format!("{pod}-both"), both).await?);
        eprintln!("run {run}: {times:.2?}, by hand {:.2?}", floors.last());
        bed.remove(&pod).await?;
        series.push(times);
        sets.extend(clone_set::rounds(&bed, &node).await?);
        eprintln!("run {run}: CloneSet {sets:.2?}");
    }
    drop(manager);
    node.down()?;

    let by_request: Vec<f64> =
        series.iter().flat_map(|times| &times[1..=ROUNDS]).map(|times| times.ready).collect();
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
                "ready_s" if case == CLONE_SET => row.medians(&sets, &by_request)?,
                "ready_s" => row.medians(&pick(|times| times.ready), &anew)?,
                "floor_s" => {
                    let place = ["no-gate", "image-1"].iter().position(|of| *of == case).unwrap_or(2);
                    let floors: Vec<f64> = floors.iter().map(|floors| floors[place]).collect();
                    row.medians(&floors, &[])?
                }
                // Of two containers the one that was down longer.
                _ => row.medians(&pick(|times| times.down[0].max(times.down[1])), &[])?,
            });
        }
    }
    Ok(rows)
}

/// Lets a pod come to rest.
async fn rest(time: usize) {
    let longer = SPREAD.saturating_mul(u32::try_from(time % 6).unwrap_or(0));
    tokio::time::sleep(REST.saturating_add(longer)).await;
}

impl Bed {
    /// Leaves a pod of this name running; what it takes to delete it and to create it again.
    async fn deleted_and_created(&self, pod: &str) -> Result<f64> {
        self.create(pod, true).await?;
        let begun = Instant::now();
        self.remove(pod).await?;
        self.create(pod, true).await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// One image of a new pod without the gate.
    async fn without_gate(&self, pod: &str, run: usize) -> Result<Times> {
        self.create(pod, false).await?;
        rest(run).await;
        let update = Update::new(pod).image(NAMES[0], BUSYBOX_NEXT);
        let times = self.updated(pod, &format!("{pod}-image"), update).await?;
        self.remove(pod).await?;
        Ok(times)
    }

    async fn create(&self, pod: &str, gate: bool) -> Result<()> {
        let value = json!({
            "name": "VALUE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['value']" } }
        });
        let high = Container::new(NAMES[0]).env_entry(value).env(CONTAINER_PRIORITY, "1");
        let mut manifest = PodManifest::new(NAMESPACE, pod)
            .container(high)
            .container(Container::new(NAMES[1]).env(CONTAINER_PRIORITY, "0"));
        if gate {
            manifest = manifest.spec("readinessGates", json!([{ "conditionType": GATE }]));
        }
        self.pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
        if gate {
            let open = json!({ "status": { "conditions": [{ "type": GATE, "status": "True" }] } });
            self.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(&open)).await?;
        }
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
