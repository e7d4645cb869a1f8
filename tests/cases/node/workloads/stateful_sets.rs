//! Advanced StatefulSets on paper.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{AdvancedStatefulSet, AdvancedStatefulSetStatus};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Sheet, has_images, loosen_revisions};
use crate::case::PATIENCE;

const SET: &str = "db";

struct Stage {
    sheet: Sheet,
    sets: Api<AdvancedStatefulSet>,
}

impl Stage {
    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    async fn says(&self, holds: impl Fn(&AdvancedStatefulSetStatus) -> bool) -> Result<()> {
        let set = self.sets.get(SET).await?;
        let status = set.status.context("no status")?;
        ensure!(status.observed_generation == set.metadata.generation && holds(&status), "{status:?}");
        Ok(())
    }

    async fn has(&self, names: &[&str]) -> Result<()> {
        let there = self.sheet.names().await?;
        ensure!(there == names, "{there:?}");
        Ok(())
    }
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": SET } },
        "spec": { "containers": [{ "name": "main", "image": image }], "serviceAccountName": "default" },
    })
}

#[tokio::test]
async fn stateful_sets_scale_and_roll() -> Result<()> {
    let sheet = Sheet::take("stateful-sets").await?;
    let sets: Api<AdvancedStatefulSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let stage = Stage { sheet, sets };
    let set: AdvancedStatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": { "name": SET },
        "spec": {
            "replicas": 2,
            "serviceName": SET,
            "selector": { "matchLabels": { "app": SET } },
            "template": template("a:1"),
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            }}],
        },
    }))?;
    let made = stage.sets.create(&PostParams::default(), &set).await.context("make the set")?;

    // One after the other.
    await_condition("the first pod is there", PATIENCE, async || stage.has(&["db-0"]).await).await?;
    await_condition("the status says so", PATIENCE, async || stage.says(|one| one.replicas == 1).await)
        .await?;
    stage.has(&["db-0"]).await?;
    stage.sheet.serve("db-0").await?;
    await_condition("the second pod is there", PATIENCE, async || stage.has(&["db-0", "db-1"]).await).await?;
    let all = |count: i32| {
        move |one: &AdvancedStatefulSetStatus| {
            (one.replicas, one.ready_replicas, one.available_replicas) == (count, count, count)
                && one.current_revision == one.update_revision
                && (one.current_replicas, one.updated_replicas, one.updated_ready_replicas)
                    == (count, count, count)
        }
    };
    stage.sheet.serves_until("two pods serve", async || stage.says(all(2)).await).await?;
    let pod = stage.sheet.pods.get("db-1").await?;
    let labels = pod.labels();
    ensure!(labels["statefulset.kubernetes.io/pod-name"] == "db-1", "{labels:?}");
    ensure!(labels["apps.kubernetes.io/pod-index"] == "1", "{labels:?}");
    let spec = pod.spec.context("no spec")?;
    ensure!(spec.hostname.as_deref() == Some("db-1") && spec.subdomain.as_deref() == Some(SET), "{spec:?}");
    let claim = claims.get("data-db-1").await.context("its claim")?;
    ensure!(
        claim.labels()["app"] == SET && claim.owner_references()[0].uid == made.uid().unwrap_or_default()
    );

    // By the scale subresource, as an autoscaler does.
    let scale = json!({ "spec": { "replicas": 3 } });
    stage.sets.patch_scale(SET, &PatchParams::default(), &Patch::Merge(&scale)).await.context("scale")?;
    stage.sheet.serves_until("three pods serve", async || stage.says(all(3)).await).await?;
    let scale = stage.sets.get_scale(SET).await?.status.context("no status")?;
    ensure!(scale.selector.as_deref() == Some("app=db") && scale.replicas == 3, "{scale:?}");

    // A number that is reserved is left out; its claim stays. So does what is not wanted any more of the
    // claims' owners, which the policy lets the program write.
    stage.patch(json!({ "reserveOrdinals": [1], "persistentVolumeClaimRetentionPolicy": null })).await?;
    let without = ["db-0", "db-2", "db-3"];
    stage
        .sheet
        .serves_until("number 1 is left out", async || {
            stage.has(&without).await?;
            stage.says(all(3)).await?;
            let claims = claims.list(&ListParams::default()).await?;
            let owned = claims.iter().filter(|claim| !claim.owner_references().is_empty());
            let owned: Vec<String> = owned.map(ResourceExt::name_any).collect();
            // The pod of this one went first.
            ensure!(owned == ["data-db-1"] || owned.is_empty(), "{owned:?}");
            ensure!(claims.items.len() == 4, "{} claims", claims.items.len());
            Ok(())
        })
        .await?;

    // From the highest number down to the partition, with the program killed before it.
    let kill = async || {
        let rolling = json!({ "rollingUpdate": { "partition": 2 } });
        stage.patch(json!({ "template": template("a:2"), "updateStrategy": rolling })).await
    };
    stage.sheet.paper.without_the_program(kill).await?;
    let part = |one: &AdvancedStatefulSetStatus| {
        (one.updated_replicas, one.updated_ready_replicas, one.current_replicas) == (2, 2, 1)
            && one.current_revision != one.update_revision
    };
    stage.sheet.serves_until("two pods are updated", async || stage.says(part).await).await?;
    has_images(&stage.sheet.all().await?, &[("db-0", "a:1"), ("db-2", "a:2"), ("db-3", "a:2")])?;
    stage.patch(json!({ "updateStrategy": { "rollingUpdate": { "partition": 0 } } })).await?;
    stage.sheet.serves_until("all pods are updated", async || stage.says(all(3)).await).await?;
    has_images(&stage.sheet.all().await?, &[("db-0", "a:2"), ("db-2", "a:2"), ("db-3", "a:2")])
}

