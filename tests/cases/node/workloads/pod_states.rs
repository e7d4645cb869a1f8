//! PersistentPodStates that annotations of StatefulSets ask for, with the program's own role and policy.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::PersistentPodState;
use berth_tests::wait::await_condition;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const PREFERRED: &str = "kruise.io/preferred-persistent-topology";

struct Stage {
    sets: Api<StatefulSet>,
    states: Api<PersistentPodState>,
}

impl Stage {
    async fn set(&self, name: &str, annotations: Value) -> Result<StatefulSet> {
        let set = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "replicas": 0, "serviceName": name, "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "app", "image": "registry.example/app:1" }] } } },
        });
        self.sets.create(&PostParams::default(), &serde_json::from_value(set)?).await.context("make a set")
    }

    async fn annotate(&self, name: &str, annotations: Value) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.sets.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Waits until the spec of the state has these keys.
    async fn has(&self, name: &str, required: Value, preferred: Value) -> Result<PersistentPodState> {
        await_condition(format!("{name} has {required} and {preferred}"), PATIENCE, async || {
            let state = self.states.get(name).await?;
            let spec = json!(state.spec);
            let found = (
                spec["requiredPersistentTopology"]["nodeTopologyKeys"].clone(),
                spec["preferredPersistentTopology"][0]["preference"]["nodeTopologyKeys"].clone(),
            );
            ensure!(found == (required.clone(), preferred.clone()), "{spec}");
            Ok(state)
        })
        .await
    }
}

#[tokio::test]
async fn annotations_make_change_and_end_a_pod_state() -> Result<()> {
    let sheet = Sheet::take("pod-states").await?;
    let stage = Stage {
        sets: Api::namespaced(sheet.client.clone(), sheet.namespace),
        states: Api::namespaced(sheet.client.clone(), sheet.namespace),
    };
    // One of somebody else, of the same name.
    let hand: PersistentPodState = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": { "name": "hand" },
        "spec": {
            "targetRef": { "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "hand" },
            "requiredPersistentTopology": { "nodeTopologyKeys": ["rack"] },
        },
    }))?;
    stage.states.create(&PostParams::default(), &hand).await.context("make one by hand")?;
    stage.set("hand", json!({ AUTO: "true", REQUIRED: "zone" })).await?;

    let set = stage.set("auto", json!({ AUTO: "true", REQUIRED: "zone,rack", PREFERRED: "host" })).await?;
    let state = stage.has("auto", json!(["zone", "rack"]), json!(["host"])).await?;
    let owner = state.owner_references().first().context("no owner")?;
    ensure!(owner.uid == set.uid().unwrap_or_default() && owner.controller == Some(true), "{owner:?}");
    ensure!(state.spec.preferred_persistent_topology[0].weight == 100);
    // What is set by hand and nothing asks for stays; what is not asked for any more goes.
    let by_hand = json!({ "spec": { "persistentPodStateRetentionPolicy": "WhenDeleted" } });
    stage.states.patch("auto", &PatchParams::default(), &Patch::Merge(&by_hand)).await?;
    stage.annotate("auto", json!({ REQUIRED: null, PREFERRED: "host,zone" })).await?;
    let state = stage.has("auto", Value::Null, json!(["host", "zone"])).await?;
    ensure!(state.spec.persistent_pod_state_retention_policy.as_deref() == Some("WhenDeleted"));
    // One that somebody deletes comes again.
    stage.states.delete("auto", &DeleteParams::default()).await?;
    stage.has("auto", Value::Null, json!(["host", "zone"])).await?;
    stage.annotate("auto", json!({ AUTO: null })).await?;
    stage.annotate("hand", json!({ AUTO: null })).await?;
    await_condition("it goes with the annotation", PATIENCE, async || {
        ensure!(stage.states.get_opt("auto").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let hand = stage.states.get("hand").await.context("one that was made by hand is gone")?;
    ensure!(json!(hand.spec)["requiredPersistentTopology"]["nodeTopologyKeys"] == json!(["rack"]));
    Ok(())
}
