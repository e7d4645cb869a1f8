//! The manager's credential, stolen: its entries get pods nothing that the set's author has not asked for,
//! now or in a revision before, whatever the thief writes into the set's status.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{NodePodUpdate, SidecarSet, UpdatePhase};
use berth_sidecarset::{decode, encode};
use berth_tests::node::NODE_NAME;
use berth_tests::node::images::{BUSYBOX, BUSYBOX_NEXT};
use berth_tests::wait::await_condition;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{SET, Stage};
use crate::case::{PATIENCE, container};

/// An image that the node has, and the set has never named.
const OTHER: &str = "registry.example/thief:1";

struct Thief {
    updates: Api<NodePodUpdate>,
    sets: Api<SidecarSet>,
}

impl Thief {
    async fn asks(&self, entry: &Value) -> Result<()> {
        let apply = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": NODE_NAME }, "status": { "desiredPods": [entry] },
        });
        let params = PatchParams::apply("berth-manager").force();
        let asked = self.updates.patch_status(NODE_NAME, &params, &Patch::Apply(&apply)).await;
        asked.context("write an entry").map(drop)
    }

    /// Adds a revision with its own image to the history, which is the manager's to write.
    async fn invents_a_revision(&self) -> Result<()> {
        let status = self.sets.get(SET).await?.status.context("no status")?;
        let mut contents = decode(status.history.as_deref().unwrap_or_default())?;
        let mut invented = contents.last().context("no history")?.clone();
        invented.name = "logs-invented".to_owned();
        let image = invented.fields.get_mut("containers").and_then(|list| list.get_mut(0));
        image.context("no container")?["image"] = OTHER.into();
        contents.push(invented);
        let status = json!({ "status": { "history": encode(&contents)? } });
        self.sets.patch_status(SET, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }
}

/// The manager has ended, and somebody else has its kubeconfig. Pod `one` runs the set's image.
pub(super) async fn only_what_the_author_asked_for(stage: &Stage<'_>, kubeconfig: &Path) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let thief = Thief { updates: Api::all(client.clone()), sets: Api::all(client) };
    let set = stage.sets.get(SET).await?;
    let noted = set.annotations().get("berth.dev/revisions").context("admission notes nothing")?;
    ensure!(noted.split(',').count() == 3, "two images and another env, three revisions: {noted}");
    let before = stage.case.pods.get("one").await?;
    let uid = before.metadata.uid.clone().context("no UID")?;
    let entry = |number: usize, change: &Value| {
        let mut entry = json!({
            "uid": uid, "owner": format!("SidecarSet/{SET}"), "ownerUid": set.metadata.uid,
            "namespace": stage.case.namespace, "name": "one", "revision": format!("forged-{number}"),
            "service": "Keep",
        });
        for (key, value) in change.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        entry
    };
    let image = |name: &str, image: &str| json!({ "containers": [{ "name": name, "image": image }] });
    thief.invents_a_revision().await?;
    let attempts = [
        (image("log", OTHER), "does not name image registry.example/thief:1 for container log"),
        (image("app", BUSYBOX_NEXT), "for container app"),
        (json!({ "annotations": { "example.com/x": "y" } }), "annotation example.com/x"),
        (json!({ "defaultAnnotations": { "example.com/x": "y" } }), "annotation example.com/x"),
        (
            json!({ "mergeAnnotations": { "kruise.io/sidecarset-hash": "{\"mesh\":null}" } }),
            "sidecarset-hash",
        ),
        (
            json!({ "swaps": [{ "name": "log", "image": OTHER, "emptyImage": BUSYBOX }] }),
            "does not name image registry.example/thief:1 with hotUpgradeEmptyImage",
        ),
        (json!({ "labels": { "app": "thief" } }), "a SidecarSet gives pods no labels"),
        (json!({ "owner": "SidecarSet/none" }), "there is no SidecarSet none"),
        (json!({ "ownerUid": "another" }), "the set was made anew"),
    ];
    let count = attempts.len();
    for (number, (change, because)) in attempts.into_iter().enumerate() {
        let mut wanted = image("log", BUSYBOX_NEXT);
        for (key, value) in change.as_object().into_iter().flatten() {
            wanted[key] = value.clone();
        }
        thief.asks(&entry(number, &wanted)).await?;
        await_condition(format!("attempt {number} is refused: {because}"), PATIENCE, async || {
            let status = stage.updates.get(NODE_NAME).await?.status.unwrap_or_default();
            let said =
                status.conditions.iter().find(|said| said.type_ == "Understood").context("not said")?;
            ensure!(said.status == "False" && said.message.contains(because), "{said:?}");
            ensure!(status.pods.iter().all(|pod| pod.phase == UpdatePhase::Failed), "{:?}", status.pods);
            Ok(())
        })
        .await?;
    }
    let now = stage.case.pods.get("one").await?;
    ensure!(now.spec == before.spec && now.annotations() == before.annotations(), "the pod was changed");
    ensure!(container(&now, "log")?.image.ends_with(BUSYBOX), "{now:?}");
    println!("{count} attempts, all refused");
    // What the author had before is still his word.
    thief.asks(&entry(count, &image("log", BUSYBOX_NEXT))).await?;
    stage.upgraded("one", BUSYBOX_NEXT).await?;
    Ok(())
}
