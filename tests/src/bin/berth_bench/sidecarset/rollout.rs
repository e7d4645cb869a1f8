//! A new revision for all pods of a large cluster, from the edit of the set until its status says that all
//! have it and are ready.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::SidecarSet;
use berth_sidecarset::names;
use berth_tests::node::{ControlPlane, Manager, Replica, User, crds, programs};
use berth_tests::wait::await_condition;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::{BENCH, Scale, annotation, set};
use crate::agents::{Agents, Upgrade};
use crate::idle::cpu_s;
use crate::manager::cluster::Cluster;
use crate::manager::memory_mb;
use crate::report::Row;

pub(super) const CASE: &str = "rollout-30000";
const SET: &str = "logs";
const PATIENCE: Duration = Duration::from_secs(3600);
/// As the pods of the cluster have it.
const BEFORE: &str = "registry.example.com/shop/log:1.2.3";

pub(super) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    let sets: Api<SidecarSet> = Api::all(client.clone());
    let first = set(SET, "shop", BEFORE, None)?;
    let (hash, without_image) =
        (annotation(&first, names::HASH), annotation(&first, names::HASH_WITHOUT_IMAGE));
    sets.create(&PostParams::default(), &first).await.context("make the set")?;
    let (nodes, pods) = (options.nodes, options.nodes * options.pods_per_node);
    let annotations = json!({
        names::HASH: hash.to_string(), names::HASH_WITHOUT_IMAGE: without_image.to_string(),
        names::INJECTED_LIST: SET,
    });
    let begun = Instant::now();
    Cluster { nodes, pods, annotations }.create(&plane, &client).await?;
    let agents = Agents::start(&plane, &client, nodes, Upgrade::Sidecars).await?;
    eprintln!("{nodes} nodes and {pods} pods made in {:.0} s", begun.elapsed().as_secs_f64());

    programs::manager()?;
    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    let manager = Manager::start(plane.run(), Replica::First, &kubeconfig, ("default", 15)).await?;
    manager.leads().await?;
    let pid = manager.service().pid().context("the manager has ended")?;
    ready(&sets, pods).await?;
    eprintln!("counted: {:.0} MB and {:.1} s of CPU", memory_mb(pid, "VmRSS")?, cpu_s(pid)?);

    let (mut elapsed, mut writes, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.common.runs {
        let (seconds, written, spent) = upgrade(&client, &agents, pid, round, pods).await?;
        eprintln!(
            "{pods} pods upgraded in {seconds:.1} s, {written:.2} writes of a pod, {spent:.1} s of CPU"
        );
        elapsed.push(seconds);
        writes.push(written);
        cpu.push(spent);
    }
    let (rss, peak) = (memory_mb(pid, "VmRSS")?, memory_mb(pid, "VmHWM")?);
    eprintln!("manager: {rss:.0} MB, {peak:.0} MB at the most");
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("elapsed_s", "s").medians(&elapsed, &[])?,
        row("writes_per_pod", "").medians(&writes, &[])?,
        row("rss_mb", "MB").measured(rss, None, 1),
        row("cpu_s", "s").medians(&cpu, &[])?,
    ])
}

/// The status says that all pods have the newest sidecars, and are ready.
async fn ready(sets: &Api<SidecarSet>, pods: u32) -> Result<()> {
    await_condition("all pods are up to date", PATIENCE, async || {
        let set = sets.get(SET).await?;
        let status = set.status.context("no status")?;
        let all = i32::try_from(pods).ok();
        ensure!(status.observed_generation == set.metadata.generation, "not seen");
        ensure!(
            status.updated_ready_pods == all && status.matched_pods == all,
            "{:?}",
            status.updated_ready_pods
        );
        Ok(())
    })
    .await
}

/// Seconds, writes of a pod and seconds of CPU of one upgrade.
async fn upgrade(
    client: &Client,
    agents: &Agents,
    pid: u32,
    round: u32,
    pods: u32,
) -> Result<(f64, f64, f64)> {
    let sets: Api<SidecarSet> = Api::all(client.clone());
    let (spent, written) = (cpu_s(pid)?, agents.writes());
    let begun = Instant::now();
    let old = sets.get(SET).await?;
    let next = set(SET, "shop", &format!("registry.example.com/shop/log:2.{round}"), Some(&old))?;
    sets.replace(SET, &PostParams::default(), &next).await.context("edit the set")?;
    ready(&sets, pods).await?;
    let elapsed = begun.elapsed().as_secs_f64();
    let written = agents.writes().saturating_sub(written);
    Ok((elapsed, f64::from(written) / f64::from(pods), cpu_s(pid)? - spent))
}