/// As Kubernetes' own do: who takes the owner off a pod gets it back, and who takes its labels away frees it.
#[tokio::test]
async fn orphans_are_adopted() -> Result<()> {
    let sheet = Sheet::take("stateful-orphans").await?;
    let sets: Api<AdvancedStatefulSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let set: AdvancedStatefulSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": { "name": SET },
        "spec": {
            "replicas": 1, "serviceName": SET, "selector": { "matchLabels": { "app": SET } },
            "template": template("a:1"),
        },
    }))?;
    let manifest = set;
    let set = sets.create(&PostParams::default(), &manifest).await.context("make the set")?;
    let is_owned =
        |pod: &Pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.uid().as_ref());
    sheet
        .serves_until("the pod is there", async || has_images(&sheet.all().await?, &[("db-0", "a:1")]))
        .await?;
    let before = sheet.pods.get("db-0").await?;
    let edit = async |metadata: Value| {
        let patch = json!({ "metadata": metadata });
        sheet.pods.patch("db-0", &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the pod")
    };
    let comes_to = async |what: &str, owned: bool| {
        sheet
            .serves_until(what, async || {
                let pod = sheet.pods.get("db-0").await?;
                ensure!(is_owned(&pod) == owned, "{:?}", pod.metadata);
                ensure!(pod.uid() == before.uid(), "another pod");
                Ok(())
            })
            .await
    };
    ensure!(is_owned(&before), "{:?}", before.metadata);
    edit(json!({ "ownerReferences": [] })).await?;
    comes_to("the pod has its owner again", true).await?;
    edit(json!({ "labels": { "app": "other" } })).await?;
    comes_to("the pod is given free", false).await?;
    edit(json!({ "labels": { "app": SET } })).await?;
    comes_to("the pod is adopted again", true).await?;

    // A set that is deleted without its pods and made anew leaves them as they are.
    sets.delete(SET, &DeleteParams::default()).await.context("delete the set")?;
    edit(json!({ "ownerReferences": [] })).await?;
    let revisions = loosen_revisions(&sheet).await?;
    let set = sets.create(&PostParams::default(), &manifest).await.context("make the set anew")?;
    sheet
        .serves_until("the new set has the pod", async || {
            let pod = sheet.pods.get("db-0").await?;
            let owners = pod.owner_references().iter().map(|owner| owner.uid.clone());
            ensure!(owners.collect::<Vec<_>>() == [set.uid().unwrap_or_default()], "{:?}", pod.metadata);
            ensure!(pod.uid() == before.uid(), "another pod");
            let status = sets.get(SET).await?.status.context("no status")?;
            ensure!((status.updated_replicas, status.updated_ready_replicas) == (1, 1), "{status:?}");
            ensure!(status.current_revision == revisions.first().cloned(), "{status:?} of {revisions:?}");
            Ok(())
        })
        .await
}
