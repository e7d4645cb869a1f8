//! A policy that is older than the manager: the entry that it does not know is left out, and the others are
//! kept.

use anyhow::{Context, Result, bail, ensure};
use berth_tests::node::deploy;
use berth_tests::wait::await_condition;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::scene::{CONFIGURATION, Scene};
use crate::case::PATIENCE;

/// Entry that the older policy does not know, and the words that make the newer one know it.
const NEW: (&str, &str) = ("nodeimages.defaults.berth.dev", "'nodeimages', ");

#[tokio::test]
async fn an_older_policy_keeps_no_other_entry_from_its_upkeep() -> Result<()> {
    let scene = Scene::set("admission-older-policy").await?;
    let own = deploy::objects("policies/manager.yaml")?;
    let (mut older, mut changed) = (own.clone(), false);
    for object in &mut older {
        let text = object.data.to_string();
        changed |= text.contains(NEW.1);
        object.data = serde_json::from_str(&text.replace(NEW.1, ""))?;
    }
    ensure!(changed, "the policy has no {}", NEW.1);
    let judged = async {
        for object in &older {
            deploy::apply_object(&scene.client, object).await?;
        }
        kept_without_it(&scene).await
    };
    let judged = judged.await;
    // The other tests need it.
    for object in &own {
        deploy::apply_object(&scene.client, object).await?;
    }
    judged?;
    await_condition("the entry comes with its policy", PATIENCE, async || {
        let names = names(&scene).await?;
        ensure!(names.iter().any(|name| name == NEW.0), "{names:?}");
        Ok(())
    })
    .await
}

async fn kept_without_it(scene: &Scene) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(&scene.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let manager: Api<MutatingWebhookConfiguration> = Api::all(Client::try_from(config)?);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    await_condition("the policy refuses the entry", PATIENCE, async || {
        let stands = manager.get(CONFIGURATION).await.context("the configuration")?;
        match manager.replace(CONFIGURATION, &dry, &stands).await {
            Err(kube::Error::Api(status)) if status.message.contains("denied request") => Ok(()),
            Err(error) => bail!("{error}"),
            Ok(_) => bail!("it is taken"),
        }
    })
    .await?;
    let spoiled = json!({ "webhooks": [] });
    scene.hooks.patch(CONFIGURATION, &PatchParams::default(), &Patch::Merge(&spoiled)).await?;
    await_condition("the others are put right", PATIENCE, async || {
        let names = names(scene).await?;
        ensure!(names.iter().any(|name| name == "defaults.sidecarsets.berth.dev"), "{names:?}");
        ensure!(names.iter().all(|name| name != NEW.0), "{names:?}");
        Ok(())
    })
    .await?;
    // So is what comes new.
    scene.set_of("older-policy", json!({})).await
}

async fn names(scene: &Scene) -> Result<Vec<String>> {
    let entries = scene.hooks.get(CONFIGURATION).await?.webhooks.unwrap_or_default();
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}
