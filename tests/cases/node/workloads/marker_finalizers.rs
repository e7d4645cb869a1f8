//! OpenKruise's finalizer on PodProbeMarkers, with the program's own role and policy.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{NodePodProbe, PodProbeMarker};
use berth_tests::node::token;
use berth_tests::wait::await_condition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

const NAMESPACE: &str = "marker-finalizers";
const FINALIZER: &str = "kruise.io/node-pod-probe-cleanup";

fn marker(name: &str) -> Result<PodProbeMarker> {
    let probe = json!({ "tcpSocket": { "port": 80 } });
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "probes": [{ "name": "idle", "containerName": "main", "probe": probe, "podConditionType": "Idle" }],
        },
    }))?)
}

/// Entries of a pod for the markers of these names.
fn entries(markers: &[&str]) -> Value {
    let probe = json!({ "tcpSocket": { "port": 80 } });
    let entry =
        |name: &&str| json!({ "name": format!("{name}#idle"), "containerName": "main", "probe": probe });
    let probes: Vec<Value> = markers.iter().map(entry).collect();
    json!([{ "name": "p", "namespace": NAMESPACE, "uid": "u", "probes": probes }])
}

/// Waits until it has the finalizer.
async fn has_it(markers: &Api<PodProbeMarker>, name: &str) -> Result<PodProbeMarker> {
    await_condition(format!("{name} has the finalizer"), PATIENCE, async || {
        let marker = markers.get(name).await?;
        ensure!(marker.finalizers().iter().any(|one| one == FINALIZER), "{:?}", marker.finalizers());
        Ok(marker)
    })
    .await
}

async fn is_gone(markers: &Api<PodProbeMarker>, name: &str) -> Result<()> {
    await_condition(format!("{name} is gone"), PATIENCE, async || {
        ensure!(markers.get_opt(name).await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_marker_stays_until_no_node_has_its_probes() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let markers: Api<PodProbeMarker> = Api::namespaced(sheet.client.clone(), NAMESPACE);
    let nodes: Api<NodePodProbe> = Api::all(sheet.client.clone());
    markers.create(&PostParams::default(), &marker("game")?).await.context("make a marker")?;
    has_it(&markers, "game").await?;
    refusals(&sheet, "game").await?;

    let node: NodePodProbe = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe",
        "metadata": { "name": "marker-finalizers-1" }, "spec": { "podProbes": entries(&["game", "other"]) },
    }))?;
    let node =
        nodes.create(&PostParams::default(), &node).await.context("make the object of a node")?.name_any();
    let (params, wanted) =
        (PatchParams::default(), json!({ "status": { "desiredPodProbes": entries(&["game"]) } }));
    nodes.patch_status(&node, &params, &Patch::Merge(&wanted)).await.context("ask for a probe")?;
    // Once the program has written to a later marker, it has seen the node as well.
    markers.create(&PostParams::default(), &marker("idle")?).await.context("make another one")?;
    has_it(&markers, "idle").await?;
    // What is not probed goes at once.
    for name in ["game", "idle"] {
        markers.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
    }
    is_gone(&markers, "idle").await?;
    let is_there = async |after: &str| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure!(markers.get_opt("game").await?.is_some(), "it is gone before its probes, after {after}");
        Ok(())
    };
    is_there("its deletion").await?;
    let none = json!({ "status": { "desiredPodProbes": [] } });
    nodes.patch_status(&node, &params, &Patch::Merge(&none)).await.context("take the wish")?;
    is_there("the wish").await?;
    let copy = json!({ "spec": { "podProbes": entries(&["other"]) } });
    nodes.patch(&node, &params, &Patch::Merge(&copy)).await.context("take the copy")?;
    is_gone(&markers, "game").await?;
    nodes.delete(&node, &DeleteParams::default()).await.context("remove the object of the node")?;
    Ok(())
}

/// Tries what the program's own identity may not write to markers.
async fn refusals(sheet: &Sheet, name: &str) -> Result<()> {
    let token = token::of(&sheet.client, "berth-workloads", None).await?;
    let client = sheet.paper.plane.api().client_with("workloads-markers", &token).await?;
    let markers: Api<PodProbeMarker> = Api::namespaced(client, NAMESPACE);
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let finalizers = |all: &[&str]| json!({ "metadata": { "finalizers": all } });
    markers.patch(name, &params, &Patch::Merge(finalizers(&[FINALIZER]))).await.context("its own")?;
    // The policy was made a moment ago.
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    await_condition("the policy holds", PATIENCE, async || {
        ensure!(markers.patch(name, &params, &Patch::Merge(&label)).await.is_err(), "not yet");
        Ok(())
    })
    .await?;
    let nothing_else = "nothing but the finalizer";
    let probe = json!({ "tcpSocket": { "port": 81 } });
    let other =
        json!({ "name": "idle", "containerName": "main", "probe": probe, "podConditionType": "Idle" });
    for (body, says) in [
        (label.clone(), nothing_else),
        (json!({ "metadata": { "annotations": { "a": "b" } } }), nothing_else),
        (json!({ "spec": { "probes": [other] } }), nothing_else),
        (finalizers(&[FINALIZER, "example.com/keep"]), nothing_else),
        (finalizers(&[]), "only while it is being deleted"),
    ] {
        match markers.patch(name, &params, &Patch::Merge(&body)).await {
            Err(kube::Error::Api(status)) => ensure!(status.message.contains(says), "{body}: {status:?}"),
            other => bail!("{body}: {other:?}"),
        }
    }
    Ok(())
}
