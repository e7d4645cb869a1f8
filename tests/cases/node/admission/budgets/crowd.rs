//! Pods on paper of a CloneSet on paper, and what a kubelet and a controller would do with them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::scene::Scene;
use berth_tests::node::deploy;

pub(super) const IMAGE: &str = "registry.example/app:1";
/// A new pod, and one that was updated, takes so long to be ready.
const READY_AFTER: Duration = Duration::from_millis(300);

/// The pods of one CloneSet.
#[derive(Clone)]
pub(super) struct Crowd {
    pods: Api<Pod>,
    sets: Api<DynamicObject>,
    uid: String,
    size: usize,
    node: &'static str,
}

impl Crowd {
    /// Makes the CloneSet `web` and its pods, ready.
    pub(super) async fn make(scene: &Scene, namespace: &str, size: usize) -> Result<Self> {
        Self::make_on(scene, namespace, size, "paper").await
    }

    /// The same on a node of this name.
    pub(super) async fn make_on(
        scene: &Scene,
        namespace: &str,
        size: usize,
        node: &'static str,
    ) -> Result<Self> {
        let set: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": { "name": "web", "namespace": namespace },
            "spec": { "replicas": size, "selector": { "matchLabels": { "app": "web" } },
                "template": { "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "app", "image": IMAGE }] } } },
        }))?;
        let sets = deploy::api(&scene.client, &set)?;
        let uid = sets.create(&PostParams::default(), &set).await?.uid().context("no UID")?;
        let crowd = Self { pods: scene.pods.clone(), sets, uid, size, node };
        for name in crowd.names() {
            crowd.create(&name).await?;
            crowd.ready(&name, true).await?;
        }
        Ok(crowd)
    }

    /// The same pods, looked after by another client.
    pub(super) fn by(&self, client: Client, namespace: &str) -> Self {
        Self { pods: Api::namespaced(client, namespace), ..self.clone() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.size).map(|at| format!("web-{at}"))
    }

    async fn create(&self, name: &str) -> Result<()> {
        let owner = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web",
            "uid": self.uid, "controller": true });
        let pod = json!({
            "metadata": { "name": name, "labels": { "app": "web" }, "ownerReferences": [owner] },
            "spec": { "nodeName": self.node, "terminationGracePeriodSeconds": 30,
                "readinessGates": [{ "conditionType": "InPlaceUpdateReady" }],
                "containers": [{ "name": "app", "image": IMAGE }] },
        });
        self.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    /// As a kubelet says it: the containers run what the spec says.
    pub(super) async fn ready(&self, name: &str, ready: bool) -> Result<()> {
        let image = image(&self.pods.get(name).await?);
        let condition = |type_: &str, holds: bool| json!({ "type": type_, "status": if holds { "True" } else { "False" } });
        let status = json!({ "status": {
            "phase": "Running",
            "conditions": [condition("Ready", ready), condition("ContainersReady", ready),
                condition("InPlaceUpdateReady", true)],
            "containerStatuses": [{ "name": "app", "image": image, "imageID": image, "ready": ready,
                "restartCount": 0, "containerID": "containerd://x", "state": { "running": {} } }],
        } });
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
        Ok(())
    }

    /// As a kubelet ends a pod that is being deleted.
    pub(super) async fn end(&self, name: &str) -> Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods.delete(name, &now).await.context("the last word of a kubelet")?;
        Ok(())
    }

    /// Deletes the CloneSet alone, as somebody who deletes all that a namespace has.
    pub(super) async fn delete_set(&self) -> Result<()> {
        let policy = Some(PropagationPolicy::Background);
        let params = DeleteParams { propagation_policy: policy, ..DeleteParams::default() };
        self.sets.delete("web", &params).await?;
        Ok(())
    }

    pub(super) async fn scale(&self, replicas: usize) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.sets.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Ends what goes, restarts what was updated, and makes anew what is gone, until it is told to stop.
    pub(super) async fn live(self) -> Result<()> {
        let mut since: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            let pods = self.pods.list(&ListParams::default().labels("app=web")).await?.items;
            let by_name: BTreeMap<String, Pod> = pods.into_iter().map(|pod| (pod.name_any(), pod)).collect();
            for name in self.names() {
                let Some(pod) = by_name.get(&name) else {
                    self.create(&name).await?;
                    since.insert(name, Instant::now());
                    continue;
                };
                if pod.metadata.deletion_timestamp.is_some() {
                    self.end(&name).await?;
                } else if is_ready(pod) && !is_settled(pod) {
                    self.unready(&name).await?;
                    since.insert(name, Instant::now());
                } else if !is_ready(pod) && since.get(&name).is_none_or(|since| since.elapsed() > READY_AFTER)
                {
                    // It may have been deleted meanwhile.
                    drop(self.ready(&name, true).await);
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// As a kubelet says it while it restarts a container.
    async fn unready(&self, name: &str) -> Result<()> {
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
        drop(self.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await);
        Ok(())
    }
}

fn image(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Its containers run what its spec says.
fn is_settled(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().all(|one| one.image == image(pod))
}

/// Whether a pod serves, now: it is ready, is to stay, and is not to be restarted.
pub(super) fn serves(pod: &Pod) -> bool {
    is_ready(pod) && is_settled(pod) && pod.metadata.deletion_timestamp.is_none()
}
