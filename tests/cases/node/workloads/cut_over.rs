//! Sets, revisions and pods as an OpenKruise leaves them, in the words of its typed client: what is there
//! stays as it is, and what comes is of the revision that is there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{AdvancedDaemonSet, AdvancedStatefulSet, CloneSet, DesiredPod, NodePodUpdate};
use berth_tests::wait::await_condition;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

/// Pod that is out of service, and that nobody of OpenKruise puts back any more.
const SHUT: &str = "shop-k8wzq";
/// Annotation of a pod in the grace period of an update in place.
const GRACE: &str = "apps.kruise.io/inplace-update-grace";

/// One set, and two pods of it.
struct Left {
    api_version: &'static str,
    kind: &'static str,
    name: &'static str,
    /// Fields of its spec beside selector and template.
    spec: Value,
    status: Value,
    /// Label `controller-revision-hash` of its pods.
    label: &'static str,
    /// Names of its pods, and labels that only this kind has.
    pods: [(&'static str, Value); 2],
    /// Node of its pods; those of a DaemonSet are on nodes of their own.
    node: &'static str,
}

impl Left {
    fn template(&self) -> Value {
        json!({
            "metadata": { "labels": { "app": self.name } },
            "spec": {
                "containers": [{ "name": "main", "image": "a:1" }],
                "nodeSelector": { "over": "1" },
                "serviceAccountName": "default",
            },
        })
    }

    fn api(&self, sheet: &Sheet) -> Api<DynamicObject> {
        let (group, version) = self.api_version.split_once('/').unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.kind));
        Api::namespaced_with(sheet.client.clone(), sheet.namespace, &resource)
    }

    /// Makes everything. No program is there that would act on it.
    async fn make(&self, sheet: &Sheet) -> Result<()> {
        let mut spec = self.spec.clone();
        spec["selector"] = json!({ "matchLabels": { "app": self.name } });
        spec["template"] = self.template();
        let set = json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": { "name": self.name, "namespace": sheet.namespace },
            "spec": spec,
        });
        let sets = self.api(sheet);
        let set: DynamicObject = serde_json::from_value(set)?;
        let set = sets.create(&PostParams::default(), &set).await.context("make the set")?;
        let status = Patch::Merge(json!({ "status": self.status }));
        sets.patch_status(self.name, &PatchParams::default(), &status).await.context("its status")?;
        let owner = json!([{
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": set.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }]);

        let mut template = self.template();
        template["$patch"] = "replace".into();
        template["metadata"]["creationTimestamp"] = Value::Null;
        template["spec"]["containers"][0]["resources"] = json!({});
        let hash = self.label.rsplit('-').next().unwrap_or_default();
        let revision: ControllerRevision = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{}-{hash}", self.name),
                "labels": { "app": self.name, "controller.kubernetes.io/hash": hash, "controller-revision-hash": hash },
                "ownerReferences": owner,
            },
            "data": { "spec": { "template": template } },
            "revision": 1,
        }))?;
        let revisions: Api<ControllerRevision> = Api::namespaced(sheet.client.clone(), sheet.namespace);
        revisions.create(&PostParams::default(), &revision).await.context("make its revision")?;

        for (name, labels) in &self.pods {
            let mut pod = self.template();
            pod["metadata"]["name"] = (*name).into();
            pod["metadata"]["ownerReferences"] = owner.clone();
            pod["metadata"]["labels"]["controller-revision-hash"] = self.label.into();
            for (key, value) in labels.as_object().into_iter().flatten() {
                pod["metadata"]["labels"][key] = value.clone();
            }
            pod["spec"]["readinessGates"] = json!([{ "conditionType": "InPlaceUpdateReady" }]);
            let node =
                if self.kind == "DaemonSet" { name.replace("agent", "over") } else { self.node.to_owned() };
            pod["spec"]["nodeName"] = node.into();
            let pod: Pod = serde_json::from_value(pod)?;
            sheet.pods.create(&PostParams::default(), &pod).await.context("make a pod")?;
            sheet.serve(name).await?;
        }
        Ok(())
    }
}

