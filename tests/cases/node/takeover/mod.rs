//! berthd at containerd's own path: a kubelet that is configured for containerd, and was restarted once,
//! speaks to berthd.

mod deployed;
mod two_programs;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::observe::Cri;
use berth_tests::wait::await_condition;

use crate::case::{Case, PATIENCE, container, run_takeover};

/// A pod that is listed in the wrong order starts in the right one.
async fn starts_in_order(case: &Case, name: &str) -> Result<()> {
    let pod = case.manifest(name).container(Container::new("b").priority(1)).container(
        Container::new("a").shell("sleep 1; touch /tmp/up").ready_when("test -f /tmp/up").priority(2),
    );
    let recorder = case.record(name);
    case.create(&pod).await?;
    case.await_ready(name).await?;
    recorder.finish().await?.check_start_order(&["a", "b"], Duration::ZERO)
}

/// Fails unless two names are of one socket.
fn check_same(one: &Path, other: &Path) -> Result<()> {
    let id = |path: &Path| path.symlink_metadata().map(|file| (file.dev(), file.ino()));
    let (this, that) = (id(one).context("no socket")?, id(other).context("no socket")?);
    ensure!(this == that, "{} is not {}", one.display(), other.display());
    Ok(())
}

/// Waits until containerd's path is berthd's socket.
async fn await_taken(case: &Case) -> Result<()> {
    let own = case.node.containerd().socket().with_extension("sock.berth");
    await_condition("the place is taken", PATIENCE, async || {
        check_same(case.node.containerd().socket(), &own)?;
        case.node.berthd()?.ready().await
    })
    .await
}

#[tokio::test]
async fn pods_are_ordered_and_other_clients_go_on() -> Result<()> {
    run_takeover("takeover_pods_are_ordered", async |case: &Case| {
        let (berthd, containerd) = (case.node.berthd()?, case.node.containerd());
        starts_in_order(case, "pod").await?;
        let status: serde_json::Value = serde_json::from_str(&berthd.ctl(&["status", "-o", "json"]).await?)?;
        ensure!(status["path"] == "takeover", "{status}");
        // containerd's own API, of which berthd knows nothing, at the same path.
        let listed = containerd.ctr(&["containers", "list"]).await?;
        ensure!(listed.lines().count() > 3, "{listed}");
        for round in 0..2 {
            let before = berthd.service().pid();
            let program = std::fs::read_link(format!("/proc/{}/exe", before.context("no process")?))?;
            berthd.upgrade(&program, &["--watch=1s"]).await?;
            ensure!(berthd.service().pid() != before, "the same process answers");
            starts_in_order(case, &format!("upgraded-{round}")).await?;
            let old = before.unwrap_or_default();
            await_condition("the old berthd ends", PATIENCE, async || {
                ensure!(!Path::new(&format!("/proc/{old}/exe")).exists(), "it runs");
                Ok(())
            })
            .await?;
            check_same(containerd.socket(), &containerd.socket().with_extension("sock.berth"))?;
        }
        starts_in_order(case, "last").await
    })
    .await
}

#[tokio::test]
async fn after_a_crash_the_runtime_is_back() -> Result<()> {
    run_takeover("takeover_after_a_crash", async |case: &Case| {
        let (berthd, containerd) = (case.node.berthd()?, case.node.containerd());
        starts_in_order(case, "before").await?;
        berthd.service().kill()?;
        await_condition("containerd answers at its path", PATIENCE, async || {
            check_same(containerd.socket(), &containerd.aside())?;
            Cri::connect(containerd.socket())?.version().await.map(drop)
        })
        .await?;
        // The kubelet goes on by itself.
        case.create(&case.manifest("meanwhile").container(Container::new("main"))).await?;
        case.await_ready("meanwhile").await?;
        berthd.service().start()?;
        await_taken(case).await?;
        case.node.kubelet()?.restart().await?;
        case.node.registered_and_ready().await?;
        starts_in_order(case, "after").await?;
        for (pod, name) in [("before", "a"), ("before", "b"), ("meanwhile", "main")] {
            let status = case.await_ready(pod).await?;
            ensure!(container(&status, name)?.restart_count == 0, "{pod}: {name} was restarted");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_restarted_containerd_is_put_aside_again() -> Result<()> {
    run_takeover("takeover_containerd_restarts", async |case: &Case| {
        starts_in_order(case, "before").await?;
        case.node.containerd().restart().await?;
        await_taken(case).await?;
        starts_in_order(case, "after").await?;
        for name in ["a", "b"] {
            let status = case.await_ready("before").await?;
            ensure!(container(&status, name)?.restart_count == 0, "{name} was restarted");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_stop_leaves_the_place() -> Result<()> {
    run_takeover("takeover_a_stop", async |case: &Case| {
        let (berthd, containerd) = (case.node.berthd()?, case.node.containerd());
        starts_in_order(case, "before").await?;
        berthd.service().stop()?;
        ensure!(!containerd.aside().exists(), "the second name is left");
        Cri::connect(containerd.socket())?.version().await?;
        case.create(&case.manifest("meanwhile").container(Container::new("main"))).await?;
        case.await_ready("meanwhile").await?;
        berthd.service().start()?;
        await_taken(case).await?;
        case.node.kubelet()?.restart().await?;
        case.node.registered_and_ready().await?;
        starts_in_order(case, "after").await
    })
    .await
}
