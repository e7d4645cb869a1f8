//! Updates in place: every container gets what was asked for by one restart, in the order of the pod, and
//! nothing is stopped for what cannot be had.

mod beside;
mod by_hand;
mod failures;
mod faults;
mod node_pod_update;
mod order;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::observe::Instance;
use berth_tests::recreate::Evidence;
use berth_tests::update::{Update, Updated};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::case::Case;

/// The readiness gate of in-place updates.
const GATE: &str = "InPlaceUpdateReady";
/// The progress of an update, for whoever reads the pod.
const STATE: &str = "apps.kruise.io/inplace-update-state";
/// Annotation of the running containers, for tools.
const META: &str = "apps.kruise.io/runtime-containers-meta";

/// A pod that leaves evidence.
pub(crate) struct Scene<'a> {
    pub(crate) case: &'a Case,
    pub(crate) pod: String,
    pub(crate) evidence: Evidence,
}

impl<'a> Scene<'a> {
    /// Brings up a pod with the readiness gate that `fill` adds containers to.
    pub(crate) async fn begin(
        case: &'a Case,
        pod: &str,
        fill: impl FnOnce(PodManifest, &Evidence) -> PodManifest,
    ) -> Result<Self> {
        let evidence = Evidence::new(case.node.run(), &case.namespace, pod)?;
        // A busy machine takes long to begin a hook, and the kubelet waits for one as long as the grace is.
        let manifest = evidence.mount(case.manifest(pod).grace(60));
        let manifest = manifest.spec("readinessGates", json!([{ "conditionType": GATE }]));
        let manifest = fill(manifest, &evidence);
        case.create(&manifest).await?;
        let scene = Self { case, pod: pod.to_owned(), evidence };
        // Whoever makes such pods opens their gate, as OpenKruise's workloads do.
        let open = json!({ "status": { "conditions": [{ "type": GATE, "status": "True" }] } });
        let params = kube::api::PatchParams::default();
        case.pods
            .patch_status(pod, &params, &kube::api::Patch::Strategic(&open))
            .await
            .context("open the gate")?;
        case.await_ready(pod).await?;
        scene.evidence.all_started(&manifest).await?;
        Ok(scene)
    }

    /// Makes a request, and assigns it.
    pub(crate) async fn ask(&self, name: &str, update: &Update) -> Result<Updated> {
        update.begin(&self.case.node.client().await?, &self.case.namespace, name).await
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

    /// How often a container was restarted so far, and that its hook ran as often.
    pub(crate) async fn restarts(&self, container: &str) -> Result<usize> {
        let attempt = self.running(container).await?.attempt as usize;
        self.evidence.has(container, "start", attempt + 1).await?;
        let hooks = self.evidence.count(container, "hook")?;
        ensure!(hooks == attempt, "{hooks} hooks of {container} at attempt {attempt}");
        Ok(attempt)
    }

    /// `lower` went on only after `higher` ran anew.
    pub(crate) async fn in_order(&self, higher: &str, lower: &str) -> Result<()> {
        let started = self.running(higher).await?.started_at;
        let ended = self.evidence.ended_at(lower).with_context(|| format!("{lower} was not restarted"))?;
        ensure!(started <= ended, "{lower} ended at {ended}, before {higher} ran at {started}");
        Ok(())
    }

    /// The value an env variable has in the running container.
    pub(crate) async fn env(&self, container: &str, name: &str) -> Result<String> {
        let id = self.running(container).await?.id;
        let (code, output) =
            self.case.cri.exec(&id, &["/bin/sh", "-c", &format!("printf %s \"${name}\"")]).await?;
        ensure!(code == 0, "exit {code}: {output}");
        Ok(output)
    }

    pub(crate) async fn now(&self) -> Result<Pod> {
        Ok(self.case.pods.get(&self.pod).await?)
    }
}

/// A container with a hook, whose env has values from metadata.
pub(crate) fn container(evidence: &Evidence, name: &str, env: &[(&str, &str)]) -> Container {
    env.iter().fold(evidence.container(name, "sleep 0.1"), |container, (name, path)| {
        container.env_entry(json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }))
    })
}

/// An annotation of a pod that is JSON.
pub(crate) fn annotation(pod: &Pod, key: &str) -> Result<Value> {
    let text = pod.metadata.annotations.as_ref().and_then(|all| all.get(key));
    serde_json::from_str(text.with_context(|| format!("no annotation {key}"))?)
        .context("an annotation that is no JSON")
}

/// The image of a container in the spec.
pub(crate) fn image(pod: &Pod, container: &str) -> Result<String> {
    let containers = pod.spec.as_ref().map(|spec| &spec.containers[..]).unwrap_or_default();
    let found = containers.iter().find(|other| other.name == container);
    found.and_then(|container| container.image.clone()).with_context(|| format!("no image of {container}"))
}

/// The status of the gate's condition, and since when.
pub(crate) fn gate(pod: &Pod) -> Result<String> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let gate = conditions.iter().find(|condition| condition.type_ == GATE);
    Ok(gate.context("the gate has no condition")?.status.clone())
}

/// Longer than a restart takes on a machine with other work to do.
pub(crate) const A_WHILE: Duration = Duration::from_secs(180);
