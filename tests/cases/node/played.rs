//! Without a kubelet: `berthctl run` plays a pod through berthd in its order, `berthctl stop` ends it the
//! other way round.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Recorder;

/// Time that each container takes to get ready, and to end.
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn played_pod_starts_and_stops_in_order() -> Result<()> {
    let node = Node::builder().api(false).kubelet(false).start().await?;
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
    let file = node.run().write("pod.json", &manifest.json().to_string())?;
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", "pod");
    let (logs, data) = (node.run().make_dir("pod-logs")?, node.run().make_dir("pods")?);
    let (logs, data) = (format!("--log-dir={}", logs.display()), format!("--data-dir={}", data.display()));
    node.berthd()?.ctl(&["run", &logs, &data, file.to_str().context("path")?]).await?;
    node.berthd()?.ctl(&["stop", "pod"]).await?;

    let history = recorder.finish().await?;
    history.check_start_order(&["a", "b", "c"], SECOND)?;
    history.check_exit_order(&["c", "b", "a"], SECOND)?;
    let left = node.containerd().cri()?.sandboxes("default", "pod").await?;
    ensure!(left.is_empty(), "stopped and still there: {left:?}");
    node.down()
}
