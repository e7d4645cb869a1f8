//! What is updated, by how many restarts, and in which order.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::UpdatePhase;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::update::Update;
use serde_json::json;

use super::{META, STATE, Scene, annotation, container, gate, image};
use crate::case::{Case, is_ready, run_updating};

#[tokio::test]
async fn update_one_image() -> Result<()> {
    run_updating("update_one_image", async |case: &Case| {
        let scene = Scene::begin(case, "pod", |pod, evidence| {
            pod.container(container(evidence, "main", &[])).container(container(evidence, "other", &[]))
        })
        .await?;
        let before = scene.now().await?;
        let other = scene.running("other").await?;
        let asked = scene.ask("next", &Update::new("pod").image("main", BUSYBOX_NEXT)).await?;
        let status = asked.succeeded().await?;
        let [state] = &status.container_update_states[..] else { anyhow::bail!("{status:?}") };
        ensure!((state.name.as_str(), state.phase) == ("main", UpdatePhase::Succeeded), "{state:?}");

        let now = scene.now().await?;
        ensure!(now.metadata.uid == before.metadata.uid, "it is another pod");
        ensure!(image(&now, "main")? == BUSYBOX_NEXT && image(&now, "other")? == BUSYBOX, "wrong images");
        ensure!(scene.restarts("main").await? == 1, "not restarted once");
        ensure!(scene.running("other").await?.id == other.id, "the other container was restarted");
        ensure!(gate(&now)? == "True", "the gate is closed");
        case.await_pod("pod", "Ready again", is_ready).await?;

        let record = annotation(&now, STATE)?;
        ensure!(record["updateImages"] == true && record["updateEnvFromMetadata"].is_null(), "{record}");
        ensure!(record["containerBatchesRecord"][0]["containers"] == json!(["main"]), "{record}");
        ensure!(
            record["lastContainerStatuses"]["main"]["imageID"].as_str().is_some_and(|id| id.contains("sha256:")),
            "{record}"
        );
        let running = scene.running("main").await?.id;
        let told = case
            .await_pod("pod", "its annotation shows what runs", |pod| {
                let meta = annotation(pod, META)?;
                let id = meta["containers"][0]["containerID"].as_str().context("no ID")?;
                ensure!(id.ends_with(&running), "{meta}");
                Ok(())
            })
            .await?;
        let meta = annotation(&told, META)?;
        ensure!(meta["containers"][0]["hashes"]["extractedEnvFromMetadataHash"] == 86_995_377, "{meta}");
        Ok(())
    })
    .await
}
