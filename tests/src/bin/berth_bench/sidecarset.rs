//! SidecarSets in a large cluster: what the admission of a pod takes, and how long an upgrade of all pods.
//!
//! etcd, the API server and the manager are real, and the pods' specs and statuses as large as those of real
//! ones. Nodes exist on paper only; their agents are simulated (`crate::agents`): they make the writes that
//! an agent makes for an upgrade, and the statuses that a kubelet would. What is measured at the admission
//! server is measured at its own door, by reviews as the API server sends them. Without the manager there is
//! no such work, so there is no baseline.
//!
//! Cold upgrades and swaps are made on a real node, swaps under requests to the sidecar that is swapped.

mod admitted;
mod cold;
mod door;
mod follow;
mod rollout;
mod swaps;
mod written;

use anyhow::Result;
use berth_proto::crd::SidecarSet;
use berth_sidecarset::complete;
use clap::Args;
use serde_json::{Value, json};

use crate::report::{Bench, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "sidecarset",
    about: "pods admitted one after the other, 100 a second, with 50 SidecarSets of which one selects them: time of an answer; 30,000 pods on 1,000 nodes upgraded at maxUnavailable 10%: time, API writes of a pod, memory and CPU of the manager; cold upgrades of 20 pods of one node, 4 at a time and at first without the 5 that a partition keeps: a pod's time from its entry in the NodePodUpdate until it shows the new sidecar as ready, in the first upgrade and in later ones, restarts of its app; ten hot upgrades in a row of a web server under 200 requests a second and 50 connections that are kept, then five of the pod at rest, three pods of the node at once, and one case with everything that goes wrong: edit of the set to the new version's serving alone, what of it in a row is the versions' own (migration, drain, stop of the empty image) and what is beyond, API writes of agent and manager for one swap, requests that failed",
    cases: &[
        (door::CASE, &["p50_ms", "p99_ms", "failed"]),
        (rollout::CASE, &["elapsed_s", "writes_per_pod", "rss_mb", "cpu_s"]),
        (cold::CASE, cold::METRICS),
        (swaps::HANDED_OVER, swaps::METRICS),
        (swaps::SHARED, swaps::METRICS),
        (swaps::THREE, swaps::METRICS_OF_THREE),
        (swaps::FAULTS, &["failed", "requests"]),
    ],
};

/// How large the cluster is. The defaults are what the names of the cases stand for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) common: crate::Options,
    /// Nodes.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Pods of each node, with two containers and a sidecar each.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pods_per_node: u32,
    /// SidecarSets.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    sets: u32,
    /// Seconds for which pods are admitted.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

pub(crate) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if options.common.wants(door::CASE) {
        rows.extend(door::run(options).await?);
    }
    if options.common.wants(rollout::CASE) {
        rows.extend(rollout::run(options).await?);
    }
    rows.extend(cold::run(&options.common).await?);
    rows.extend(swaps::run(&options.common).await?);
    Ok(rows)
}

/// A set as admission stores it, with a sidecar `log`, for the pods with this label `app`.
fn set(name: &str, app: &str, image: &str, old: Option<&SidecarSet>) -> Result<SidecarSet> {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "updateStrategy": { "type": "RollingUpdate", "maxUnavailable": "10%" },
            "containers": [{
                "name": "log", "image": image, "transferEnv": [{ "sourceContainerName": "app", "envName": "SETTING_1" }],
                "shareVolumePolicy": { "type": "enabled" },
                "resources": { "limits": { "memory": "256Mi" } },
            }],
        },
    });
    let old = old.map(serde_json::to_value).transpose()?;
    if let Some(old) = &old {
        set["metadata"] = old["metadata"].clone();
    }
    complete(&mut set, old.as_ref())?;
    Ok(serde_json::from_value::<SidecarSet>(set)?)
}

/// Values in the order of their size: the one that so many percent of them are below.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let at = sorted.len().saturating_mul(percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// The annotation of a set, in a pod.
fn annotation(set: &SidecarSet, key: &str) -> Value {
    set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).map_or(
        Value::Null,
        |hash| {
            json!({ set.metadata.name.clone().unwrap_or_default(): {
            "updateTimestamp": "2026-01-01T00:00:00Z", "hash": hash, "sidecarSetName": set.metadata.name,
            "sidecarList": ["log"],
        } })
        },
    )
}
