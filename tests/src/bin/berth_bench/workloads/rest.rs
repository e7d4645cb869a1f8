//! Many sets at rest: what they cost, and what a restart of berth-workloads does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::wait::await_condition;

use super::scene::{Kind, Scene};
use super::{BENCH, Scale};
use crate::idle::cpu_s;
use crate::manager::memory_mb;
use crate::report::Row;

pub(super) const CASE: &str = "rest-10000";
pub(super) const METRICS: &[&str] =
    &["rss_mb", "cpu_s_per_min", "writes_per_min", "first_pass_s", "restart_writes", "restart_rss_mb"];
const PODS_OF_A_SET: u32 = 100;
const MEASURED: Duration = Duration::from_secs(60);
/// Answers to what was written last still come.
const SETTLES: Duration = Duration::from_secs(30);
/// Lease as it is by default: at rest its renewals are most of the work.
const LEASE: &str = "--lease-duration=15";
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let scene = Scene::set(options.nodes, false, &[LEASE]).await?;
    // A process that seldom wakes finds the caches of the machine cold, and pays several times as much for
    // the same work on one machine as on another. So the figure stands beside that of the program without a
    // set.
    tokio::time::sleep(SETTLES).await;
    let pid = scene.workloads().service().pid().context("berth-workloads has ended")?;
    let empty = cpu_s_per_min(pid).await?;
    let begun = Instant::now();
    for set in 0..options.sets {
        scene.make(Kind::CloneSet, &format!("shop-{set}"), PODS_OF_A_SET).await?;
    }
    for set in 0..options.sets {
        scene.ready(Kind::CloneSet, &format!("shop-{set}"), PODS_OF_A_SET).await?;
    }
    eprintln!("{} sets ready after {:.0} s", options.sets, begun.elapsed().as_secs_f64());
    tokio::time::sleep(SETTLES).await;

    let service = scene.workloads().service();
    let pid = service.pid().context("berth-workloads has ended")?;
    let writes = scene.own_writes().await?;
    let cpu = cpu_s_per_min(pid).await?;
    let rss = memory_mb(pid, "VmRSS")?;
    let writes = (scene.own_writes().await? - writes) / (MEASURED.as_secs_f64() / 60.0);
    eprintln!("at rest: {rss:.0} MB, {:.0} MB at the most", memory_mb(pid, "VmHWM")?);

    service.kill()?;
    let begun = Instant::now();
    service.start()?;
    scene.workloads().ready().await?;
    await_condition("each set was looked at", PATIENCE, async || {
        let passes = scene.workloads().metric("berth_workloads_passes_total").await?;
        ensure!(passes >= f64::from(options.sets), "{passes} passes");
        Ok(())
    })
    .await?;
    let first_pass = begun.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLES).await;
    let pid = service.pid().context("berth-workloads has ended")?;
    let (restart_writes, restart_rss) = (scene.own_writes().await?, memory_mb(pid, "VmRSS")?);
    scene.down()?;

    let beside = |metric, unit, value, empty| Row::new(&BENCH, CASE, metric, unit).measured(value, empty, 1);
    let row = |metric, unit, value| beside(metric, unit, value, None);
    Ok(vec![
        row("rss_mb", "MB", rss),
        beside("cpu_s_per_min", "s", cpu, Some(empty)),
        row("writes_per_min", "", writes),
        row("first_pass_s", "s", first_pass),
        row("restart_writes", "", restart_writes),
        row("restart_rss_mb", "MB", restart_rss),
    ])
}

/// CPU time that a process takes in a minute of what is measured.
async fn cpu_s_per_min(pid: u32) -> Result<f64> {
    let before = cpu_s(pid)?;
    tokio::time::sleep(MEASURED).await;
    Ok((cpu_s(pid)? - before) / (MEASURED.as_secs_f64() / 60.0))
}
