//! Site of the cells: pods by the API, containers by containerd's own socket. Nothing of it is asked of
//! berthd.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::cri::ContainerState;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};

use crate::manifest::{Container, PodManifest};
use crate::observe::{Cri, Instance};
use crate::wait::await_condition;

/// Where all pods are.
pub(super) const NAMESPACE: &str = "default";
/// A kubelet that lost a call comes back after 10 to 15 s; many times that, and the machine has other work.
pub(super) const PATIENCE: Duration = Duration::from_secs(400);
/// Grace period of pods with hooks, in seconds: their time runs while berthd stands still.
pub(super) const GRACE: i64 = 60;
/// Time that the first container of an ordered pod takes to get ready.
const UP: Duration = Duration::from_millis(300);

/// The pods of the node, and its containers.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) pods: Api<Pod>,
    pub(super) cri: Cri,
}

impl Site {
    /// Makes a pod, whatever it takes: the API server may be away.
    pub(super) async fn create(&self, pod: &PodManifest) -> Result<()> {
        let pod = pod.pod()?;
        await_condition("a pod is made", PATIENCE, async || {
            match self.pods.create(&PostParams::default(), &pod).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                made => made.map(drop).context("create a pod"),
            }
        })
        .await
    }

    /// Waits until the kubelet calls it Ready.
    pub(super) async fn ready(&self, name: &str) -> Result<Pod> {
        await_condition(format!("pod {name} is Ready"), PATIENCE, async || {
            let pod = self.pods.get(name).await?;
            let status = pod.status.as_ref().context("no status")?;
            let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
            ensure!(
                ready.is_some_and(|condition| condition.status == "True"),
                "{}",
                serde_json::to_string(status)?
            );
            Ok(pod)
        })
        .await
    }

    /// Deletes a pod with its own grace, and waits until it is gone.
    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        await_condition(format!("pod {name} is gone"), PATIENCE, async || {
            match self.pods.get_opt(name).await? {
                None => return Ok(()),
                Some(pod) if pod.metadata.deletion_timestamp.is_some() => {
                    bail!("{}", serde_json::to_string(&pod.status)?)
                }
                Some(_) => self.pods.delete(name, &DeleteParams::default()).await.context("delete a pod")?,
            };
            bail!("just deleted")
        })
        .await
    }

    /// The instances of a container that ever ran, the oldest first. One whose creation was lost on the way
    /// never did.
    pub(super) async fn ran(&self, pod: &str, container: &str) -> Result<Vec<Instance>> {
        // containerd may just be restarted.
        let all =
            await_condition("containerd answers", PATIENCE, || self.cri.containers(NAMESPACE, pod)).await?;
        Ok(all.into_iter().filter(|found| found.name == container && found.started_at != 0).collect())
    }

    /// The one that runs.
    pub(super) async fn running(&self, pod: &str, container: &str) -> Result<Instance> {
        let all = self.ran(pod, container).await?;
        let mut running = all.iter().filter(|found| found.state == ContainerState::ContainerRunning);
        let first = running.next().with_context(|| format!("{container} does not run: {all:?}"))?;
        ensure!(running.next().is_none(), "{container} runs twice: {all:?}");
        Ok(first.clone())
    }

    /// A pod that was started in order: it has not failed, each container was started once, in the runtime's
    /// words, and the first one was ready before any other was started.
    pub(super) async fn started_in_order(&self, pod: &Pod, containers: &[&str]) -> Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(phase == Some("Running"), "pod {name} is {phase:?}");
        let mut starts = Vec::new();
        for container in containers {
            let ran = self.ran(name, container).await?;
            ensure!(ran.len() == 1, "pod {name}: {container} was started {} times: {ran:?}", ran.len());
            starts.push(ran[0].started_at);
        }
        let apart = i64::try_from(UP.as_nanos())?;
        for (container, start) in containers.iter().zip(&starts).skip(1) {
            let gap = start - starts[0];
            ensure!(gap >= apart, "pod {name}: {container} was started {gap} ns after {}", containers[0]);
        }
        Ok(())
    }
}

/// A pod of ordered containers, the lower ones around the first: of these `b` is refused in the first
/// SyncPod, and `c` held.
pub(super) fn ordered(name: &str, containers: &[&str]) -> PodManifest {
    // Both end at once when they are told to.
    let first = format!("sleep {}; touch /tmp/up", UP.as_secs_f32());
    let first = Container::new("a").shell(&first).ready_when("test -f /tmp/up").priority(2);
    let mut pod = PodManifest::new(NAMESPACE, name).grace(5).container(Container::new("b").priority(1));
    pod = pod.container(first);
    for lower in containers.iter().filter(|container| !["a", "b"].contains(container)) {
        pod = pod.container(Container::new(lower).priority(1));
    }
    pod
}
