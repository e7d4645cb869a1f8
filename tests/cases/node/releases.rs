//! The node is made of the releases that were asked for: what passes in a cell of the matrix has passed with
//! them and no others.

use std::env;

use anyhow::{Context, Result, ensure};
use berth_tests::node::NODE_NAME;
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::case::{Case, run};

#[tokio::test]
async fn node_is_of_the_releases_asked_for() -> Result<()> {
    run("node_is_of_the_releases_asked_for", async |case: &Case| {
        let client = case.node.client().await?;
        let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await.context("the node")?;
        let info =
            node.status.and_then(|status| status.node_info).context("the node says nothing of itself")?;
        let server = client.apiserver_version().await.context("version of the API server")?;

        // Any of the distribution's will do, if none is asked for.
        let runtime = format!("containerd://{}", env::var("BERTH_TESTS_CONTAINERD").unwrap_or_default());
        ensure!(info.container_runtime_version.starts_with(&runtime), "{}", info.container_runtime_version);
        let kubelet = env::var("BERTH_TESTS_KUBERNETES").unwrap_or_else(|_| "1.34".to_owned());
        ensure!(info.kubelet_version.starts_with(&format!("v{kubelet}.")), "{}", info.kubelet_version);
        // A kubelet that is newer than its API server is no cluster that anyone should have.
        let control_plane = if kubelet == "1.33" { "1.34" } else { &kubelet };
        ensure!(server.git_version.starts_with(&format!("v{control_plane}.")), "{}", server.git_version);
        Ok(())
    })
    .await
}
