//! Requests to recreate containers of pods that a budget covers: they wait for it, and give back what they
//! had.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{ContainerRecreateRequest, ContainerRecreateRequestStatus};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, EvictParams, PostParams};
use serde_json::json;

use super::super::scene::Scene;
use super::crowd::Crowd;
use super::{code, counted, limit};
use crate::case::PATIENCE;

const SPACE: &str = "admission-budgets-recreated";

#[tokio::test]
async fn a_request_to_recreate_waits_for_its_budget() -> Result<()> {
    let scene = Scene::set(SPACE).await?;
    scene.first.leads().await?;
    // The pods are scheduled to it, and no agent is there: what is assigned stays as it is.
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "paper" } }))?;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    nodes.create(&PostParams::default(), &node).await?;
    let _crowd = Crowd::make(&scene, SPACE, 3).await?;
    limit(&scene, SPACE, json!(1)).await?;
    counted(&scene, SPACE, 3, 1).await?;

    make(&scene, "first", "web-0").await?;
    await_condition("the first one is assigned", PATIENCE, async || {
        let status = status(&scene, "first").await?;
        ensure!(status.node_name.as_deref() == Some("paper"), "{status:?}");
        Ok(())
    })
    .await?;
    counted(&scene, SPACE, 2, 0).await?;
    make(&scene, "second", "web-1").await?;
    await_condition("the second one says why it waits", PATIENCE, async || {
        let status = status(&scene, "second").await?;
        let says = status.message.as_deref().unwrap_or_default();
        ensure!(says.contains("\"web\" is forbidden: pub unavailable allowed is negative"), "{status:?}");
        ensure!(status.node_name.is_none() && status.phase.is_none(), "{status:?}");
        Ok(())
    })
    .await?;
    // A permit of an update ends after 10 s; this one stands, as nobody knows when the container stops.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    ensure!(status(&scene, "second").await?.node_name.is_none(), "two pods are recreated at once");
    ensure!(code(&scene.pods.evict("web-2", &EvictParams::default()).await)? == 429);

    scene.requests.delete("first", &DeleteParams::default()).await?;
    await_condition("the second one is assigned", PATIENCE, async || {
        let status = status(&scene, "second").await?;
        ensure!(status.node_name.as_deref() == Some("paper") && status.message.is_none(), "{status:?}");
        Ok(())
    })
    .await?;
    scene.requests.delete("second", &DeleteParams::default()).await?;
    counted(&scene, SPACE, 3, 1).await?;
    nodes.delete("paper", &DeleteParams::default()).await?;
    Ok(())
}

async fn make(scene: &Scene, name: &str, pod: &str) -> Result<()> {
    let request: ContainerRecreateRequest = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": { "name": name }, "spec": { "podName": pod, "containers": [{ "name": "app" }] },
    }))?;
    scene.requests.create(&PostParams::default(), &request).await.context("make a request")?;
    Ok(())
}

async fn status(scene: &Scene, name: &str) -> Result<ContainerRecreateRequestStatus> {
    let Some(request) = scene.requests.get_opt(name).await? else { bail!("{name} is gone") };
    Ok(request.status.unwrap_or_default())
}
