//! Parts of earlier templates of a CloneSet are noted on it, whatever its author writes there.

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::CloneSet;
use berth_proto::template_history::{Part, TEMPLATE_HISTORY};
use berth_tests::wait::await_condition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::scene::Scene;
use crate::case::PATIENCE;

const NAMESPACE: &str = "admission-template-history";
const NAME: &str = "shop";

#[tokio::test]
async fn a_clone_set_notes_what_its_templates_had() -> Result<()> {
    let scene = Scene::set(NAMESPACE).await?;
    let sets: Api<CloneSet> = Api::namespaced(scene.client.clone(), NAMESPACE);
    let forged = "0".repeat(64);
    let set: CloneSet = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": { "name": NAME, "annotations": { TEMPLATE_HISTORY: forged } },
        "spec": {
            "replicas": 1, "updateStrategy": { "type": "InPlaceOnly" },
            "selector": { "matchLabels": { "app": NAME } },
            "template": {
                "metadata": { "labels": { "app": NAME } },
                "spec": { "containers": [{ "name": "main", "image": "registry.example/a:1" }] },
            },
        },
    }))?;
    await_condition("the API server asks", PATIENCE, async || {
        let tried = PostParams { dry_run: true, ..PostParams::default() };
        let made = sets.create(&tried, &set).await.context("try to make the set")?;
        ensure!(noted(&made).is_none(), "{:?}", made.annotations());
        Ok(())
    })
    .await?;
    let made = sets.create(&PostParams::default(), &set).await.context("make the set")?;
    ensure!(noted(&made).is_none(), "{:?}", made.annotations());

    let image = |image: &str| Part::Image { container: "main", image }.digest();
    let label = Part::Label { key: "app", value: NAME }.digest();
    let change = json!([
        { "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/a:2" },
    ]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
    let edited = sets.patch(NAME, &PatchParams::default(), &change).await.context("change the image")?;
    let first = [image("registry.example/a:1"), label.clone()].join(",");
    ensure!(noted(&edited) == Some(first.as_str()), "{:?}", edited.annotations());

    // By a client that leaves it out.
    let mut lean = edited;
    lean.metadata.annotations = None;
    lean.metadata.managed_fields = None;
    lean.spec.replicas = Some(2);
    let replaced = sets.replace(NAME, &PostParams::default(), &lean).await.context("replace the set")?;
    ensure!(noted(&replaced) == Some(first.as_str()), "{:?}", replaced.annotations());

    let change = json!({
        "metadata": { "annotations": { TEMPLATE_HISTORY: forged } },
        "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "registry.example/a:3" }] } } },
    });
    let edited =
        sets.patch(NAME, &PatchParams::default(), &Patch::Merge(&change)).await.context("forge it")?;
    let both = [image("registry.example/a:2"), label, image("registry.example/a:1")].join(",");
    ensure!(noted(&edited) == Some(both.as_str()), "{:?}", edited.annotations());

    // No running pod could follow it, and the set makes no others.
    let change = json!([{ "op": "add", "path": "/spec/template/spec/hostNetwork", "value": true }]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(change)?);
    match sets.patch(NAME, &PatchParams::default(), &change).await {
        Err(kube::Error::Api(status)) if status.code == 422 && status.message.contains("InPlaceOnly") => {}
        other => bail!("{other:?}"),
    }
    sets.delete(NAME, &DeleteParams::default()).await.context("remove the set")?;
    Ok(())
}

fn noted(set: &CloneSet) -> Option<&str> {
    set.annotations().get(TEMPLATE_HISTORY).map(String::as_str)
}
