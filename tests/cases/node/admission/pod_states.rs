//! PersistentPodStates at a real API server, with pods and nodes on paper: where pods run is recorded, and
//! one that is made anew comes back there.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{PersistentPodState, PersistentPodStateStatus};
use berth_tests::wait::await_condition;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, Pod},
};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{CONFIGURATION, Scene};
use crate::case::PATIENCE;

const SPACE: &str = "admission-pod-states";
const NAME: &str = "db";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A StatefulSet on paper, and its PersistentPodState.
struct Stage {
    scene: Scene,
    sets: Api<StatefulSet>,
    states: Api<PersistentPodState>,
    nodes: Api<Node>,
    uid: String,
}

impl Stage {
    async fn set() -> Result<Self> {
        let scene = Scene::set(SPACE).await?;
        let sets: Api<StatefulSet> = Api::namespaced(scene.client.clone(), SPACE);
        let set = json!({
            "metadata": { "name": NAME },
            "spec": { "replicas": 2, "serviceName": NAME, "selector": { "matchLabels": { "app": NAME } },
                "template": { "metadata": { "labels": { "app": NAME } },
                    "spec": { "containers": [{ "name": "app", "image": "registry.example/app:1" }] } } },
        });
        let set = sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
        let (states, nodes) = (Api::namespaced(scene.client.clone(), SPACE), Api::all(scene.client.clone()));
        Ok(Self { scene, sets, states, nodes, uid: set.uid().context("no UID")? })
    }

    async fn node(&self, name: &str, zone: &str) -> Result<()> {
        let labels = json!({ ZONE: zone, "kubernetes.io/hostname": name });
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        self.nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        Ok(())
    }

    fn pod(&self, name: &str, node: Option<&str>) -> Result<Pod> {
        let owner = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME, "uid": self.uid,
            "controller": true });
        Ok(serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "app": NAME }, "ownerReferences": [owner],
                "annotations": { "address": "10.0.0.7" } },
            "spec": { "nodeName": node, "containers": [{ "name": "app", "image": "registry.example/app:1" }] },
        }))?)
    }

    /// Makes a pod on a node, ready.
    async fn runs(&self, name: &str, node: &str) -> Result<()> {
        let pods = &self.scene.pods;
        pods.create(&PostParams::default(), &self.pod(name, Some(node))?).await?;
        let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
        Ok(())
    }

    async fn end(&self, name: &str) -> Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.scene.pods.delete(name, &now).await?;
        Ok(())
    }

    /// Waits until the nodes of pods are recorded so.
    async fn recorded(&self, expected: &[(&str, &str)]) -> Result<PersistentPodStateStatus> {
        await_condition(format!("recorded: {expected:?}"), PATIENCE, async || {
            let state = self.states.get_status(NAME).await?;
            let status = state.status.context("nothing is recorded")?;
            let nodes = status.pod_states.iter();
            let nodes: Vec<_> =
                nodes.map(|(name, one)| (name.as_str(), one.node_name.as_deref().unwrap_or(""))).collect();
            ensure!(
                nodes == expected && status.observed_generation == state.metadata.generation,
                "{status:?}"
            );
            Ok(status)
        })
        .await
    }

    /// The pod as it would be made, with its node selector.
    async fn tried(&self, name: &str) -> Result<(Pod, Value)> {
        let tried = PostParams { dry_run: true, ..PostParams::default() };
        let pod = self.scene.pods.create(&tried, &self.pod(name, None)?).await.context("a pod made anew")?;
        let selector = json!(pod.spec.as_ref().and_then(|spec| spec.node_selector.clone()));
        Ok((pod, selector))
    }
}

fn state(name: &str, api_version: &str, keys: &[&str]) -> Result<PersistentPodState> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": { "name": name },
        "spec": {
            "targetRef": { "apiVersion": api_version, "kind": "StatefulSet", "name": NAME },
            "requiredPersistentTopology": { "nodeTopologyKeys": keys },
            "preferredPersistentTopology": [
                { "weight": 100, "preference": { "nodeTopologyKeys": ["kubernetes.io/hostname"] } },
            ],
            "persistentPodAnnotations": [{ "key": "address" }],
        },
    }))?)
}

