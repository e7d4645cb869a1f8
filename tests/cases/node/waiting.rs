//! Waiting: the lower containers when a higher one does not get ready, and pods that never wait at all.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::node::tool;
use berth_tests::wait::await_condition;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::case::{Case, PATIENCE, container, run, waits_for};

/// The longest time berthd holds a call (`launchOrder.holdTimeout`).
const HOLD: Duration = Duration::from_secs(5);
/// Difference in time that two runs of the same thing may have on a busy machine.
const NOISE: Duration = Duration::from_secs(10);

async fn deletion(case: &Case, pod: &str) -> Result<Duration> {
    let begun = Instant::now();
    case.delete(pod).await?;
    Ok(begun.elapsed())
}

#[tokio::test]
async fn higher_one_never_ready() -> Result<()> {
    run("higher_one_never_ready", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(Container::new("c").priority(1))
            .container(Container::new("b").priority(2))
            .container(Container::new("a").priority(3).ready_when("false"));
        case.create(&manifest).await?;
        case.await_pod("pod", "b waits for a", |pod| waits_for(pod, "b", "a")).await?;
        case.await_pod("pod", "c waits for both", |pod| waits_for(pod, "c", "a, b")).await?;

        let plain = case
            .manifest("plain")
            .container(Container::new("c"))
            .container(Container::new("b"))
            .container(Container::new("a").ready_when("false"));
        case.create(&plain).await?;
        case.await_pod("plain", "a runs", |pod| {
            ensure!(container(pod, "a")?.started == Some(true), "not started");
            Ok(())
        })
        .await?;

        let baseline = deletion(case, "plain").await?;
        let ordered = deletion(case, "pod").await?;
        // On a slow machine all that is not the hold takes longer.
        let limit = baseline * 3 + HOLD + NOISE;
        ensure!(ordered <= limit, "deleted in {ordered:?}, the plain pod in {baseline:?}");
        let history = recorder.finish().await?;
        ensure!(history.of("a").len() == 1, "{:?}", history.of("a"));
        for name in ["b", "c"] {
            ensure!(history.of(name).is_empty(), "{name} was created: {:?}", history.of(name));
        }
        Ok(())
    })
    .await
}

