//! One image is pulled once, whoever wants it first.

use std::time::Duration;

use anyhow::{Result, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::manifest::Container;
use berth_tests::node::{Day, Gateway};
use berth_tests::wait::await_condition;
use serde_json::{Value, json};

use super::scene::{PATIENCE, Wanted, is_phase, publish, registry, split};
use crate::case::{Case, run};

const SIZE: usize = 4 << 20;

#[tokio::test]
async fn images_that_the_agent_pulls_are_not_pulled_by_the_kubelet_too() -> Result<()> {
    run("images_joined", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        publish(case, registry, "joined:v1", SIZE).await?;
        let gateway = Gateway::open(registry.address()).await?;
        gateway.day(Day::Slow(2 << 20));
        let reference = gateway.reference("joined:v1");
        let (name, _) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        wanted.tag(name, "v1", "is being pulled", |tag| is_phase(tag, ImagePhase::Pulling)).await?;
        case.create(&case.manifest("pod").container(Container::new("main").image(&reference))).await?;
        case.await_ready("pod").await?;
        wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        let served = gateway.served();
        ensure!(served < (SIZE + SIZE / 2) as u64, "{served} bytes for an image of {SIZE}");
        let metrics = case.node.berthd()?.metrics().await?;
        ensure!(metrics.contains("berth_shim_calls_total{method=\"PullImage\"}"), "{metrics}");
        wanted.ask(name, Value::Null).await
    })
    .await
}

#[tokio::test]
async fn images_that_the_kubelet_pulls_are_waited_for() -> Result<()> {
    run("images_waited_for", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        publish(case, registry, "waited:v1", SIZE).await?;
        let gateway = Gateway::open(registry.address()).await?;
        gateway.day(Day::Slow(2 << 20));
        let reference = gateway.reference("waited:v1");
        let (name, _) = split(&reference)?;
        case.create(&case.manifest("pod").container(Container::new("main").image(&reference))).await?;
        await_condition("the kubelet pulls", PATIENCE, async || {
            ensure!(gateway.served() > (SIZE / 8) as u64, "{} bytes", gateway.served());
            Ok(())
        })
        .await?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        let told = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        ensure!(told.progress == Some(100), "{told:?}");
        case.await_ready("pod").await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let served = gateway.served();
        ensure!(served < (SIZE + SIZE / 2) as u64, "{served} bytes for an image of {SIZE}");
        wanted.ask(name, Value::Null).await
    })
    .await
}
