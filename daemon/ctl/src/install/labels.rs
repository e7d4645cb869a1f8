//! Takes back what berthd has said of the node in its labels, once Berth is no more there.
//!
//! Last of all: a kubelet that starts checks the pods it runs against the labels of its node, so they must be
//! there when it is restarted. Pods that ask for a node with order run on, until the kubelet is restarted the
//! next time.

use std::time::Duration;

use anyhow::{Context, anyhow};
use berthd::cluster::node_labels::{ORDER, PATH};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use super::facts::Kubelet;
use super::host::Host;
use super::ready::{client, node_name};

const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Removes them as the kubelet. A remark: what was done, or why it was not; `None` where there are none.
pub(crate) async fn remove(host: &Host, kubelet: &Kubelet) -> Option<String> {
    let path = kubelet.kubeconfig.as_ref()?;
    let removed = async {
        let name = node_name(kubelet)?;
        let nodes: Api<Node> = Api::all(client(&host.path(path)).await?);
        let node = nodes.get(&name).await.with_context(|| format!("Node {name}"))?;
        if ![PATH, ORDER].iter().any(|label| node.labels().contains_key(*label)) {
            return Ok(None);
        }
        let none = Patch::Merge(json!({ "metadata": { "labels": { PATH: null, ORDER: null } } }));
        nodes.patch_metadata(&name, &PatchParams::default(), &none).await.context("patch its labels")?;
        Ok::<_, anyhow::Error>(Some(format!("remove the labels {PATH} and {ORDER} of node {name}")))
    };
    let removed = timeout(CALL_TIMEOUT, removed).await.map_err(|_| anyhow!("the API server does not answer"));
    removed.flatten().unwrap_or_else(|error| {
        Some(format!("warning: the labels {PATH} and {ORDER} of the node are left: {error:#}"))
    })
}
