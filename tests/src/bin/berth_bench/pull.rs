//! Pull: from an ImagePullJob made to its one node counted as succeeded.
//!
//! All parts are real: registry, manager, berthd, containerd. The baseline is what cannot be saved: the CRI's own PullImage of
//! another image of the same size, made a moment before; for an image that is there already it is nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePullJob, NodeImage};
use berth_tests::node::{Manager, NODE_NAME, Node, Registry, Replica, User, images};
use berth_tests::wait::await_condition;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::Options;
use crate::report::{Bench, Row};

const METRICS: &[&str] = &["succeeded_s", "beyond_the_pull_s"];

pub(crate) const BENCH: Bench = Bench {
    name: "pull",
    about: "ImagePullJob made to its node counted as succeeded, and what of it is not the pull; baseline: PullImage",
    cases: &[(MISSING, METRICS), (PRESENT, METRICS)],
};
const MISSING: &str = "20-MiB";
const PRESENT: &str = "present";
const SIZE: usize = 20 << 20;
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";

pub(crate) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let kubeconfig = node.api()?.kubeconfig(User::Admin)?;
    let manager = Manager::start(node.run(), Replica::First, &kubeconfig, (NAMESPACE, 15)).await?;
    manager.leads().await?;
    let registry = Registry::start(node.run()).await?;
    let client = node.client().await?;
    let cri = node.containerd().cri()?;
    let images: Api<NodeImage> = Api::all(client.clone());
    await_condition("the agent has made its NodeImage", PATIENCE, async || {
        ensure!(images.get_opt(NODE_NAME).await?.is_some(), "not yet");
        Ok(())
    })
    .await?;

    let (mut direct, mut pulled, mut present) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..options.runs {
        let mut references = Vec::new();
        for which in ["direct", "job"] {
            let name = format!("{which}:{run}");
            let archive = images::sized(node.run(), &name, SIZE).await?;
            references.push(registry.push(&archive, &name).await?);
            std::fs::remove_file(&archive).context("remove an archive")?;
        }
        let begun = Instant::now();
        cri.pull(&references[0]).await?;
        direct.push(begun.elapsed().as_secs_f64());
        pulled.push(job(&client, &format!("missing-{run}"), &references[1]).await?);
        present.push(job(&client, &format!("present-{run}"), &references[1]).await?);
        eprintln!(
            "run {run}: direct {:.2?}, job {:.2?}, present {:.2?}",
            direct.last(),
            pulled.last(),
            present.last()
        );
    }
    drop((manager, registry));
    node.down()?;

    let mut rows = Vec::new();
    let none = vec![0.0; direct.len()];
    for (case, times, baseline) in [(MISSING, &pulled, &direct), (PRESENT, &present, &none)] {
        if !options.wants(case) {
            continue;
        }
        let row = |metric| Row::new(&BENCH, case, metric, "s");
        let beyond: Vec<f64> = times.iter().zip(baseline).map(|(time, baseline)| time - baseline).collect();
        let shown: &[f64] = if case == MISSING { baseline } else { &[] };
        rows.push(row("succeeded_s").medians(times, shown)?);
        rows.push(row("beyond_the_pull_s").medians(&beyond, &[])?);
    }
    Ok(rows)
}

/// Seconds from the job's creation to its node counted.
async fn job(client: &Client, name: &str, image: &str) -> Result<f64> {
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), NAMESPACE);
    let object = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ImagePullJob",
        "metadata": { "name": name },
        "spec": { "image": image, "completionPolicy": { "type": "Always" } },
    }))?;
    let begun = Instant::now();
    jobs.create(&PostParams::default(), &object).await.context("make a job")?;
    let elapsed = await_condition(format!("job {name} has succeeded"), PATIENCE, async || {
        let status = jobs.get(name).await?.status.unwrap_or_default();
        ensure!(status.succeeded == Some(1), "{status:?}");
        Ok(begun.elapsed().as_secs_f64())
    })
    .await?;
    jobs.delete(name, &DeleteParams::default()).await.context("delete a job")?;
    Ok(elapsed)
}
