//! The identity of a berthd that is a service: with nothing but the kubelet's kubeconfig, a token by a pod of
//! the node.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::node::{NODE_NAME, SystemdNode, deploy};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::LONG;

const ACCOUNT: &str = "system:serviceaccount:berth-system:berth-agent";
/// A token is refused within a minute or so after its pod has gone, and pods are looked for twice a minute.
const WITHIN: Duration = Duration::from_secs(300);

async fn becomes(node: &SystemdNode, user: &str) -> Result<()> {
    await_condition(format!("berthd is {user}"), WITHIN, async || {
        let said = node.ctl(&["status"]).await?;
        ensure!(said.contains(user), "{said}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_service_gets_its_token_by_a_pod() -> Result<()> {
    let node = super::node().await?;
    let client = node.client().await?;
    deploy::install(&client).await?;
    node.ctl(&["install", LONG]).await?;
    becomes(&node, &format!("system:node:{NODE_NAME}")).await?;
    let file = node.systemd().path("/var/lib/berth/token");
    ensure!(!file.exists(), "a token out of nowhere");

    let pods: Api<Pod> = Api::namespaced(client, "berth-system");
    let pod = async |name: &str| {
        let spec = json!({
            "nodeName": NODE_NAME, "serviceAccountName": "berth-agent", "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "volumes": [{ "name": "token", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } }],
            "containers": [{ "name": "a", "image": "none.invalid/none:1", "imagePullPolicy": "Never" }],
        });
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
        pods.create(&PostParams::default(), &pod).await.context("make a pod")
    };
    pod("first").await?;
    becomes(&node, ACCOUNT).await?;
    let first = std::fs::read_to_string(&file).context("no token")?;
    let mode = std::fs::metadata(&file).context("no token")?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "mode {mode:o}");

    // It has that token after a start, too, and another one by the next pod.
    node.systemd().succeed("systemctl", &["restart", "berthd.service"]).await?;
    becomes(&node, ACCOUNT).await?;
    pods.delete("first", &DeleteParams::default()).await?;
    pod("second").await?;
    await_condition("another token", WITHIN, async || {
        // Whoever asks as the agent is refused from a moment on, and berthd looks for another pod.
        let now = std::fs::read_to_string(&file).context("no token")?;
        ensure!(now != first, "the token of the first pod");
        Ok(())
    })
    .await?;
    becomes(&node, ACCOUNT).await?;
    pods.delete("second", &DeleteParams::default()).await?;
    becomes(&node, &format!("system:node:{NODE_NAME}")).await?;
    ensure!(!file.exists(), "the token is left");
    node.ctl(&["uninstall", "--purge", LONG]).await?;
    node.down()
}
