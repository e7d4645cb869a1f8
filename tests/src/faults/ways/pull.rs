//! An image that the node is to have is pulled from a slow registry, and what came of it is told.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePhase, NodeImage};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::bed::Bed;
use super::super::matrix::Row;
use super::super::site::PATIENCE;
use crate::node::{Day, Gateway, NODE_NAME, Registry, images};
use crate::wait::await_condition;

const SIZE: usize = 1 << 20;
/// Bytes a second: so slowly that berthd follows it.
const RATE: u64 = 1 << 20;
const TAG: &str = "v1";

/// The registry of all cells.
pub(super) struct Pulls {
    registry: Registry,
    wanted: Api<NodeImage>,
}

impl Pulls {
    pub(super) async fn start(bed: &Bed) -> Result<Self> {
        let registry = Registry::start(bed.node.run()).await?;
        Ok(Self { registry, wanted: Api::all(bed.client.clone()) })
    }

    pub(super) async fn play(&self, bed: &Bed, row: &Row) -> Result<Instant> {
        let name = row.object("pull");
        let tagged = format!("{name}:{TAG}");
        let archive = images::sized(bed.node.run(), &tagged, SIZE).await?;
        self.registry.push(&archive, &tagged).await?;
        let gateway = Gateway::open(self.registry.address()).await?;
        gateway.day(Day::Slow(RATE));
        bed.arm(row)?;
        self.ask(&gateway.reference(&name), json!({ "tags": [{ "tag": TAG }] })).await?;
        let healed = bed.strike(row).await?;

        let (image, reference) = (gateway.reference(&name), gateway.reference(&tagged));
        await_condition(format!("{reference} is there, and it is told"), PATIENCE, async || {
            let status = self.wanted.get(NODE_NAME).await?.status.unwrap_or_default();
            let tags = &status.image_statuses.get(&image).context("no status of the image")?.tags;
            let told = tags.iter().find(|told| told.tag == TAG).context("no status of the tag")?;
            ensure!(told.phase == ImagePhase::Succeeded && told.progress == Some(100), "{told:?}");
            Ok(())
        })
        .await?;
        ensure!(bed.site.cri.image(&reference).await?.is_some(), "told, and not in the runtime");
        // Pulled once: what was lost on the way is not more than what there is.
        let served = gateway.served();
        ensure!(served < 3 * SIZE as u64, "{served} bytes for an image of {SIZE}");
        self.ask(&image, Value::Null).await?;
        await_condition("nothing is told of it any more", PATIENCE, async || {
            let status = self.wanted.get(NODE_NAME).await?.status.unwrap_or_default();
            ensure!(!status.image_statuses.contains_key(&image), "{:?}", status.image_statuses);
            Ok(healed)
        })
        .await
    }

    async fn ask(&self, image: &str, entry: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "images": { image: entry } } }));
        let asked = self.wanted.patch(NODE_NAME, &PatchParams::default(), &patch).await;
        asked.context("ask for an image").map(drop)
    }
}
