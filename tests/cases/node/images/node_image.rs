//! Images that `NodeImage.spec.images` asks for, and what is told of them.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::node::NODE_NAME;
use berth_tests::wait::await_condition;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Wanted, is_phase, publish, registry, split};
use crate::case::{Case, run};

#[tokio::test]
async fn images_made_by_the_agent_belongs_to_its_node() -> Result<()> {
    run("images_made_by_the_agent", async |case: &Case| {
        let wanted = Wanted::of(case).await?;
        let object = wanted.object().await?;
        let owner = object.metadata.owner_references.unwrap_or_default();
        let owner = owner.first().context("no owner")?;
        ensure!((owner.kind.as_str(), owner.name.as_str()) == ("Node", NODE_NAME), "{owner:?}");
        let labels = object.metadata.labels.unwrap_or_default();
        ensure!(labels.contains_key("kubernetes.io/hostname"), "{labels:?}");
        ensure!(wanted.status().await?.sealing_key.is_some(), "nothing can be sealed to the node");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_plain_and_by_digest() -> Result<()> {
    run("images_plain", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let reference = publish(case, registry, "plain:v1", 100_000).await?;
        let (name, _) = split(&reference)?;
        ensure!(case.cri.image(&reference).await?.is_none(), "it is there before");
        wanted.ask(name, json!({ "tags": [{ "tag": "v1", "version": 1 }] })).await?;
        let told = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        let image = case.cri.image(&reference).await?.context("not in the runtime")?;
        let id = &image.id;
        ensure!(told.image_id == Some(format!("{name}@{id}")), "{told:?} for {id}");
        ensure!((told.progress, told.version) == (Some(100), Some(1)), "{told:?}");
        ensure!(told.start_time.is_some() && told.completion_time.is_some(), "{told:?}");

        // By its digest: the same image, by a reference that is passed on as it is.
        let digest =
            image.repo_digests.iter().find_map(|digest| digest.split_once('@')).context("no digest")?.1;
        wanted.ask(name, json!({ "tags": [{ "tag": digest }] })).await?;
        wanted.tag(name, digest, "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        ensure!(case.cri.image(&format!("{name}@{digest}")).await?.is_some(), "not by its digest");

        wanted.ask(name, Value::Null).await?;
        wanted.forgotten(name).await
    })
    .await
}

#[tokio::test]
async fn images_go_from_the_list_after_their_time() -> Result<()> {
    run("images_after_their_time", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let reference = publish(case, registry, "timed:v1", 1000).await?;
        publish(case, registry, "timed:v2", 1000).await?;
        let (name, _) = split(&reference)?;
        let timed = json!({ "tag": "v1", "pullPolicy": { "ttlSecondsAfterFinished": 3 } });
        wanted.ask(name, json!({ "tags": [timed, { "tag": "v2" }] })).await?;
        await_condition("one tag is left", PATIENCE, async || {
            let images = wanted.object().await?.spec.images;
            let tags: Vec<_> = images.get(name).into_iter().flat_map(|image| &image.tags).cloned().collect();
            ensure!(tags.iter().map(|tag| tag.tag.as_str()).eq(["v2"]), "{tags:?}");
            let status = wanted.status().await?;
            let told = &status.image_statuses.get(name).context("nothing is told")?.tags;
            ensure!(told.iter().map(|told| told.tag.as_str()).eq(["v2"]), "{told:?}");
            Ok(())
        })
        .await?;
        ensure!(case.cri.image(&reference).await?.is_some(), "the image itself went");
        wanted.ask(name, Value::Null).await
    })
    .await
}

#[tokio::test]
async fn images_that_are_missing_fail_with_the_reason() -> Result<()> {
    run("images_missing", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let name = format!("{}/missing", registry.address());
        let policy = json!({ "backoffLimit": 1 });
        wanted.ask(&name, json!({ "tags": [{ "tag": "v1", "pullPolicy": policy }] })).await?;
        let told = wanted.tag(&name, "v1", "failed", |tag| is_phase(tag, ImagePhase::Failed)).await?;
        let message = told.message.context("no reason")?;
        ensure!(message.contains("not found"), "{message}");
        // A larger version asks for it anew, and the registry has it now.
        publish(case, registry, "missing:v1", 1000).await?;
        wanted.ask(&name, json!({ "tags": [{ "tag": "v1", "version": 1 }] })).await?;
        wanted.tag(&name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        wanted.ask(&name, Value::Null).await
    })
    .await
}
