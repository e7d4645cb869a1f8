//! Updates that the agents could not carry out are refused when they are asked for.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::deploy;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::{all_keys, pod};
use crate::api_server::{api_server, namespace_with};

/// Object that is asked for, and the words of the refusal; none when it is accepted.
type Judged = (Value, &'static [&'static str]);

fn updates() -> Vec<Judged> {
    const KEY: &[&str] = &["spec.metadata: \"", "is no key of a label or annotation", "correct it"];
    const VALUE: &[&str] =
        &["spec.metadata.labels: the value of \"example.com/l\"", "is no value of a label", "correct it"];
    let labels = |key: &str, value: &str| json!({ "metadata": { "labels": { key: value } } });
    let annotations = |key: &str, value: &str| json!({ "metadata": { "annotations": { key: value } } });
    let image = |image: &str| json!({ "containers": [{ "name": "b", "image": image }] });
    let mut all: Vec<Judged> = vec![
        (image("registry.example/b:2"), &[]),
        (json!({ "metadata": null, "containers": [{ "name": "b", "image": "b" }] }), &[]),
        (json!({ "metadata": {}, "containers": [{ "name": "b", "image": "b" }] }), &[]),
        (
            json!({ "metadata": { "labels": { "a": "1" }, "annotations": { "a": "1" } }, "containers": [] }),
            &[],
        ),
        (annotations("example.com/text", "any \"text\" at all\n\u{e4}"), &[]),
        (annotations("Example.COM/Text", ""), &[]),
        (labels("controller-revision-hash", "web-2"), &[]),
    ];
    let nothing: &[&str] = &["spec.metadata: it has neither labels nor annotations", "give what"];
    for metadata in [json!({}), json!({ "labels": {} }), json!({ "labels": {}, "annotations": {} })] {
        all.push((json!({ "metadata": metadata }), nothing));
    }
    for padded in [" b:2", "b:2 ", "b:2\n"] {
        all.push((image(padded), &["spec.containers: the image of container \"b\"", "leave that out"]));
    }
    let reserved: [&[&str]; 6] = [
        &["spec.metadata: pod-template-hash is not changed by an update: leave it out"],
        &["spec.metadata: batch.kubernetes.io/job-name is not changed by an update: leave it out"],
        &["spec.metadata: kubernetes.io/config.mirror is not changed by an update: leave it out"],
        &["spec.metadata: apps.kruise.io/inplace-update-state is not changed by an update: leave it out"],
        &["spec.metadata: apps.kruise.io/runtime-containers-meta is not changed by an update: leave it out"],
        &[
            "spec.metadata: apps.kruise.io/container-launch-priority is not changed by an update: leave it out",
        ],
    ];
    for words in reserved {
        let key = words[0].split(' ').nth(1).unwrap_or_default();
        all.push((annotations(key, "x"), words));
        all.push((labels(key, "x"), words));
    }
    let (longest, long) = ("a".repeat(63), "a".repeat(64));
    for key in ["", "/a", "a/", "a b", "a/b/c", "-a", "a-", "a.example/-", "\u{e4}", "a\n", &long] {
        all.push((labels(key, "x"), KEY));
        all.push((annotations(key, "x"), KEY));
    }
    all.push((labels("Example.COM/l", "x"), KEY));
    for key in ["a", "A-b_c.d", "a.example/B", &longest, &format!("a.example/{longest}")] {
        all.push((labels(key, "x"), &[]));
        all.push((annotations(key, "x"), &[]));
    }
    for value in ["", "a", "A-b_c.d", "1", &longest] {
        all.push((labels("example.com/l", value), &[]));
    }
    for value in [" ", "a b", "-a", "a-", "a\n", "a/b", "\u{e4}", &long] {
        all.push((labels("example.com/l", value), VALUE));
    }
    all
}

/// And nothing is refused that the API server would take in a pod, nor taken what it would refuse there.
#[tokio::test]
async fn updates_that_cannot_be_carried_out_are_refused() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace_with(&client, "policies-updates", all_keys()).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "policies-updates");
    let params = PostParams { dry_run: true, ..Default::default() };
    for (change, words) in updates() {
        let outcome = ask(&client, &change).await?;
        if words.is_empty() {
            outcome.with_context(|| change.to_string())?;
        } else {
            let Err(kube::Error::Api(status)) = outcome else { bail!("{change}: {outcome:?}") };
            ensure!(words.iter().all(|word| status.message.contains(word)), "{change}: {status:?}");
        }
        if words.iter().any(|word| word.contains("not changed") || word.contains("neither")) {
            continue;
        }
        let mut object = pod("judged", json!([]));
        object["metadata"]["labels"] = change["metadata"]["labels"].clone();
        object["metadata"]["annotations"] = change["metadata"]["annotations"].clone();
        if let Some(image) = change.pointer("/containers/0/image") {
            object["spec"]["containers"][1]["image"] = image.clone();
        }
        let taken = pods.create(&params, &serde_json::from_value(object)?).await;
        ensure!(taken.is_ok() == words.is_empty(), "{change}: a pod with it: {taken:?}");
    }
    Ok(())
}

async fn ask(client: &Client, change: &Value) -> Result<kube::Result<DynamicObject>> {
    asked(client, "policies-updates", change).await
}

pub(super) async fn asked(
    client: &Client,
    namespace: &str,
    change: &Value,
) -> Result<kube::Result<DynamicObject>> {
    let mut object = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "ContainerUpdateRequest",
        "metadata": { "namespace": namespace, "name": "judged" },
        "spec": { "podName": "p" },
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    let object: DynamicObject = serde_json::from_value(object)?;
    let params = PostParams { dry_run: true, ..Default::default() };
    Ok(deploy::api(client, &object)?.create(&params, &object).await)
}

/// As with a huge pod: the most that the definition lets in.
#[tokio::test]
async fn a_huge_update_is_accepted() -> Result<()> {
    let client = api_server().await?.client().await?;
    namespace_with(&client, "policies-huge-update", all_keys()).await?;
    let keys = (0..256).map(|number| format!("{}.example.com/{}-{number}", "p".repeat(50), "k".repeat(50)));
    let labels: serde_json::Map<_, _> = keys.map(|key| (key, "v".repeat(63).into())).collect();
    let containers: Vec<Value> =
        (0..100).map(|number| json!({ "name": format!("c{number}"), "image": "i".repeat(4096) })).collect();
    let annotations: serde_json::Map<_, _> =
        labels.keys().map(|key| (key.clone(), "v".repeat(800).into())).collect();
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "ContainerUpdateRequest",
        "metadata": { "namespace": "policies-huge-update", "name": "huge" },
        "spec": {
            "podName": "p",
            "containers": containers,
            "metadata": { "labels": labels, "annotations": annotations },
        },
    }))?;
    let params = PostParams { dry_run: true, ..Default::default() };
    deploy::api(&client, &object)?.create(&params, &object).await.context("a huge update")?;
    Ok(())
}
