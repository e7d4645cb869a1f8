//! A pod that ends stops its containers in the reverse of their launch order, and never takes longer for it
//! than it was given.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest, probe};
use berth_tests::observe::History;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::case::{Case, PATIENCE, container, run};

const SECOND: i64 = 1_000_000_000;
/// Difference in time that two runs of the same thing may have on a busy machine.
const NOISE: i64 = 15 * SECOND;

/// Takes so many seconds to end. It is Ready when it hears the signal.
fn slow_to_end(name: &str, seconds: u32) -> Container {
    let script = format!("trap 'sleep {seconds}; exit 0' TERM\ntouch /tmp/ready\nsleep 1000000 & wait");
    Container::new(name).only(&script).ready_when("test -f /tmp/ready")
}

fn one_second(name: &str) -> Container {
    slow_to_end(name, 1)
}

/// Does not end before it is killed.
fn ignores_term(name: &str) -> Container {
    Container::new(name).only("trap '' TERM\nwhile :; do sleep 1000000; done")
}

/// Does not end either, and notes when it is told to first, without another program that has to be started.
/// It is Ready when it hears the signal.
fn notes_term(name: &str) -> Container {
    let note = format!("trap '[ -f /evidence/{name} ] || : > /evidence/{name}' TERM\ntouch /tmp/ready");
    let script = format!("{note}\nwhile :; do sleep 1000000 & wait; done");
    Container::new(name).only(&script).ready_when("test -f /tmp/ready")
}

/// Lowest first, and named by their place in the launch: a is the highest.
fn three(manifest: PodManifest, made: impl Fn(&str) -> Container, ordered: bool) -> PodManifest {
    ["c", "b", "a"].iter().zip(1..).fold(manifest, |manifest, (name, priority)| {
        let container = made(name);
        manifest.container(if ordered { container.priority(priority) } else { container })
    })
}

/// The clock of the runtime's times.
fn now() -> Result<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("clock")?;
    i64::try_from(since.as_nanos()).context("clock")
}

/// Between the first and the last of these times.
fn apart<const N: usize>(times: [Result<i64>; N]) -> Result<i64> {
    let times = times.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(times.iter().max().context("no times")? - times.iter().min().context("no times")?)
}

/// From `begun` to the end of the pod's last container.
fn took(history: &History, begun: i64) -> Result<i64> {
    let ends = ["a", "b", "c"].map(|name| history.finished(name)).into_iter().collect::<Result<Vec<_>>>()?;
    Ok(ends.into_iter().max().context("no containers")? - begun)
}

/// Plays a pod, ends it by `end`, and gives what happened and how long it took.
async fn played(
    case: &Case,
    name: &str,
    manifest: &PodManifest,
    end: impl AsyncFnOnce() -> Result<()>,
) -> Result<(History, i64)> {
    let recorder = case.record(name);
    case.create(manifest).await?;
    case.await_ready(name).await?;
    let begun = now()?;
    end().await?;
    case.await_gone(name).await?;
    let history = recorder.finish().await?;
    let took = took(&history, begun)?;
    Ok((history, took))
}

async fn delete(case: &Case, name: &str) -> Result<()> {
    case.pods.delete(name, &DeleteParams::default()).await.context("delete")?;
    Ok(())
}

