//! The component `open-agent-labels`: what agents may write in a Namespace that says nothing of it.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::scene::Scene;
use crate::api_server::{namespace, namespace_with};
use crate::case::PATIENCE;

const SILENT: &str = "open-labels-silent";
const SHUT: &str = "open-labels-shut";
const LISTED: &str = "open-labels-listed";

#[tokio::test]
async fn a_namespace_that_says_nothing_lets_agents_write_where_that_is_chosen() -> Result<()> {
    let scene = Scene::set("admission-open-labels").await?;
    let client = &scene.client;
    namespace(client, SILENT).await?;
    namespace_with(client, SHUT, json!({ "berth.dev/agent-labels": "" })).await?;
    namespace_with(client, LISTED, json!({ "berth.dev/agent-labels": "a" })).await?;
    takes(client, SILENT, &["a"], false).await?;

    let open = deploy::built(&["open-agent-labels"]).await?;
    let names = ["berth-agent-pods", "berth-probe-markers", "berth-update-requests"];
    let of = |all: Vec<DynamicObject>| {
        let is = |object: &DynamicObject| {
            let kind = object.types.as_ref().map(|types| types.kind.as_str());
            kind == Some("ValidatingAdmissionPolicy") && names.contains(&object.name_any().as_str())
        };
        all.into_iter().filter(is).collect::<Vec<_>>()
    };
    let (open, shut) = (of(open), of(deploy::objects("policies")?));
    ensure!(open.len() == 3 && shut.len() == 3, "{} and {} policies", open.len(), shut.len());
    let judged = async {
        for policy in &open {
            deploy::apply_object(client, policy).await?;
        }
        await_condition("the default is turned round", PATIENCE, async || {
            takes(client, SILENT, &["a", "example.com/a"], true).await
        })
        .await?;
        takes(client, SILENT, &["pod-template-hash"], false).await?;
        takes(client, SHUT, &["a"], false).await?;
        takes(client, LISTED, &["a"], true).await?;
        takes(client, LISTED, &["b"], false).await
    };
    let judged = judged.await;
    // The other tests need them.
    for policy in &shut {
        deploy::apply_object(client, policy).await?;
    }
    judged?;
    await_condition("the default is back", PATIENCE, async || takes(client, SILENT, &["a"], false).await)
        .await
}

/// Both kinds by which an author has an agent write labels are taken, or neither is.
async fn takes(client: &Client, namespace: &str, keys: &[&str], taken: bool) -> Result<()> {
    for key in keys {
        let probe = json!({ "name": "p", "containerName": "a", "probe": { "tcpSocket": { "port": 80 } },
            "markerPolicy": [{ "state": "Failed", "labels": { *key: "1" } }] });
        let marker = json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker",
            "spec": { "selector": { "matchLabels": { "app": "a" } }, "probes": [probe] } });
        let update = json!({ "apiVersion": "berth.dev/v1alpha1", "kind": "ContainerUpdateRequest",
            "spec": { "podName": "p", "metadata": { "labels": { *key: "1" } } } });
        for mut object in [marker, update] {
            object["metadata"] = json!({ "namespace": namespace, "name": "judged" });
            let made = create(client, &object).await;
            match made {
                Ok(()) => ensure!(taken, "{namespace}: {key} was taken: {object}"),
                Err(error) if taken => bail!("{namespace}: {key} was refused: {error:#}"),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

async fn create(client: &Client, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let api: Api<DynamicObject> = deploy::api(client, &object)?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &object).await.map(drop).context("create")
}