fn all() -> [Left; 3] {
    let state = json!({ "lifecycle.apps.kruise.io/state": "Normal" });
    let instance = |id: &str| {
        let mut labels = state.clone();
        labels["apps.kruise.io/cloneset-instance-id"] = id.into();
        labels["pod-template-hash"] = "7d9fbc".into();
        labels
    };
    let index = |name: &str, index: &str| {
        let mut labels = state.clone();
        labels["statefulset.kubernetes.io/pod-name"] = name.into();
        labels["apps.kubernetes.io/pod-index"] = index.into();
        labels
    };
    [
        Left {
            api_version: "apps.kruise.io/v1alpha1",
            kind: "CloneSet",
            name: "shop",
            spec: json!({ "replicas": 2, "updateStrategy": { "type": "ReCreate" }, "scaleStrategy": {}, "lifecycle": null }),
            status: json!({
                "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2,
                "updatedReadyReplicas": 2, "updatedAvailableReplicas": 2, "expectedUpdatedReplicas": 2,
                "currentRevision": "shop-7d9fbc", "updateRevision": "shop-7d9fbc", "collisionCount": 0,
                "labelSelector": "app=shop",
            }),
            label: "shop-7d9fbc",
            pods: [("shop-x2x4b", instance("x2x4b")), (SHUT, instance("k8wzq"))],
            node: "over-a",
        },
        Left {
            api_version: "apps.kruise.io/v1beta1",
            kind: "StatefulSet",
            name: "store",
            spec: json!({ "replicas": 2, "serviceName": "store", "updateStrategy": { "type": "RollingUpdate" } }),
            status: json!({
                "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
                "updatedReplicas": 2, "currentRevision": "store-5f6c88", "updateRevision": "store-5f6c88",
                "collisionCount": 0, "labelSelector": "app=store",
            }),
            label: "store-5f6c88",
            pods: [("store-0", index("store-0", "0")), ("store-1", index("store-1", "1"))],
            node: "over-a",
        },
        Left {
            api_version: "apps.kruise.io/v1alpha1",
            kind: "DaemonSet",
            name: "agent",
            spec: json!({ "updateStrategy": { "type": "RollingUpdate" } }),
            status: json!({
                "observedGeneration": 1, "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
                "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2, "daemonSetHash": "86bd9d",
            }),
            label: "86bd9d",
            pods: [("agent-a", json!({})), ("agent-b", json!({}))],
            node: "",
        },
    ]
}

