//! The author learns what agents may write on pods when he asks for it: not only on the node, when it is
//! refused there.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::PodProbeMarker;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::updates::asked;
use crate::api_server::{api_server, namespace_with};

/// The annotation of the namespace, the keys that are taken then, and those that are not.
type Row = (Option<&'static str>, &'static [&'static str], &'static [&'static str]);

const ROWS: [Row; 6] = [
    (None, &["berth.dev/a"], &["a", "example.com/a", "controller.kubernetes.io/pod-deletion-cost"]),
    (Some(""), &["berth.dev/a"], &["a", "example.com/a"]),
    (Some("a, example.com/b"), &["a", "example.com/b"], &["aa", "example.com/a", "b", "A"]),
    (Some("example.com/"), &["example.com/a"], &["a.example.com/a", "example.com"]),
    (Some(",*,"), &["a", "example.com/a", "controller.kubernetes.io/pod-deletion-cost"], &[]),
    (
        Some("controller.kubernetes.io/pod-deletion-cost"),
        &["controller.kubernetes.io/pod-deletion-cost"],
        &["a"],
    ),
];

#[tokio::test]
async fn who_asks_for_a_label_is_told_that_the_namespace_does_not_let_it_be_written() -> Result<()> {
    let client = api_server().await?.client().await?;
    for (number, (listed, taken, refused)) in ROWS.into_iter().enumerate() {
        let home = format!("policies-keys-{number}");
        let annotations = listed.map_or(json!({}), |keys| json!({ "berth.dev/agent-labels": keys }));
        namespace_with(&client, &home, annotations).await?;
        let markers: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &home, &ApiResource::erase::<PodProbeMarker>(&()));
        let params = PostParams { dry_run: true, ..Default::default() };
        for (key, is_taken) in
            taken.iter().map(|key| (key, true)).chain(refused.iter().map(|key| (key, false)))
        {
            for kind in ["labels", "annotations"] {
                let update = asked(&client, &home, &json!({ "metadata": { kind: { *key: "1" } } })).await?;
                judged(&home, key, is_taken, update)?;
                let marker = marker(json!({ "markerPolicy": [{ "state": "Failed", kind: { *key: "1" } }] }))?;
                judged(&home, key, is_taken, markers.create(&params, &marker).await)?;
            }
            // A condition has no domain in Kubernetes' own words only.
            if !key.contains('/') {
                let marker = marker(json!({ "podConditionType": key }))?;
                judged(&home, key, is_taken, markers.create(&params, &marker).await)?;
            }
        }
    }
    Ok(())
}

/// More than the policies read is nothing, and is said.
#[tokio::test]
async fn a_list_of_keys_that_is_too_long_counts_for_nothing() -> Result<()> {
    const HOME: &str = "policies-keys-long";
    let client = api_server().await?.client().await?;
    let keys = (0..1000).map(|number| format!("key-{number}")).collect::<Vec<_>>().join(",");
    namespace_with(&client, HOME, json!({ "berth.dev/agent-labels": keys })).await?;
    let outcome = asked(&client, HOME, &json!({ "metadata": { "labels": { "key-1": "1" } } })).await?;
    let Err(kube::Error::Api(status)) = outcome else { bail!("{outcome:?}") };
    ensure!(status.message.contains("4096 characters at most"), "{status:?}");
    Ok(())
}

fn marker(more: Value) -> Result<DynamicObject> {
    let mut probe = json!({ "name": "p", "containerName": "a", "probe": { "tcpSocket": { "port": 80 } } });
    for (field, value) in more.as_object().into_iter().flatten() {
        probe[field] = value.clone();
    }
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": { "name": "judged" },
        "spec": { "selector": { "matchLabels": { "app": "a" } }, "probes": [probe] },
    });
    serde_json::from_value(object).context("a marker")
}

fn judged(home: &str, key: &str, is_taken: bool, outcome: kube::Result<DynamicObject>) -> Result<()> {
    match outcome {
        Ok(_) if is_taken => Ok(()),
        Err(kube::Error::Api(status)) if !is_taken => {
            let remedy = format!("kubectl annotate namespace {home} --overwrite berth.dev/agent-labels='");
            let said = &status.message;
            let named = said.contains(&format!("{key:?}")) && said.contains(&remedy);
            ensure!(named && said.ends_with(&format!("{key}'")), "{home} {key}: {said}");
            Ok(())
        }
        outcome => bail!("{home} {key}: {outcome:?}"),
    }
}
