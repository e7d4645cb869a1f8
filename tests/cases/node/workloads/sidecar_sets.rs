//! Revisions of SidecarSets as ControllerRevisions.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::SidecarSet;
use berth_sidecarset::{Edit, Hashes, Revisions, SET_LABEL, fields_of};
use berth_tests::wait::await_condition;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Sheet;
use crate::case::PATIENCE;

/// Namespace that the program is told.
pub(super) const NAMESPACE: &str = "kruise-system";

/// Status of a set after these images of its sidecar, of which the last two are kept.
fn status(images: &[&str]) -> Result<Value> {
    let mut revisions = Revisions::default();
    let hashes = Hashes { hash: "h".into(), without_image: "w".into() };
    for (at, image) in images.iter().enumerate() {
        let spec = json!({ "containers": [{ "name": "log", "image": image }] });
        let fields = fields_of(spec.as_object().context("a spec")?);
        let version = at.to_string();
        let edit = Edit { set: "filed", fields: &fields, hashes: &hashes, custom_version: Some(&version) };
        revisions.register(&edit, Timestamp::now());
    }
    revisions.truncate(2, &BTreeSet::new());
    let recorded = revisions.write(&BTreeSet::new())?;
    Ok(json!({ "status": { "revisions": recorded.revisions, "history": recorded.history } }))
}

/// Files follow the status, and one that somebody deletes comes back. The policy lets all of it through.
#[tokio::test]
async fn revisions_of_sidecarsets_are_filed() -> Result<()> {
    let sheet = Sheet::take(NAMESPACE).await?;
    let sets: Api<SidecarSet> = Api::all(sheet.client.clone());
    let filed: Api<ControllerRevision> = Api::namespaced(sheet.client.clone(), NAMESPACE);
    let set: SidecarSet = serde_json::from_value(json!({
        "metadata": { "name": "filed", "labels": { "team": "a" } },
        "spec": {
            "selector": { "matchLabels": { "app": "nowhere" } },
            "containers": [{ "name": "log", "image": "log:1" }],
        },
    }))?;
    let set = sets.create(&PostParams::default(), &set).await?;
    let is = async |wanted: &[(i64, &str)]| {
        await_condition(format!("revisions {wanted:?} are filed"), PATIENCE, async || {
            let selected = ListParams::default().labels(&format!("{SET_LABEL}=filed"));
            let mut there = filed.list(&selected).await?.items;
            there.sort_by_key(|one| one.revision);
            let image = |one: &ControllerRevision| {
                let data = one.data.as_ref()?.0.pointer("/spec/containers/0/image")?;
                data.as_str().map(str::to_owned)
            };
            let found: Vec<_> =
                there.iter().map(|one| (one.revision, image(one).unwrap_or_default())).collect();
            let found: Vec<_> = found.iter().map(|(number, image)| (*number, image.as_str())).collect();
            ensure!(found == wanted, "{there:?}");
            Ok(there)
        })
        .await
    };
    let write = async |images: &[&str]| {
        let patch = Patch::Merge(status(images)?);
        anyhow::Ok(sets.patch_status("filed", &PatchParams::default(), &patch).await?)
    };
    write(&["log:1", "log:2"]).await?;
    let first = is(&[(1, "log:1"), (2, "log:2")]).await?;
    let [one, _] = &first[..] else { anyhow::bail!("{first:?}") };
    ensure!(one.labels().get("team").is_some_and(|team| team == "a"), "{one:?}");
    ensure!(
        one.owner_references().iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref()),
        "{one:?}"
    );
    // The first one again: it keeps its name.
    write(&["log:1", "log:2", "log:1"]).await?;
    let again = is(&[(2, "log:2"), (3, "log:1")]).await?;
    ensure!(again.iter().any(|later| later.name_any() == one.name_any()), "{again:?}");
    filed.delete(&one.name_any(), &DeleteParams::default()).await?;
    write(&["log:1", "log:2", "log:1", "log:4"]).await?;
    is(&[(3, "log:1"), (4, "log:4")]).await?;
    sets.delete("filed", &DeleteParams::default()).await?;
    Ok(())
}
