//! Observation of what the cluster is told of the node, and what its kubelet complains of.

use std::collections::BTreeMap;

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

/// Returns the Events of a namespace in which the kubelet complains.
pub async fn complaints(client: &Client, namespace: &str) -> Result<Vec<Event>> {
    let events = Api::<Event>::namespaced(client.clone(), namespace).list(&Default::default()).await?;
    let bad = |event: &Event| event.reason.as_deref().is_some_and(is_complaint);
    Ok(events.items.into_iter().filter(bad).collect())
}

/// Whether Events of this reason are complaints.
pub fn is_complaint(reason: &str) -> bool {
    COMPLAINTS.contains(&reason)
}

/// How often each Event of a namespace that is a warning was seen, by its reason and the pod it is about.
pub async fn warnings(client: &Client, namespace: &str) -> Result<BTreeMap<(String, String), Warned>> {
    let events = Api::<Event>::namespaced(client.clone(), namespace).list(&Default::default()).await?;
    let mut warnings: BTreeMap<_, Warned> = BTreeMap::new();
    for event in events.items.into_iter().filter(|event| event.type_.as_deref() == Some("Warning")) {
        let of = (event.reason.unwrap_or_default(), event.involved_object.name.unwrap_or_default());
        let warned = warnings.entry(of).or_default();
        warned.times += event.count.unwrap_or(1);
        warned.message = event.message.unwrap_or_default();
    }
    Ok(warnings)
}

/// Events of one reason.
#[derive(Clone, Debug, Default)]
pub struct Warned {
    /// How many there were.
    pub times: i32,
    /// Message of the last of them.
    pub message: String,
}
