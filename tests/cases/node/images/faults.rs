//! Something goes away in the middle of a pull: berthd, containerd, the API server. There is one result, and
//! it is told.

use anyhow::{Result, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::node::{Day, Gateway};
use berth_tests::wait::await_condition;
use berthd::agent::fault::{Point, Way};
use serde_json::{Value, json};

use super::scene::{
    PATIENCE, Wanted, behind_gateway, has_served, is_phase, is_quiet, pulls_show, registry, split,
};
use crate::case::{Case, run_alone};
use crate::faults::without_api_server;

const SIZE: usize = 8 << 20;
/// Bytes a second.
const RATE: u64 = 2 << 20;

/// A slow pull that was asked for.
async fn begin(case: &Case, name: &str) -> Result<(Wanted, Gateway, String)> {
    let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
    let (gateway, reference) = behind_gateway(case, registry, &format!("{name}:v1"), SIZE).await?;
    gateway.day(Day::Slow(RATE));
    wanted.ask(split(&reference)?.0, json!({ "tags": [{ "tag": "v1" }] })).await?;
    Ok((wanted, gateway, reference))
}

/// Waits for its success, for which no more came than the image and what may have been `lost`, and shows that
/// a berthd that starts anew leaves it at that.
async fn ends_once(
    case: &Case,
    wanted: &Wanted,
    gateway: &Gateway,
    reference: &str,
    lost: u64,
) -> Result<()> {
    let (name, _) = split(reference)?;
    let told = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
    ensure!(told.progress == Some(100) && told.message.is_none(), "{told:?}");
    ensure!(case.cri.image(reference).await?.is_some(), "not in the runtime");
    let served = gateway.served();
    let most = lost + (SIZE + SIZE / 2) as u64;
    ensure!(served < most, "{served} bytes for an image of {SIZE}, of which {lost} were lost");

    let berthd = case.node.berthd()?;
    berthd.crash().await?;
    berthd.ready().await?;
    let settled = pulls_show(case.node, reference, "Succeeded").await?;
    ensure!(settled["attempts"] == 0, "it was tried again: {settled}");
    ensure!(gateway.served() == served, "{} bytes after {served}", gateway.served());
    let again = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
    ensure!(again == told, "{again:?} instead of {told:?}");
    wanted.ask(name, Value::Null).await?;
    wanted.forgotten(name).await
}

#[tokio::test]
async fn images_berthd_killed_at_every_step() -> Result<()> {
    run_alone("images_berthd_killed", async |case: &Case| {
        let berthd = case.node.berthd()?;
        for point in Point::on(Way::Pull) {
            berthd.die_at(point.name())?;
            let (wanted, gateway, reference) = begin(case, &format!("killed-{}", point.name())).await?;
            await_condition(format!("berthd dies at {}", point.name()), PATIENCE, async || {
                ensure!(berthd.service().has_ended()?, "it lives");
                Ok(())
            })
            .await?;
            // What was pulled by then stays; what came before the manifest was known does not.
            is_quiet(&gateway).await?;
            let lost = if point == Point::Pulled { 0 } else { gateway.served() };
            berthd.service().start()?;
            berthd.ready().await?;
            ends_once(case, &wanted, &gateway, &reference, lost).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_berthd_killed_in_the_middle() -> Result<()> {
    run_alone("images_berthd_killed_in_the_middle", async |case: &Case| {
        let (wanted, gateway, reference) = begin(case, "killed").await?;
        has_served(&gateway, (SIZE / 2) as u64).await?;
        case.node.berthd()?.crash().await?;
        // It goes on where it was.
        ends_once(case, &wanted, &gateway, &reference, 0).await
    })
    .await
}

#[tokio::test]
async fn images_containerd_restarted_in_the_middle() -> Result<()> {
    run_alone("images_containerd_restarted", async |case: &Case| {
        let (wanted, gateway, reference) = begin(case, "restarted").await?;
        has_served(&gateway, (SIZE / 2) as u64).await?;
        case.node.containerd().restart().await?;
        ends_once(case, &wanted, &gateway, &reference, 0).await
    })
    .await
}

#[tokio::test]
async fn images_told_when_the_api_server_is_back() -> Result<()> {
    run_alone("images_api_server_away", async |case: &Case| {
        let (wanted, gateway, reference) = begin(case, "untold").await?;
        has_served(&gateway, (SIZE / 4) as u64).await?;
        without_api_server(case, async || pulls_show(case.node, &reference, "Succeeded").await.map(drop))
            .await?;
        ends_once(case, &wanted, &gateway, &reference, 0).await
    })
    .await
}
