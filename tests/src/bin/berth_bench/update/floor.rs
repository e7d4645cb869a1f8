//! The floor: the same patches made by hand, of pods that nobody updates. What the kubelet takes by itself,
//! before which no update can be complete.
//!
//! The pods are new, so that no exited instance is there for which the kubelet would hold the next one back.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_tests::node::images::BUSYBOX_NEXT;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::ContainerStatus;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Bed, GATE, NAMES, PATIENCE, rest};

/// One image, and nothing else.
pub(super) async fn image(bed: &Bed, pod: &str, time: usize) -> Result<f64> {
    bed.create(pod, false).await?;
    rest(time).await;
    let begun = Instant::now();
    let old = replace(bed, pod, NAMES[0]).await?;
    shown(bed, pod, NAMES[0], &old, true).await?;
    end(bed, pod, begun).await
}

/// One image, with the gate closed before and opened when the next instance runs.
pub(super) async fn gated(bed: &Bed, pod: &str, time: usize) -> Result<f64> {
    bed.create(pod, true).await?;
    rest(time).await;
    let begun = Instant::now();
    gate(bed, pod, false).await?;
    let old = replace(bed, pod, NAMES[0]).await?;
    shown(bed, pod, NAMES[0], &old, false).await?;
    gate(bed, pod, true).await?;
    end(bed, pod, begun).await
}

/// Two images, the second when the first is Ready.
pub(super) async fn two(bed: &Bed, pod: &str, time: usize) -> Result<f64> {
    bed.create(pod, true).await?;
    rest(time).await;
    let begun = Instant::now();
    gate(bed, pod, false).await?;
    let old = replace(bed, pod, NAMES[0]).await?;
    shown(bed, pod, NAMES[0], &old, true).await?;
    let old = replace(bed, pod, NAMES[1]).await?;
    shown(bed, pod, NAMES[1], &old, false).await?;
    gate(bed, pod, true).await?;
    end(bed, pod, begun).await
}

async fn end(bed: &Bed, pod: &str, begun: Instant) -> Result<f64> {
    await_condition(format!("{pod} is Ready"), PATIENCE, async || bed.is_ready(pod).await).await?;
    let taken = begun.elapsed().as_secs_f64();
    bed.remove(pod).await?;
    Ok(taken)
}

async fn gate(bed: &Bed, pod: &str, open: bool) -> Result<()> {
    let status = if open { "True" } else { "False" };
    let body = json!({ "status": { "conditions": [{ "type": GATE, "status": status }] } });
    bed.pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(&body)).await?;
    Ok(())
}

/// Patches the image of a container, and says which instance it had.
async fn replace(bed: &Bed, pod: &str, container: &str) -> Result<String> {
    let old = status(bed, pod, container).await?.container_id.context("it does not run")?;
    let body = json!({ "spec": { "containers": [{ "name": container, "image": BUSYBOX_NEXT }] } });
    bed.pods.patch(pod, &PatchParams::default(), &Patch::Strategic(&body)).await?;
    Ok(old)
}

/// Waits until the status shows that another instance runs.
async fn shown(bed: &Bed, pod: &str, container: &str, old: &str, ready: bool) -> Result<()> {
    await_condition(format!("{container} of {pod} is replaced"), PATIENCE, async || {
        let status = status(bed, pod, container).await?;
        let running = status.state.is_some_and(|state| state.running.is_some());
        ensure!(running && status.container_id.as_deref() != Some(old), "not yet");
        ensure!(status.ready || !ready, "not Ready yet");
        Ok(())
    })
    .await
}

async fn status(bed: &Bed, pod: &str, container: &str) -> Result<ContainerStatus> {
    let statuses = bed.pods.get(pod).await?.status.and_then(|status| status.container_statuses);
    let found = statuses.into_iter().flatten().find(|status| status.name == container);
    found.with_context(|| format!("{pod} has no status of {container}"))
}
