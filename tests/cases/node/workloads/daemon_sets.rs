//! Advanced DaemonSets on paper.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{AdvancedDaemonSet, AdvancedDaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Sheet, image, loosen_revisions};

const SET: &str = "log";

struct Stage {
    sheet: Sheet,
    sets: Api<AdvancedDaemonSet>,
}

impl Stage {
    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit the set")?;
        Ok(())
    }

    /// Waits until the nodes have pods of these images, all Ready, and the status says something.
    async fn has(
        &self,
        what: &str,
        wanted: &[(&str, &str)],
        says: impl Fn(&AdvancedDaemonSetStatus) -> bool,
    ) -> Result<()> {
        let holds = async || {
            let pods = self.sheet.all().await?;
            let on: BTreeMap<&str, &str> = pods.values().map(|pod| (node(pod), image(pod))).collect();
            let on: Vec<(&str, &str)> = on.into_iter().collect();
            ensure!(on == wanted && pods.len() == wanted.len(), "{on:?} of {}", pods.len());
            let set = self.sets.get(SET).await?;
            let status = set.status.context("no status")?;
            let count = i32::try_from(wanted.len())?;
            ensure!(
                status.observed_generation == set.metadata.generation
                    && (status.desired_number_scheduled, status.number_available) == (count, count)
                    && (status.current_number_scheduled, status.number_ready) == (count, count)
                    && status.number_unavailable == 0
                    && says(&status),
                "{status:?}"
            );
            Ok(())
        };
        self.sheet.serves_until(what, holds).await
    }
}

/// Node that a pod is for: there is no scheduler.
fn node(pod: &Pod) -> &str {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let field =
        required.and_then(|required| required.node_selector_terms.first()?.match_fields.as_ref()?.first());
    field.and_then(|field| field.values.as_ref()?.first()).map(String::as_str).unwrap_or_default()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": SET } },
        "spec": {
            "nodeSelector": { "paper": "1" },
            "containers": [{ "name": "main", "image": image }],
            "serviceAccountName": "default",
        },
    })
}

#[tokio::test]
async fn daemon_sets_follow_nodes_and_roll() -> Result<()> {
    let sheet = Sheet::take("daemon-sets").await?;
    let sets: Api<AdvancedDaemonSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let nodes: Api<Node> = Api::all(sheet.client.clone());
    let stage = Stage { sheet, sets };
    for name in ["paper-a", "paper-b", "paper-c", "other"] {
        let labels = if name == "other" { json!({}) } else { json!({ "paper": "1" }) };
        stage.sheet.node(name, labels).await?;
    }
    let set: AdvancedDaemonSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "metadata": { "name": SET },
        "spec": { "selector": { "matchLabels": { "app": SET } }, "template": template("a:1") },
    }))?;
    stage.sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let new = |count: i32| {
        move |status: &AdvancedDaemonSetStatus| {
            status.updated_number_scheduled == count && status.daemon_set_hash.is_some()
        }
    };
    let first = [("paper-a", "a:1"), ("paper-b", "a:1"), ("paper-c", "a:1")];
    stage.has("a pod on each node", &first, new(3)).await?;

    // A node that does not fit any more loses its pod, one that goes the pod that was never bound to it, and
    // a new one gets one.
    let label = json!({ "metadata": { "labels": { "paper": null } } });
    nodes.patch("paper-c", &PatchParams::default(), &Patch::Merge(&label)).await?;
    nodes.delete("paper-b", &DeleteParams::default()).await?;
    stage.has("one node is left", &[("paper-a", "a:1")], new(1)).await?;
    let labels = json!({ "metadata": { "labels": { "paper": "1" } } });
    nodes.patch("paper-c", &PatchParams::default(), &Patch::Merge(&labels)).await?;
    nodes.patch("other", &PatchParams::default(), &Patch::Merge(&labels)).await?;
    let three = [("other", "a:1"), ("paper-a", "a:1"), ("paper-c", "a:1")];
    stage.has("three nodes again", &three, new(3)).await?;

    // Names descending, as far as the partition lets go.
    let rolling = json!({ "rollingUpdate": { "partition": 2 } });
    stage.patch(json!({ "template": template("a:2"), "updateStrategy": rolling })).await?;
    let one = [("other", "a:1"), ("paper-a", "a:1"), ("paper-c", "a:2")];
    stage.has("one node is updated", &one, new(1)).await?;

    // A pod that is lost while nobody looks comes back as it was.
    let lose = async || {
        let pods = stage.sheet.all().await?;
        let lost = pods.values().find(|pod| node(pod) == "other").context("no pod")?;
        stage.sheet.pods.delete(&lost.name_any(), &DeleteParams::default()).await?;
        Ok(())
    };
    stage.sheet.paper.without_the_program(lose).await?;
    stage.has("it came back as it was", &one, new(1)).await?;
    stage.patch(json!({ "updateStrategy": { "rollingUpdate": { "partition": 0 } } })).await?;
    let all = [("other", "a:2"), ("paper-a", "a:2"), ("paper-c", "a:2")];
    stage.has("all nodes are updated", &all, new(3)).await
}

/// A set that is deleted without its pods and made anew leaves them as they are.
#[tokio::test]
async fn orphans_are_adopted() -> Result<()> {
    let sheet = Sheet::take("daemon-orphans").await?;
    let sets: Api<AdvancedDaemonSet> = Api::namespaced(sheet.client.clone(), sheet.namespace);
    let stage = Stage { sheet, sets };
    let name = "orphans-a";
    stage.sheet.node(name, json!({ "orphans": "1" })).await?;
    let mut template = template("a:1");
    template["spec"]["nodeSelector"] = json!({ "orphans": "1" });
    let set: AdvancedDaemonSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "metadata": { "name": SET },
        "spec": { "selector": { "matchLabels": { "app": SET } }, "template": template },
    }))?;
    stage.sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let is_new = |status: &AdvancedDaemonSetStatus| status.updated_number_scheduled == 1;
    stage.has("the node has its pod", &[(name, "a:1")], is_new).await?;
    let pods = stage.sheet.all().await?;
    let (pod, before) = pods.first_key_value().context("no pod")?;
    stage.sets.delete(SET, &DeleteParams::default()).await.context("delete the set")?;
    let loose = json!({ "metadata": { "ownerReferences": [] } });
    stage.sheet.pods.patch(pod, &PatchParams::default(), &Patch::Merge(&loose)).await?;
    loosen_revisions(&stage.sheet).await?;
    let set = stage.sets.create(&PostParams::default(), &set).await.context("make the set anew")?;
    stage.has("the new set has the pod", &[(name, "a:1")], is_new).await?;
    let after = stage.sheet.pods.get(pod).await?;
    ensure!(after.uid() == before.uid(), "another pod");
    let owners: Vec<&str> = after.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
    ensure!(owners == [set.uid().unwrap_or_default()], "{:?}", after.metadata);
    Ok(())
}
