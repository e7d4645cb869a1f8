//! Without an API server: a kubelet with static pods keeps the order on its own view of them.

use std::time::Duration;

use anyhow::Result;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{NODE_NAME, Node};
use berth_tests::observe::Recorder;
use berth_tests::wait::await_condition;

use crate::case::PATIENCE;

/// Time that each container takes to get ready, and to end.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn static_pod_starts_and_stops_in_order() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().api(false).start().await?;
    let slow = |name| {
        Container::new(name)
            .only("trap 'sleep 1; exit 0' TERM\nsleep 1; touch /tmp/ready\nsleep 1000000 & wait")
            .ready_when("test -f /tmp/ready")
    };
    let manifest = PodManifest::new("default", "pod")
        .grace(20)
        .container(slow("c").priority(1))
        .container(slow("b").priority(2))
        .container(slow("a").priority(3));
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", &format!("pod-{NODE_NAME}"));
    node.kubelet()?.play("pod", manifest.json())?;
    await_condition("all have been started", PATIENCE, async || {
        node.kubelet()?.service().check_running()?;
        recorder.so_far().started("c")
    })
    .await?;

    node.kubelet()?.unplay("pod")?;
    await_condition("all have ended", PATIENCE, async || {
        let history = recorder.so_far();
        for name in ["a", "b", "c"] {
            history.finished(name)?;
        }
        Ok(())
    })
    .await?;
    let history = recorder.finish().await?;
    history.check_start_order(&["a", "b", "c"], SECOND)?;
    history.check_exit_order(&["c", "b", "a"], SECOND)?;
    node.down()
}
