//! Labels that the node has, so that pods can ask for nodes that keep their order.

use anyhow::{Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::node::NODE_NAME;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::case::{Case, PATIENCE, is_ready, run_alone, run_beside, run_takeover};

const LABELS: [&str; 2] = ["berth.dev/path", "berth.dev/order"];

/// The two labels of the node.
pub(crate) async fn labels(client: &Client) -> Result<[Option<String>; 2]> {
    let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await?;
    Ok(LABELS.map(|label| node.labels().get(label).cloned()))
}

pub(crate) async fn await_labels(client: &Client, path: &str, order: &str) -> Result<()> {
    await_condition(format!("the node says path {path}, order {order}"), PATIENCE, async || {
        let found = labels(client).await?;
        ensure!(found == [Some(path.to_owned()), Some(order.to_owned())], "{found:?}");
        Ok(())
    })
    .await
}

fn asking(case: &Case) -> berth_tests::manifest::PodManifest {
    let selector = json!({ "berth.dev/order": "true" });
    case.manifest("asks").spec("nodeSelector", selector).container(Container::new("a"))
}

#[tokio::test]
async fn labels_inline() -> Result<()> {
    run_alone("labels_inline", async |case: &Case| {
        let client = case.node.client().await?;
        await_labels(&client, "inline", "true").await?;
        case.create(&asking(case)).await?;
        case.await_pod("asks", "Ready", is_ready).await?;
        // The kubelet registers a new Node without them; here they are only taken away.
        let none = json!({ "metadata": { "labels": { LABELS[0]: null, LABELS[1]: null } } });
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.patch(NODE_NAME, &PatchParams::default(), &Patch::Merge(none)).await?;
        case.node.berthd()?.crash().await?;
        await_labels(&client, "inline", "true").await
    })
    .await
}

/// With the agent's own token, and all policies. The kubelet takes no pod that asks for order.
#[tokio::test]
async fn labels_beside() -> Result<()> {
    run_beside("labels_beside", async |case: &Case| {
        await_labels(&case.node.client().await?, "beside", "false").await?;
        case.create(&asking(case)).await?;
        case.await_pod("asks", "refused", |pod| {
            let status = pod.status.clone().unwrap_or_default();
            ensure!(status.reason.as_deref() == Some("NodeAffinity"), "{status:?}");
            Ok(())
        })
        .await
        .map(drop)
    })
    .await
}

#[tokio::test]
async fn labels_takeover() -> Result<()> {
    run_takeover("labels_takeover", async |case: &Case| {
        await_labels(&case.node.client().await?, "takeover", "true").await
    })
    .await
}
