//! The manager in a large cluster: how long until 1,000 requests made at once are assigned, and what that
//! takes?
//!
//! etcd, the API server and the manager are real; nodes, pods and what the pods' statuses say exist
//! on paper only. The clock starts before the first request is made and
//! stops when a watch has shown the last one assigned, so the API server's work for the requests is in it.
//! Without the manager there is no such work, so there is no baseline.

pub(crate) mod cluster;
mod flood;

use std::{
    collections::HashSet,
    fs,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use berth_proto::crd::ContainerRecreateRequest;
use berth_tests::node::{ControlPlane, Manager, Replica, User, crds, programs};
use berth_tests::wait::await_condition;
use clap::Args;
use futures::TryStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use self::cluster::Cluster;
use crate::idle::cpu_s;
use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "manager",
    about: "1,000 requests made at once in a cluster of 2,000 nodes: time until all are assigned, memory and CPU of the manager; one tenant's request, pull and probe while another has made 10,000 markers and 40 large jobs, against the same without it",
    cases: &[(CASE, &["elapsed_s", "rss_mb", "cpu_s"]), (flood::CASE, flood::METRICS)],
};
const CASE: &str = "assign-1000";
const PATIENCE: Duration = Duration::from_secs(300);
/// In so long the manager has returned memory that it needed for the requests.
const RESTS: Duration = Duration::from_secs(45);

/// How large the cluster is. The defaults are what the case's name stands for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Large {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Nodes.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods of each node, with two containers and a sidecar each.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pods_per_node: u32,
    /// Requests made at once; each is about another pod.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Markers that the one makes who floods.
    #[arg(long, default_value_t = 10_000)]
    markers: u32,
    /// Jobs that it makes, as large as the definition lets them be.
    #[arg(long, default_value_t = 40)]
    large_jobs: u32,
}

pub(crate) async fn run(options: &Large) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if options.common.wants(CASE) {
        rows.extend(many_requests(options).await?);
    }
    if options.common.wants(flood::CASE) {
        rows.extend(flood::run(options).await?);
    }
    Ok(rows)
}

async fn many_requests(options: &Large) -> Result<Vec<Row>> {
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    let pods = options.nodes * options.pods_per_node;
    let cluster = Cluster { nodes: options.nodes, pods, annotations: json!({}) };
    let begun = Instant::now();
    cluster.create(&plane, &client).await?;
    let (nodes, pods) = (cluster.nodes, cluster.pods);
    eprintln!("{nodes} nodes and {pods} pods made in {:.0} s", begun.elapsed().as_secs_f64());

    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    // Building it is not its start.
    programs::manager()?;
    let begun = Instant::now();
    let manager = Manager::start(plane.run(), Replica::First, &kubeconfig, ("default", 15)).await?;
    manager.leads().await?;
    let pid = manager.service().pid().context("the manager has ended")?;
    // The API server's cache follows what was put into the store.
    await_condition("the manager sees all pods", Duration::from_secs(60), async || {
        let seen = manager.metric("berth_manager_objects{kind=\"pods\"}").await?;
        anyhow::ensure!(seen == f64::from(pods), "{seen} of {pods}");
        Ok(())
    })
    .await?;
    eprintln!(
        "manager ready after {:.1} s and {:.1} s of CPU, {:.0} MB",
        begun.elapsed().as_secs_f64(),
        cpu_s(pid)?,
        memory_mb(pid, "VmRSS")?
    );

    let (mut elapsed, mut cpu) = (Vec::new(), Vec::new());
    for round in 0..options.common.runs {
        let before = cpu_s(pid)?;
        elapsed.push(assign(&client, &cluster, round, options.requests).await?);
        cpu.push(cpu_s(pid)? - before);
    }
    tokio::time::sleep(RESTS).await;
    let (rss, peak) = (memory_mb(pid, "VmRSS")?, memory_mb(pid, "VmHWM")?);
    eprintln!("assigned in {elapsed:.2?} s with {cpu:.2?} s of CPU; {rss:.0} MB, {peak:.0} MB at the most");
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("elapsed_s", "s").medians(&elapsed, &[])?,
        row("rss_mb", "MB").measured(rss, None, 1),
        row("cpu_s", "s").medians(&cpu, &[])?,
    ])
}

/// Makes requests and waits until a watch has shown each of them assigned; in seconds.
async fn assign(client: &Client, cluster: &Cluster, round: u32, requests: u32) -> Result<f64> {
    let shown: Api<ContainerRecreateRequest> = Api::all(client.clone());
    let mut events = pin!(watcher::watcher(shown, watcher::Config::default()));
    while !matches!(events.try_next().await?.context("the watch ended")?, Event::InitDone) {}

    let prefix = format!("round-{round}-");
    let mut assigned = HashSet::new();
    let begun = Instant::now();
    let watched = async {
        while assigned.len() < requests as usize {
            let Event::Apply(request) = events.try_next().await?.context("the watch ended")? else {
                continue;
            };
            let has_node = request.status.as_ref().is_some_and(|status| status.node_name.is_some());
            let name = request.name_any();
            if has_node && name.starts_with(&prefix) {
                assigned.insert(name);
            }
        }
        anyhow::Ok(begun.elapsed().as_secs_f64())
    };
    let made = async {
        cluster.ask(client, &prefix, requests).await?;
        Ok(begun.elapsed().as_secs_f64())
    };
    let both = tokio::time::timeout(PATIENCE, futures::future::try_join(watched, made)).await;
    let (elapsed, made) = both.context("not all requests were assigned")??;
    eprintln!("{requests} requests made in {made:.2} s, assigned {:.2} s later", elapsed - made);
    Ok(elapsed)
}

/// A line of /proc/PID/status.
pub(crate) fn memory_mb(pid: u32, line: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("status of a process")?;
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let value = value.and_then(|text| text.trim().strip_suffix("kB")).context("status of a process")?;
    Ok(value.trim().parse::<f64>().context("status of a process")? / 1024.0)
}
