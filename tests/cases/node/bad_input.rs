//! An order that cannot be followed is refused in words that name what to correct, and nothing of it is
//! guessed.

use anyhow::{Result, ensure};
use berth_tests::manifest::{CONTAINER_PRIORITY, Container, LAUNCH_PRIORITY, PodManifest};
use futures::future::try_join_all;
use serde_json::json;

use crate::case::{Case, run, waiting_message};

/// Plays the pod, expects all of `words` in what its first container shows, and that nothing of it was
/// started.
async fn refused(case: &Case, name: &str, b: Container, words: &[&str]) -> Result<()> {
    played(case, name, &case.manifest(name).container(b).container(Container::new("a").priority(2)), words)
        .await
}

async fn played(case: &Case, name: &str, manifest: &PodManifest, words: &[&str]) -> Result<()> {
    let recorder = case.record(name);
    case.create(manifest).await?;
    case.await_pod(name, "says what is wrong", |pod| {
        let message = waiting_message(pod, "b")?;
        for word in words {
            ensure!(message.contains(word), "no {word} in {message:?}");
        }
        Ok(())
    })
    .await?;
    let history = recorder.finish().await?;
    ensure!(history.instances.is_empty(), "was started all the same: {:?}", history.instances);
    Ok(())
}

#[tokio::test]
async fn priority_that_is_no_integer() -> Result<()> {
    run("priority_that_is_no_integer", async |case: &Case| {
        // The kubelet shows the reason at its next sync, 10 s later or more: the pods wait for it together.
        let values = [("word", "high"), ("fraction", "1.5"), ("empty", ""), ("space", " 1")];
        try_join_all(values.map(async |(name, value)| {
            let b = Container::new("b").env(CONTAINER_PRIORITY, value);
            refused(case, name, b, &[CONTAINER_PRIORITY, "\"b\"", &format!("{value:?}")]).await
        }))
        .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn priority_out_of_range() -> Result<()> {
    run("priority_out_of_range", async |case: &Case| {
        let values = [("above", 2_147_483_648), ("below", -2_147_483_648)];
        try_join_all(values.map(async |(name, value)| {
            let b = Container::new("b").priority(value);
            refused(case, name, b, &[CONTAINER_PRIORITY, "\"b\"", &value.to_string(), "2147483647"]).await
        }))
        .await?;
        Ok(())
    })
    .await
}

/// Its value is not known when the order of the pod has to be.
#[tokio::test]
async fn priority_from_elsewhere() -> Result<()> {
    run("priority_from_elsewhere", async |case: &Case| {
        let field = json!({ "name": CONTAINER_PRIORITY, "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } });
        refused(case, "pod", Container::new("b").env_entry(field), &[CONTAINER_PRIORITY, "\"b\"", "valueFrom"]).await
    })
    .await
}

#[tokio::test]
async fn annotation_with_another_value() -> Result<()> {
    run("annotation_with_another_value", async |case: &Case| {
        let manifest = case
            .manifest("pod")
            .annotation(LAUNCH_PRIORITY, "Unordered")
            .container(Container::new("b"))
            .container(Container::new("a"));
        played(case, "pod", &manifest, &[LAUNCH_PRIORITY, "\"Unordered\"", "\"Ordered\""]).await
    })
    .await
}
