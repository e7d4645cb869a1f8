//! `NodePodUpdate`: what workloads want of the pods of a node, and how far that is.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, UpdatePhase, UpdatedPod};
use berth_tests::node::NODE_NAME;
use berth_tests::node::images::BUSYBOX_NEXT;
use berth_tests::wait::await_condition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{A_WHILE, STATE, Scene, annotation, container, gate, image};
use crate::case::{Case, run_updating_alone};

/// Writes what is desired, as the manager does; none of it stays that is not in it.
async fn desire(object: &Api<NodePodUpdate>, pods: Value) -> Result<()> {
    let apply = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "NodePodUpdate",
        "metadata": { "name": NODE_NAME },
        "status": { "desiredPods": pods },
    });
    let params = PatchParams::apply("berth-manager").force();
    object.patch_status(NODE_NAME, &params, &Patch::Apply(&apply)).await.context("write what is desired")?;
    Ok(())
}

async fn told(object: &Api<NodePodUpdate>, revision: &str, phase: UpdatePhase) -> Result<UpdatedPod> {
    await_condition(format!("revision {revision} is {phase:?}"), A_WHILE, async || {
        let status = object.get(NODE_NAME).await?.status.context("no status")?;
        let [pod] = &status.pods[..] else { anyhow::bail!("{:?}", status.pods) };
        ensure!(pod.revision == revision && pod.phase == phase, "{pod:?}");
        Ok(pod.clone())
    })
    .await
}

#[tokio::test]
async fn update_by_node_pod_update() -> Result<()> {
    run_updating_alone("update_by_node_pod_update", async |case: &Case| {
        let object: Api<NodePodUpdate> = Api::all(case.node.client().await?);
        await_condition("the agent has made its object", A_WHILE, async || {
            object.get(NODE_NAME).await.map(drop).context("not yet")
        })
        .await?;
        let outcome = as_desired(case, &object).await;
        // An entry that stays would be in the way of others on this node.
        let cleared = desire(&object, json!([])).await;
        outcome.and(cleared)?;
        await_condition("what is not desired any more is not spoken of", A_WHILE, async || {
            let status = object.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(status.pods.is_empty(), "{:?}", status.pods);
            Ok(())
        })
        .await
    })
    .await
}

async fn as_desired(case: &Case, object: &Api<NodePodUpdate>) -> Result<()> {
    let scene = Scene::begin(case, "pod", |pod, evidence| {
        pod.container(container(evidence, "main", &[("VALUE", "metadata.annotations['value']")]))
    })
    .await?;
    let uid = scene.now().await?.metadata.uid.context("no UID")?;
    let desired = |revision: &str, more: Value| {
        let mut entry =
            json!({ "uid": uid, "namespace": case.namespace, "name": "pod", "revision": revision });
        for (key, value) in more.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        entry
    };
    let containers = json!([{ "name": "main", "image": BUSYBOX_NEXT }]);
    let images = json!({ "containers": containers, "annotations": { "value": "two" } });
    desire(object, json!([desired("web-2", images)])).await?;
    told(object, "web-2", UpdatePhase::Succeeded).await?;
    let now = scene.now().await?;
    ensure!(
        image(&now, "main")? == BUSYBOX_NEXT && scene.env("main", "VALUE").await? == "two",
        "not as desired"
    );
    ensure!(annotation(&now, STATE)?["revision"] == "web-2", "the pod has another revision");
    ensure!(scene.restarts("main").await? == 1, "not restarted once");

    // It was brought there once; the next one is another revision.
    let berthd = case.node.berthd()?;
    berthd.crash().await?;
    berthd.ready().await?;
    desire(object, json!([desired("web-3", json!({ "annotations": { "value": "three" } }))])).await?;
    told(object, "web-3", UpdatePhase::Succeeded).await?;
    ensure!(scene.env("main", "VALUE").await? == "three", "old env");
    ensure!(scene.restarts("main").await? == 2, "not restarted once for each revision");

    let bad = json!({ "containers": [{ "name": "main", "image": "No Image" }] });
    desire(object, json!([desired("web-4", bad)])).await?;
    let failed = told(object, "web-4", UpdatePhase::Failed).await?;
    ensure!(failed.reason.as_deref() == Some("InvalidRequest"), "{failed:?}");
    ensure!(failed.message.as_deref().is_some_and(|message| message.contains("No Image")), "{failed:?}");
    ensure!(gate(&scene.now().await?)? == "True", "the gate is closed");
    Ok(())
}
