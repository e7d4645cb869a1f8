//! Pods of a budget while no manager answers, and when one is there again: a drain, a node that is deleted,
//! and a namespace that goes. The controllers of Kubernetes are played.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::tool::run as tool;
use berth_tests::node::{User, programs};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::super::scene::Scene;
use super::crowd::Crowd;
use super::{budgets, counted, limit};
use crate::case::PATIENCE;

const SPACE: &str = "admission-budgets-away";
const NODE: &str = "away";
const NOBODY: &str = "failed calling webhook";

#[tokio::test]
async fn nothing_goes_while_the_manager_is_away_and_all_of_it_afterwards() -> Result<()> {
    let scene = Scene::set(SPACE).await?;
    scene.first.leads().await?;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": NODE } }))?;
    nodes.create(&PostParams::default(), &node).await?;
    let crowd = Crowd::make_on(&scene, SPACE, 3, NODE).await?;
    limit(&scene, SPACE, json!(1)).await?;
    counted(&scene, SPACE, 3, 1).await?;
    let before = staying(&scene).await?;
    ensure!(before.len() == 3, "{before:?}");

    scene.first.service().kill()?;
    let Err(error) = drain(&scene, "60s").await else { bail!("it is drained") };
    ensure!(format!("{error:#}").contains(NOBODY), "{error:#}");
    ensure!(staying(&scene).await? == before, "some were evicted");
    back(&scene).await?;
    // One after the other, as those before it come back.
    let lives = tokio::spawn(crowd.clone().live());
    drain(&scene, "300s").await.context("a drain when the manager is there again")?;
    counted(&scene, SPACE, 3, 1).await?;
    lives.abort();
    let after = staying(&scene).await?;
    ensure!(after.len() == 3 && after.is_disjoint(&before), "{before:?}, then {after:?}");

    scene.first.service().kill()?;
    nodes.delete(NODE, &DeleteParams::default()).await.context("a node is nobody's to keep")?;
    // As the collector of pods whose node is gone.
    let Err(error) = crowd.end("web-0").await else { bail!("a pod goes with its node") };
    ensure!(format!("{error:#}").contains(NOBODY), "{error:#}");
    let spaces: Api<Namespace> = Api::all(scene.client.clone());
    spaces.delete(SPACE, &DeleteParams::default()).await.context("it begins to go")?;
    // As the controller of namespaces.
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let Err(error) = scene.pods.delete_collection(&now, &ListParams::default()).await else {
        bail!("pods go with their namespace")
    };
    ensure!(error.to_string().contains(NOBODY), "{error}");
    ensure!(staying(&scene).await? == after, "some were deleted");

    back(&scene).await?;
    // What a node has left behind is not ready, and costs nothing.
    crowd.ready("web-0", false).await?;
    counted(&scene, SPACE, 2, 0).await?;
    crowd.end("web-0").await.context("the pod of the node that is gone")?;
    // The others stay until nobody wants them any more, in whichever order their namespace is emptied.
    let Err(error) = scene.pods.delete("web-1", &now).await else { bail!("more go than the budget lets") };
    ensure!(error.to_string().contains("unavailable allowed is negative"), "{error}");
    crowd.delete_set().await?;
    await_condition("the namespace is empty", PATIENCE, async || {
        scene.pods.delete_collection(&now, &ListParams::default()).await.context("pods")?;
        ensure!(scene.pods.list(&ListParams::default()).await?.items.is_empty(), "some stay");
        Ok(())
    })
    .await?;
    budgets(&scene, SPACE).delete("web", &DeleteParams::default()).await.context("the budget")?;
    Ok(())
}

/// UIDs of the pods that are to stay.
async fn staying(scene: &Scene) -> Result<BTreeSet<String>> {
    let pods = scene.pods.list(&ListParams::default()).await?.items;
    let stay = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stay.filter_map(ResourceExt::uid).collect())
}

async fn drain(scene: &Scene, timeout: &str) -> Result<String> {
    let kubectl = programs::kubernetes("kubectl")?;
    let kubeconfig = scene.plane.api().kubeconfig(User::Admin)?;
    let (kubeconfig, timeout) =
        (format!("--kubeconfig={}", kubeconfig.display()), format!("--timeout={timeout}"));
    tool(kubectl, &["drain", NODE, "--ignore-daemonsets", &timeout, &kubeconfig]).await
}

/// The manager is there again.
async fn back(scene: &Scene) -> Result<()> {
    scene.first.service().start()?;
    scene.first.ready().await?;
    scene.first.leads().await
}
