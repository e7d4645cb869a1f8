//! Pods that go on, whatever is done below them.

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::SystemdNode;
use berth_tests::observe::{Cri, Instance};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use crate::case::{PATIENCE, is_ready};

const NAMESPACE: &str = "default";

/// The pods of a node.
pub(super) struct Pods {
    pub(super) api: Api<Pod>,
    pub(super) cri: Cri,
}

/// Which instances a pod has; their names, IDs and starts.
pub(super) type Instances = Vec<(String, String, i64)>;

impl Pods {
    pub(super) async fn of(node: &SystemdNode) -> Result<Self> {
        Ok(Self { api: Api::namespaced(node.client().await?, NAMESPACE), cri: node.cri()? })
    }

    /// A manifest in their namespace.
    pub(super) fn manifest(name: &str) -> PodManifest {
        PodManifest::new(NAMESPACE, name)
    }

    /// Makes a pod and waits until it is Ready.
    pub(super) async fn play(&self, name: &str, manifest: PodManifest) -> Result<Instances> {
        self.api.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
        await_condition(format!("pod {name} is Ready"), PATIENCE, async || {
            is_ready(&self.api.get(name).await?)
        })
        .await?;
        self.instances(name).await
    }

    /// A pod of two containers in which nothing is special.
    pub(super) async fn plain(&self, name: &str) -> Result<Instances> {
        let manifest = Self::manifest(name).container(Container::new("one")).container(Container::new("two"));
        self.play(name, manifest).await
    }

    /// A pod that lists the container first that starts last.
    pub(super) async fn ordered(&self, name: &str) -> Result<()> {
        let ready = |name| Container::new(name).shell("touch /tmp/ready").ready_when("test -f /tmp/ready");
        let manifest =
            Self::manifest(name).container(ready("b").priority(1)).container(ready("a").priority(2));
        let instances = self.play(name, manifest).await?;
        let started = |name: &str| instances.iter().find(|(found, ..)| found == name).map(|(.., at)| *at);
        ensure!(instances.len() == 2 && started("a") < started("b"), "not in its order: {instances:?}");
        Ok(())
    }

    pub(super) async fn gone(&self, pod: &str) -> Result<()> {
        await_condition(format!("{pod} is gone"), PATIENCE, async || {
            ensure!(self.api.get_opt(pod).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }

    pub(super) async fn instances(&self, pod: &str) -> Result<Instances> {
        let short = |one: Instance| (one.name, one.id, one.started_at);
        let mut found: Instances =
            self.cri.containers(NAMESPACE, pod).await?.into_iter().map(short).collect();
        found.sort();
        Ok(found)
    }

    /// The same instances as before, and no restart is counted.
    pub(super) async fn untouched(&self, pod: &str, before: &Instances) -> Result<()> {
        let now = self.instances(pod).await?;
        ensure!(now == *before, "the containers of {pod} were {before:?} and are {now:?}");
        // The kubelet says so when it next can: it may just have been restarted.
        let object = await_condition(format!("pod {pod} is Ready"), PATIENCE, async || {
            let object = self.api.get(pod).await?;
            is_ready(&object).map(|()| object)
        })
        .await?;
        let statuses = object.status.and_then(|status| status.container_statuses).unwrap_or_default();
        ensure!(statuses.iter().all(|status| status.restart_count == 0), "{statuses:?}");
        Ok(())
    }
}
