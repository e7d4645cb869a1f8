//! CloneSets at a real API server with a real kubelet: berth-workloads has the rights and the policy of
//! `deploy/workloads`, and no others.

mod back;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{CloneSet, CloneSetStatus, NodePodUpdate};
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{NODE_NAME, Workloads, deploy, token};
use berth_tests::wait::{await_condition, await_rest};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::case::{Case, ENDS_AT_ONCE, PATIENCE, ROLLOUT, container, is_ready, run_updating_alone};

const SET: &str = "shop";

struct Stage<'a> {
    case: &'a Case,
    sets: Api<CloneSet>,
    workloads: Workloads,
}

impl<'a> Stage<'a> {
    /// With berth-workloads as `deploy/workloads` has it.
    async fn set(case: &'a Case) -> Result<Self> {
        let client = case.node.client().await?;
        deploy::apply(&client, "workloads/role.yaml").await?;
        deploy::apply(&client, "workloads/policy.yaml").await?;
        let token = token::of(&client, "berth-workloads", None).await?;
        let kubeconfig = case.node.api()?.kubeconfig_with("berth-workloads", &token)?;
        let back = ["--cloneset-partition-rollback"];
        let workloads = Workloads::start_with(case.node.run(), &kubeconfig, "berth-system", &back).await?;
        Ok(Self { case, sets: Api::namespaced(client, &case.namespace), workloads })
    }

    /// Removes the set: its pods would come back.
    async fn remove(&self) -> Result<()> {
        self.sets.delete(SET, &DeleteParams::foreground()).await.context("remove the set")?;
        await_condition("the set is gone", PATIENCE, async || {
            ensure!(self.sets.get_opt(SET).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }

    async fn make(&self, replicas: i32, strategy: Value) -> Result<CloneSet> {
        let set: CloneSet = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": SET },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": "shop" } },
                "updateStrategy": strategy,
                "template": template(BUSYBOX),
            },
        }))?;
        self.sets.create(&PostParams::default(), &set).await.context("make the set")
    }

    async fn status(&self, what: &str, holds: impl Fn(&CloneSetStatus) -> bool) -> Result<CloneSetStatus> {
        await_condition(format!("CloneSet {SET}: {what}"), ROLLOUT, async || {
            self.workloads.service().check_running()?;
            let set = self.sets.get(SET).await?;
            let status = set.status.clone().context("no status")?;
            ensure!(status.observed_generation == set.metadata.generation && holds(&status), "{status:?}");
            Ok(status)
        })
        .await
    }

    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    /// Pods that are not on their way out.
    async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = self.case.pods.list(&ListParams::default().labels("app=shop")).await?.items;
        Ok(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
    }

    async fn names(&self) -> Result<BTreeSet<String>> {
        Ok(self.pods().await?.iter().map(ResourceExt::name_any).collect())
    }

    /// Waits for a rollout, and sees to it that never fewer pods are Ready.
    async fn rolls_out(
        &self,
        what: &str,
        least: usize,
        holds: impl Fn(&CloneSetStatus) -> bool,
    ) -> Result<()> {
        let fewest = Cell::new(usize::MAX);
        await_condition(format!("CloneSet {SET}: {what}"), ROLLOUT, async || {
            let ready = self.pods().await?.iter().filter(|pod| is_ready(pod).is_ok()).count();
            fewest.set(fewest.get().min(ready));
            let set = self.sets.get(SET).await?;
            let status = set.status.clone().context("no status")?;
            ensure!(status.observed_generation == set.metadata.generation && holds(&status), "{status:?}");
            Ok(())
        })
        .await?;
        let fewest = fewest.get();
        ensure!(fewest >= least, "only {fewest} pods were Ready while {what}");
        Ok(())
    }

    /// Waits until each pod is so: the set's status may be on file before the last write to a pod.
    async fn each_pod(&self, what: &str, is_so: impl Fn(&Pod) -> Result<()>) -> Result<()> {
        await_condition(format!("pods of {SET}: {what}"), PATIENCE, async || {
            self.pods().await?.iter().try_for_each(&is_so)
        })
        .await
    }

    async fn images(&self) -> Result<Vec<String>> {
        let pods = self.pods().await?;
        let images = pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
        let mut images: Vec<String> = images.collect();
        images.sort();
        Ok(images)
    }
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "shop", "tier": "1", "old": "1" } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{ "name": "main", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE],
                "env": [{ "name": "TIER", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['tier']" } } }] }],
        },
    })
}

