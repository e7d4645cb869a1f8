//! Wishes that are renewed, and how many pulls go on at once.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use berth_proto::crd::{ImagePhase, NodeImageStatus};
use berth_tests::node::{Day, Gateway};
use berth_tests::wait::await_condition;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Wanted, behind_gateway, is_phase, publish, registry, split};
use crate::case::{Case, run, run_alone};

#[tokio::test]
async fn images_are_pulled_again_for_a_larger_version_if_always() -> Result<()> {
    run("images_again", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "again:v1", 1000).await?;
        let (name, _) = split(&reference)?;
        let ask = async |version: i64, policy: &str| {
            let tag = json!({ "tag": "v1", "version": version, "imagePullPolicy": policy });
            wanted.ask(name, json!({ "tags": [tag] })).await?;
            let answered = |tag: &_| {
                is_phase(tag, ImagePhase::Succeeded)?;
                ensure!(tag.version == Some(version), "{tag:?}");
                Ok(())
            };
            wanted.tag(name, "v1", "is there", answered).await?;
            anyhow::Ok(gateway.served())
        };
        let first = ask(1, "Always").await?;
        let again = ask(2, "Always").await?;
        ensure!(again > first, "version 2 did not ask the registry");
        let not_again = ask(3, "IfNotPresent").await?;
        ensure!(not_again == again, "version 3 is there, and was asked for");

        // Always means what the registry has now.
        publish(case, registry, "again:v1", 2000).await?;
        let before = case.cri.image(&reference).await?.map(|image| image.id);
        ask(4, "Always").await?;
        let after = case.cri.image(&reference).await?.map(|image| image.id);
        ensure!(after.is_some() && after != before, "the image of before: {before:?}");
        wanted.ask(name, Value::Null).await
    })
    .await
}

/// `images.parallelPullsPerRegistry`.
const AT_ONCE: usize = 2;

/// Alone, because the pulls of others count for the limit of the node.
#[tokio::test]
async fn images_of_one_registry_take_turns() -> Result<()> {
    run_alone("images_take_turns", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let gateway = Gateway::open(registry.address()).await?;
        // None ends before all are asked for.
        gateway.day(Day::Slow(16 << 10));
        let mut names = Vec::new();
        for number in 0..4 {
            let name = format!("turn-{number}");
            publish(case, registry, &format!("{name}:v1"), 1 << 20).await?;
            names.push(gateway.reference(&name));
        }
        let story = wanted.listen();
        for name in &names {
            wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        }
        let pulling = |status: &NodeImageStatus| {
            let ours = names.iter().filter_map(|name| status.image_statuses.get(name));
            ours.flat_map(|image| &image.tags).filter(|tag| tag.phase == ImagePhase::Pulling).count()
        };
        await_condition("two are being pulled", PATIENCE, async || {
            let status = wanted.status().await?;
            ensure!(pulling(&status) == AT_ONCE, "{:?}", status.image_statuses);
            Ok(())
        })
        .await?;
        gateway.day(Day::Slow(1 << 20));
        for name in &names {
            wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        }
        let counts: BTreeSet<_> = story.so_far().iter().map(|(_, status)| pulling(status)).collect();
        ensure!(counts.last() == Some(&AT_ONCE), "{counts:?} at once");
        for name in &names {
            wanted.ask(name, Value::Null).await?;
        }
        Ok(())
    })
    .await
}
