//! A pod that has four owners at once: two sets, one of which upgrades its sidecar and the other one swaps
//! its twins, a workload, and a request, each for a container of the pod. Each gets what it wants, and no
//! container is restarted twice.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ContainerUpdateRequest, UpdatePhase};
use berth_tests::manifest::Container;
use berth_tests::node::NODE_NAME;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT, PAUSE};
use berth_tests::wait::await_condition;
use futures::try_join;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{LABEL, Stage, containers, sidecar};
use crate::case::{ENDS_AT_ONCE, PATIENCE, container};

const OTHER: &str = "more";
const OTHER_LABEL: &str = "more";
const POD: &str = "four";

fn other(image: &str) -> Value {
    json!({
        "name": "aux", "image": image, "command": ["/bin/sh", "-c", ENDS_AT_ONCE],
        "upgradeStrategy": { "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": PAUSE },
    })
}

/// Writes the entries of a workload, beside those of the manager.
async fn desire(stage: &Stage<'_>, entries: Value) -> Result<()> {
    let apply = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
        "metadata": { "name": NODE_NAME }, "status": { "desiredPods": entries },
    });
    let params = PatchParams::apply("workload").force();
    let written = stage.updates.patch_status(NODE_NAME, &params, &Patch::Apply(&apply)).await;
    written.context("entries of a workload").map(drop)
}

/// Sets the sidecar of the first set back to its first image, along with the other three.
pub(super) async fn four_owners_of_one_pod(stage: &Stage<'_>) -> Result<()> {
    let outcome = at_once(stage).await;
    desire(stage, json!([])).await?;
    stage.case.pods.delete(POD, &DeleteParams::default().grace_period(0)).await.ok();
    stage.sets.delete(OTHER, &DeleteParams::default()).await.ok();
    outcome
}

async fn at_once(stage: &Stage<'_>) -> Result<()> {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": { "name": OTHER },
        "spec": {
            "selector": { "matchLabels": { LABEL: "logs", OTHER_LABEL: "yes" } },
            "containers": [other(BUSYBOX)],
        },
    });
    stage.sets.create(&PostParams::default(), &serde_json::from_value(set)?).await.context("another set")?;
    let manifest = stage.manifest(POD).label(OTHER_LABEL, "yes").container(Container::new("also"));
    await_condition("both sets are injected", PATIENCE, async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let pod = stage.case.pods.create(&params, &manifest.pod()?).await?;
        let wanted = ["log", "aux-1", "aux-2", "app", "also"];
        ensure!(containers(&pod) == wanted, "{:?}", containers(&pod));
        Ok(())
    })
    .await?;
    stage.case.create(&manifest).await?;
    let uid = stage.case.await_ready(POD).await?.metadata.uid.context("no UID")?;

    let requests: Api<ContainerUpdateRequest> =
        Api::namespaced(stage.case.node.client().await?, &stage.case.namespace);
    let request = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "ContainerUpdateRequest", "metadata": { "name": POD },
        "spec": { "podName": POD, "containers": [{ "name": "also", "image": BUSYBOX_NEXT }] },
    });
    let back = json!({
        "containers": [sidecar(BUSYBOX)], "patchPodMetadata": null, "updateStrategy": { "maxUnavailable": 3 },
    });
    let on = json!({ "spec": { "containers": [other(BUSYBOX_NEXT)] } });
    let entry = json!({
        "uid": uid, "namespace": stage.case.namespace, "name": POD, "revision": "app-2",
        "containers": [{ "name": "app", "image": BUSYBOX_NEXT }],
    });
    let (params, patch) = (PostParams::default(), PatchParams::default());
    let request = serde_json::from_value(request)?;
    try_join!(
        async { requests.create(&params, &request).await.context("a request").map(drop) },
        stage.patch(back),
        desire(stage, json!([entry])),
        async { stage.sets.patch(OTHER, &patch, &Patch::Merge(&on)).await.context("an edit").map(drop) },
    )?;
    let wanted = [
        ("log", BUSYBOX),
        ("aux-1", PAUSE),
        ("aux-2", BUSYBOX_NEXT),
        ("app", BUSYBOX_NEXT),
        ("also", BUSYBOX_NEXT),
    ];
    stage
        .case
        .await_pod(POD, "has what all four want", |pod| {
            for (name, image) in wanted {
                let status = container(pod, name)?;
                ensure!(status.ready && status.image.ends_with(image), "{status:?}");
                ensure!(status.restart_count == 1, "{name}: {} restarts", status.restart_count);
            }
            Ok(())
        })
        .await?;
    await_condition("the request and the workload's entry are done", PATIENCE, async || {
        let status = requests.get(POD).await?.status.context("no status")?;
        ensure!(status.phase == Some(UpdatePhase::Completed), "{status:?}");
        let status = stage.updates.get(NODE_NAME).await?.status.context("no status")?;
        let entry = status.pods.iter().find(|pod| pod.owner.is_empty()).context("no entry")?;
        ensure!(entry.phase == UpdatePhase::Succeeded, "{entry:?}");
        Ok(())
    })
    .await
}
