//! Sets that are written, and pods that get their sidecars.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::scene::{CONFIGURATION, Scene, pod, sidecar_set, sidecars};
use crate::case::PATIENCE;

#[tokio::test]
async fn a_pod_gets_its_sidecars() -> Result<()> {
    let scene = Scene::set("admission-pods").await?;
    scene.set_of("mesh", json!({})).await?;
    scene.set_of("logs", json!({ "berth.dev/failure-policy": "Ignore" })).await?;
    let set = scene.sets.get("mesh").await?;
    ensure!(set.annotations().contains_key("kruise.io/sidecarset-hash"), "no hash: {:?}", set.annotations());
    let container = &set.spec.containers.first().context("no container")?.0;
    ensure!(container.get("podInjectPolicy") == Some(&Value::from("BeforeAppContainer")), "{container:?}");

    let made = scene.pods.create(&PostParams::default(), &pod("with", "mesh")?).await?;
    let spec = made.spec.as_ref().context("no spec")?;
    let names: Vec<_> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    ensure!(names == ["log-mesh", "app"], "{names:?}");
    ensure!(made.annotations().get("kruise.io/sidecarset-injected-list").is_some_and(|list| list == "mesh"));
    let other = scene.pods.create(&PostParams::default(), &pod("without", "another")?).await?;
    ensure!(sidecars(&other) == 0 && other.annotations().is_empty(), "{other:?}");
    for namespace in ["kube-system", "berth-system"] {
        let pods: Api<Pod> = Api::namespaced(scene.client.clone(), namespace);
        let params = PostParams { dry_run: true, ..PostParams::default() };
        ensure!(sidecars(&pods.create(&params, &pod("p", "mesh")?).await?) == 0, "injected in {namespace}");
    }
    let mut mirror = pod("mirror", "mesh")?;
    mirror.annotations_mut().insert("kubernetes.io/config.mirror".to_owned(), "x".to_owned());
    mirror.spec.as_mut().context("no spec")?.node_name = Some("n".to_owned());
    let mirror = scene.pods.create(&PostParams::default(), &mirror).await?;
    ensure!(sidecars(&mirror) == 0, "the API's copy of a static pod has a sidecar that never runs");

    let hooks = scene.hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
    // Other cases have budgets, spreads and PersistentPodStates at the same API server.
    let is_of_others = |name: &str| {
        name == "evictions.podunavailablebudgets.berth.dev"
            || name.contains("typed")
            || name.contains("persistentpodstate")
    };
    let policies: Vec<_> = hooks
        .iter()
        .filter(|hook| !is_of_others(&hook.name))
        .map(|hook| (hook.name.as_str(), hook.failure_policy.as_deref().unwrap_or_default()))
        .collect();
    ensure!(
        policies
            == [
                ("logs.sidecarset.berth.dev", "Ignore"),
                ("mesh.sidecarset.berth.dev", "Fail"),
                ("defaults.sidecarsets.berth.dev", "Fail"),
                ("containerrecreaterequests.defaults.berth.dev", "Ignore"),
                ("workloads.defaults.berth.dev", "Ignore"),
                ("nodeimages.defaults.berth.dev", "Ignore"),
            ],
        "{policies:?}"
    );
    Ok(())
}

/// As from one file with both: nobody waits in between.
#[tokio::test]
async fn a_pod_may_be_made_right_after_its_set() -> Result<()> {
    let scene = Scene::set("admission-at-once").await?;
    scene.set_of("first", json!({})).await?;
    for turn in 0..10 {
        let name = format!("at-once-{turn}");
        let set = serde_json::from_value(sidecar_set(&name, &json!({})))?;
        scene.sets.create(&PostParams::default(), &set).await.context("make a set")?;
        let made = scene.pods.create(&PostParams::default(), &pod(&name, &name)?).await?;
        ensure!(sidecars(&made) == 1, "pod {turn} was made without its sidecar");
    }
    Ok(())
}

/// An edit of its selector is seen by the next pod, too.
#[tokio::test]
async fn a_pod_may_be_made_right_after_a_selector_is_edited() -> Result<()> {
    let scene = Scene::set("admission-edited").await?;
    scene.set_of("edited", json!({})).await?;
    for turn in 0..10 {
        let label = format!("edited-{turn}");
        let selector = json!({ "spec": { "selector": { "matchLabels": { "app": label } } } });
        scene
            .sets
            .patch("edited", &PatchParams::default(), &Patch::Merge(&selector))
            .await
            .context("an edit")?;
        let made = scene.pods.create(&PostParams::default(), &pod(&label, &label)?).await?;
        ensure!(sidecars(&made) == 1, "pod {turn} was made without its sidecar");
    }
    await_condition("only the entry of the set is left", PATIENCE, async || {
        let hooks = scene.hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
        let of_sets = hooks.iter().filter(|hook| hook.name.ends_with(".sidecarset.berth.dev"));
        let names: Vec<_> = of_sets.map(|hook| hook.name.as_str()).collect();
        ensure!(names == ["edited.sidecarset.berth.dev"], "{names:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bad_set_is_refused_with_its_field() -> Result<()> {
    let scene = Scene::set("admission-sets").await?;
    scene.set_of("good", json!({})).await?;
    let change = |name: &str, at: &str, value: Value| {
        let mut set = sidecar_set(name, &json!({}));
        *set.pointer_mut(at).expect("a field of the set") = value;
        set
    };
    let cases = [
        (change("empty", "/spec/selector", json!({})), "spec.selector"),
        (change("none", "/spec/containers", json!([])), "no initContainer or container defined"),
        (
            change(
                "metadata",
                "/spec",
                json!({
                    "selector": { "matchLabels": { "app": "x" } },
                    "containers": [{ "name": "x", "image": "registry.example/x:1" }],
                    "patchPodMetadata": [{ "annotations": { "k": "v" } }],
                }),
            ),
            "spec.patchPodMetadata",
        ),
    ];
    for (set, says) in cases {
        let refused = scene.sets.create(&PostParams::default(), &serde_json::from_value(set)?).await;
        let Err(kube::Error::Api(status)) = refused else { bail!("{says}: {refused:?}") };
        ensure!(status.code == 422 && status.message.contains(says), "{says}: {status:?}");
        ensure!(status.message.contains("checks.sidecarsets.berth.dev"), "{status:?}");
    }
    Ok(())
}
