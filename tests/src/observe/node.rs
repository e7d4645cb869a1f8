//! What the cluster is told of the node, and what its kubelet complains of.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition};
use kube::{Api, Client};

use crate::node::NODE_NAME;

/// Containers, sandboxes and pods that did not go well, by the kubelet's reasons.
const COMPLAINTS: [&str; 5] =
    ["FailedKillPod", "FailedCreatePodSandBox", "FailedSync", "FailedPreStopHook", "FailedPostStartHook"];

/// The node's condition Ready. An error while it is not.
pub async fn node_ready(client: &Client) -> Result<NodeCondition> {
    let node = Api::<Node>::all(client.clone()).get(NODE_NAME).await.context("the Node object")?;
    let mut conditions = node.status.and_then(|status| status.conditions).unwrap_or_default().into_iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready").context("no condition Ready yet")?;
    ensure!(ready.status == "True", "{}", ready.message.as_deref().unwrap_or("not ready"));
    Ok(ready)
}

/// What the kubelet complains of in a namespace.
pub async fn complaints(client: &Client, namespace: &str) -> Result<Vec<Event>> {
    let events = Api::<Event>::namespaced(client.clone(), namespace).list(&Default::default()).await?;
    let bad = |event: &Event| event.reason.as_deref().is_some_and(|reason| COMPLAINTS.contains(&reason));
    Ok(events.items.into_iter().filter(bad).collect())
}
