//! Job sidecars on a node that runs no agent: they get the image that ends them, and nothing else of a pod's
//! spec may be changed by the program.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::token;
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

const ENV: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";

/// A pod of a Job with a sidecar, on that node.
async fn make(sheet: &Sheet, name: &str, node: &str) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [
                { "name": "main", "image": "none" },
                { "name": "proxy", "image": "none", "env": [{ "name": ENV, "value": "quit:1" }] },
                { "name": "other", "image": "none", "env": [
                    { "name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true" }] },
            ],
        },
    }))?;
    sheet.pods.create(&PostParams::default(), &pod).await.context("make a pod")?;
    Ok(())
}

/// The main is so, and the sidecars run.
async fn main_is(sheet: &Sheet, name: &str, state: Value) -> Result<()> {
    let of = |name: &str, state: Value| json!({ "name": name, "image": "none", "imageID": "", "ready": false, "restartCount": 0, "state": state });
    let status = json!({ "status": { "phase": "Running", "containerStatuses": [
        of("main", state), of("proxy", json!({ "running": {} })), of("other", json!({ "running": {} })),
    ] } });
    sheet.pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&status)).await?;
    Ok(())
}

async fn images(sheet: &Sheet, name: &str) -> Result<Vec<String>> {
    let containers = sheet.pods.get(name).await?.spec.context("no spec")?.containers;
    Ok(containers.into_iter().map(|container| container.image.unwrap_or_default()).collect())
}

#[tokio::test]
async fn a_sidecar_on_a_virtual_node_gets_the_image_that_ends_it() -> Result<()> {
    let sheet = Sheet::take("virtual-nodes").await?;
    let nodes: Api<Node> = Api::all(sheet.client.clone());
    for (name, labels) in [("virtual-cloud", json!({ "type": "virtual-kubelet" })), ("real", json!({}))] {
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await.context("make a node")?;
    }
    for (name, node) in [("count", "virtual-cloud"), ("runs", "virtual-cloud"), ("elsewhere", "real")] {
        make(&sheet, name, node).await?;
    }
    main_is(&sheet, "runs", json!({ "running": {} })).await?;
    main_is(&sheet, "elsewhere", json!({ "terminated": { "exitCode": 0 } })).await?;
    main_is(&sheet, "count", json!({ "terminated": { "exitCode": 0 } })).await?;
    await_condition("the sidecar has the image that ends it", PATIENCE, async || {
        let images = images(&sheet, "count").await?;
        ensure!(images == ["none", "quit:1", "none"], "{images:?}");
        Ok(())
    })
    .await?;
    for name in ["runs", "elsewhere"] {
        ensure!(images(&sheet, name).await? == ["none"; 3], "{name} was changed");
    }

    // Whoever has the token of the program can change this image, and nothing else of a pod that no workload
    // of OpenKruise's kinds decides on.
    let token = token::of(&sheet.client, "berth-workloads", None).await?;
    let program = sheet.paper.plane.api().client_with("virtual-nodes", &token).await?;
    let pods: Api<Pod> = Api::namespaced(program, "virtual-nodes");
    let of =
        |name: &str, image: &str| json!({ "spec": { "containers": [{ "name": name, "image": image }] } });
    let refused = [
        of("proxy", "evil:1"),
        of("main", "quit:1"),
        of("other", "quit:1"),
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "metadata": { "annotations": { "a": "b" } }, "spec": of("proxy", "quit:1")["spec"] }),
        json!({ "spec": { "activeDeadlineSeconds": 1, "containers": of("proxy", "quit:1")["spec"]["containers"] } }),
        json!({ "spec": { "containers": [{ "name": "main", "image": "x" }, { "name": "proxy", "image": "quit:1" }] } }),
    ];
    // The policy was made a moment ago.
    await_condition("the policy holds", PATIENCE, async || {
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let tried = pods.patch("runs", &params, &Patch::Strategic(&of("main", "evil:1"))).await;
        ensure!(tried.is_err(), "not yet");
        Ok(())
    })
    .await?;
    for patch in refused {
        match pods.patch("runs", &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                ensure!(status.message.contains("the workloads"), "{patch}: {status:?}");
            }
            other => bail!("{patch}: {other:?}"),
        }
    }
    pods.patch("runs", &PatchParams::default(), &Patch::Strategic(&of("proxy", "quit:1"))).await?;
    Ok(())
}
