//! berth-workloads beside the native controllers: how fast a CloneSet grows and rolls out against a
//! Deployment with the same template, and an Advanced StatefulSet against a StatefulSet; and what 100 sets of
//! 100 pods cost.
//!
//! etcd, the API server, kube-controller-manager and berth-workloads are real, each as it is by default.
//! Nodes exist on paper only: pods are bound and started by one client that does the same for both (`nodes`),
//! and updated in place by simulated agents (`crate::agents`). Each agent has given its first sign of life
//! before anything is counted: a node gives one every two minutes, whether anything rolls out or not, and one
//! for each node would else be on the account of the first rollout. Later ones are counted where they fall.

pub(crate) mod nodes;
mod rest;
mod scene;

use std::time::Instant;

use anyhow::Result;
use clap::Args;

use self::scene::{Kind, Scene};
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "workloads",
    about: "500 pods from none, and a new image for 500 pods at maxUnavailable 20%, of a CloneSet (in place, and by new pods) against a Deployment, and of an Advanced StatefulSet (in place) against a StatefulSet, both parallel: time until all are ready, API writes of a pod by berth-workloads, and by agents beside those; 100 CloneSets of 100 pods at rest: memory, CPU and writes in a minute, and after a restart the time until each set was looked at, and writes",
    cases: &[
        (CREATE, &["elapsed_s", "writes_per_pod"]),
        (ROLLOUT, &["elapsed_s", "writes_per_pod"]),
        (RECREATE, &["elapsed_s", "writes_per_pod"]),
        (CREATE_SET, &["elapsed_s", "writes_per_pod"]),
        (ROLLOUT_SET, &["elapsed_s", "writes_per_pod"]),
        (rest::CASE, rest::METRICS),
    ],
};
const CREATE: &str = "create-500";
const ROLLOUT: &str = "rollout-500";
const RECREATE: &str = "recreate-500";
const CREATE_SET: &str = "create-500-stateful";
const ROLLOUT_SET: &str = "rollout-500-stateful";
/// Ours, the native one, and the cases of both: that they grow, where that is one of its own, and that they
/// roll out.
type Pair = (Kind, Kind, Option<&'static str>, &'static str);
const PAIRS: [Pair; 3] = [
    (Kind::CloneSet, Kind::Deployment, Some(CREATE), ROLLOUT),
    (Kind::RecreatedCloneSet, Kind::Deployment, None, RECREATE),
    (Kind::AdvancedStatefulSet, Kind::StatefulSet, Some(CREATE_SET), ROLLOUT_SET),
];

/// How large everything is. The defaults are what the names of the cases stand for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Nodes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods of the workload that grows and rolls out.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pods: u32,
    /// Sets at rest, of 100 pods each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    sets: u32,
}

pub(crate) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for pair in PAIRS {
        let (.., create, rollout) = pair;
        if create.into_iter().chain([rollout]).any(|case| options.common.wants(case)) {
            rows.extend(beside_the_native_one(options, pair).await?);
        }
    }
    if options.common.wants(rest::CASE) {
        rows.extend(rest::run(options).await?);
    }
    Ok(rows)
}

/// Figures of one kind.
#[derive(Debug, Default)]
struct Figures {
    create_s: Vec<f64>,
    create_writes: Vec<f64>,
    rollout_s: Vec<f64>,
    rollout_writes: Vec<f64>,
}

async fn beside_the_native_one(
    options: &Scale,
    (kind, native_kind, create, rollout): Pair,
) -> Result<Vec<Row>> {
    let scene = Scene::set(options.nodes, true, &[]).await?;
    let (mut ours, mut native) = (Figures::default(), Figures::default());
    for round in 0..options.common.runs {
        // Neither is always the first.
        let mut kinds = [(kind, &mut ours), (native_kind, &mut native)];
        if round % 2 == 1 {
            kinds.reverse();
        }
        for (kind, figures) in kinds {
            measure(&scene, kind, round, options.pods, figures).await?;
        }
    }
    scene.down()?;
    let row = |case, metric, unit| Row::new(&BENCH, case, metric, unit);
    let mut rows = Vec::new();
    if let Some(create) = create {
        rows.push(row(create, "elapsed_s", "s").medians(&ours.create_s, &native.create_s)?);
        rows.push(row(create, "writes_per_pod", "").medians(&ours.create_writes, &[])?);
    }
    rows.push(row(rollout, "elapsed_s", "s").medians(&ours.rollout_s, &native.rollout_s)?);
    rows.push(row(rollout, "writes_per_pod", "").medians(&ours.rollout_writes, &[])?);
    Ok(rows.into_iter().filter(|row| options.common.wants(row.case())).collect())
}

async fn measure(scene: &Scene, kind: Kind, round: u32, pods: u32, figures: &mut Figures) -> Result<()> {
    let name = format!("shop-{round}");
    let of_a_pod = |writes: f64| writes / f64::from(pods);

    let (begun, before) = (Instant::now(), scene.writes().await?);
    scene.make(kind, &name, pods).await?;
    scene.ready(kind, &name, pods).await?;
    figures.create_s.push(begun.elapsed().as_secs_f64());
    figures.create_writes.push(of_a_pod(scene.writes().await? - before));

    let (begun, before) = (Instant::now(), scene.writes().await?);
    scene.roll_out(kind, &name, round).await?;
    scene.ready(kind, &name, pods).await?;
    figures.rollout_s.push(begun.elapsed().as_secs_f64());
    figures.rollout_writes.push(of_a_pod(scene.writes().await? - before));

    eprintln!("{kind:?}: {figures:.2?}");
    scene.remove(kind, &name).await
}
