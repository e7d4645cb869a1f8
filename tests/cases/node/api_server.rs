//! The API server of the tests that need no node: one for all of them, with the kinds, roles and policies of
//! `deploy/`. They are kept away from the node's own: its tests make pods that the policies refuse.

use anyhow::{Context, Result, anyhow};
use berth_tests::node::{ControlPlane, deploy};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// When it does not come up, every test says why, and none tries again.
static API_SERVER: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();

/// The API server, with the kinds served and the roles and policies of `deploy/`.
pub(crate) async fn api_server() -> Result<&'static ControlPlane> {
    crate::slots::take().await;
    let bring_up = async || {
        let started = async {
            let api_server = ControlPlane::start().await?;
            deploy::install(&api_server.client().await?).await?;
            anyhow::Ok(api_server)
        };
        started.await.map_err(|error| format!("{error:#}"))
    };
    let api_server = API_SERVER.get_or_init(bring_up).await;
    api_server.as_ref().map_err(|error| anyhow!("the API server did not come up: {error}"))
}

/// Makes a namespace.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<()> {
    namespace_with(client, name, json!({})).await
}

/// Makes a namespace that has these annotations.
pub(crate) async fn namespace_with(client: &Client, name: &str, annotations: Value) -> Result<()> {
    let metadata = json!({ "name": name, "annotations": annotations });
    let object: Namespace = serde_json::from_value(json!({ "metadata": metadata }))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &object).await.context("make a namespace")?;
    Ok(())
}

/// Makes a node of a zone that takes pods, and has no kubelet.
pub(crate) async fn node_of_zone(client: &Client, name: &str, zone: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({ "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name });
    let node = json!({ "metadata": { "name": name, "labels": labels } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await.context("make a node")?;
    let room = json!({ "cpu": "8", "memory": "8Gi", "pods": "100" });
    let status = json!({ "status": {
        "capacity": room, "allocatable": room, "conditions": [{ "type": "Ready", "status": "True" }],
    }});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
    // The API server taints new nodes, and a controller that is not here would take that back.
    let free = json!({ "spec": { "taints": null } });
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(&free)).await?;
    Ok(())
}
