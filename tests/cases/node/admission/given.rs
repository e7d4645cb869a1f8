//! Certificates that somebody else makes, as cert-manager does: they are served, and the Secret is only read.
//! The same manager gives pods their readiness gate.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_tests::wait::await_condition;
use k8s_openapi::ByteString;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::rotation::handshake;
use super::scene::{SECRET, Scene, pod, sidecars};
use crate::case::PATIENCE;

/// Data of the Secret.
type Data = BTreeMap<String, ByteString>;

/// Serves each of these in turn, by one manager that is not started again. It does not do what the annotation
/// asks of one that makes its certificates itself. `app` is the label of pods that have a sidecar.
pub(super) async fn certificates_are_served(scene: &Scene, app: &str, all: &[Data]) -> Result<()> {
    scene.first.service().stop()?;
    let mut version = write(scene, all.first().context("no certificate")?).await?;
    let manager = scene.second_with(&["--admission-certificates=secret", "--pod-readiness-gate"]).await?;
    for (turn, data) in all.iter().enumerate() {
        if turn > 0 {
            version = write(scene, data).await?;
        }
        let bundle = &data.get("ca.crt").context("no CA")?.0;
        await_condition(format!("certificate {turn} is served"), PATIENCE, async || {
            let (address, bundle) = (scene.plane.run().webhook_address(), bundle.clone());
            tokio::task::spawn_blocking(move || handshake(&address, &bundle)).await??;
            Ok(())
        })
        .await?;
        await_condition(format!("CA {turn} stands in the configuration"), PATIENCE, async || {
            ensure!(scene.bundle().await? == *bundle, "another one");
            Ok(())
        })
        .await?;
        for (label, wanted) in [(app, 1), ("of-no-set", 0)] {
            await_condition(format!("a pod {label} has the gate"), PATIENCE, async || {
                let params = PostParams { dry_run: true, ..PostParams::default() };
                let made = scene.pods.create(&params, &pod("gated", label)?).await.context("a pod")?;
                ensure!(sidecars(&made) == wanted, "{} sidecars", sidecars(&made));
                let gates = made.spec.and_then(|spec| spec.readiness_gates).unwrap_or_default();
                let gates: Vec<_> = gates.iter().map(|gate| gate.condition_type.as_str()).collect();
                ensure!(gates == ["KruisePodReady"], "{gates:?}");
                Ok(())
            })
            .await?;
        }
        // One that makes its own would have written by now.
        tokio::time::sleep(Duration::from_secs(1)).await;
        ensure!(scene.secrets.get(SECRET).await?.resource_version() == version, "the Secret was written");
    }
    let done = json!({ "metadata": { "annotations": { "berth.dev/renew": null } } });
    scene.secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(&done)).await?;
    manager.service().stop()
}

/// Fills the Secret, and asks for another certificate. Returns its version.
async fn write(scene: &Scene, data: &Data) -> Result<Option<String>> {
    let mut secret = scene.secrets.get(SECRET).await?;
    secret.data = Some(data.clone());
    secret.annotations_mut().insert("berth.dev/renew".to_owned(), "now".to_owned());
    Ok(scene.secrets.replace(SECRET, &PostParams::default(), &secret).await?.resource_version())
}
