//! A cluster on paper: nodes, and the NodeImages their agents would make.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use berth_proto::crd::{ImagePullJob, NodeImage};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Requests to the API server at once. More only wait there.
const AT_ONCE: usize = 32;

pub(super) async fn create(client: &Client, count: u32) -> Result<()> {
    let made = stream::iter(0..count).map(|number| make(client, format!("node-{number:04}.example.com")));
    made.buffer_unordered(AT_ONCE).try_collect().await
}

async fn make(client: &Client, name: String) -> Result<()> {
    let (nodes, images) = (Api::<Node>::all(client.clone()), Api::<NodeImage>::all(client.clone()));
    let labels =
        json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" });
    let node = serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
    let node = nodes.create(&PostParams::default(), &node).await.context("make a node")?;
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid() });
    let image = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage",
        "metadata": { "name": name, "ownerReferences": [owner] }, "spec": {},
    }))?;
    images.create(&PostParams::default(), &image).await.context("make a NodeImage").map(drop)
}

/// As many writes to the same objects as one job takes, two for each node, by nobody but us and as fast as
/// they go: what the API server of this machine can do at the most.
pub(super) async fn write_twice(client: &Client, count: u32) -> Result<Duration> {
    let images: Api<NodeImage> = Api::all(client.clone());
    let begun = Instant::now();
    let writes = stream::iter((0..2).flat_map(|turn| (0..count).map(move |number| (turn, number))));
    let done = writes.map(|(turn, number)| {
        let images = images.clone();
        async move {
            let status = Patch::Merge(json!({ "status": { "waiting": turn } }));
            let name = format!("node-{number:04}.example.com");
            images
                .patch_status(&name, &PatchParams::default(), &status)
                .await
                .context("write a status")
                .map(drop)
        }
    });
    done.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    Ok(begun.elapsed())
}

pub(super) async fn ask(client: &Client, name: &str, parallelism: u32) -> Result<()> {
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), "default");
    let job = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
        "metadata": { "name": name },
        "spec": { "image": format!("registry.example.com/{name}:1"), "parallelism": parallelism, "completionPolicy": {} },
    }))?;
    jobs.create(&PostParams::default(), &job).await.context("make a job").map(drop)
}
