//! Scheduler and kubelets of nodes on paper, for pods of all namespaces that have no node yet.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::manager::cluster::node;
use crate::workloads::nodes;

/// Requests to the API server at once.
const AT_ONCE: usize = 32;

/// The kubelets. They end with this.
pub(super) struct Kubelets(JoinHandle<()>);

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelets {
    pub(super) fn start(client: &Client, count: u32) -> Self {
        let client = client.clone();
        Self(tokio::spawn(async move {
            // What goes wrong here shows as pods that are never ready.
            if let Err(error) = follow(client, count).await {
                eprintln!("the kubelets have ended: {error:#}");
            }
        }))
    }
}

async fn follow(client: Client, count: u32) -> Result<()> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let without_node = watcher::Config::default().fields("spec.nodeName=");
    let mut events = pin!(watcher::watcher(Api::<Pod>::all(client.clone()), without_node));
    let (mut started, mut turn) = (HashSet::new(), 0);
    while let Some(event) = events.try_next().await? {
        let (Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
        if !started.insert(pod.uid().context("a pod without UID")?) {
            continue;
        }
        turn = (turn + 1) % count;
        // A pod of a DaemonSet or BroadcastJob says its node itself.
        let to = wanted(&pod).unwrap_or_else(|| node(turn));
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().context("no namespace")?);
        let slots = slots.clone();
        tokio::spawn(async move {
            let Ok(_slot) = slots.acquire().await else { return };
            match nodes::run(&pods, &pod, &to).await {
                // It may have been deleted meanwhile.
                Ok(()) | Err(kube::Error::Api(_)) => {}
                Err(error) => eprintln!("a kubelet's request failed: {error}"),
            }
        });
    }
    anyhow::bail!("the watch ended")
}

/// Node that the affinity of a pod names.
fn wanted(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
    let field = fields.iter().find(|field| field.key == "metadata.name")?;
    field.values.as_ref()?.first().cloned()
}
