//! A `berth-shim` at containerd's own path, as a process outside of berthd's: berthd comes and goes
//! unnoticed, and whatever becomes of the shim, somebody answers at that path.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::observe::{Caller, Cri, complaints};
use berth_tests::wait::await_condition;

use super::{await_taken, check_same, starts_in_order};
use crate::case::{Case, PATIENCE, container, run_takeover_behind_shim};

/// Accepts a process that has no capability and gets none, and whose system calls and memory are bounded.
fn is_confined(pid: u32) -> Result<()> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("status of a process")?;
    for line in [
        "CapInh:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        ensure!(status.lines().any(|other| other == line), "{line} is not in {status}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).context("limits of a process")?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max data size"));
    ensure!(limit.is_some_and(|limit| limit.trim_start().starts_with("1073741824 ")), "{limits}");
    Ok(())
}

/// Waits until containerd's path is containerd's socket.
async fn given_back(case: &Case) -> Result<()> {
    let containerd = case.node.containerd();
    await_condition("containerd is at its path", PATIENCE, async || {
        check_same(containerd.socket(), &containerd.aside())?;
        Cri::connect(containerd.socket())?.version().await.map(drop)
    })
    .await
}

/// Leads a kubelet that has spoken to containerd meanwhile through the place again.
async fn through_the_place(case: &Case, pod: &str) -> Result<()> {
    await_taken(case).await?;
    case.node.berthd()?.serving().await?;
    case.node.kubelet()?.restart().await?;
    case.node.registered_and_ready().await?;
    starts_in_order(case, pod).await
}

#[tokio::test]
async fn berthd_comes_and_goes_and_the_runtime_is_never_missed() -> Result<()> {
    run_takeover_behind_shim("takeover_two_programs", async |case: &Case| {
        let (berthd, containerd) = (case.node.berthd()?, case.node.containerd());
        let own = containerd.socket().with_extension("sock.berth");
        starts_in_order(case, "before").await?;
        let shim = berthd.follow_shim().await?;
        is_confined(shim)?;

        // Killed, ended as with its pod, and started anew: the shim is where it was, and no call fails.
        let caller = Caller::start(containerd.socket())?;
        berthd.crash().await?;
        starts_in_order(case, "killed").await?;
        berthd.service().stop()?;
        check_same(containerd.socket(), &own)?;
        case.create(&case.manifest("meanwhile").container(Container::new("main"))).await?;
        berthd.service().start()?;
        berthd.serving().await?;
        case.await_ready("meanwhile").await?;
        ensure!(berthd.follow_shim().await? == shim, "another berth-shim answers");
        berthd.upgrade_shim().await?;
        let upgraded = berthd.follow_shim().await?;
        ensure!(upgraded != shim, "the same berth-shim answers");
        is_confined(upgraded)?;
        starts_in_order(case, "upgraded").await?;
        caller.all_answered().await?;
        let complaints = complaints(&case.node.client().await?, &case.namespace).await?;
        ensure!(complaints.is_empty(), "{complaints:?}");

        // The way past it, and back.
        let last = berthd.follow_shim().await?;
        let bypass = format!("--takeover={}", containerd.socket().display());
        let said = berthd.ctl(&["bypass", &bypass]).await;
        said.context("bypass")?;
        given_back(case).await?;
        await_condition("the shim ends", PATIENCE, async || {
            ensure!(!Path::new(&format!("/proc/{last}/exe")).exists(), "it runs");
            Ok(())
        })
        .await?;
        case.create(&case.manifest("past").container(Container::new("main"))).await?;
        case.await_ready("past").await?;
        berthd.ctl(&["bypass", &bypass, "--undo"]).await?;
        through_the_place(case, "undone").await?;

        // A shim that dies is followed by another one where there is a berthd, and by the runtime where not.
        let last = berthd.follow_shim().await?;
        berthd.shim().context("no shim")?.kill()?;
        await_condition("another shim serves", PATIENCE, async || {
            ensure!(berthd.follow_shim().await? != last, "the same");
            Ok(())
        })
        .await?;
        through_the_place(case, "followed").await?;
        berthd.service().stop()?;
        berthd.shim().context("no shim")?.kill()?;
        given_back(case).await?;
        case.create(&case.manifest("alone").container(Container::new("main"))).await?;
        case.await_ready("alone").await?;
        berthd.service().start()?;
        berthd.ready().await?;
        berthd.follow_shim().await?;
        through_the_place(case, "last").await?;
        for (pod, name) in [("before", "a"), ("before", "b"), ("meanwhile", "main"), ("alone", "main")] {
            let status = case.await_ready(pod).await?;
            ensure!(container(&status, name)?.restart_count == 0, "{pod}: {name} was restarted");
        }
        Ok(())
    })
    .await
}
