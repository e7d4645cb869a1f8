//! Recreate: one container of a pod, eight times in a row, by ContainerRecreateRequests.
//!
//! All parts are real: manager, berthd, kubelet, containerd. The container has a preStop hook that takes no
//! time of its own. Times of instances are the runtime's; those of requests are this program's, on the same
//! machine. The baseline of `running_s` is the same pod deleted and created again, which is what there is
//! without recreate.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{Manager, Node};
use berth_tests::observe::{Cri, Instance};
use berth_tests::recreate::Ask;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::Options;
use crate::crowd;
use crate::report::{Bench, Row};

const METRICS: &[&str] = &["running_s", "completed_s", "down_s"];

pub(crate) const BENCH: Bench = Bench {
    name: "recreate",
    about: "request to new container running, from there to Completed, and how long it was down; baseline: a new pod",
    cases: &[
        ("in-a-row-1", METRICS),
        ("in-a-row-2", METRICS),
        ("in-a-row-3", METRICS),
        ("in-a-row-4", METRICS),
        ("in-a-row-5", METRICS),
        ("in-a-row-6", METRICS),
        ("in-a-row-7", METRICS),
        ("in-a-row-8", METRICS),
        (crowd::CASE, crowd::METRICS),
    ],
};
/// Nothing here takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";

/// One recreate, in seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    running: f64,
    completed: f64,
    down: f64,
}

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if in_a_row().any(|case| options.wants(case)) {
        rows.extend(run_in_a_row(options).await?);
    }
    if options.wants(crowd::CASE) {
        rows.extend(crowd::run(&BENCH, options.runs).await?);
    }
    Ok(rows)
}

/// The cases of one container that is recreated again and again.
fn in_a_row() -> impl Iterator<Item = &'static str> {
    BENCH.cases.iter().map(|(case, _)| *case).filter(|case| *case != crowd::CASE)
}

async fn run_in_a_row(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    let client = node.client().await?;
    let cri = node.containerd().cri()?;

    let (mut series, mut anew) = (Vec::new(), Vec::new());
    for run in 0..options.runs {
        let pod = format!("pod-{run}");
        anew.push(deleted_and_created(&client, &cri, &pod).await?);
        let mut times = Vec::new();
        for round in 0..in_a_row().count() {
            times.push(recreated(&client, &cri, &pod, round).await?);
        }
        eprintln!("run {run}: {times:.2?}");
        remove(&client, &pod).await?;
        series.push(times);
    }
    drop(manager);
    node.down()?;

    let mut rows = Vec::new();
    for (round, case) in in_a_row().enumerate().filter(|(_, case)| options.wants(case)) {
        let pick = |what: fn(&Times) -> f64| -> Vec<f64> {
            series.iter().filter_map(|times| times.get(round)).map(what).collect()
        };
        let row = |metric| Row::new(&BENCH, case, metric, "s");
        rows.push(row("running_s").medians(&pick(|times| times.running), &anew)?);
        rows.push(row("completed_s").medians(&pick(|times| times.completed), &[])?);
        rows.push(row("down_s").medians(&pick(|times| times.down), &[])?);
    }
    Ok(rows)
}

/// Leaves a pod of this name running; what it takes to delete it and to create it again.
async fn deleted_and_created(client: &Client, cri: &Cri, pod: &str) -> Result<f64> {
    create(client, cri, pod).await?;
    let begun = Instant::now();
    remove(client, pod).await?;
    create(client, cri, pod).await?;
    Ok(begun.elapsed().as_secs_f64())
}

async fn create(client: &Client, cri: &Cri, pod: &str) -> Result<()> {
    let hook = json!({ "preStop": { "exec": { "command": ["/bin/true"] } } });
    let manifest = PodManifest::new(NAMESPACE, pod).container(Container::new("a").field("lifecycle", hook));
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
    newest(cri, pod, None).await?;
    await_condition(format!("{pod} is Ready"), PATIENCE, async || {
        let status = pods.get(pod).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        ensure!(ready.is_some_and(|condition| condition.status == "True"), "not yet");
        Ok(())
    })
    .await
}

async fn remove(client: &Client, pod: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    pods.delete(pod, &DeleteParams::default()).await.context("delete a pod")?;
    await_condition(format!("{pod} is gone"), PATIENCE, async || {
        ensure!(pods.get_opt(pod).await?.is_none(), "not yet");
        Ok(())
    })
    .await
}

async fn recreated(client: &Client, cri: &Cri, pod: &str, round: usize) -> Result<Times> {
    let before = newest(cri, pod, None).await?;
    let asked_at = now();
    let asked = Ask::new(pod, &["a"]).create(client, NAMESPACE, &format!("{pod}-{round}")).await?;
    asked.succeeded(PATIENCE).await?;
    let completed_at = now();
    let after = newest(cri, pod, Some(&before.id)).await?;
    let old = cri.container(&before.id).await?.context("the old instance is gone")?;
    let seconds = |from: i64, to: i64| Duration::from_nanos((to - from).max(0).unsigned_abs()).as_secs_f64();
    Ok(Times {
        running: seconds(asked_at, after.started_at),
        completed: seconds(after.started_at, completed_at),
        down: seconds(old.finished_at, after.started_at),
    })
}

/// The instance that runs, which is not this one.
async fn newest(cri: &Cri, pod: &str, not: Option<&str>) -> Result<Instance> {
    await_condition(format!("a new instance in {pod}"), PATIENCE, async || {
        let all = cri.containers(NAMESPACE, pod).await?;
        let running = all.into_iter().rfind(|instance| {
            instance.finished_at == 0 && instance.started_at > 0 && not != Some(instance.id.as_str())
        });
        running.context("none yet")
    })
    .await
}

/// The wall clock, as the runtime reads it: nanoseconds since the epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
