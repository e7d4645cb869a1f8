//! Registries on bad days, wishes that are taken back, and deadlines.

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePhase, ImageTagStatus};
use berth_tests::node::Day;
use berth_tests::wait::await_condition;
use serde_json::{Value, json};

use super::scene::{
    PATIENCE, Wanted, behind_gateway, has_served, is_phase, is_quiet, pulls, registry, split,
};
use crate::case::{Case, run};

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn images_come_when_the_registry_is_back() -> Result<()> {
    run("images_registry_away", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "away:v1", 1000).await?;
        gateway.day(Day::Away);
        let (name, _) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1", "pullPolicy": { "backoffLimit": 9 } }] })).await?;
        let reason = format!("/v2/{}/manifests/v1", "away");
        wanted
            .tag(name, "v1", "waits, and says what for", |tag| {
                is_phase(tag, ImagePhase::Waiting)?;
                let message = tag.message.as_deref().context("no message")?;
                ensure!(message.starts_with("attempt ") && message.contains(&reason), "{message}");
                Ok(())
            })
            .await?;
        gateway.day(Day::Good);
        let told = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        ensure!(told.message.is_none(), "{told:?}");
        wanted.ask(name, Value::Null).await
    })
    .await
}

#[tokio::test]
async fn images_go_on_after_a_silence() -> Result<()> {
    const SIZE: u64 = 6 * MIB;
    run("images_registry_silent", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "silent:v1", SIZE as usize).await?;
        gateway.day(Day::Silent(4 * MIB));
        let (name, _) = split(&reference)?;
        // Time enough for what comes before the silence.
        let policy = json!({ "timeoutSeconds": 15 });
        let story = wanted.listen();
        wanted.ask(name, json!({ "tags": [{ "tag": "v1", "pullPolicy": policy }] })).await?;
        // It waits for a second or so: who looks now and then may miss that.
        await_condition("it waits after the first attempt", PATIENCE, async || {
            let versions = story.so_far();
            let images = versions.iter().filter_map(|(_, status)| status.image_statuses.get(name));
            let waits = |tag: &ImageTagStatus| {
                let expected = "attempt 1 of 4 failed: no image within 15 s";
                tag.phase == ImagePhase::Waiting && tag.message.as_deref() == Some(expected)
            };
            ensure!(images.flat_map(|image| &image.tags).any(waits), "{:?}", versions.last());
            Ok(())
        })
        .await?;
        let first = gateway.served();
        ensure!(first > 3 * MIB, "only {first} bytes came before the silence");
        gateway.day(Day::Good);
        wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        // What came before the silence did not come again: 3 MiB are for busybox and for what was on its way.
        let served = gateway.served();
        ensure!(served < SIZE + 3 * MIB, "{served} bytes for an image of {SIZE}, {first} before the silence");
        wanted.ask(name, Value::Null).await
    })
    .await
}

#[tokio::test]
async fn images_that_do_not_come_in_time_are_given_up() -> Result<()> {
    run("images_deadline", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "deadline:v1", 8 << 20).await?;
        gateway.day(Day::Slow(MIB / 4));
        let (name, _) = split(&reference)?;
        let policy = json!({ "activeDeadlineSeconds": 2 });
        wanted.ask(name, json!({ "tags": [{ "tag": "v1", "pullPolicy": policy }] })).await?;
        let told = wanted.tag(name, "v1", "is given up", |tag| is_phase(tag, ImagePhase::Failed)).await?;
        let message = told.message.as_deref().unwrap_or_default();
        ensure!(message.contains("activeDeadlineSeconds"), "{told:?}");
        ensure!(told.completion_time.is_some(), "{told:?}");
        is_quiet(&gateway).await?;
        let served = gateway.served();
        ensure!(served < 6 * MIB, "it was pulled on: {served} bytes");
        ensure!(case.cri.image(&reference).await?.is_none(), "it is there all the same");
        wanted.ask(name, Value::Null).await
    })
    .await
}

#[tokio::test]
async fn images_that_nobody_wants_any_more_are_not_pulled_on() -> Result<()> {
    run("images_withdrawn", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "withdrawn:v1", 8 << 20).await?;
        gateway.day(Day::Slow(MIB));
        let (name, _) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        has_served(&gateway, MIB).await?;
        // What is left would take a minute, and the agent takes less to hear of it.
        gateway.day(Day::Slow(MIB / 8));
        wanted.ask(name, Value::Null).await?;
        wanted.forgotten(name).await?;
        is_quiet(&gateway).await?;
        let served = gateway.served();
        ensure!(served < 6 * MIB, "it was pulled on: {served} bytes");
        ensure!(case.cri.image(&reference).await?.is_none(), "it is there all the same");
        ensure!(pulls(case.node, &reference).await?.is_empty(), "somebody wants it still");
        wanted.forgotten(name).await
    })
    .await
}
