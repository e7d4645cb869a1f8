//! Every field of `spec.strategy`, and those of the request itself that end it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::RecreatePhase;
use berth_tests::recreate::{Ask, Evidence};
use berth_tests::wait::{Standstill, await_condition};
use serde_json::json;

use super::{PATIENCE, Scene};
use crate::case::{Case, container, is_ready, run};

/// Seconds in which a pod is drained: long enough that even a slow kubelet has said meanwhile that the pod is
/// not Ready.
const DRAIN: u32 = 15;
/// Seconds that a finished request is kept: long enough to be seen in its end.
const KEPT: u32 = 10;

/// In the order of the request, each when the one before it has ended, with its hook.
#[tokio::test]
async fn recreate_unordered_stops_one_after_another() -> Result<()> {
    run("recreate_unordered_stops_one_after_another", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let [a, b] = ["a", "b"].map(|name| evidence.container(name, ""));
            pod.container(a).container(b).container(evidence.container("c", "sleep 4")).grace(60)
        })
        .await?;
        let before = [scene.running("a").await?, scene.running("b").await?, scene.running("c").await?];
        let still = Standstill::watch();
        let asked = scene.ask("all", &Ask::new("pod", &["c", "a", "b"])).await?;
        asked.succeeded(PATIENCE).await?;
        let lost = still.lost();
        for before in &before {
            scene.replaced_once(&before.name, before, usize::from(before.name == "c")).await?;
        }
        let ended = |name| scene.evidence.ended_at(name);
        let (c, a, b) = (ended("c")?, ended("a")?, ended("b")?);
        ensure!(c < a && a < b, "stopped at {c}, {a}, {b} ns: c first, after its hook, then a, then b");
        // A kubelet that was refused something comes back after 10 s at the earliest. A machine that stood
        // still excuses as much only where hardly anything is left without that.
        let (apart, most) = (Duration::from_nanos(u64::try_from(b - a)?), Duration::from_secs(10));
        let is_soon = apart < most || apart.saturating_sub(lost) < most / 2;
        ensure!(is_soon, "{apart:?} between two that have no hook; {lost:?} were lost");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn recreate_ordered_waits_for_ready() -> Result<()> {
    run("recreate_ordered_waits_for_ready", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            // Ready 1 s after its start at the earliest, whoever runs the probe, and however often.
            let probe = "test -f /tmp/ready || (sleep 1; touch /tmp/ready; exit 1)";
            let a = evidence.container("a", "").ready_when(probe);
            pod.container(a).container(evidence.container("b", ""))
        })
        .await?;
        let before = [scene.running("a").await?, scene.running("b").await?];
        let ask = Ask::new("pod", &["b", "a"]).strategy("orderedRecreate", true);
        let asked = scene.ask("ordered", &ask).await?;
        let status = asked.succeeded(PATIENCE).await?;
        let names: Vec<_> =
            status.container_recreate_states.iter().map(|state| state.name.as_str()).collect();
        ensure!(names == ["a", "b"], "the order of the pod, not {names:?}");
        for before in &before {
            scene.replaced_once(&before.name, before, 0).await?;
        }
        let waited = scene.evidence.ended_at("b")? - scene.running("a").await?.started_at;
        ensure!(waited >= 1_000_000_000, "b was stopped {waited} ns after a was started, and not ready");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn recreate_grace_of_the_request() -> Result<()> {
    run("recreate_grace_of_the_request", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let deaf = "echo start >> /evidence/a\ntrap '' TERM\nwhile true; do sleep 1; done";
            // Far longer than the request is waited for.
            pod.container(evidence.container("a", "").only(deaf)).grace(1000)
        })
        .await?;
        let before = scene.running("a").await?;
        let ask = Ask::new("pod", &["a"]).strategy("terminationGracePeriodSeconds", 3);
        let quick = scene.ask("quick", &ask).await?;
        quick.succeeded(PATIENCE).await.context("the pod's own grace was kept, or it failed")?;
        scene.replaced_once("a", &before, 0).await
    })
    .await
}