#[tokio::test]
async fn clone_sets_scale_and_update() -> Result<()> {
    run_updating_alone("clone_sets_scale_and_update", async |case: &Case| {
        let stage = Stage::set(case).await?;
        let outcome = plays(&stage).await;
        stage.remove().await?;
        outcome
    })
    .await
}

#[tokio::test]
async fn clone_sets_update_in_place() -> Result<()> {
    run_updating_alone("clone_sets_update_in_place", async |case: &Case| {
        let stage = Stage::set(case).await?;
        // No label but the agent's own is its to write: what the template says the workloads write.
        deploy::let_agents_write(&case.node.client().await?, &case.namespace, "").await?;
        let outcome = updates_in_place(&stage).await;
        stage.remove().await?;
        outcome
    })
    .await
}

async fn plays(stage: &Stage<'_>) -> Result<()> {
    let made = stage.make(3, json!({ "type": "ReCreate", "maxUnavailable": 1 })).await?;
    ensure!(made.spec.revision_history_limit == Some(10), "defaults: {:?}", made.spec);
    let status = stage.status("all pods run", |status| status.available_replicas == 3).await?;
    ensure!((status.replicas, status.ready_replicas, status.updated_replicas) == (3, 3, 3), "{status:?}");
    ensure!(status.updated_ready_replicas == 3 && status.expected_updated_replicas == 3, "{status:?}");
    ensure!(status.label_selector.as_deref() == Some("app=shop"), "{status:?}");
    ensure!(
        status.current_revision.is_some() && status.current_revision == status.update_revision,
        "{status:?}"
    );
    let first = status.update_revision.context("no revision")?;
    for pod in stage.pods().await? {
        ensure!(pod.labels()["controller-revision-hash"] == first, "{:?}", pod.labels());
        ensure!(pod.labels()["lifecycle.apps.kruise.io/state"] == "Normal", "{:?}", pod.labels());
        let name = format!("{SET}-{}", pod.labels()["apps.kruise.io/cloneset-instance-id"]);
        ensure!(pod.name_any() == name, "{:?}", pod.metadata);
    }

    // The named one goes, and its name is taken out.
    let before = stage.names().await?;
    let victim = before.iter().next_back().context("no pod")?.clone();
    stage.patch(json!({ "replicas": 2, "scaleStrategy": { "podsToDelete": [victim] } })).await?;
    stage.status("two pods are left", |status| status.replicas == 2 && status.ready_replicas == 2).await?;
    let left: BTreeSet<String> = before.iter().filter(|name| **name != victim).cloned().collect();
    ensure!(stage.names().await? == left, "{:?} of {before:?}", stage.names().await?);
    await_condition("the name is taken out", PATIENCE, async || {
        let scale = stage.sets.get(SET).await?.spec.scale_strategy.context("no scaleStrategy")?;
        ensure!(scale.pods_to_delete.is_empty(), "{scale:?}");
        Ok(())
    })
    .await?;

    // By the scale subresource, as an autoscaler does.
    let scale = json!({ "spec": { "replicas": 4 } });
    stage.sets.patch_scale(SET, &PatchParams::default(), &Patch::Merge(&scale)).await.context("scale")?;
    stage.status("four pods run", |status| status.replicas == 4 && status.available_replicas == 4).await?;
    ensure!(left.is_subset(&stage.names().await?), "those that were there stay");
    let scale = stage.sets.get_scale(SET).await?;
    ensure!(scale.status.as_ref().is_some_and(|scale| scale.replicas == 4), "{scale:?}");

    // Half of them, and never more than one out of service.
    stage
        .patch(json!({ "updateStrategy": { "partition": "50%" }, "template": template(BUSYBOX_NEXT) }))
        .await?;
    let is_half =
        |status: &CloneSetStatus| status.updated_ready_replicas == 2 && status.available_replicas == 4;
    stage.rolls_out("half of the pods are updated", 3, is_half).await?;
    let status = stage.status("half of them are new", is_half).await?;
    ensure!((status.expected_updated_replicas, status.updated_replicas) == (2, 2), "{status:?}");
    ensure!(status.current_revision.as_deref() == Some(&*first), "{status:?}");
    let second = status.update_revision.context("no revision")?;
    ensure!(second != first, "{second}");
    ensure!(
        stage.images().await? == [BUSYBOX, BUSYBOX, BUSYBOX_NEXT, BUSYBOX_NEXT],
        "{:?}",
        stage.images().await?
    );

    // The rest, with the program killed in the midst of it.
    stage.patch(json!({ "updateStrategy": { "partition": 0 } })).await?;
    stage.status("one more is updated", |status| status.updated_replicas >= 2).await?;
    stage.workloads.service().kill()?;
    stage.workloads.service().start()?;
    stage.workloads.ready().await?;
    let is_all =
        |status: &CloneSetStatus| status.updated_ready_replicas == 4 && status.available_replicas == 4;
    stage.rolls_out("all pods are updated", 3, is_all).await?;
    let status = stage.status("all are new", is_all).await?;
    ensure!(status.current_revision.as_deref() == Some(&*second), "{status:?}");
    ensure!(stage.images().await? == [BUSYBOX_NEXT; 4], "{:?}", stage.images().await?);
    let revisions: Api<ControllerRevision> =
        Api::namespaced(stage.sets.clone().into_client(), &stage.case.namespace);
    ensure!(revisions.list(&ListParams::default()).await?.items.len() == 2, "one revision a template");
    is_left_alone(stage).await
}

