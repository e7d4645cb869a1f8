//! Without an API server: a kubelet with static pods keeps the order on its own view of them.

use anyhow::{Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{NODE_NAME, Node};
use berth_tests::observe::Recorder;
use berth_tests::wait::await_condition;

use crate::case::PATIENCE;

const SECOND: i64 = 1_000_000_000;

#[tokio::test]
async fn static_pod_starts_and_stops_in_order() -> Result<()> {
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
    for (before, after) in [("a", "b"), ("b", "c")] {
        let gap = history.started(after)? - history.started(before)?;
        ensure!(gap >= SECOND, "{after} was started {gap} ns after {before}");
    }
    for (before, after) in [("c", "b"), ("b", "a")] {
        let gap = history.finished(after)? - history.finished(before)?;
        ensure!(gap >= SECOND, "{after} ended {gap} ns after {before}");
    }
    node.down()
}
