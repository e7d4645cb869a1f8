//! Images that cannot be had, and containers that do not come up: nothing is stopped for the one, and the
//! other goes no further.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::UpdatePhase;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::NODE_NAME;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::recreate::Evidence;
use berth_tests::update::Update;
use k8s_openapi::api::core::v1::Pod;

use super::{GATE, STATE, Scene, container, gate, image};
use crate::case::{Case, is_ready, run_updating};

/// An image that no registry has.
const MISSING: &str = "berth.test/nobody-has:this";

/// `high` falls over when the annotation `mode` says so; `low` is below it.
fn fragile(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    let high = container(evidence, "high", &[("MODE", "metadata.annotations['mode']")]);
    let high = high.priority(5).only(
        "echo start >> /evidence/high\n[ \"$MODE\" = crash ] && exit 1\ntouch /tmp/well\ntrap 'exit 0' TERM\n\
         sleep 1000000 & wait",
    );
    // Without a probe it is Ready as long as it runs, which on a busy machine is long enough for the next
    // batch.
    let high = high.ready_when("test -f /tmp/well");
    pod.annotation("mode", "well").container(high).container(container(evidence, "low", &[]).priority(1))
}

/// When the gate was last written.
fn since(pod: &Pod) -> Result<String> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let gate = conditions.iter().find(|condition| condition.type_ == GATE).context("no condition")?;
    Ok(format!("{:?}", gate.last_transition_time))
}

#[tokio::test]
async fn update_missing_image_stops_nothing() -> Result<()> {
    run_updating("update_missing_image_stops_nothing", async |case: &Case| {
        let scene = Scene::begin(case, "pod", fragile).await?;
        let before = scene.now().await?;
        let update =
            Update::new("pod").image("high", BUSYBOX_NEXT).image("low", MISSING).annotation("mode", "two");
        let asked = scene.ask("missing", &update.field("rollbackOnFailure", true)).await?;
        let status = asked.failed("ImageNotPulled").await?;
        let message = status.message.context("no message")?;
        ensure!(message.contains(MISSING), "{message}");
        let now = scene.now().await?;
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        ensure!(scene.running("high").await?.attempt == 0, "high was restarted");
        ensure!(since(&now)? == since(&before)?, "the gate was closed meanwhile");
        ensure!(image(&now, "high")? == BUSYBOX && image(&now, "low")? == BUSYBOX, "an image was changed");
        let annotations = now.metadata.annotations.as_ref().context("no annotations")?;
        ensure!(annotations["mode"] == "well" && !annotations.contains_key(STATE), "{annotations:?}");
        is_ready(&now)
    })
    .await
}

#[tokio::test]
async fn update_that_ignores_failures_goes_on() -> Result<()> {
    run_updating("update_that_ignores_failures_goes_on", async |case: &Case| {
        let scene = Scene::begin(case, "pod", fragile).await?;
        let update = Update::new("pod").image("high", MISSING).image("low", BUSYBOX_NEXT);
        let strategy = serde_json::json!({ "failurePolicy": "Ignore", "gracePeriodSeconds": 1 });
        let asked = scene.ask("ignore", &update.field("strategy", strategy)).await?;
        let status = asked.succeeded().await?;
        let phase = |name: &str| {
            let states = status.container_update_states.iter();
            states.clone().find(|state| state.name == name).map(|state| state.phase)
        };
        ensure!(phase("high") == Some(UpdatePhase::Failed), "{status:?}");
        ensure!(phase("low") == Some(UpdatePhase::Succeeded), "{status:?}");
        ensure!(scene.restarts("low").await? == 1, "low was not restarted once");
        ensure!(scene.running("high").await?.attempt == 0, "high was restarted");
        let now = scene.now().await?;
        ensure!(image(&now, "high")? == BUSYBOX && image(&now, "low")? == BUSYBOX_NEXT, "wrong images");
        ensure!(gate(&now)? == "True", "the gate is closed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_that_crashes_goes_no_further() -> Result<()> {
    run_updating("update_that_crashes_goes_no_further", async |case: &Case| {
        let scene = Scene::begin(case, "pod", fragile).await?;
        let update = Update::new("pod").annotation("mode", "crash").image("low", BUSYBOX_NEXT);
        let asked = scene.ask("crash", &update).await?;
        let status = asked.failed("CrashLoop").await?;
        ensure!(status.message.as_deref().is_some_and(|message| message.contains("high")), "{status:?}");
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        let now = scene.now().await?;
        ensure!(image(&now, "low")? == BUSYBOX, "low was changed");
        ensure!(gate(&now)? == "False", "a pod that falls over gets traffic");
        // Somebody mends it.
        scene.ask("mend", &Update::new("pod").annotation("mode", "well")).await?.succeeded().await?;
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        case.await_pod("pod", "Ready again", is_ready).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_that_crashes_returns() -> Result<()> {
    run_updating("update_that_crashes_returns", async |case: &Case| {
        let scene = Scene::begin(case, "pod", fragile).await?;
        let update =
            Update::new("pod").annotation("mode", "crash").annotation("new", "1").image("high", BUSYBOX_NEXT);
        let update = update.image("low", BUSYBOX_NEXT);
        let update = update.field("rollbackOnFailure", true).field("activeDeadlineSeconds", 15);
        let asked = scene.ask("back", &update).await?;
        let status = asked.failed("DeadlineExceeded").await?;
        let message = status.message.context("no message")?;
        ensure!(message.contains("the pod is what it was before"), "{message}");
        let now = scene.now().await?;
        ensure!(image(&now, "high")? == BUSYBOX && image(&now, "low")? == BUSYBOX, "an image stayed");
        let annotations = now.metadata.annotations.as_ref().context("no annotations")?;
        ensure!(annotations["mode"] == "well", "{annotations:?}");
        ensure!(scene.env("high", "MODE").await? == "well", "high runs with the values that failed");
        ensure!(scene.restarts("low").await? == 0, "low was restarted");
        ensure!(gate(&now)? == "True", "the gate is closed");
        case.await_pod("pod", "Ready again", is_ready).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn update_of_a_static_pod_is_refused() -> Result<()> {
    run_updating("update_of_a_static_pod_is_refused", async |case: &Case| {
        let kubelet = case.node.kubelet()?;
        let pod = format!("fixed-{NODE_NAME}");
        kubelet.play("fixed", case.manifest("fixed").container(Container::new("a")).json())?;
        let refused = async {
            case.await_ready(&pod).await?;
            let update = Update::new(&pod).image("a", BUSYBOX_NEXT);
            let asked = update.begin(&case.node.client().await?, &case.namespace, "fixed").await?;
            asked.failed("StaticPod").await
        };
        let status = refused.await;
        kubelet.unplay("fixed")?;
        let message = status?.message.context("no message")?;
        ensure!(message.contains("the kubelet replaces it as a whole"), "{message}");
        Ok(())
    })
    .await
}