/// Where nothing is to be done nothing is written.
async fn is_left_alone(stage: &Stage<'_>) -> Result<()> {
    let writes = async || stage.workloads.metric("berth_workloads_writes_total").await;
    // Who writes then comes to no rest. What was left to do takes the time it takes.
    await_rest("nothing is written", PATIENCE, writes).await?;
    // It was restarted: the nodes may have done by then all that was asked for.
    let passes = stage.workloads.metric("berth_workloads_passes_total").await?;
    ensure!(passes > 0.0, "it has looked at nothing");
    Ok(())
}

async fn updates_in_place(stage: &Stage<'_>) -> Result<()> {
    stage.make(2, json!({ "type": "InPlaceOnly", "maxUnavailable": 1 })).await?;
    stage.status("all pods run", |status| status.available_replicas == 2).await?;
    let before = stage.pods().await?;
    stage.patch(json!({ "template": template(BUSYBOX_NEXT) })).await?;
    stage.rolls_out("all pods are updated in place", 1, is_all).await?;
    let status = stage.status("all are new", is_all).await?;
    ensure!(status.current_revision == status.update_revision && status.conditions.is_empty(), "{status:?}");
    let revision = status.update_revision.context("no revision")?;
    let after = stage.pods().await?;
    let uids = |pods: &[Pod]| pods.iter().filter_map(ResourceExt::uid).collect::<BTreeSet<String>>();
    ensure!(uids(&before) == uids(&after), "the same pods");
    let is_new = |pod: &Pod| -> Result<()> {
        let status = container(pod, "main")?;
        ensure!(status.image.ends_with(BUSYBOX_NEXT) && status.restart_count == 1, "{status:?}");
        ensure!(pod.labels()["controller-revision-hash"] == revision, "{:?}", pod.labels());
        let hash = revision.rsplit('-').next();
        ensure!(pod.labels().get("pod-template-hash").map(String::as_str) == hash, "{:?}", pod.labels());
        ensure!(pod.labels()["lifecycle.apps.kruise.io/state"] == "Normal", "{:?}", pod.labels());
        Ok(())
    };
    stage.each_pod("new, and labelled so", is_new).await?;
    let updates: Api<NodePodUpdate> = Api::all(stage.sets.clone().into_client());
    await_condition("the updates are forgotten", PATIENCE, async || {
        let status = updates.get(NODE_NAME).await?.status.context("no status")?;
        let ours = status.desired_pods.iter().filter(|entry| entry.owner.starts_with("CloneSet/"));
        ensure!(ours.count() == 0, "{:?}", status.desired_pods);
        Ok(())
    })
    .await?;

    // Labels and annotations that no container reads restart nothing.
    let mut labelled = template(BUSYBOX_NEXT);
    labelled["metadata"] = json!({ "labels": { "app": "shop", "tier": "1", "new": "1", "old": null },
        "annotations": { "example.com/a": "1" } });
    stage.patch(json!({ "template": labelled })).await?;
    stage.rolls_out("all pods have their labels", 2, is_all).await?;
    let shows = |pod: &Pod| json!([pod.labels().get("old"), pod.labels().get("new"), pod.labels()["tier"]]);
    let is_labelled = |pod: &Pod| -> Result<()> {
        ensure!(shows(pod) == json!([null, "1", "1"]), "{:?}", pod.labels());
        ensure!(pod.annotations().get("example.com/a").is_some_and(|value| value == "1"));
        ensure!(container(pod, "main")?.restart_count == 1, "nothing is restarted");
        Ok(())
    };
    stage.each_pod("labelled, and not restarted", is_labelled).await?;
    // One that a container reads restarts it.
    labelled["metadata"]["labels"]["tier"] = "2".into();
    stage.patch(json!({ "template": labelled })).await?;
    stage.rolls_out("all pods have read their label", 1, is_all).await?;
    let has_read = |pod: &Pod| -> Result<()> {
        ensure!(shows(pod) == json!([null, "1", "2"]), "{:?}", pod.labels());
        ensure!(container(pod, "main")?.restart_count == 2, "restarted once for it");
        Ok(())
    };
    stage.each_pod("labelled, and restarted for it", has_read).await?;
    ensure!(uids(&stage.pods().await?) == uids(&before), "the same pods");

    // More than images: a set that may make no new pods waits, and says so.
    let mut other = template(BUSYBOX);
    other["metadata"] = labelled["metadata"].clone();
    other["spec"]["containers"][0]["env"] = json!([{ "name": "A", "value": "1" }]);
    stage.patch(json!({ "template": other })).await?;
    let says = |status: &CloneSetStatus| {
        let failed = status.conditions.iter().find(|condition| condition.type_ == "FailedUpdate");
        failed.is_some_and(|failed| {
            failed.message.as_deref().is_some_and(|why| why.contains("more than images"))
        })
    };
    stage.status("it says what it waits for", says).await?;
    ensure!(uids(&stage.pods().await?) == uids(&before), "the same pods");

    // One that may makes them anew.
    stage.patch(json!({ "updateStrategy": { "type": "InPlaceIfPossible" } })).await?;
    stage.rolls_out("all pods are made anew", 1, is_all).await?;
    ensure!(uids(&stage.pods().await?).is_disjoint(&uids(&before)), "new pods");
    holds_before_and_after(stage).await?;
    back::goes_back(stage).await
}

