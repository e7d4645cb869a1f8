//! The manager's own configurations: put right when somebody spoils them, and what happens to pods while no
//! manager answers.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::wait::await_condition;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::given;
use super::scene::{CONFIGURATION, SECRET, Scene, pod, sidecars};
use crate::case::PATIENCE;

#[tokio::test]
async fn what_is_spoiled_is_put_right() -> Result<()> {
    let scene = Scene::set("admission-spoiled").await?;
    scene.set_of("spoiled", json!({})).await?;
    let before = scene.hooks.get(CONFIGURATION).await?.webhooks.context("no entries")?;
    let spoils = [
        ("the bundle", {
            let mut hooks = before.clone();
            hooks.iter_mut().for_each(|hook| hook.client_config.ca_bundle = None);
            json!({ "webhooks": hooks })
        }),
        ("an entry", json!({ "webhooks": before.get(1..).context("one entry")? })),
        ("all entries", json!({ "webhooks": [] })),
    ];
    for (what, spoiled) in spoils {
        scene.hooks.patch(CONFIGURATION, &PatchParams::default(), &Patch::Merge(&spoiled)).await?;
        await_condition(format!("{what} put right"), PATIENCE, async || {
            let now = scene.hooks.get(CONFIGURATION).await?.webhooks.context("no entries")?;
            ensure!(now == before, "not yet");
            Ok(())
        })
        .await?;
    }
    // What stands already is not written again.
    let stands = scene.hooks.get(CONFIGURATION).await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    ensure!(
        scene.hooks.get(CONFIGURATION).await?.metadata.resource_version == stands.metadata.resource_version
    );

    // A Secret that was emptied: there is a new certificate, and its CA in the configuration.
    let (bundle, old) = (scene.bundle().await?, scene.secrets.get(SECRET).await?.data.context("no data")?);
    scene.secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(&json!({ "data": null }))).await?;
    await_condition("there is another CA", PATIENCE, async || {
        ensure!(scene.bundle().await? != bundle, "not yet");
        Ok(())
    })
    .await?;
    await_condition("a pod is injected", PATIENCE, async || {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let pod = scene.pods.create(&params, &pod("again", "spoiled")?).await.context("a pod")?;
        ensure!(sidecars(&pod) == 1, "no sidecar");
        Ok(())
    })
    .await?;
    let new = scene.secrets.get(SECRET).await?.data.context("no data")?;
    given::certificates_are_served(&scene, "spoiled", &[old, new]).await
}

#[tokio::test]
async fn without_a_manager_pods_wait_as_their_set_says() -> Result<()> {
    let scene = Scene::set("admission-down").await?;
    scene.set_of("strict", json!({})).await?;
    scene.set_of("lenient", json!({ "berth.dev/failure-policy": "Ignore" })).await?;
    // Times are in seconds, and pods from before the set are not missed.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    scene.first.service().kill()?;
    let create = async |name: &str, app: &str| {
        scene.pods.create(&PostParams::default(), &pod(name, app)?).await.map_err(anyhow::Error::from)
    };
    let Err(refused) = create("waits", "strict").await else { bail!("a pod of the set was made") };
    let text = format!("{refused:#}");
    ensure!(text.contains("failed calling webhook \"strict.sidecarset.berth.dev\""), "{text}");
    ensure!(sidecars(&create("other", "another").await?) == 0);
    ensure!(sidecars(&create("lenient", "lenient").await?) == 0);
    scene.first.service().start()?;
    scene.first.ready().await?;
    await_condition("the pod is made when a manager is back", PATIENCE, async || {
        let pod = create("waits", "strict").await?;
        ensure!(sidecars(&pod) == 1, "no sidecar");
        Ok(())
    })
    .await?;
    scene.first.leads().await?;
    await_condition("the pod that was missed is told", PATIENCE, async || {
        let status = scene.sets.get("lenient").await?.status.context("no status")?;
        ensure!(status.not_injected_pods == Some(1), "{status:?}");
        let accepted = status.conditions.iter().find(|one| one.type_ == "Accepted").context("not said")?;
        ensure!(
            accepted.reason == "PodsNotInjected" && accepted.message.starts_with("1 pods"),
            "{accepted:?}"
        );
        Ok(())
    })
    .await
}