#[tokio::test]
async fn recreate_queue_and_force() -> Result<()> {
    run("recreate_queue_and_force", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            // However slow the machine is, the first one goes on until the second is seen to wait.
            let held = "until test -f /evidence/go; do sleep 0.1; done";
            pod.container(evidence.container("a", held)).container(evidence.container("b", "")).grace(120)
        })
        .await?;
        let (a, b) = (scene.running("a").await?, scene.running("b").await?);
        let first = scene.ask("first", &Ask::new("pod", &["a"])).await?;
        let same = scene.ask("same", &Ask::new("pod", &["a"])).await?;
        let other = scene.ask("other", &Ask::new("pod", &["b"])).await?;
        same.until("Pending", PATIENCE, |status| {
            ensure!(status.phase == Some(RecreatePhase::Pending), "not queued");
            Ok(())
        })
        .await?;
        scene.evidence.put("go")?;
        for asked in [&first, &same, &other] {
            asked.succeeded(PATIENCE).await?;
        }
        // The second one was about the same instance: it found it replaced.
        scene.replaced_once("a", &a, 1).await?;
        scene.replaced_once("b", &b, 0).await?;

        let a = scene.running("a").await?;
        let first = scene.ask("again", &Ask::new("pod", &["a"])).await?;
        let forced = scene.ask("forced", &Ask::new("pod", &["a"]).strategy("forceRecreate", true)).await?;
        first.succeeded(PATIENCE).await?;
        forced.succeeded(PATIENCE).await?;
        let now = scene.running("a").await?;
        ensure!(now.attempt == a.attempt + 2, "attempt {} after {}", now.attempt, a.attempt);
        ensure!(scene.evidence.count("a", "hook")? == 3, "a hook too many or too few");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn recreate_drains_first() -> Result<()> {
    run("recreate_drains_first", async |case: &Case| {
        let evidence = Evidence::new(case.node.run(), &case.namespace, "pod")?;
        let gate = json!([{ "conditionType": "KruisePodReady" }]);
        let manifest = evidence.mount(case.manifest("pod")).spec("readinessGates", gate);
        case.create(&manifest.container(evidence.container("a", ""))).await?;
        let scene = Scene { case, pod: "pod".to_owned(), evidence };
        // Nobody but the agent opens the gate.
        case.await_ready("pod").await?;
        scene.evidence.has("a", "start", 1).await?;

        let before = scene.running("a").await?;
        let ask = Ask::new("pod", &["a"]).strategy("unreadyGracePeriodSeconds", DRAIN);
        let asked_at = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let asked = scene.ask("drained", &ask).await?;
        // In one status: a pod whose container has been stopped is not Ready for that reason.
        case.await_pod("pod", "not Ready, and runs", |pod| {
            ensure!(is_ready(pod).is_err(), "still Ready");
            let status = container(pod, "a")?;
            let id = status.container_id.as_deref().unwrap_or_default();
            ensure!(status.ready && id.ends_with(&before.id), "it was not drained first: {status:?}");
            Ok(())
        })
        .await?;
        asked.succeeded(PATIENCE).await?;
        let drained = scene.evidence.ended_at("a")? - i64::try_from(asked_at.as_nanos())?;
        ensure!(drained >= i64::from(DRAIN) * 1_000_000_000, "drained for {drained} ns, not for {DRAIN} s");
        scene.replaced_once("a", &before, 0).await?;
        case.await_ready("pod").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn recreate_min_started_ttl_and_deadline() -> Result<()> {
    run("recreate_min_started_ttl_and_deadline", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(evidence.container("a", "")).container(evidence.container("b", "sleep 8"))
        })
        .await?;
        let ask =
            Ask::new("pod", &["a"]).strategy("minStartedSeconds", 3).field("ttlSecondsAfterFinished", KEPT);
        let asked = scene.ask("stable", &ask).await?;
        let status = asked.succeeded(PATIENCE).await?;
        let ended = status.completion_time.context("no completionTime")?.0;
        let started = scene.running("a").await?.started_at;
        // completionTime has whole seconds.
        let lasted = ended.as_nanosecond() - i128::from(started);
        ensure!(lasted >= 2_000_000_000, "it counted as recreated after {lasted} ns");
        await_condition("the request is deleted", PATIENCE, async || {
            ensure!(asked.now().await?.is_none(), "it is still there");
            Ok(())
        })
        .await?;

        let asked = scene.ask("late", &Ask::new("pod", &["b"]).field("activeDeadlineSeconds", 3)).await?;
        let status = asked.failed("DeadlineExceeded", PATIENCE).await?;
        let message = status.message.unwrap_or_default();
        ensure!(message == "recreating has exceeded the activeDeadlineSeconds", "{message}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn recreate_restartable_init_container() -> Result<()> {
    run("recreate_restartable_init_container", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            let sidecar = evidence.container("side", "").field("restartPolicy", "Always");
            pod.init_container(sidecar).container(evidence.container("a", ""))
        })
        .await?;
        let (before, a) = (scene.running("side").await?, scene.running("a").await?);
        scene.ask("sidecar", &Ask::new("pod", &["side"])).await?.succeeded(PATIENCE).await?;
        ensure!(scene.running("side").await?.id != before.id, "the sidecar was not replaced");
        scene.evidence.has("side", "start", 2).await.context("the sidecar was started twice more")?;
        ensure!(scene.running("a").await?.id == a.id, "its neighbour was touched");
        Ok(())
    })
    .await
}