/// The hook of updates in place, released as its owner does: each pod is held before its update and after.
async fn holds_before_and_after(stage: &Stage<'_>) -> Result<()> {
    let lifecycle = json!({ "inPlaceUpdate": { "labelsHandler": { "busy": "1" } } });
    let busy = json!({ "metadata": { "labels": { "busy": "1" } } });
    stage.patch(json!({ "lifecycle": lifecycle, "template": busy })).await?;
    stage.rolls_out("all pods have the label of the hook", 2, is_all).await?;
    let change =
        json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": BUSYBOX_NEXT }]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
    stage.sets.patch(SET, &PatchParams::default(), &change).await.context("change the image")?;
    let seen = RefCell::new(BTreeSet::new());
    await_condition("the pods are held, updated and held", ROLLOUT, async || {
        for pod in stage.pods().await? {
            let state = pod.labels()["lifecycle.apps.kruise.io/state"].clone();
            let has_hook = pod.labels().contains_key("busy");
            let hook = match state.as_str() {
                "PreparingUpdate" if has_hook => Value::Null,
                "Updated" if !has_hook => "1".into(),
                _ => continue,
            };
            seen.borrow_mut().insert((pod.name_any(), state));
            let patch = json!({ "metadata": { "labels": { "busy": hook } } });
            stage.case.pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        let status = stage.sets.get(SET).await?.status.context("no status")?;
        ensure!(is_all(&status) && seen.borrow().len() == 4, "{status:?}, {:?}", seen.borrow());
        Ok(())
    })
    .await?;
    stage.patch(json!({ "lifecycle": null })).await
}

/// Both pods have the newest template, and serve.
fn is_all(status: &CloneSetStatus) -> bool {
    status.updated_ready_replicas == 2 && status.available_replicas == 2
}
