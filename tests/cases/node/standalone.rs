//! Without an API server: a kubelet with static pods keeps the order on its own view of them.

use std::time::Duration;

use anyhow::Result;
use berth_tests::manifest::PodManifest;
use berth_tests::node::{NODE_NAME, Node};
use berth_tests::observe::Recorder;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;

use crate::case::PATIENCE;

/// Less than each container takes to get ready, and what it takes to end.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn static_pod_starts_and_stops_in_order() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().api(false).start().await?;
    let evidence = Evidence::new(node.run(), "default", "pod")?;
    let manifest = evidence.slow_pod(PodManifest::new("default", "pod"));
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", &format!("pod-{NODE_NAME}"));
    node.kubelet()?.play("pod", manifest.json())?;
    await_condition("all have been started", PATIENCE * 2, async || {
        node.kubelet()?.service().check_running()?;
        recorder.so_far().started("c")
    })
    .await?;

    node.kubelet()?.unplay("pod")?;
    await_condition("all have ended", PATIENCE * 2, async || {
        ["a", "b", "c"].iter().try_for_each(|name| evidence.ended_at(name).map(drop))
    })
    .await?;
    recorder.finish().await?.check_start_order(&["a", "b", "c"], SECOND)?;
    evidence.check_exit_order(&["c", "b", "a"], SECOND)?;
    node.down()
}
