//! Claims, hooks and a partition on a real node: a file outlives the pod that wrote it, and pods are held
//! when they are new and before they go.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{AdvancedStatefulSet, CloneSet};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{Workloads, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::case::{Case, ENDS_AT_ONCE, PATIENCE, container, is_ready, run_updating_alone};

const STATE: &str = "lifecycle.apps.kruise.io/state";

struct Stage<'a> {
    case: &'a Case,
    workloads: Workloads,
    db: Api<AdvancedStatefulSet>,
    shop: Api<CloneSet>,
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
}

fn template(labels: Value, image: &str) -> Value {
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE] }],
        },
    })
}

/// The template of the StatefulSet: its pods mount their claim, and are held before they go.
fn with_file(image: &str) -> Value {
    let mut template = template(json!({ "app": "db", "busy": "1" }), image);
    template["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    template
}

/// Accepts a pod that serves in this state of its life.
fn is_ready_in(pod: &Pod, state: &str) -> Result<()> {
    ensure!(pod.labels().get(STATE).is_some_and(|is| is == state), "{:?}", pod.labels());
    is_ready(pod)
}

impl Stage<'_> {
    /// Makes folders of the node the volumes of two claims that are not there yet.
    async fn make_volumes(&self) -> Result<()> {
        for number in 0..2 {
            let name = format!("volume-{number}");
            let folder = self.case.node.run().make_dir(&name)?;
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": { "name": name, "labels": { "of": self.case.namespace } },
                "spec": {
                    "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": { "path": folder },
                    "claimRef": { "namespace": self.case.namespace, "name": format!("data-db-{number}") },
                },
            });
            let volume = serde_json::from_value(volume)?;
            self.volumes.create(&PostParams::default(), &volume).await.context("make a volume")?;
        }
        Ok(())
    }

    async fn make_sets(&self) -> Result<()> {
        let db: AdvancedStatefulSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": { "name": "db" },
            "spec": {
                "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": { "app": "db" } },
                "lifecycle": { "preDelete": { "labelsHandler": { "busy": "1" } } },
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" },
                "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                    "resources": { "requests": { "storage": "1Mi" } },
                }}],
                "template": with_file(BUSYBOX),
            },
        }))?;
        let shop: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "shop" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "app": "shop" } },
                "lifecycle": { "preNormal": { "labelsHandler": { "warm": "1" } } },
                "template": template(json!({ "app": "shop" }), BUSYBOX),
            },
        }))?;
        self.db.create(&PostParams::default(), &db).await.context("make the StatefulSet")?;
        self.shop.create(&PostParams::default(), &shop).await.context("make the CloneSet")?;
        Ok(())
    }

    async fn label(&self, pod: &str, labels: Value) -> Result<()> {
        let patch = json!({ "metadata": { "labels": labels } });
        self.case.pods.patch(pod, &PatchParams::default(), &Patch::Merge(&patch)).await.context("label")?;
        Ok(())
    }

    /// Waits until the StatefulSet says that both pods serve, so many of them with the newest template.
    async fn serves(&self, updated: i32) -> Result<()> {
        await_condition(format!("both pods serve, {updated} of them new"), PATIENCE, async || {
            self.workloads.service().check_running()?;
            let set = self.db.get("db").await?;
            let status = set.status.as_ref().context("no status")?;
            let counts = (status.available_replicas, status.updated_replicas, status.updated_ready_replicas);
            let has_ended = status.current_revision == status.update_revision;
            ensure!(
                counts == (2, updated, updated)
                    && has_ended == (updated == 2)
                    && status.observed_generation == set.metadata.generation,
                "{status:?}"
            );
            Ok(())
        })
        .await
    }

    /// Waits until the pod of the CloneSet serves in this state, and the set counts it as available or not.
    async fn shop_is(&self, state: &str, available: i32) -> Result<Pod> {
        await_condition(format!("the pod of the CloneSet is {state}"), PATIENCE, async || {
            self.workloads.service().check_running()?;
            let mut pods = self.case.pods.list(&ListParams::default().labels("app=shop")).await?.items;
            ensure!(pods.len() == 1, "{} pods", pods.len());
            let pod = pods.remove(0);
            is_ready_in(&pod, state)?;
            let status = self.shop.get("shop").await?.status.context("no status")?;
            ensure!((status.ready_replicas, status.available_replicas) == (1, available), "{status:?}");
            Ok(pod)
        })
        .await
    }

    /// Lets the partition go down to a number: its pod serves on until its hook lets it go, and the next one
    /// has its claim and its file.
    async fn rolls(&self, number: usize) -> Result<()> {
        let (name, claim) = (format!("db-{number}"), format!("data-db-{number}"));
        let before = (self.case.pods.get(&name).await?.uid(), self.claims.get(&claim).await?.uid());
        let strategy = json!({ "rollingUpdate": { "partition": number } });
        let patch = json!({ "spec": { "template": with_file(BUSYBOX_NEXT), "updateStrategy": strategy } });
        self.db.patch("db", &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit")?;
        let is_held = |pod: &Pod| is_ready_in(pod, "PreparingDelete");
        let held = self.case.await_pod(&name, "held before it goes", is_held).await?;
        ensure!(held.uid() == before.0 && held.metadata.deletion_timestamp.is_none(), "{:?}", held.metadata);
        self.label(&name, json!({ "busy": null })).await?;
        let is_new = |pod: &Pod| -> Result<()> {
            ensure!(pod.uid() != before.0, "the old one");
            is_ready_in(pod, "Normal")?;
            let status = container(pod, "main")?;
            ensure!(status.image.ends_with(BUSYBOX_NEXT), "{status:?}");
            Ok(())
        };
        self.case.await_pod(&name, "made anew", is_new).await?;
        let reads = format!("read name < /data/name && test \"$name\" = {name}");
        self.case.inside(&name, "main", &reads).await.context("its file")?;
        ensure!(self.claims.get(&claim).await?.uid() == before.1, "another claim");
        Ok(())
    }

    async fn plays(&self) -> Result<()> {
        self.make_volumes().await?;
        self.make_sets().await?;
        self.serves(2).await?;
        for name in ["db-0", "db-1"] {
            self.case.inside(name, "main", &format!("echo {name} > /data/name")).await?;
        }
        let new = self.shop_is("PreparingNormal", 0).await?;
        self.label(&new.name_any(), json!({ "warm": "1" })).await?;

        let kept = self.case.pods.get("db-0").await?.uid();
        self.rolls(1).await?;
        self.serves(1).await?;
        ensure!(self.case.pods.get("db-0").await?.uid() == kept, "the partition holds it");
        self.rolls(0).await?;
        self.serves(2).await?;

        let warm = self.shop_is("Normal", 1).await?;
        ensure!(warm.uid() == new.uid() && container(&warm, "main")?.restart_count == 0, "the same pod");
        Ok(())
    }

    /// Removes the sets, whose pods would come back, and the claims of the one with it. Volumes are of no
    /// namespace: the next test on the node would find them.
    async fn remove(&self) -> Result<()> {
        let (all, foreground) = (ListParams::default(), DeleteParams::foreground());
        self.db.delete_collection(&foreground, &all).await.context("remove the StatefulSet")?;
        self.shop.delete_collection(&foreground, &all).await.context("remove the CloneSet")?;
        await_condition("the sets and the claims are gone", PATIENCE, async || {
            ensure!(self.db.get_opt("db").await?.is_none(), "the StatefulSet is there");
            ensure!(self.shop.get_opt("shop").await?.is_none(), "the CloneSet is there");
            let claims = self.claims.list(&all).await?.items.len();
            ensure!(claims == 0, "{claims} claims are there");
            Ok(())
        })
        .await?;
        let own = ListParams::default().labels(&format!("of={}", self.case.namespace));
        self.volumes.delete_collection(&DeleteParams::default(), &own).await.context("remove the volumes")?;
        Ok(())
    }
}

#[tokio::test]
async fn files_stay_and_hooks_hold_pods() -> Result<()> {
    run_updating_alone("files_stay_and_hooks_hold_pods", async |case: &Case| {
        let client = case.node.client().await?;
        deploy::apply(&client, "workloads/role.yaml").await?;
        deploy::apply(&client, "workloads/policy.yaml").await?;
        let token = token::of(&client, "berth-workloads", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-workloads", &token)?;
        let namespace = &case.namespace;
        let stage = Stage {
            case,
            workloads: Workloads::start(case.node.run(), &kubeconfig, "berth-system").await?,
            db: Api::namespaced(client.clone(), namespace),
            shop: Api::namespaced(client.clone(), namespace),
            claims: Api::namespaced(client.clone(), namespace),
            volumes: Api::all(client),
        };
        let outcome = stage.plays().await;
        outcome.and(stage.remove().await)
    })
    .await
}
