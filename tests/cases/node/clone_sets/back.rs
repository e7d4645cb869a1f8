//! The way back to an earlier revision, in place, and what no agent takes for one.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{CloneSetStatus, NodePodUpdate, UpdatePhase};
use berth_proto::template_history::{Part, TEMPLATE_HISTORY};
use berth_tests::node::NODE_NAME;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::wait::await_condition;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{SET, Stage};
use crate::case::PATIENCE;

/// A partition that is raised brings a pod back in place, because the set has noted what its template had.
pub(super) async fn goes_back(stage: &Stage<'_>) -> Result<()> {
    let change = json!([
        { "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": BUSYBOX },
        { "op": "add", "path": "/spec/updateStrategy/partition", "value": 1 },
    ]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
    stage.sets.patch(SET, &PatchParams::default(), &change).await.context("change the image of one")?;
    let is_one =
        |status: &CloneSetStatus| status.updated_ready_replicas == 1 && status.available_replicas == 2;
    stage.rolls_out("one pod is updated", 1, is_one).await?;
    let uids = async || {
        let pods = stage.pods().await?;
        anyhow::Ok(pods.iter().filter_map(ResourceExt::uid).collect::<BTreeSet<String>>())
    };
    let before = uids().await?;
    // Admission writes it, and this case has none: its author may do so, too.
    let part = Part::Image { container: "main", image: BUSYBOX_NEXT };
    let change = json!({
        "metadata": { "annotations": { TEMPLATE_HISTORY: part.digest() } },
        "spec": { "updateStrategy": { "partition": 2 } },
    });
    stage.sets.patch(SET, &PatchParams::default(), &Patch::Merge(&change)).await.context("raise it")?;
    let is_none = |status: &CloneSetStatus| status.updated_replicas == 0 && status.available_replicas == 2;
    stage.rolls_out("it is brought back", 1, is_none).await?;
    ensure!(stage.images().await? == [BUSYBOX_NEXT; 2], "{:?}", stage.images().await?);
    ensure!(uids().await? == before, "the same pods");
    what_is_not_noted_is_refused(stage).await
}

/// An entry of somebody who has the program's credential: whatever revision it names, its image is in no
/// template that the set has had.
async fn what_is_not_noted_is_refused(stage: &Stage<'_>) -> Result<()> {
    stage.workloads.service().kill()?;
    let set = stage.sets.get(SET).await?;
    let pod = stage.pods().await?.into_iter().next().context("no pod")?;
    let updates: Api<NodePodUpdate> = Api::all(stage.sets.clone().into_client());
    let write = async |entries: Value| {
        let apply = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": NODE_NAME }, "status": { "desiredPods": entries },
        });
        let params = PatchParams::apply("berth-workloads").force();
        let written = updates.patch_status(NODE_NAME, &params, &Patch::Apply(&apply)).await;
        written.context("write the entries").map(drop)
    };
    let entry = json!({
        "uid": pod.uid(), "owner": format!("CloneSet/{SET}"), "ownerUid": set.uid(),
        "namespace": stage.case.namespace, "name": pod.name_any(), "revision": "shop-forged",
        "containers": [{ "name": "main", "image": "registry.example/thief:1" }],
    });
    write(json!([entry])).await?;
    await_condition("the entry is refused", PATIENCE, async || {
        let status = updates.get(NODE_NAME).await?.status.context("no status")?;
        let said = status.pods.iter().find(|said| said.revision == "shop-forged").context("no word")?;
        let why = said.message.as_deref().unwrap_or_default();
        ensure!(said.phase == UpdatePhase::Failed && why.contains("does not name image"), "{said:?}");
        Ok(())
    })
    .await?;
    let now = stage.case.pods.get(&pod.name_any()).await?;
    ensure!(now.spec == pod.spec, "the pod was changed");
    write(json!([])).await?;
    stage.workloads.service().start()?;
    stage.workloads.ready().await
}
