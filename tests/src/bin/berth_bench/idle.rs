//! Bench of a node on which nothing happens: berthd's CPU over a minute and its memory after it, with 40
//! pods, a kubelet that relists and containerd, whose own CPU over the same minute is the baseline.

use std::time::Duration;

use anyhow::{Context, Result};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::proxy::rss_mb;
use crate::proxy_bench::BENCH;
use crate::report::Row;

pub(crate) const CASE: &str = "idle-40-pods";
const PODS: usize = 40;
const MEASURED: Duration = Duration::from_secs(60);
/// The kubelet goes over pods that it has just started more often than over others.
const SETTLES: Duration = Duration::from_secs(20);

pub(crate) async fn run() -> Result<Vec<Row>> {
    let node = Node::builder().start().await?;
    let pods: Api<Pod> = Api::namespaced(node.client().await?, "default");
    for number in 0..PODS {
        let manifest = PodManifest::new("default", &format!("idle-{number}"))
            .ordered()
            .container(Container::new("a"))
            .container(Container::new("b"));
        pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
    }
    await_condition("all pods run", Duration::from_secs(600), async || {
        let running = ListParams::default().fields("status.phase=Running");
        let count = pods.list(&running).await?.items.len();
        anyhow::ensure!(count == PODS, "{count} of {PODS}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(SETTLES).await;

    let berthd = node.berthd()?.service().pid().context("berthd does not run")?;
    let containerd = node.containerd().service().pid().context("containerd does not run")?;
    let before = (cpu_s(berthd)?, cpu_s(containerd)?);
    tokio::time::sleep(MEASURED).await;
    let after = (cpu_s(berthd)?, cpu_s(containerd)?);
    let rss = rss_mb(berthd)?;
    node.down()?;

    let minutes = MEASURED.as_secs_f64() / 60.0;
    let cpu = [(after.0 - before.0) / minutes, (after.1 - before.1) / minutes];
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("cpu_s_per_min", "s").measured(cpu[0], Some(cpu[1]), 1),
        row("rss_mb", "MB").measured(rss, None, 1),
    ])
}

/// The processor time a process has used.
pub(crate) fn cpu_s(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("stat of a process")?;
    let (_, fields) = stat.rsplit_once(')').context("stat of a process")?;
    // utime and stime are the 14th and 15th field, in ticks; two fields are before the bracket.
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("CLK_TCK")?;
    Ok(ticks / per_second as f64)
}