#[tokio::test]
async fn pods_come_back_to_where_they_ran() -> Result<()> {
    let stage = Stage::set().await?;
    stage.scene.first.leads().await?;
    stage.node("paper-a", "a").await?;
    stage.node("paper-b", "b").await?;
    let params = PostParams::default();
    for (group, keys, says) in [
        ("batch/v1", &[ZONE][..], "is no StatefulSet of apps or apps.kruise.io"),
        ("apps/v1", &[""][..], "nodeTopologyKeys[0] is empty"),
    ] {
        await_condition(format!("refused: {says}"), PATIENCE, async || {
            let tried = PostParams { dry_run: true, ..PostParams::default() };
            let Err(error) = stage.states.create(&tried, &state(NAME, group, keys)?).await else {
                bail!("taken")
            };
            ensure!(error.to_string().contains(says), "{error}");
            Ok(())
        })
        .await?;
    }
    stage.states.create(&params, &state(NAME, "apps/v1", &[ZONE])?).await.context("make it")?;
    stage.runs("db-0", "paper-a").await?;
    stage.runs("db-1", "paper-b").await?;
    let status = stage.recorded(&[("db-0", "paper-a"), ("db-1", "paper-b")]).await?;
    let labels = json!(status.pod_states["db-1"].node_topology_labels);
    ensure!(labels == json!({ ZONE: "b", "kubernetes.io/hostname": "paper-b" }), "{labels}");
    ensure!(status.pod_states["db-1"].annotations["address"] == "10.0.0.7", "{status:?}");
    await_condition("another one of the same set is refused", PATIENCE, async || {
        let tried = PostParams { dry_run: true, ..PostParams::default() };
        let Err(error) = stage.states.create(&tried, &state("other", "apps/v1", &[ZONE])?).await else {
            bail!("taken")
        };
        ensure!(error.to_string().contains("has the same StatefulSet"), "{error}");
        Ok(())
    })
    .await?;

    // Its entry stands, and the pod that is made anew is sent back.
    stage.end("db-1").await?;
    let pod = await_condition("a pod is sent back", PATIENCE, async || {
        let (pod, selector) = stage.tried("db-1").await?;
        ensure!(selector == json!({ ZONE: "b" }), "{selector}");
        Ok(pod)
    })
    .await?;
    ensure!(pod.annotations()["kruise.io/injected-persistent-pod-state"] == NAME, "{:?}", pod.annotations());
    let affinity = json!(pod.spec.and_then(|spec| spec.affinity));
    let term = json!([{ "weight": 100, "preference": { "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "In", "values": ["paper-b"] },
    ] } }]);
    ensure!(
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == term,
        "{affinity}"
    );
    // One that is made for the first time is free, and so is one whose place is gone.
    ensure!(stage.tried("db-7").await?.1.is_null(), "a pod without a record is free");
    stage.nodes.delete("paper-b", &DeleteParams::default()).await?;
    let (pod, selector) = stage.tried("db-1").await?;
    ensure!(selector.is_null() && pod.annotations().contains_key("kruise.io/injected-persistent-pod-state"));

    // It is recorded where it runs now; fewer pods are fewer records, and none when the set goes.
    stage.runs("db-1", "paper-a").await?;
    stage.recorded(&[("db-0", "paper-a"), ("db-1", "paper-a")]).await?;
    let fewer = json!({ "spec": { "replicas": 1 } });
    stage.sets.patch(NAME, &PatchParams::default(), &Patch::Merge(&fewer)).await?;
    stage.end("db-1").await?;
    stage.recorded(&[("db-0", "paper-a")]).await?;
    stage.sets.delete(NAME, &DeleteParams::default()).await?;
    stage.recorded(&[]).await?;

    // With no manager nobody knows where a pod ran: it waits, and others do not.
    stage.scene.first.service().kill()?;
    let Err(error) = stage.tried("db-0").await else { bail!("a pod came without a manager") };
    ensure!(format!("{error:#}").contains("persistentpodstate.berth.dev"), "{error:#}");
    let other = json!({ "metadata": { "name": "other" },
        "spec": { "containers": [{ "name": "app", "image": "registry.example/app:1" }] } });
    stage.scene.pods.create(&params, &serde_json::from_value(other)?).await.context("a pod of nobody")?;
    stage.scene.first.service().start()?;
    await_condition("its entry goes with it", PATIENCE, async || {
        drop(stage.states.delete(NAME, &DeleteParams::default()).await);
        let hooks = stage.scene.hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        ensure!(!hooks.iter().any(|hook| hook.name.contains("persistentpodstate")), "it stands");
        Ok(())
    })
    .await?;
    stage.nodes.delete("paper-a", &DeleteParams::default()).await?;
    Ok(())
}
