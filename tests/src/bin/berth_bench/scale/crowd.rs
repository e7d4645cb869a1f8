//! Pods of CloneSets, put into the store as copies of the one that berth-workloads has made of each.

use anyhow::{Context, Result};
use berth_tests::node::ControlPlane;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::kinds::Made;
use crate::manager::cluster::{OF_ONE, STORES, node};

const INSTANCE: &str = "apps.kruise.io/cloneset-instance-id";

/// Makes them, spread over the nodes.
pub(super) async fn make(plane: &ControlPlane, sets: &[Made], nodes: u32) -> Result<()> {
    let store = plane.store()?;
    let all: Vec<(&Made, u32)> =
        sets.iter().flat_map(|set| (1..set.replicas).map(move |number| (set, number))).collect();
    let parts = stream::iter(all.chunks(OF_ONE).enumerate()).map(|(part, pods)| {
        let first = part * OF_ONE;
        let copies = pods.iter().enumerate().map(|(at, (set, number))| copy(set, *number, first + at, nodes));
        let copies: Result<Vec<_>> = copies.map(|copy| Ok(("pods", copy?))).collect();
        let store = store.clone();
        async move { store.put(&copies?).await }
    });
    parts.buffer_unordered(STORES).try_collect().await
}

/// Copy of a set's pod, as it is stored.
fn copy(set: &Made, number: u32, at: usize, nodes: u32) -> Result<Value> {
    let id = format!("{number:05}");
    let at = u32::try_from(at).context("number of a pod")?;
    let mut pod = set.pod.clone();
    let meta = &pod["metadata"];
    let mut labels = meta["labels"].clone();
    labels[INSTANCE] = id.clone().into();
    pod["metadata"] = json!({
        "name": format!("{}-{id}", set.name), "namespace": set.namespace, "labels": labels,
        "uid": format!("5ca1ab1e-0000-4000-8000-{at:012x}"), "creationTimestamp": meta["creationTimestamp"],
        "annotations": meta["annotations"], "ownerReferences": meta["ownerReferences"],
        "managedFields": meta["managedFields"],
    });
    pod["spec"]["nodeName"] = node(at % nodes).into();
    let status = &mut pod["status"];
    let address = format!("10.{}.{}.{}", at >> 16, (at >> 8) & 255, at & 255);
    status["podIP"] = address.as_str().into();
    status["podIPs"] = json!([{ "ip": address }]);
    for (place, container) in status["containerStatuses"].as_array_mut().into_iter().flatten().enumerate() {
        let digits = u128::from(at) * 4 + place as u128 + 1;
        container["containerID"] = format!("containerd://{digits:064x}").into();
    }
    Ok(pod)
}
