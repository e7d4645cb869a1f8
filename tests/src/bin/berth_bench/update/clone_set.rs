//! The image of a CloneSet with one pod, changed five times in a row: from the edit of the set to its pod's
//! being Ready with the new image. The baseline is the same change of the same kind of pod by a request.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::CloneSet;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::node::{NODE_NAME, Node, Workloads, deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Bed, NAMES, NAMESPACE, PATIENCE, ROUNDS, rest};

const SET: &str = "shop";

/// Seconds of each round.
pub(super) async fn rounds(bed: &Bed, node: &Node) -> Result<Vec<f64>> {
    deploy::apply(&bed.client, "workloads/role.yaml").await?;
    deploy::apply(&bed.client, "workloads/policy.yaml").await?;
    let token = token::of(&bed.client, "berth-workloads", None).await?;
    let kubeconfig = node.api()?.kubeconfig_with("berth-workloads", &token)?;
    let workloads = Workloads::start(node.run(), &kubeconfig, "berth-system").await?;
    let sets: Api<CloneSet> = Api::namespaced(bed.client.clone(), NAMESPACE);
    let set: CloneSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": SET },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": SET } },
            "updateStrategy": { "type": "InPlaceOnly" },
            "template": {
                "metadata": { "labels": { "app": SET } },
                // There is no scheduler.
                "spec": { "nodeName": NODE_NAME, "containers": [
                    { "name": NAMES[0], "image": BUSYBOX, "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"] },
                ] },
            },
        },
    }))?;
    sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let name = await_condition("the pod of the set is Ready", PATIENCE, async || {
        let name = only(bed).await?.name_any();
        bed.is_ready(&name).await.map(|()| name)
    })
    .await?;
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        rest(round).await;
        let image = if round % 2 == 0 { BUSYBOX_NEXT } else { BUSYBOX };
        let old = bed.newest(&name, NAMES[0]).await?;
        let patch =
            json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image }]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        let begun = Instant::now();
        sets.patch(SET, &PatchParams::default(), &patch).await.context("edit the set")?;
        await_condition("the pod is Ready with the new image", PATIENCE, async || {
            ensure!(bed.newest(&name, NAMES[0]).await?.id != old.id, "the old one runs");
            bed.is_ready(&name).await
        })
        .await?;
        all.push(begun.elapsed().as_secs_f64());
        ensure!(only(bed).await?.name_any() == name, "another pod");
    }
    // Nor is there a garbage collector.
    sets.delete(SET, &DeleteParams::background()).await.context("remove the set")?;
    workloads.service().stop()?;
    bed.remove(&name).await?;
    Ok(all)
}

async fn only(bed: &Bed) -> Result<Pod> {
    let mut pods = bed.pods.list(&ListParams::default().labels(&format!("app={SET}"))).await?.items;
    ensure!(pods.len() == 1, "{} pods", pods.len());
    pods.pop().context("no pod")
}
