//! A job's sidecar on a node that runs no agent.

use anyhow::{Context, Result, ensure};
use berth_tests::node::Replica;
use berth_tests::wait::await_condition;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{LEASE, PATIENCE, Stage};

#[tokio::test]
async fn what_nobody_may_do_there_is_said() -> Result<()> {
    let stage = Stage::set("virtual-nodes").await?;
    let labels = json!({ "type": "virtual-kubelet" });
    let node: Node =
        serde_json::from_value(json!({ "metadata": { "name": "virtual-cloud", "labels": labels } }))?;
    stage.nodes.create(&PostParams::default(), &node).await.context("make a node")?;
    let image = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "count" },
        "spec": {
            "nodeName": "virtual-cloud",
            "restartPolicy": "Never",
            "containers": [
                { "name": "main", "image": "none" },
                { "name": "proxy", "image": "none", "env": [{ "name": image, "value": "quit:1" }] },
            ],
        },
    }))?;
    stage.pods.create(&PostParams::default(), &pod).await.context("make a pod")?;
    let state = |name: &str, state| json!({ "name": name, "image": "none", "imageID": "", "ready": false, "restartCount": 0, "state": state });
    let status = json!({ "status": { "phase": "Running", "containerStatuses": [
        state("main", json!({ "terminated": { "exitCode": 0 } })),
        state("proxy", json!({ "running": {} })),
    ] } });
    stage.pods.patch_status("count", &PatchParams::default(), &Patch::Strategic(&status)).await?;
    // Somebody else leads and falls silent: the manager sees the pod before it may say anything.
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), LEASE.0);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "berth-manager" },
        "spec": { "holderIdentity": "somebody", "leaseDurationSeconds": LEASE.1, "renewTime": MicroTime(Timestamp::now()) },
    });
    leases.patch("berth-manager", &PatchParams::apply("tests").force(), &Patch::Apply(&lease)).await?;
    let _manager = stage.manager(Replica::First).await?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "virtual-nodes");
    await_condition("an Event says what is to be done", PATIENCE, async || {
        let said = events.list(&Default::default()).await?.items;
        let [event] = &said[..] else { anyhow::bail!("{said:?}") };
        let note = event.note.as_deref().unwrap_or_default();
        ensure!(note.ends_with("kubectl set image pod/count proxy=quit:1"), "{event:?}");
        ensure!(event.reason.as_deref() == Some("SidecarTerminator"), "{event:?}");
        Ok(())
    })
    .await
}
