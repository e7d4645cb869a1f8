//! The way back to a template: its revision is raised, whatever its texts are.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::CloneSet;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Sheet, image, loosen_revisions};

const NAMESPACE: &str = "workload-go-back";
const ANEW: &str = "workload-made-anew";

/// A set of one pod with this container.
fn shop(container: Value) -> Result<CloneSet> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": { "name": "shop" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "shop" } },
            "template": {
                "metadata": { "labels": { "app": "shop" } },
                "spec": { "containers": [container] },
            },
        },
    }))?)
}

/// The command has what Go escapes in JSON: the API server writes it so when it patches a revision, and
/// compares it with what was stored.
#[tokio::test]
async fn a_set_goes_back_to_a_template() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let sets: Api<CloneSet> = Api::namespaced(sheet.client.clone(), NAMESPACE);
    let command = ["/bin/sh", "-c", "a < b && c > d"];
    let set = shop(json!({ "name": "main", "image": "registry.test/a:1", "command": command }))?;
    sets.create(&PostParams::default(), &set).await.context("make the set")?;
    let has = async |wanted: &str| {
        sheet
            .serves_until(&format!("the pod has {wanted}"), async || {
                let images: Vec<String> =
                    sheet.all().await?.values().map(|pod| image(pod).to_owned()).collect();
                ensure!(images == [wanted], "{images:?}");
                let set = sets.get("shop").await?;
                let status = set.status.context("no status")?;
                let is_new = status.observed_generation == set.metadata.generation;
                ensure!(is_new && status.updated_replicas == 1, "{status:?}");
                Ok(())
            })
            .await?;
        let status = sets.get("shop").await?.status.context("no status")?;
        anyhow::Ok(status.update_revision)
    };
    let first = has("registry.test/a:1").await?;
    for (wanted, is_first) in [("registry.test/a:2", false), ("registry.test/a:1", true)] {
        let change = json!([
            { "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": wanted },
        ]);
        let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
        sets.patch("shop", &PatchParams::default(), &change).await.context("change the image")?;
        let revision = has(wanted).await?;
        ensure!((revision == first) == is_first, "{revision:?} after {first:?}");
    }
    sets.delete("shop", &DeleteParams::background()).await.context("remove the set")?;
    Ok(())
}

/// A set that is deleted without what it owns, and made anew: the revision that is left has the next name.
#[tokio::test]
async fn a_set_made_anew_serves_beside_the_revision_that_is_left() -> Result<()> {
    let sheet = Sheet::take(ANEW).await?;
    let sets: Api<CloneSet> = Api::namespaced(sheet.client.clone(), ANEW);
    let set = shop(json!({ "name": "main", "image": "registry.test/a:1" }))?;
    let serves = async |what: &str| {
        sets.create(&PostParams::default(), &set).await.context("make the set")?;
        sheet
            .serves_until(what, async || {
                let status = sets.get("shop").await?.status.context("no status")?;
                ensure!(status.updated_ready_replicas == 1, "{status:?}");
                Ok(())
            })
            .await?;
        sets.get("shop").await?.status.context("no status")
    };
    serves("the set has its pod").await?;
    sets.delete("shop", &DeleteParams::default()).await.context("delete the set")?;
    loosen_revisions(&sheet).await?;
    let status = serves("the new set has its pod").await?;
    ensure!(status.collision_count == Some(1), "{status:?}");
    sets.delete("shop", &DeleteParams::background()).await.context("remove the set")?;
    Ok(())
}
