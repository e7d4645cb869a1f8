//! One node: from an ImagePullJob made to its one node counted as succeeded.
//!
//! All parts are real: registry, manager, berthd, containerd. The baseline is what cannot be saved: the CRI's
//! own PullImage of another image of the same size, made a moment before; for an image that is there already
//! it is nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePullJob, NodeImage};
use berth_tests::node::{Manager, NODE_NAME, Node, Registry, images};
use berth_tests::wait::await_condition;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::row;
use crate::Options;
use crate::report::Row;

pub(super) const METRICS: &[&str] = &["overhead_s", "elapsed_s"];
pub(super) const SMALL: &str = "one-node-small";
pub(super) const LARGE: &str = "one-node-large";
pub(super) const PRESENT: &str = "one-node-present";
/// Bytes.
const SIZES: [(&str, usize); 2] = [(SMALL, 20 << 20), (LARGE, 200 << 20)];
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";

pub(super) async fn run(options: &Options) -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let manager = Manager::leading(&node, NAMESPACE).await?;
    let registry = Registry::start(node.run()).await?;
    let client = node.client().await?;
    let cri = node.containerd().cri()?;
    let images: Api<NodeImage> = Api::all(client.clone());
    await_condition("the agent has made its NodeImage", PATIENCE, async || {
        ensure!(images.get_opt(NODE_NAME).await?.is_some(), "not yet");
        Ok(())
    })
    .await?;

    let mut rows = Vec::new();
    for (case, size) in SIZES {
        // The image that is there is the small one.
        let there = case == SMALL && options.wants(PRESENT);
        if !options.wants(case) && !there {
            continue;
        }
        let (mut direct, mut pulled, mut present) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..options.runs {
            let mut references = Vec::new();
            for which in ["direct", "job"] {
                let name = format!("{case}-{which}:{run}");
                let archive = images::sized(node.run(), &name, size).await?;
                references.push(registry.push(&archive, &name).await?);
                std::fs::remove_file(&archive).context("remove an archive")?;
            }
            let begun = Instant::now();
            cri.pull(&references[0]).await?;
            direct.push(begun.elapsed().as_secs_f64());
            pulled.push(job(&client, &format!("{case}-{run}"), &references[1]).await?);
            present.push(job(&client, &format!("{case}-present-{run}"), &references[1]).await?);
            eprintln!("{case}, run {run}: direct, job, present: {direct:.2?} {pulled:.2?} {present:.2?}");
        }
        if options.wants(case) {
            let beyond: Vec<f64> =
                pulled.iter().zip(&direct).map(|(time, baseline)| time - baseline).collect();
            rows.push(row(case, "overhead_s", "s").medians(&beyond, &[])?);
            rows.push(row(case, "elapsed_s", "s").medians(&pulled, &direct)?);
        }
        if there {
            rows.push(row(PRESENT, "overhead_s", "s").medians(&present, &[])?);
            rows.push(row(PRESENT, "elapsed_s", "s").medians(&present, &[])?);
        }
    }
    drop((manager, registry));
    node.down()?;
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