/// The crashing container itself is restarted as ever; those below it wait because it is never ready.
#[tokio::test]
async fn higher_one_crash_loops() -> Result<()> {
    run("higher_one_crash_loops", async |case: &Case| {
        let recorder = case.record("pod");
        let manifest = case
            .manifest("pod")
            .container(Container::new("b").priority(1))
            .container(Container::new("a").priority(2).only("sleep 1; exit 1").ready_when("false"));
        case.create(&manifest).await?;
        case.await_pod("pod", "a was restarted twice", |pod| {
            let restarts = container(pod, "a")?.restart_count;
            ensure!(restarts >= 2, "{restarts} restarts");
            waits_for(pod, "b", "a")
        })
        .await?;
        let history = recorder.finish().await?;
        ensure!(history.of("b").is_empty(), "b was created: {:?}", history.of("b"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn higher_one_exits_for_good() -> Result<()> {
    run("higher_one_exits_for_good", async |case: &Case| {
        for (name, policy, script) in
            [("on-failure", "OnFailure", "sleep 1"), ("never", "Never", "sleep 1; exit 3")]
        {
            let recorder = case.record(name);
            let manifest = case
                .manifest(name)
                .spec("restartPolicy", policy)
                .container(Container::new("b").priority(1))
                .container(Container::new("a").priority(2).only(script).ready_when("false"));
            case.create(&manifest).await?;
            case.await_pod(name, "b runs", |pod| {
                ensure!(
                    container(pod, "b")?.started == Some(true),
                    "{}",
                    serde_json::to_string(&pod.status)?
                );
                Ok(())
            })
            .await?;
            let history = recorder.finish().await?;
            let (ended, started) = (history.finished("a")?, history.started("b")?);
            ensure!(
                ended < started,
                "{name}: b was started {} ms before a had ended",
                (ended - started) / 1_000_000
            );
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn ephemeral_container_is_not_gated() -> Result<()> {
    run("ephemeral_container_is_not_gated", async |case: &Case| {
        let manifest = case
            .manifest("pod")
            .container(Container::new("b").priority(1))
            .container(Container::new("a").priority(2).ready_when("false"));
        case.create(&manifest).await?;
        case.await_pod("pod", "b waits", |pod| waits_for(pod, "b", "a")).await?;
        let debugger = json!({ "spec": { "ephemeralContainers": [{
            "name": "debugger", "image": berth_tests::node::images::BUSYBOX, "command": ["sleep", "1000"],
            "env": [{ "name": berth_tests::manifest::CONTAINER_PRIORITY, "value": "-3" }]
        }] } });
        case.pods
            .patch_ephemeral_containers("pod", &PatchParams::default(), &Patch::Strategic(&debugger))
            .await
            .context("add an ephemeral container")?;
        case.await_pod("pod", "the debugger runs", |pod| {
            let statuses =
                pod.status.as_ref().and_then(|status| status.ephemeral_container_statuses.as_ref());
            let state = statuses.and_then(|list| list.first()).and_then(|status| status.state.as_ref());
            ensure!(state.is_some_and(|state| state.running.is_some()), "{state:?}");
            waits_for(pod, "b", "a")
        })
        .await?;
        Ok(())
    })
    .await
}

/// The barrier is for a pod's start. Later a container comes back by itself, also while one above it is not
/// ready.
#[tokio::test]
async fn restarted_container_is_not_gated() -> Result<()> {
    run("restarted_container_is_not_gated", async |case: &Case| {
        let manifest = case.manifest("pod").container(Container::new("b").priority(1)).container(
            Container::new("a").priority(2).shell("touch /tmp/ready").ready_when("test -f /tmp/ready"),
        );
        case.create(&manifest).await?;
        case.await_ready("pod").await?;

        case.inside("pod", "a", "rm /tmp/ready").await?;
        case.await_pod("pod", "a is not ready", |pod| {
            ensure!(!container(pod, "a")?.ready, "a is ready");
            Ok(())
        })
        .await?;
        case.end("pod", "b").await?;
        case.await_pod("pod", "b is back", |pod| {
            let (a, b) = (container(pod, "a")?, container(pod, "b")?);
            ensure!(b.restart_count == 1 && b.ready, "{b:?}");
            ensure!(!a.ready, "a became ready, so this proves nothing");
            Ok(())
        })
        .await?;
        Ok(())
    })
    .await
}

/// With its sandbox a pod starts anew, so the order holds again.
#[tokio::test]
async fn recreated_sandbox() -> Result<()> {
    run("recreated_sandbox", async |case: &Case| {
        let slow =
            |name| Container::new(name).shell("sleep 2; touch /tmp/ready").ready_when("test -f /tmp/ready");
        let manifest = case.manifest("pod").container(slow("b").priority(1)).container(slow("a").priority(2));
        case.create(&manifest).await?;
        case.await_ready("pod").await?;
        let sandboxes = case.cri.sandboxes(&case.namespace, "pod").await?;
        let first = sandboxes.first().context("no sandbox")?.id.clone();

        // Its pause process is killed as the kernel would do it.
        let tasks = case.node.containerd().ctr(&["task", "ls"]).await?;
        let task = tasks.lines().find(|line| line.starts_with(&first)).context("no task of the sandbox")?;
        let pid = task.split_whitespace().nth(1).context("no pid")?;
        tool::run("kill", &["-9", pid]).await?;

        let recorder = case.record("pod");
        await_condition("a second sandbox with both containers", PATIENCE, async || {
            let pod = case.pods.get("pod").await?;
            crate::case::is_ready(&pod)?;
            for name in ["a", "b"] {
                ensure!(container(&pod, name)?.restart_count >= 1, "{name} was not restarted yet");
            }
            Ok(())
        })
        .await?;
        let history = recorder.finish().await?;
        let second =
            |name| history.of(name).last().map(|instance| instance.started_at).context("no instance");
        let gap = second("b")? - second("a")?;
        ensure!(gap >= 1_000_000_000, "in the new sandbox b was started {gap} ns after a");
        Ok(())
    })
    .await
}
