//! Job sidecars on virtual nodes (label `type=virtual-kubelet`), where no agent runs that could end them.
//!
//! Such a sidecar gets the image that its env `KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE` names,
//! which exits at once. It is the only thing that is ever changed of a pod's spec, and the policy
//! `berth-workloads` lets nothing else through.
//!
//! Where there is no virtual node nothing but that is watched.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    time::Duration,
};

use berth_base::sent::{Received, Sent};
use berth_base::{lease::Tenure, telemetry::chain, time::reached};
use berth_workloads_policy::{
    action::Note,
    virtual_node::{VIRTUAL, to_end},
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::Patch,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event},
};
use serde_json::{Value, json};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{events::Events, write::params};

/// OpenKruise's reason.
const REASON: &str = "SidecarTerminator";
/// A write without an answer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pause after a watch broke or a write failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause after a write was refused.
const REFUSED: Duration = Duration::from_secs(60);
/// Pods of a node whose refusal is remembered, so that it is told once.
const MOST_TOLD: usize = 1024;

/// Follows virtual nodes and their pods, for ever.
pub(crate) async fn follow(client: Client, tenure: Tenure, events: Events) {
    let nodes = Api::<Sent<PartialObjectMeta<Node>>>::all(client.clone());
    let mut seen = pin!(watcher::watcher(nodes, watcher::Config::default().labels(VIRTUAL)));
    let mut tasks = JoinSet::new();
    let mut followed = Followed::default();
    while let Some(event) = seen.next().await {
        match event {
            Ok(event) => followed.take(event, |node| {
                let node = node.to_owned();
                tasks.spawn(follow_pods(client.clone(), tenure.clone(), events.clone(), node))
            }),
            Err(error) => {
                warn!(error = chain(&error), "Watch of virtual nodes lost");
                sleep(PAUSE).await;
            }
        }
        // Those of nodes that are gone have ended.
        while tasks.try_join_next().is_some() {}
    }
}

/// Nodes whose pods are followed, each by a task of its own.
#[derive(Debug, Default)]
struct Followed {
    tasks: HashMap<String, AbortHandle>,
    /// Nodes of a list that comes in.
    listing: Option<HashSet<String>>,
}

impl Followed {
    /// Takes in what the watch shows. A node that went while the watch was away is missing in the next list.
    fn take<K: Resource>(&mut self, event: Event<K>, follow: impl FnOnce(&str) -> AbortHandle) {
        match event {
            Event::Init => self.listing = Some(HashSet::new()),
            Event::InitApply(node) | Event::Apply(node) => {
                let node = node.name_any();
                if let Some(seen) = &mut self.listing {
                    seen.insert(node.clone());
                }
                self.tasks.entry(node).or_insert_with_key(|node| follow(node));
            }
            Event::Delete(node) => {
                if let Some(task) = self.tasks.remove(&node.name_any()) {
                    task.abort();
                }
            }
            Event::InitDone => {
                let seen = self.listing.take().unwrap_or_default();
                self.tasks.retain(|node, task| {
                    let is_there = seen.contains(node);
                    if !is_there {
                        task.abort();
                    }
                    is_there
                });
            }
        }
    }
}

/// Follows the pods of a node, in every term that this replica leads. What was there before the term, and
/// what could not be written, is in its next list.
async fn follow_pods(client: Client, mut tenure: Tenure, events: Events, node: String) {
    let mut told = HashSet::new();
    loop {
        let Some(term) = tenure.term() else {
            tenure.changed().await;
            continue;
        };
        end_sidecars(&client, &tenure, term, &node, &events, &mut told).await;
    }
}

