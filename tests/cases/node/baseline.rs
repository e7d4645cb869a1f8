//! The node without Berth: what the other tests stand on.

use anyhow::Result;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::Node;
use berth_tests::observe::Recorder;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use crate::case::{PATIENCE, is_ready};

/// A kubelet directly on containerd runs a plain pod, and starts its containers as they are listed: the order of the
/// other tests, which list the lowest first, is Berth's doing.
#[tokio::test]
async fn plain_pod_on_a_node_without_berth() -> Result<()> {
    let node = Node::builder().berth(false).start().await?;
    let dir = node.run().dir().to_owned();
    let pods: Api<Pod> = Api::namespaced(node.client().await?, "default");
    let recorder = Recorder::watch(&node.containerd().cri()?, "default", "plain");
    let manifest = PodManifest::new("default", "plain")
        .container(Container::new("c").priority(1))
        .container(Container::new("b").priority(2))
        .container(Container::new("a").priority(3));
    pods.create(&PostParams::default(), &manifest.pod()?).await?;
    await_condition("the pod is Ready", PATIENCE, async || is_ready(&pods.get("plain").await?)).await?;
    recorder.finish().await?.check_start_order(&["c", "b", "a"])?;

    node.down()?;
    assert!(!dir.exists(), "{} is still there", dir.display());
    Ok(())
}