#[tokio::test]
async fn lowest_stops_first() -> Result<()> {
    run("lowest_stops_first", async |case: &Case| {
        let manifest = three(case.manifest("pod").grace(60), one_second, true);
        let (history, took) = played(case, "pod", &manifest, async || delete(case, "pod").await).await?;
        // Each takes a second from the signal to its end: it was only told once the one before it had ended.
        history.check_exit_order(&["c", "b", "a"], Duration::from_secs(1))?;
        for name in ["a", "b", "c"] {
            let exit_code = history.of(name).last().context("no instance")?.exit_code;
            ensure!(exit_code == 0, "{name} was killed: exit code {exit_code}");
        }
        ensure!(took < 60 * SECOND, "it took {took} ns of a grace of 60 s");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn unordered_pod_stops_at_once() -> Result<()> {
    run("unordered_pod_stops_at_once", async |case: &Case| {
        let manifest = three(case.manifest("pod").grace(60), |name| slow_to_end(name, 5), false);
        let (history, _) = played(case, "pod", &manifest, async || delete(case, "pod").await).await?;
        let apart = apart(["a", "b", "c"].map(|name| history.finished(name)))?;
        // One after the other they would take five seconds each.
        ensure!(apart < 10 * SECOND, "they ended {apart} ns apart");
        Ok(())
    })
    .await
}

/// Grace of a pod, in seconds.
const GRACE: i64 = 15;
/// An end with this grace, on a busy machine: where two levels have theirs one after the other it is 30 s.
const ONE_GRACE: i64 = 28 * SECOND;

/// Whichever of them does not listen, the pod keeps to its grace.
#[tokio::test]
async fn grace_holds_when_one_ignores_sigterm() -> Result<()> {
    run("grace_holds_when_one_ignores_sigterm", async |case: &Case| {
        for deaf in ["a", "b", "c"] {
            let pod = format!("deaf-{deaf}");
            let made = |name: &str| if name == deaf { ignores_term(name) } else { one_second(name) };
            let manifest = three(case.manifest(&pod).grace(GRACE), made, true);
            let (_, took) = played(case, &pod, &manifest, async || delete(case, &pod).await).await?;
            ensure!(took <= ONE_GRACE, "{pod}: {took} ns with a grace of {GRACE} s");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn grace_holds_when_all_ignore_sigterm() -> Result<()> {
    run("grace_holds_when_all_ignore_sigterm", async |case: &Case| {
        let manifest = three(case.manifest("pod").grace(GRACE), ignores_term, true);
        let (_, took) = played(case, "pod", &manifest, async || delete(case, "pod").await).await?;
        ensure!(took <= ONE_GRACE, "{took} ns with a grace of {GRACE} s");
        Ok(())
    })
    .await
}

/// The kubelet's own decision to end a pod, without a deletion: the order holds all the same.
#[tokio::test]
async fn ended_by_its_deadline() -> Result<()> {
    run("ended_by_its_deadline", async |case: &Case| {
        let recorder = case.record("pod");
        case.create(&three(case.manifest("pod").grace(60), one_second, true)).await?;
        case.await_ready("pod").await?;
        // Given only now, and counted from the pod's start: however long the launch took, it ends a running
        // pod.
        let deadline = Patch::Merge(json!({ "spec": { "activeDeadlineSeconds": 1 } }));
        case.pods.patch("pod", &PatchParams::default(), &deadline).await.context("set the deadline")?;
        case.await_pod("pod", "has failed", |pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            ensure!(phase == Some("Failed"), "{phase:?}");
            Ok(())
        })
        .await?;
        recorder.finish().await?.check_exit_order(&["c", "b", "a"], Duration::from_secs(1))
    })
    .await
}

/// An eviction with a grace of its own is over when it is over for a plain pod.
#[tokio::test]
async fn eviction_is_not_delayed() -> Result<()> {
    run("eviction_is_not_delayed", async |case: &Case| {
        let mut times = Vec::new();
        for (name, ordered) in [("plain", false), ("ordered", true)] {
            let manifest = three(case.manifest(name).grace(60), ignores_term, ordered);
            let eviction = json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": { "name": name },
                // Three levels, one after the other, would take 20 s more: that is no noise.
                "deleteOptions": { "gracePeriodSeconds": 10 }
            });
            let (_, took) = played(case, name, &manifest, async || {
                // kube's own `evict` misspells the options, and the API server then ignores them.
                let params = PostParams::default();
                let done: Status = case
                    .pods
                    .create_subresource("eviction", name, &params, &eviction)
                    .await
                    .context("evict")?;
                ensure!(done.status.as_deref() == Some("Success"), "{done:?}");
                Ok(())
            })
            .await?;
            times.push(took);
        }
        ensure!(times[1] <= times[0] + NOISE, "plain {} ns, ordered {} ns", times[0], times[1]);
        Ok(())
    })
    .await
}

/// Only the end of a whole pod has an order: a container whose liveness probe fails is killed as soon as in a
/// plain pod.
#[tokio::test]
async fn liveness_kill_is_not_delayed() -> Result<()> {
    run("liveness_kill_is_not_delayed", async |case: &Case| {
        let mut times = Vec::new();
        for (name, ordered) in [("plain", false), ("ordered", true)] {
            let made = |name: &str| {
                let container = Container::new(name);
                if name == "a" {
                    container.field("livenessProbe", probe("test ! -f /tmp/dead"))
                } else {
                    container
                }
            };
            let recorder = case.record(name);
            case.create(&three(case.manifest(name).grace(60), made, ordered)).await?;
            case.await_ready(name).await?;
            let begun = now()?;
            case.inside(name, "a", "touch /tmp/dead").await?;
            case.await_pod(name, "a is back", |pod| {
                let status = container(pod, "a")?;
                ensure!(status.restart_count == 1 && status.ready, "{status:?}");
                Ok(())
            })
            .await?;
            let history = recorder.finish().await?;
            let first = *history.of("a").first().context("no instance")?;
            ensure!(first.finished_at > begun, "a ended before it was marked: {first:?}");
            times.push(first.finished_at - begun);
        }
        ensure!(times[1] <= times[0] + NOISE, "plain {} ns, ordered {} ns", times[0], times[1]);
        Ok(())
    })
    .await
}

/// A second, shorter deletion overrules the first one's patience: all are told at once, as in a plain pod.
/// One after the other they would be told two seconds apart, which is the kubelet's least grace, and the last
/// four seconds after the first.
#[tokio::test]
async fn forced_deletion_is_not_delayed() -> Result<()> {
    run("forced_deletion_is_not_delayed", async |case: &Case| {
        let mut times = Vec::new();
        for (name, ordered) in [("plain", false), ("ordered", true)] {
            let evidence = Evidence::new(case.node.run(), &case.namespace, name)?;
            let made = |name: &str| evidence.mounted(notes_term(name));
            case.create(&evidence.mount(three(case.manifest(name).grace(60), made, ordered))).await?;
            case.await_ready(name).await?;
            let begun = now()?;
            let force = DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
            case.pods.delete(name, &force).await.context("delete")?;
            await_condition("all containers have ended", PATIENCE, async || {
                let running: Vec<_> = case
                    .cri
                    .containers(&case.namespace, name)
                    .await?
                    .into_iter()
                    .filter(|instance| instance.finished_at == 0)
                    .collect();
                ensure!(running.is_empty(), "{running:?}");
                Ok(())
            })
            .await?;
            times.push(now()? - begun);
            let apart = apart(["a", "b", "c"].map(|container| evidence.written_at(container)))?;
            ensure!(apart < 4 * SECOND, "{name}: they were told {apart} ns apart");
        }
        ensure!(times[1] <= times[0] + NOISE, "plain {} ns, ordered {} ns", times[0], times[1]);
        Ok(())
    })
    .await
}
