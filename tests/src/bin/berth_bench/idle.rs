//! Bench of a node on which nothing happens: CPU of our programs over a minute and their memory after it,
//! with 40 pods, a kubelet that relists and containerd, whose own CPU over the same minute is the baseline.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{Builder, Node};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::proxy::{rss_mb, two_programs};
use crate::proxy_bench;
use crate::report::Row;

pub(crate) const CASE: &str = "idle-40-pods";
const PODS: usize = 40;
const MEASURED: Duration = Duration::from_secs(60);
/// The kubelet goes over pods that it has just started more often than over others.
const SETTLES: Duration = Duration::from_secs(20);
/// The most that a `berth-shim` of a release takes at rest: it is to be small on each node. Some 4 MB are
/// usual. Beside berthd's, this is what the second program costs.
const MOST_SHIM_MB: f64 = 6.0;

/// Needs of our programs.
struct Idle {
    /// In a minute; ours, and containerd's.
    cpu_s: [f64; 2],
    berthd_mb: f64,
    /// Where the data path is a program of its own.
    shim_mb: Option<f64>,
}

/// Measures berthd alone.
pub(crate) async fn run() -> Result<Vec<Row>> {
    let idle = measure(Node::builder()).await?;
    let row = |metric, unit| Row::new(&proxy_bench::BENCH, CASE, metric, unit);
    Ok(vec![
        row("cpu_s_per_min", "s").measured(idle.cpu_s[0], Some(idle.cpu_s[1]), 1),
        row("rss_mb", "MB").measured(idle.berthd_mb, None, 1),
    ])
}

/// Measures berthd behind a `berth-shim`, which must not be large.
pub(crate) async fn run_two_programs() -> Result<Vec<Row>> {
    let idle = measure(Node::builder().two_programs()).await?;
    let shim = idle.shim_mb.context("no berth-shim runs")?;
    // Programs for debugging are larger.
    ensure!(cfg!(debug_assertions) || shim <= MOST_SHIM_MB, "berth-shim takes {shim} MB of {MOST_SHIM_MB}");
    let row = |metric, unit| Row::new(&two_programs::BENCH, CASE, metric, unit);
    Ok(vec![
        row("cpu_s_per_min", "s").measured(idle.cpu_s[0], Some(idle.cpu_s[1]), 1),
        row("rss_mb", "MB").measured(idle.berthd_mb, None, 1),
        row("shim_rss_mb", "MB").measured(shim, None, 1),
    ])
}

async fn measure(builder: Builder) -> Result<Idle> {
    let node = builder.start().await?;
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
        ensure!(count == PODS, "{count} of {PODS}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(SETTLES).await;

    let berthd = node.berthd()?.service().pid().context("berthd does not run")?;
    let shim = node.berthd()?.shim().and_then(|shim| shim.pid());
    let containerd = node.containerd().service().pid().context("containerd does not run")?;
    let used =
        || -> Result<[f64; 2]> { Ok([cpu_s(berthd)? + shim.map_or(Ok(0.0), cpu_s)?, cpu_s(containerd)?]) };
    let before = used()?;
    tokio::time::sleep(MEASURED).await;
    let after = used()?;
    let (berthd_mb, shim_mb) = (rss_mb(berthd)?, shim.map(rss_mb).transpose()?);
    node.down()?;
    let minutes = MEASURED.as_secs_f64() / 60.0;
    let cpu_s = [0, 1].map(|side| (after[side] - before[side]) / minutes);
    Ok(Idle { cpu_s, berthd_mb, shim_mb })
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