/// Ends sidecars until the term is over, or something is to be tried again.
async fn end_sidecars(
    client: &Client,
    tenure: &Tenure,
    term: u64,
    node: &str,
    events: &Events,
    told: &mut HashSet<String>,
) {
    let selected = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut seen = pin!(watcher::watcher(Api::<Sent<Pod>>::all(client.clone()), selected));
    let mut again: Option<Instant> = None;
    loop {
        // Cancel-safe: an event that is not taken is still there.
        let event = tokio::select! {
            event = seen.next() => event,
            () = reached(again) => return,
        };
        if tenure.term() != Some(term) {
            return;
        }
        match event {
            Some(Ok(Event::InitApply(pod) | Event::Apply(pod))) => {
                // One that nobody can read holds none of the others up.
                let Ok(pod) = pod.read() else { continue };
                let Some(patch) = patch(&pod) else { continue };
                // Others of the node do not wait for one that is refused.
                if let Some(pause) = write(client, &pod, &patch, events, told).await {
                    let at = Instant::now().checked_add(pause);
                    again = [again, at].into_iter().flatten().min();
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                warn!(node, error = chain(&error), "Watch of the pods of a virtual node lost");
                sleep(PAUSE).await;
            }
            None => return,
        }
    }
}

/// The patch of a pod whose sidecars are to end: of the version that this was decided on.
fn patch(pod: &Pod) -> Option<Value> {
    let sidecars = to_end(pod);
    let containers: Vec<Value> =
        sidecars.into_iter().map(|(name, image)| json!({ "name": name, "image": image })).collect();
    (!containers.is_empty()).then(|| {
        json!({
            "metadata": { "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version },
            "spec": { "containers": containers },
        })
    })
}

/// Writes the patch. Returns after how long it is to be tried again, if it is.
async fn write(
    client: &Client,
    pod: &Pod,
    patch: &Value,
    events: &Events,
    told: &mut HashSet<String>,
) -> Option<Duration> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    match timeout(ANSWER_WITHIN, pods.patch(&name, &params::patch(), &Patch::Strategic(patch))).await {
        Ok(Ok(_)) => {
            info!(namespace, pod = name, "Sidecars on a virtual node got the image that ends them");
            None
        }
        // It is gone, or its next version comes by the watch.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => None,
        Ok(Err(kube::Error::Api(status))) if (400..429).contains(&status.code) => {
            warn!(namespace, pod = name, error = status.message, "Sidecars on a virtual node not ended");
            if told.len() >= MOST_TOLD {
                told.clear();
            }
            if told.insert(pod.uid().unwrap_or_default()) {
                let text =
                    format!("Sidecars run on, the image that ends them was refused: {}", status.message);
                events.about(pod.object_ref(&()), Note { warning: true, reason: REASON, text });
            }
            Some(REFUSED)
        }
        Ok(Err(error)) => {
            warn!(namespace, pod = name, error = chain(&error), "Sidecars on a virtual node not ended");
            Some(PAUSE)
        }
        Err(_) => {
            warn!(namespace, pod = name, "Sidecars on a virtual node not ended: no answer");
            Some(PAUSE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: what the watch shows, with the name of a node, and the nodes that are followed then.
    #[tokio::test]
    async fn a_node_is_followed_for_as_long_as_it_is_there() {
        type Row = (fn(Node) -> Event<Node>, &'static str, &'static str);
        let table: [Row; 11] = [
            (|_| Event::Init, "", ""),
            (Event::InitApply, "a", "a"),
            (|_| Event::InitDone, "", "a"),
            (Event::Apply, "a", "a"),
            (Event::Apply, "b", "a b"),
            (Event::Apply, "c", "a b c"),
            (Event::Delete, "b", "a c"),
            // `a` went while the watch was away.
            (|_| Event::Init, "", "a c"),
            (Event::InitApply, "c", "a c"),
            (Event::InitApply, "d", "a c d"),
            (|_| Event::InitDone, "", "c d"),
        ];
        let (mut followed, mut tasks) = (Followed::default(), JoinSet::new());
        for (event, node, expected) in table {
            let meta = kube::api::ObjectMeta { name: Some(node.to_owned()), ..Default::default() };
            let event = event(Node { metadata: meta, ..Node::default() });
            followed.take(event, |_| tasks.spawn(std::future::pending::<()>()));
            tokio::task::yield_now().await;
            while tasks.try_join_next().is_some() {}
            let mut names: Vec<&str> = followed.tasks.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), expected);
            assert_eq!(tasks.len(), names.len(), "one task each: {expected}");
        }
    }
}
