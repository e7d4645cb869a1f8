//! Scheduler and kubelets in one, for nodes on paper: a pod is bound in turn, is Ready at once with all its
//! gates, and is gone when it is deleted. What they write is no cost of a controller and is not counted.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Binding, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::scene::NAMESPACE;
use crate::manager::cluster::{node, running};

/// Requests to the API server at once.
const AT_ONCE: usize = 32;

/// The nodes. They end with this.
pub(super) struct Nodes(JoinHandle<()>);

impl Drop for Nodes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Nodes {
    /// Makes them, and begins to watch pods.
    pub(super) async fn start(client: &Client, nodes: u32) -> Result<Self> {
        let api: Api<Node> = Api::all(client.clone());
        for number in 0..nodes {
            let object = serde_json::from_value(json!({ "metadata": { "name": node(number) } }))?;
            api.create(&PostParams::default(), &object).await.context("make a node")?;
        }
        let client = client.clone();
        Ok(Self(tokio::spawn(async move {
            // What goes wrong here shows as pods that are never ready.
            if let Err(error) = follow(client, nodes).await {
                eprintln!("the kubelets have ended: {error:#}");
            }
        })))
    }
}

async fn follow(client: Client, nodes: u32) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let (mut started, mut ended) = (HashSet::new(), HashSet::new());
    let mut events = pin!(watcher::watcher(pods.clone(), watcher::Config::default()));
    let mut turn = 0;
    while let Some(event) = events.try_next().await? {
        let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        let uid = pod.uid().context("a pod without UID")?;
        let goes = pod.metadata.deletion_timestamp.is_some();
        if !(if goes { ended.insert(uid) } else { started.insert(uid) }) {
            continue;
        }
        turn = (turn + 1) % nodes;
        let (pods, slots, to) = (pods.clone(), slots.clone(), node(turn));
        tokio::spawn(async move {
            let Ok(_slot) = slots.acquire().await else { return };
            let done = if goes { end(&pods, &pod).await } else { run(&pods, &pod, &to).await };
            match done {
                // It may have been deleted meanwhile.
                Ok(()) | Err(kube::Error::Api(_)) => {}
                Err(error) => eprintln!("a kubelet's request failed: {error}"),
            }
        });
    }
    anyhow::bail!("the watch ended")
}

/// Binds a pod, and shows it as running.
pub(crate) async fn run(pods: &Api<Pod>, pod: &Pod, to: &str) -> kube::Result<()> {
    let name = pod.name_any();
    let binding: Binding = serde_json::from_value(json!({
        "metadata": { "name": name }, "target": { "apiVersion": "v1", "kind": "Node", "name": to },
    }))
    .map_err(kube::Error::SerdeError)?;
    let _: Value = pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
    let spec = pod.spec.as_ref();
    let gates = spec.and_then(|spec| spec.readiness_gates.clone()).unwrap_or_default();
    let conditions: Vec<Value> = ["Initialized", "PodScheduled", "ContainersReady", "Ready"]
        .into_iter()
        .map(str::to_owned)
        .chain(gates.into_iter().map(|gate| gate.condition_type))
        .map(|kind| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }))
        .collect();
    let mut status = running(0, 1);
    status["image"] = spec.and_then(|spec| spec.containers.first()?.image.clone()).into();
    let status = json!({ "status": {
        "phase": "Running", "conditions": conditions, "containerStatuses": [status],
        "startTime": "2026-01-01T00:00:00Z", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }],
    } });
    pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await.map(drop)
}

async fn end(pods: &Api<Pod>, pod: &Pod) -> kube::Result<()> {
    pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.map(drop)
}
