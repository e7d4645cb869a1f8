//! Images that were pulled ahead are kept from the kubelet's image collection until they are used.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::manifest::Container;
use berth_tests::node::Node;
use berth_tests::wait::await_condition;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Wanted, is_phase, publish, registry, split};
use crate::case::{Case, run};

/// Waits until an image has our pin, or has none.
pub(super) async fn is_pinned(node: &Node, reference: &str, pinned: bool) -> Result<()> {
    await_condition(format!("{reference} pinned: {pinned}"), PATIENCE, async || {
        let images = node.containerd().ctr(&["images", "ls", &format!("name=={reference}")]).await?;
        let line = images.lines().find(|line| line.starts_with(reference)).with_context(|| images.clone())?;
        let labels = ["io.cri-containerd.pinned=pinned", "berth.dev/pinned-until="];
        ensure!(labels.iter().all(|label| line.contains(label) == pinned), "{line}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_are_kept_until_they_are_used() -> Result<()> {
    run("images_pins", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let reference = publish(case, registry, "pinned:v1", 1000).await?;
        let (name, _) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        is_pinned(case.node, &reference, true).await?;

        // A pull makes its record anew, whoever asked for it.
        case.node.berthd()?.ctl(&["pull", "--always", &reference]).await?;
        is_pinned(case.node, &reference, true).await?;

        // A job that has succeeded is deleted long before its image is used.
        wanted.ask(name, Value::Null).await?;
        wanted.forgotten(name).await?;
        is_pinned(case.node, &reference, true).await?;

        case.create(&case.manifest("pod").container(Container::new("main").image(&reference))).await?;
        case.await_ready("pod").await?;
        is_pinned(case.node, &reference, false).await
    })
    .await
}
