//! ContainerRecreateRequests as OpenKruise's clients know them.

use anyhow::{Context, Result, ensure};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::Scene;
use crate::case::PATIENCE;

#[tokio::test]
async fn a_request_is_completed_and_loses_its_label_at_its_end() -> Result<()> {
    let scene = Scene::set("admission-requests").await?;
    // The manager ends requests of a node that is gone, after some seconds.
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let node = serde_json::from_value(json!({ "metadata": { "name": "node-a" } }))?;
    nodes.create(&PostParams::default(), &node).await.context("make a node")?;
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": "node-a", "terminationGracePeriodSeconds": 7,
            "containers": [{ "name": "a", "image": "none",
                "lifecycle": { "preStop": { "exec": { "command": ["stop"] } } } }] },
    });
    let pod = scene.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let status = json!({ "name": "a", "containerID": "containerd://x", "restartCount": 4, "image": "none",
        "imageID": "none", "ready": true, "state": { "running": {} } });
    let status = json!({ "status": { "phase": "Running", "containerStatuses": [status] } });
    scene.pods.patch_status("p", &PatchParams::default(), &Patch::Strategic(&status)).await?;

    let asked = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest", "metadata": { "name": "r" },
        "spec": { "podName": "p", "containers": [{ "name": "a" }] },
    });
    let made = scene.requests.create(&PostParams::default(), &serde_json::from_value(asked.clone())?).await?;
    let label = |key: &str| made.labels().get(&format!("crr.apps.kruise.io/{key}")).cloned();
    ensure!(label("pod-uid") == pod.uid(), "{:?}", made.labels());
    ensure!(label("node-name").as_deref() == Some("node-a") && label("active").as_deref() == Some("true"));
    let spec = serde_json::to_value(&made.spec)?;
    let container = json!({ "name": "a", "preStop": { "exec": { "command": ["stop"] } },
        "statusContext": { "containerID": "containerd://x", "restartCount": 4 } });
    ensure!(spec["containers"] == json!([container]), "{spec}");
    ensure!(spec["strategy"]["failurePolicy"] == "Fail", "{spec}");
    ensure!(spec["strategy"]["terminationGracePeriodSeconds"] == 7, "{spec}");

    let mut filled = asked.clone();
    filled["metadata"]["name"] = "filled".into();
    filled["spec"]["containers"] = Value::Array(vec![container]);
    let refused = scene.requests.create(&PostParams::default(), &serde_json::from_value(filled)?).await;
    let Err(kube::Error::Api(refused)) = refused else { anyhow::bail!("{refused:?}") };
    ensure!(
        refused.message.contains("spec.containers[0].preStop: is filled in by the admission"),
        "{refused:?}"
    );

    scene.first.leads().await?;
    let since = "2026-07-02T09:59:00Z";
    let held = json!({ "status": { "phase": "Pending", "conditions": [{ "type": "PreRecreateGrace", "status": "True",
        "reason": "PreRecreateGrace", "message": "", "lastTransitionTime": since }] } });
    scene.requests.patch_status("r", &PatchParams::default(), &Patch::Merge(&held)).await?;
    await_condition("clients are told since when the pod is held", PATIENCE, async || {
        let request = scene.requests.get("r").await?;
        let told = request.annotations().get("crr.apps.kruise.io/unready-acquired");
        ensure!(told.is_some_and(|told| told == since), "{:?}", request.annotations());
        ensure!(request.labels().contains_key("crr.apps.kruise.io/active"), "taken too early");
        Ok(())
    })
    .await?;
    for (field, key, value) in [
        ("labels", "pod-uid", Value::Null),
        ("labels", "node-name", json!("node-b")),
        ("annotations", "unready-acquired", json!("2026-07-02T09:00:00Z")),
    ] {
        let key = format!("crr.apps.kruise.io/{key}");
        let patch = Patch::Merge(json!({ "metadata": { field: { key.clone(): value } } }));
        let refused = scene.requests.patch("r", &PatchParams::default(), &patch).await;
        let Err(kube::Error::Api(refused)) = refused else { anyhow::bail!("{key}: {refused:?}") };
        ensure!(refused.code == 403 && refused.message.contains("immutable"), "{key}: {refused:?}");
    }
    let ended = json!({ "status": { "phase": "Completed", "completionTime": "2026-07-02T10:00:00Z" } });
    scene.requests.patch_status("r", &PatchParams::default(), &Patch::Merge(&ended)).await?;
    let after = await_condition("the label is taken", PATIENCE, async || {
        let request = scene.requests.get("r").await?;
        ensure!(!request.labels().contains_key("crr.apps.kruise.io/active"), "not yet");
        Ok(request)
    })
    .await?;
    ensure!(after.labels().len() == 2 && after.spec == made.spec, "{after:?}");
    let status = after.status.context("no status")?;
    ensure!(status.completion_time.is_some(), "{status:?}");

    let mut short = asked.clone();
    short["metadata"]["name"] = "short".into();
    short["spec"]["ttlSecondsAfterFinished"] = json!(0);
    scene.requests.create(&PostParams::default(), &serde_json::from_value(short)?).await?;
    scene.requests.patch_status("short", &PatchParams::default(), &Patch::Merge(&ended)).await?;
    await_condition("a request that no agent deletes is deleted", PATIENCE, async || {
        ensure!(scene.requests.get_opt("short").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;

    // Without the server the schema alone says what is left out.
    scene.first.service().kill()?;
    let mut plain = asked;
    plain["metadata"]["name"] = "plain".into();
    let plain = scene.requests.create(&PostParams::default(), &serde_json::from_value(plain)?).await?;
    let spec = serde_json::to_value(&plain.spec)?;
    let filled = json!({ "failurePolicy": "Fail", "minStartedSeconds": 0 });
    ensure!(spec["strategy"] == filled && plain.labels().is_empty(), "{plain:?}");
    nodes.delete("node-a", &DeleteParams::default()).await.context("remove the node")?;
    Ok(())
}
