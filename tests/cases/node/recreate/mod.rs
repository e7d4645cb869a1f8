//! Recreate: what is asked for happens, exactly once, by the kubelet, and is reported as it is.

mod bad_input;
mod beside;
mod faults;
mod in_a_row;
mod load;
mod strategy;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::PodManifest;
use berth_tests::observe::Instance;
use berth_tests::recreate::{Ask, Asked, Evidence};

use crate::case::Case;

/// Longer than a recreate takes on a machine with other work to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A pod that leaves evidence.
pub(crate) struct Scene<'a> {
    pub(crate) case: &'a Case,
    pub(crate) pod: String,
    pub(crate) evidence: Evidence,
}

impl<'a> Scene<'a> {
    /// Brings up a pod that `fill` adds containers to.
    pub(crate) async fn begin(
        case: &'a Case,
        pod: &str,
        fill: impl FnOnce(PodManifest, &Evidence) -> PodManifest,
    ) -> Result<Self> {
        let evidence = Evidence::new(case.node.run(), &case.namespace, pod)?;
        let manifest = fill(evidence.mount(case.manifest(pod)), &evidence);
        case.create(&manifest).await?;
        case.await_ready(pod).await?;
        evidence.all_started(&manifest).await?;
        Ok(Self { case, pod: pod.to_owned(), evidence })
    }

    /// Makes a request, and assigns it.
    pub(crate) async fn ask(&self, name: &str, ask: &Ask) -> Result<Asked> {
        let asked = ask.create(&self.case.node.client().await?, &self.case.namespace, name).await?;
        asked.assign().await?;
        Ok(asked)
    }

    /// The instances of a container, the oldest first.
    pub(crate) async fn instances(&self, container: &str) -> Result<Vec<Instance>> {
        let all = self.case.cri.containers(&self.case.namespace, &self.pod).await?;
        Ok(all.into_iter().filter(|instance| instance.name == container).collect())
    }

    /// The one that runs.
    pub(crate) async fn running(&self, container: &str) -> Result<Instance> {
        let all = self.instances(container).await?;
        let mut running = all.iter().filter(|instance| instance.state == ContainerState::ContainerRunning);
        let first = running.next().with_context(|| format!("{container} does not run: {all:?}"))?;
        ensure!(running.next().is_none(), "{container} runs twice: {all:?}");
        Ok(first.clone())
    }

    /// The container was replaced once since it was `before`, by way of its hook, and the pod's status says
    /// so.
    pub(crate) async fn replaced_once(&self, container: &str, before: &Instance, hooks: usize) -> Result<()> {
        let now = self.running(container).await?;
        ensure!(now.id != before.id, "{container} was not replaced");
        ensure!(now.attempt == before.attempt + 1, "attempt {} after {}", now.attempt, before.attempt);
        self.evidence.has(container, "start", now.attempt as usize + 1).await?;
        // It began before the old instance ended; another container may be the one that writes it down.
        self.evidence.has(container, "hook", hooks).await?;
        self.shown(container, &now).await
    }

    /// Waits until the pod's status says that this instance runs. A request that is made before is about the
    /// one before it.
    pub(crate) async fn shown(&self, container: &str, now: &Instance) -> Result<()> {
        self.case
            .await_pod(&self.pod, "the status shows the new instance", |pod| {
                let status = crate::case::container(pod, container)?;
                let id = status.container_id.as_deref().unwrap_or_default();
                ensure!(id.ends_with(&now.id), "it shows {id}");
                ensure!(
                    status.restart_count == i32::try_from(now.attempt)?,
                    "restartCount {}",
                    status.restart_count
                );
                Ok(())
            })
            .await?;
        Ok(())
    }
}