#[tokio::test]
async fn what_an_openkruise_made_is_kept() -> Result<()> {
    let sheet = Sheet::take("cut-over").await?;
    sheet.node("over-a", json!({ "over": "1" })).await?;
    sheet.node("over-b", json!({ "over": "1" })).await?;
    let left = all();
    let before = sheet.paper.without_the_program(async || {
        for one in &left {
            one.make(&sheet).await.with_context(|| one.kind)?;
        }
        // It was in the midst of an update in place.
        let shut = json!({ "status": { "conditions": [
            { "type": "ContainersReady", "status": "True" },
            { "type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate" },
        ] } });
        sheet.pods.patch_status(SHUT, &PatchParams::default(), &Patch::Strategic(&shut)).await?;
        Ok(())
    });
    before.await?;
    let before = sheet.all().await?;
    ensure!(before.len() == 6, "{:?}", before.keys());

    // One pod more of each shows that each set was looked at, and of which revision it is.
    let three = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    for one in left.iter().filter(|one| one.kind != "DaemonSet") {
        one.api(&sheet).patch(one.name, &PatchParams::default(), &three).await?;
    }
    sheet.node("over-c", json!({ "over": "1" })).await?;
    sheet
        .serves_until("each set has one pod more, and all serve", async || {
            let pods = sheet.all().await?;
            ensure!(pods.len() == 9, "{:?}", pods.keys());
            let gate = pods.get(SHUT).and_then(gate);
            ensure!(gate.as_deref() == Some("True"), "{SHUT}: {gate:?}");
            says(&sheet, &left).await
        })
        .await?;
    let after = sheet.all().await?;
    for (name, pod) in &before {
        let now = after.get(name).with_context(|| format!("{name} is gone"))?;
        ensure!(now.uid() == pod.uid() && now.spec == pod.spec, "{name}: {:?}", now.spec);
    }
    for pod in after.values() {
        let app = pod.labels().get("app").cloned().unwrap_or_default();
        let of = left.iter().find(|one| one.name == app).with_context(|| format!("{app}: whose"))?;
        let label = &pod.labels()["controller-revision-hash"];
        ensure!(label == of.label, "{}: {label}, not {}", pod.name_any(), of.label);
    }
    let revisions: Api<ControllerRevision> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let revisions = revisions.list(&Default::default()).await?.items;
    ensure!(revisions.len() == 3, "{:?}", revisions.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    Ok(())
}

/// Waits for the word of each set that its three pods are of the newest revision.
async fn says(sheet: &Sheet, left: &[Left]) -> Result<()> {
    let (client, namespace) = (sheet.client.clone(), sheet.namespace);
    let clones: Api<CloneSet> = Api::namespaced(client.clone(), namespace);
    let stateful: Api<AdvancedStatefulSet> = Api::namespaced(client.clone(), namespace);
    let daemons: Api<AdvancedDaemonSet> = Api::namespaced(client, namespace);
    let clones = clones.get(left[0].name).await?.status.context("no status")?;
    let stateful = stateful.get(left[1].name).await?.status.context("no status")?;
    let daemons = daemons.get(left[2].name).await?.status.context("no status")?;
    let said: BTreeMap<&str, (i32, i32)> = [
        ("CloneSet", (clones.updated_replicas, clones.ready_replicas)),
        ("StatefulSet", (stateful.updated_replicas, stateful.ready_replicas)),
        ("DaemonSet", (daemons.updated_number_scheduled, daemons.number_ready)),
    ]
    .into();
    ensure!(said.values().all(|counts| *counts == (3, 3)), "{said:?}");
    Ok(())
}

/// OpenKruise labels a pod with the new revision and takes it out of service, and changes the image at the
/// end of the grace period, which it did not live to see.
#[tokio::test]
async fn an_update_in_its_grace_period_is_carried_out() -> Result<()> {
    let sheet = Sheet::take("cut-over-grace").await?;
    let updates: Api<NodePodUpdate> = Api::all(sheet.client.clone());
    let object = NodePodUpdate::new("over-grace", Default::default());
    updates.create(&PostParams::default(), &object).await.context("make a NodePodUpdate")?;
    let features = json!({ "status": { "features": ["owners/v1", "clonesets/v1", "pod-template-hash/v1"] } });
    updates.patch_status("over-grace", &PatchParams::default(), &Patch::Merge(&features)).await?;

    let [mut shop, ..] = all();
    shop.node = "over-grace";
    shop.spec["updateStrategy"] = json!({ "type": "InPlaceIfPossible", "maxUnavailable": 1 });
    let before = sheet.paper.without_the_program(async || {
        shop.make(&sheet).await?;
        let spec = json!({ "revision": shop.label, "containerImages": { "main": "a:1" }, "graceSeconds": 15 });
        let state = json!({
            "revision": shop.label, "updateTimestamp": "2026-01-01T00:00:00Z", "lastContainerStatuses": null,
        });
        let begun = json!({
            "metadata": {
                "labels": { "lifecycle.apps.kruise.io/state": "Updating" },
                "annotations": { GRACE: spec.to_string(), "apps.kruise.io/inplace-update-state": state.to_string() },
            },
            "spec": { "containers": [{ "name": "main", "image": "a:0" }] },
        });
        sheet.pods.patch(SHUT, &PatchParams::default(), &Patch::Strategic(&begun)).await?;
        let shut = json!({ "status": { "conditions": [
            { "type": "ContainersReady", "status": "True" },
            { "type": "Ready", "status": "False" },
            { "type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate" },
        ] } });
        sheet.pods.patch_status(SHUT, &PatchParams::default(), &Patch::Strategic(&shut)).await?;
        Ok(())
    });
    before.await?;
    let before = sheet.pods.get(SHUT).await?;

    let entry = await_entry(&updates).await?;
    ensure!(Some(&entry.uid) == before.metadata.uid.as_ref() && entry.revision == shop.label, "{entry:?}");
    let images: Vec<_> = entry.containers.iter().map(|one| (one.name.as_str(), one.image.as_str())).collect();
    ensure!(images == [("main", "a:1")], "{images:?}");
    says_updated(&sheet, 1).await?;
    let waits = sheet.pods.get(SHUT).await?;
    ensure!(waits.annotations().contains_key(GRACE), "the annotation goes at the end");
    ensure!(gate(&waits).as_deref() == Some("False"), "{:?}", gate(&waits));

    // Its node does it.
    let new = json!({ "spec": { "containers": [{ "name": "main", "image": "a:1" }] } });
    sheet.pods.patch(SHUT, &PatchParams::default(), &Patch::Strategic(&new)).await?;
    let open = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True" },
        { "type": "InPlaceUpdateReady", "status": "True", "reason": "" },
    ] } });
    sheet.pods.patch_status(SHUT, &PatchParams::default(), &Patch::Strategic(&open)).await?;
    let done = json!({ "status": { "pods": [{
        "uid": entry.uid, "owner": entry.owner, "ownerUid": entry.owner_uid, "revision": entry.revision,
        "attempt": entry.attempt, "phase": "Succeeded",
    }] } });
    updates.patch_status("over-grace", &PatchParams::default(), &Patch::Merge(&done)).await?;
    says_updated(&sheet, 2).await?;
    await_condition("the annotation goes, and then the entry", PATIENCE, async || {
        let (pod, object) = (sheet.pods.get(SHUT).await?, updates.get("over-grace").await?);
        ensure!(
            pod.uid() == before.uid() && !pod.annotations().contains_key(GRACE),
            "{:?}",
            pod.annotations()
        );
        ensure!(object.status.is_some_and(|status| status.desired_pods.is_empty()), "it is there");
        Ok(())
    })
    .await
}

/// Waits for what a node is asked for.
async fn await_entry(updates: &Api<NodePodUpdate>) -> Result<DesiredPod> {
    await_condition("its node is asked", PATIENCE, async || {
        let status = updates.get("over-grace").await?.status.context("no status")?;
        status.desired_pods.into_iter().next().context("no entry")
    })
    .await
}

/// Waits for the word of the CloneSet that so many of its pods are updated.
async fn says_updated(sheet: &Sheet, updated: i32) -> Result<()> {
    let sets: Api<CloneSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    await_condition(format!("{updated} of 2 are updated"), PATIENCE, async || {
        let status = sets.get("shop").await?.status.context("no status")?;
        ensure!((status.replicas, status.updated_replicas) == (2, updated), "{status:?}");
        Ok(())
    })
    .await
}

/// Status of its gate of updates in place.
fn gate(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(conditions.iter().find(|one| one.type_ == "InPlaceUpdateReady")?.status.clone())
}
