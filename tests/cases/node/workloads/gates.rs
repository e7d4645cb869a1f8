//! A node without an agent: nobody else opens the readiness gates of its pods, and none is updated in place.
//! And what the policy lets the program write of a pod's status.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::{deploy, token};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Request};
use serde_json::{Value, json};

use super::{Sheet, image};
use crate::case::{PATIENCE, end_now};

const NAMESPACE: &str = "workload-gates";

fn set() -> Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "name": "shop", "namespace": NAMESPACE },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [{ "name": "main", "image": "registry.test/a:1" }] },
            },
            "updateStrategy": { "type": "InPlaceIfPossible" },
            "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" }, "markPodNotReady": true } },
        },
    }))?)
}

/// Binds a pod to a node, as the scheduler would; the node needs no object.
async fn bind(sheet: &Sheet, pod: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
        "target": { "kind": "Node", "name": "virtual" },
    });
    let request = Request::new(format!("/api/v1/namespaces/{NAMESPACE}/pods"));
    let body = serde_json::to_vec(&binding)?;
    let request = request.create_subresource("binding", pod, &PostParams::default(), body)?;
    sheet.client.request::<Value>(request).await.context("bind")?;
    Ok(())
}

fn condition(pod: &Pod, type_: &str) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|one| one.type_ == type_)?;
    Some((found.status.clone(), found.message.clone().unwrap_or_default()))
}

async fn has(sheet: &Sheet, name: &str, type_: &str, status: &str, message: &str) -> Result<()> {
    await_condition(format!("{type_} is {status}"), PATIENCE, async || {
        sheet.paper.workloads.service().check_running()?;
        let found = condition(&sheet.pods.get(name).await?, type_);
        ensure!(found == Some((status.to_owned(), message.to_owned())), "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gates_of_pods_are_opened_and_shut() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let sets = deploy::api(&sheet.client, &set()?)?;
    sets.create(&PostParams::default(), &set()?).await.context("make the set")?;
    await_condition("the pod is there", PATIENCE, async || {
        ensure!(sheet.names().await?.len() == 1);
        Ok(())
    })
    .await?;
    let name = sheet.names().await?.remove(0);
    let gates = sheet.pods.get(&name).await?.spec.and_then(|spec| spec.readiness_gates).unwrap_or_default();
    let gates: Vec<&str> = gates.iter().map(|gate| gate.condition_type.as_str()).collect();
    ensure!(gates == ["InPlaceUpdateReady", "KruisePodReady"], "{gates:?}");
    // No kubelet and no agent there: the program opens both.
    bind(&sheet, &name).await?;
    has(&sheet, &name, "InPlaceUpdateReady", "True", "").await?;
    has(&sheet, &name, "KruisePodReady", "True", "[]").await?;

    let name = is_made_anew(&sheet, &sets, &name).await?;
    bind(&sheet, &name).await?;
    has(&sheet, &name, "KruisePodReady", "True", "[]").await?;
    refusals(&sheet, &name).await?;

    // The hook holds the pod before its deletion, out of service.
    let hook = json!({ "metadata": { "labels": { "hook": "true" } } });
    sheet.pods.patch(&name, &PatchParams::default(), &Patch::Merge(&hook)).await.context("hook")?;
    let scaled = json!({ "spec": { "replicas": 0 } });
    sets.patch("shop", &PatchParams::default(), &Patch::Merge(&scaled)).await.context("scale")?;
    let message = r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
    has(&sheet, &name, "KruisePodReady", "False", message).await?;
    sets.delete("shop", &DeleteParams::default()).await.context("remove the set")?;
    Ok(())
}

/// Changes the image: a set that may make no new pods waits and says why, and one that may makes one. Gives
/// its name.
async fn is_made_anew(sheet: &Sheet, sets: &Api<DynamicObject>, old: &str) -> Result<String> {
    let edit = async |spec: Value| {
        let patch = json!({ "spec": spec });
        sets.patch("shop", &PatchParams::default(), &Patch::Merge(&patch)).await.context("edit")
    };
    let uid = sheet.pods.get(old).await?.uid();
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "registry.test/a:2" }] } });
    edit(json!({ "updateStrategy": { "type": "InPlaceOnly" }, "template": template })).await?;
    await_condition("the set says what it waits for", PATIENCE, async || {
        let status = &sets.get("shop").await?.data["status"];
        let says = |one: &Value| {
            let why = one["message"].as_str().unwrap_or_default();
            one["type"] == "FailedUpdate" && why.contains("has no agent")
        };
        ensure!(status["conditions"].as_array().is_some_and(|all| all.iter().any(says)), "{status}");
        Ok(())
    })
    .await?;
    let kept = sheet.pods.get(old).await?;
    ensure!(kept.uid() == uid && kept.metadata.deletion_timestamp.is_none(), "{:?}", kept.metadata);
    ensure!(image(&kept) == "registry.test/a:1", "{}", image(&kept));

    edit(json!({ "updateStrategy": { "type": "InPlaceIfPossible" } })).await?;
    await_condition("another pod takes its place", PATIENCE, async || {
        let mut pods = sheet.all().await?;
        if let Some(before) = pods.remove(old) {
            ensure!(before.metadata.deletion_timestamp.is_some(), "it stays");
            // Its kubelet would.
            end_now(&sheet.pods, old).await?;
        }
        let (name, pod) = pods.pop_first().context("none yet")?;
        ensure!(image(&pod) == "registry.test/a:2" && pods.is_empty(), "{}, {pods:?}", image(&pod));
        Ok(name)
    })
    .await
}

/// Tries what the program's own identity may not write of the status of a pod.
async fn refusals(sheet: &Sheet, name: &str) -> Result<()> {
    let token = token::of(&sheet.client, "berth-workloads", None).await?;
    let client = sheet.paper.plane.api().client_with("workloads-gates", &token).await?;
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let one = |type_: &str| json!({ "status": { "conditions": [{ "type": type_, "status": "False" }] } });
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    pods.patch_status(name, &params, &Patch::Strategic(one("KruisePodReady"))).await.context("its own")?;
    // The policy was made a moment ago.
    await_condition("the policy holds", PATIENCE, async || {
        ensure!(pods.patch_status(name, &params, &Patch::Strategic(one("Ready"))).await.is_err(), "not yet");
        Ok(())
    })
    .await?;
    let nothing_else = "InPlaceUpdateReady and KruisePodReady, and nothing else";
    for (body, says) in [
        (one("Ready"), nothing_else),
        (one("example.com/other"), nothing_else),
        (json!({ "status": { "phase": "Failed" } }), nothing_else),
        (json!({ "status": { "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }] } }), nothing_else),
    ] {
        match pods.patch_status(name, &params, &Patch::Strategic(&body)).await {
            Err(kube::Error::Api(status)) => ensure!(status.message.contains(says), "{body}: {status:?}"),
            other => bail!("{body}: {other:?}"),
        }
    }
    // A pod of nobody.
    let lone = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "lone" },
        "spec": { "containers": [{ "name": "main", "image": "registry.test/a:1" }] },
    });
    sheet.pods.create(&PostParams::default(), &serde_json::from_value(lone)?).await.context("lone")?;
    match pods.patch_status("lone", &params, &Patch::Strategic(one("InPlaceUpdateReady"))).await {
        Err(kube::Error::Api(status)) => {
            ensure!(status.message.contains("the workloads write only pods"), "{status:?}");
        }
        other => bail!("{other:?}"),
    }
    sheet.pods.delete("lone", &DeleteParams::default()).await.context("remove lone")?;
    Ok(())
}
