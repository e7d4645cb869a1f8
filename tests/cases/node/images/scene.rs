//! What a case about images works with: registries, a `NodeImage`, and what the runtime has.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImageTagStatus, NodeImage, NodeImageStatus};
use berth_tests::node::{NODE_NAME, Registry, images};
use berth_tests::wait::await_condition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::case::Case;

/// More than any pull here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

static REGISTRY: OnceCell<Registry> = OnceCell::const_new();
static PRIVATE: OnceCell<Registry> = OnceCell::const_new();

/// The registry of all cases, which anybody may read.
pub(super) async fn registry(case: &Case) -> Result<&'static Registry> {
    REGISTRY.get_or_try_init(|| Registry::start(case.node.run())).await
}

/// The one that asks who one is.
pub(super) async fn private_registry(case: &Case) -> Result<&'static Registry> {
    PRIVATE.get_or_try_init(|| Registry::start_private(case.node.run())).await
}

/// Makes an image of so many bytes, puts it into a registry under this name, and gives the name back.
pub(super) async fn publish(case: &Case, registry: &Registry, name: &str, bytes: usize) -> Result<String> {
    let archive = images::sized(case.node.run(), name, bytes).await?;
    registry.push(&archive, name).await
}

/// The `NodeImage` of the node.
pub(super) struct Wanted {
    api: Api<NodeImage>,
}

impl Wanted {
    pub(super) async fn of(case: &Case) -> Result<Self> {
        let api: Api<NodeImage> = Api::all(case.node.client().await?);
        await_condition("the agent has made its NodeImage", PATIENCE, async || {
            api.get(NODE_NAME).await.map(drop).context("NodeImage")
        })
        .await?;
        Ok(Self { api })
    }

    pub(super) async fn object(&self) -> Result<NodeImage> {
        self.api.get(NODE_NAME).await.context("get NodeImage")
    }

    pub(super) async fn status(&self) -> Result<NodeImageStatus> {
        Ok(self.object().await?.status.unwrap_or_default())
    }

    /// Asks for tags of an image; what was asked of it before is replaced. No tags: it is not asked for any more.
    pub(super) async fn ask(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "images": { name: spec } } }));
        self.api.patch(NODE_NAME, &PatchParams::default(), &patch).await.context("patch NodeImage")?;
        Ok(())
    }

    /// Waits until what is told of a tag is as the condition says.
    pub(super) async fn tag(
        &self,
        name: &str,
        tag: &str,
        what: &str,
        condition: impl Fn(&ImageTagStatus) -> Result<()>,
    ) -> Result<ImageTagStatus> {
        await_condition(format!("{name}:{tag}: {what}"), PATIENCE, async || {
            let status = self.status().await?;
            let tags = &status.image_statuses.get(name).context("no status of the image")?.tags;
            let status = tags.iter().find(|told| told.tag == tag).context("no status of the tag")?;
            condition(status)?;
            Ok(status.clone())
        })
        .await
    }

    /// Waits until nothing is told of an image any more.
    pub(super) async fn forgotten(&self, name: &str) -> Result<()> {
        await_condition(format!("nothing is told of {name} any more"), PATIENCE, async || {
            let status = self.status().await?;
            ensure!(!status.image_statuses.contains_key(name), "{:?}", status.image_statuses);
            Ok(())
        })
        .await
    }
}

/// Splits `host:port/name:tag`.
pub(super) fn split(reference: &str) -> Result<(&str, &str)> {
    reference.rsplit_once(':').context("a reference with a tag")
}

pub(super) fn is_phase(status: &ImageTagStatus, phase: berth_proto::crd::ImagePhase) -> Result<()> {
    ensure!(status.phase == phase, "{status:?}");
    Ok(())
}
