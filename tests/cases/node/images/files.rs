//! `NodeImage`s that are files of the desired-state directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePhase, NodeImageStatus};
use berth_tests::node::Node;
use berth_tests::wait::await_condition;
use serde_json::Value;

use super::scene::{PATIENCE, behind_gateway, is_phase, publish, pulls_show, registry, split};
use crate::case::{Case, run, run_alone};

/// Puts a file into the directory that asks for these; the file, and that of its status.
pub(super) fn put(node: &Node, name: &str, images: &str) -> Result<(PathBuf, PathBuf)> {
    let file = node.berthd()?.desired_dir().join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\nmetadata:\n  name: {name}\nspec:\n  images:\n{images}"
    );
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok((file.clone(), PathBuf::from(format!("{}.status.yaml", file.display()))))
}

pub(super) fn entry(image: &str, tag: &str) -> String {
    format!("    \"{image}\":\n      tags: [{{ tag: {tag} }}]\n")
}

/// Waits until the file of a status is as the condition says.
async fn told(
    file: &Path,
    what: &str,
    condition: impl Fn(&NodeImageStatus) -> Result<()>,
) -> Result<NodeImageStatus> {
    await_condition(format!("{}: {what}", file.display()), PATIENCE, async || {
        let object: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
        let status: NodeImageStatus = serde_json::from_value(object["status"].clone())?;
        condition(&status).with_context(|| object.to_string())?;
        Ok(status)
    })
    .await
}

/// Accepts a status that tells of this tag alone, and that it is there.
fn only(status: &NodeImageStatus, image: &str, tag: &str) -> Result<()> {
    let tags = &status.image_statuses.get(image).context("no status of the image")?.tags;
    let [told] = tags.as_slice() else { anyhow::bail!("{tags:?}") };
    ensure!(told.tag == tag, "{told:?}");
    is_phase(told, ImagePhase::Succeeded)
}

fn accepted(status: &NodeImageStatus) -> Result<(bool, &str)> {
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Accepted");
    let condition = condition.context("no condition")?;
    Ok((condition.status == "True", &condition.message))
}

#[tokio::test]
async fn images_of_a_file() -> Result<()> {
    run("images_of_a_file", async |case: &Case| {
        let registry = registry(case).await?;
        for tag in ["v1", "v2"] {
            publish(case, registry, &format!("file:{tag}"), 1000).await?;
        }
        let image = format!("{}/file", registry.address());
        let (file, status) = put(case.node, "images", &entry(&image, "v1"))?;
        let first = told(&status, "v1 is there", |status| only(status, &image, "v1")).await?;
        ensure!(accepted(&first)?.0 && first.succeeded == Some(1), "{first:?}");
        ensure!(case.cri.image(&format!("{image}:v1")).await?.is_some(), "not in the runtime");

        put(case.node, "images", &entry(&image, "v2"))?;
        told(&status, "v2 is there", |status| only(status, &image, "v2")).await?;
        ensure!(case.cri.image(&format!("{image}:v2")).await?.is_some(), "not in the runtime");

        fs::remove_file(&file)?;
        await_condition("the status is gone", PATIENCE, async || {
            ensure!(!status.exists(), "it is still there");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn images_of_bad_files() -> Result<()> {
    run("images_of_bad_files", async |case: &Case| {
        let registry = registry(case).await?;
        let reference = publish(case, registry, "fine:v1", 1000).await?;
        let (image, _) = split(&reference)?;
        let half = entry("Upper/Case", "v1") + &entry(image, "v1");
        let unknown = format!("    \"{image}\":\n      tags: [{{ tag: v1, policy: Always }}]\n");
        let (half, half_status) = put(case.node, "half-bad", &half)?;
        let (bad, bad_status) = put(case.node, "bad", &unknown)?;

        let status = told(&half_status, "what is fine is there", |status| only(status, image, "v1")).await?;
        let (fine, message) = accepted(&status)?;
        ensure!(!fine && message.contains("spec.images[\"Upper/Case\"]"), "{message}");
        let status = told(&bad_status, "is not accepted", |status| {
            ensure!(!accepted(status)?.0, "it is accepted");
            Ok(())
        })
        .await?;
        let (_, message) = accepted(&status)?;
        ensure!(message.contains("policy"), "{message}");
        ensure!(status.image_statuses.is_empty(), "{status:?}");
        for file in [half, bad] {
            fs::remove_file(file)?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_of_a_file_are_not_pulled_again_by_the_next_berthd() -> Result<()> {
    run_alone("images_of_a_file_once", async |case: &Case| {
        let registry = registry(case).await?;
        let (gateway, reference) = behind_gateway(case, registry, "file-once:v1", 1000).await?;
        let (image, tag) = split(&reference)?;
        let (file, status) = put(case.node, "once", &entry(image, tag))?;
        let before = told(&status, "is there", |status| only(status, image, tag)).await?;
        let served = gateway.served();
        // Even if somebody removed it meanwhile: it was asked for once.
        case.node.containerd().ctr(&["images", "rm", "--sync", &reference]).await?;
        case.node.berthd()?.crash().await?;
        let settled = pulls_show(case.node, &reference, "Succeeded").await?;
        ensure!(settled["attempts"] == 0, "{settled}");
        ensure!(gateway.served() == served, "{} bytes after {served}", gateway.served());
        let after = told(&status, "is there", |status| only(status, image, tag)).await?;
        ensure!(after == before, "{after:?} instead of {before:?}");
        fs::remove_file(&file)?;
        Ok(())
    })
    .await
}
