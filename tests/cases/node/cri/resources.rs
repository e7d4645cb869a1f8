//! Limits: as they are when a container is created, and as they are after an update.

use anyhow::{Context, Result, ensure};
use berth_proto::cri::*;
use berth_tests::compare::UpdateContainerResourcesRequest;
use serde_json::Value;

use super::same;
use super::way::Way;

const MEBIBYTE: i64 = 1 << 20;

fn limits() -> LinuxContainerResources {
    LinuxContainerResources {
        cpu_period: 100_000,
        cpu_quota: 50_000,
        cpu_shares: 512,
        memory_limit_in_bytes: 64 * MEBIBYTE,
        oom_score_adj: 500,
    }
}

/// Writes down the limits in the specification the runtime keeps.
async fn say(way: &Way, id: &str) -> Result<()> {
    let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = way.must(request).await?;
    let info: Value = serde_json::from_str(answer.info.get("info").context("no info")?)?;
    let linux = &info["runtimeSpec"]["linux"]["resources"];
    ensure!(linux.is_object(), "{info}");
    way.say(format!("  cpu {} memory {}", linux["cpu"], linux["memory"]));
    Ok(())
}

/// Writes down the limits the kernel has, wherever this machine's cgroups are.
async fn say_kernels(way: &Way, id: &str) -> Result<()> {
    let memory = "cat /sys/fs/cgroup/memory.max || cat /sys/fs/cgroup/memory/memory.limit_in_bytes";
    way.exec(id, &format!("({memory}) 2> /dev/null")).await?;
    let cpu = "cut -d ' ' -f 1 /sys/fs/cgroup/cpu.max || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us";
    way.exec(id, &format!("({cpu}) 2> /dev/null")).await.map(drop)
}

#[tokio::test]
async fn limits_from_the_start() -> Result<()> {
    let shows = ["\"quota\":50000", "67108864", "50000"];
    same("limits_from_the_start", &shows, async |way| {
        let mut config = way.idle("c");
        config.linux.get_or_insert_default().resources = Some(limits());
        let id = way.started(way.home().await?, config).await?;
        say(way, &id).await?;
        say_kernels(way, &id).await
    })
    .await
}

#[tokio::test]
async fn limits_after_an_update() -> Result<()> {
    let shows = ["67108864", "UpdateContainerResources: OK", "\"quota\":30000", "100663296", "30000"];
    same("limits_after_an_update", &shows, async |way| {
        let mut config = way.idle("c");
        config.linux.get_or_insert_default().resources = Some(limits());
        let id = way.started(way.home().await?, config).await?;
        say_kernels(way, &id).await?;
        let linux =
            LinuxContainerResources { cpu_quota: 30_000, memory_limit_in_bytes: 96 * MEBIBYTE, ..limits() };
        way.must(UpdateContainerResourcesRequest { container_id: id.clone(), linux: Some(linux) }).await?;
        say(way, &id).await?;
        say_kernels(way, &id).await
    })
    .await
}

#[tokio::test]
async fn limits_updated_before_the_start() -> Result<()> {
    let shows = ["CreateContainer: OK", "UpdateContainerResources: OK", "StartContainer: OK", "100663296"];
    same("limits_updated_before_the_start", &shows, async |way| {
        let mut config = way.idle("c");
        config.linux.get_or_insert_default().resources = Some(limits());
        let id = way.create(way.home().await?, config).await?;
        let linux = LinuxContainerResources { memory_limit_in_bytes: 96 * MEBIBYTE, ..limits() };
        way.must(UpdateContainerResourcesRequest { container_id: id.clone(), linux: Some(linux) }).await?;
        way.start(&id).await?;
        say_kernels(way, &id).await
    })
    .await
}

#[tokio::test]
async fn limits_of_what_has_ended() -> Result<()> {
    same("limits_of_what_has_ended", &["ContainerExited", "UpdateContainerResources: "], async |way| {
        let id = way.started(way.home().await?, way.script("c", "exit 0")).await?;
        way.exited(&id).await?;
        let request = UpdateContainerResourcesRequest { container_id: id, linux: Some(limits()) };
        way.ask(request).await.map(drop)
    })
    .await
}
