//! Claims and hooks of a CloneSet at an API server: a pod is held when it is new and before it goes, and its
//! claims outlive it unless the set itself takes it away.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{CloneSet, CloneSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;

const NAMESPACE: &str = "workload-claims";
const INSTANCE: &str = "apps.kruise.io/cloneset-instance-id";
const STATE: &str = "lifecycle.apps.kruise.io/state";

struct Stage {
    sheet: Sheet,
    sets: Api<CloneSet>,
    claims: Api<PersistentVolumeClaim>,
}

impl Stage {
    async fn has(&self, what: &str, holds: impl Fn(&CloneSetStatus, &[&str]) -> bool) -> Result<()> {
        let holds = async || {
            let pods = self.sheet.all().await?;
            let states: Vec<&str> = pods.values().map(|pod| &*pod.labels()[STATE]).collect();
            let set = self.sets.get("shop").await?;
            let status = set.status.context("no status")?;
            let is_new = status.observed_generation == set.metadata.generation;
            ensure!(is_new && holds(&status, &states), "{states:?}, {status:?}");
            Ok(())
        };
        self.sheet.serves_until(what, holds).await
    }

    async fn label(&self, pod: &str, labels: Value) -> Result<()> {
        let patch = json!({ "metadata": { "labels": labels } });
        self.sheet.pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// UIDs of the claims that are to stay, by their instance.
    async fn claims(&self) -> Result<BTreeMap<String, String>> {
        let claims = self.claims.list(&ListParams::default()).await?.items;
        let staying = claims.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        Ok(staying.map(|claim| (claim.labels()[INSTANCE].clone(), claim.uid().unwrap_or_default())).collect())
    }
}

fn instances(pods: &BTreeMap<String, Pod>) -> BTreeSet<String> {
    pods.values().map(|pod| pod.labels()[INSTANCE].clone()).collect()
}

#[tokio::test]
async fn pods_are_held_and_their_claims_stay() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let sets: Api<CloneSet> = Api::namespaced(sheet.client.clone(), NAMESPACE);
    let claims = Api::namespaced(sheet.client.clone(), NAMESPACE);
    let stage = Stage { sheet, sets, claims };
    let set: CloneSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "shop" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "shop" } },
            "lifecycle": {
                "preNormal": { "labelsHandler": { "warm": "1" } },
                "preDelete": { "labelsHandler": { "busy": "1" } },
            },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } } }],
            "template": {
                "metadata": { "labels": { "app": "shop", "busy": "1" } },
                "spec": { "containers": [{ "name": "main", "image": "registry.test/a:1" }] },
            },
        },
    }))?;
    stage.sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let new = |status: &CloneSetStatus, states: &[&str]| {
        states == ["PreparingNormal"; 2] && (status.ready_replicas, status.available_replicas) == (2, 0)
    };
    stage.has("new pods are held", new).await?;
    let pods = stage.sheet.all().await?;
    let claims = stage.claims().await?;
    ensure!(instances(&pods) == claims.keys().cloned().collect(), "{claims:?}");
    for name in pods.keys() {
        stage.label(name, json!({ "warm": "1" })).await?;
    }
    let serve =
        |status: &CloneSetStatus, states: &[&str]| states == ["Normal"; 2] && status.available_replicas == 2;
    stage.has("they are let go", serve).await?;

    // Somebody deletes a pod: the next one has its claim.
    let lost = pods.keys().next().context("no pod")?;
    stage.sheet.pods.delete(lost, &DeleteParams::default()).await.context("delete a pod")?;
    let again = |status: &CloneSetStatus, states: &[&str]| {
        states.contains(&"PreparingNormal") && states.len() == 2 && status.available_replicas == 1
    };
    stage.has("another one takes its place", again).await?;
    let pods = stage.sheet.all().await?;
    ensure!(stage.claims().await? == claims && instances(&pods) == claims.keys().cloned().collect());
    for name in pods.keys() {
        stage.label(name, json!({ "warm": "1" })).await?;
    }
    stage.has("it is let go", serve).await?;

    // The set takes one away: it is held first, and its claim goes with it.
    let (victim, pod) = pods.first_key_value().context("no pod")?;
    let patch = json!({ "spec": { "replicas": 1, "scaleStrategy": { "podsToDelete": [victim] } } });
    stage.sets.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.context("scale")?;
    let held = |_: &CloneSetStatus, states: &[&str]| {
        states.contains(&"PreparingDelete") && states.contains(&"Normal")
    };
    stage.has("it is held before it goes", held).await?;
    ensure!(stage.claims().await? == claims, "its claim stays as long");
    stage.label(victim, json!({ "busy": null })).await?;
    let one = |status: &CloneSetStatus, states: &[&str]| states == ["Normal"] && status.replicas == 1;
    stage.has("it is gone", one).await?;
    let mut left = claims;
    left.remove(&pod.labels()[INSTANCE]);
    stage
        .sheet
        .serves_until("its claim goes", async || {
            let claims = stage.claims().await?;
            ensure!(claims == left, "{claims:?}");
            Ok(())
        })
        .await?;
    stage.sets.delete("shop", &DeleteParams::background()).await.context("remove the set")?;
    Ok(())
}
