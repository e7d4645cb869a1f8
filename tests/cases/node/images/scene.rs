//! Scene of a case about images: registries, a `NodeImage`, and what the runtime has.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::{ImageTagStatus, NodeImage, NodeImageStatus, PullStatus};
use berth_tests::node::{Gateway, NODE_NAME, Node, Registry, images};
use berth_tests::wait::await_condition;
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use crate::case::Case;

/// More than any pull here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

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

/// A way of one's own to a registry, with an image of so many bytes behind it: the way, and the reference by
/// it.
pub(super) async fn behind_gateway(
    case: &Case,
    registry: &Registry,
    name: &str,
    bytes: usize,
) -> Result<(Gateway, String)> {
    publish(case, registry, name, bytes).await?;
    let gateway = Gateway::open(registry.address()).await?;
    let reference = gateway.reference(name);
    Ok((gateway, reference))
}

/// Waits until so many bytes have come.
pub(super) async fn has_served(gateway: &Gateway, bytes: u64) -> Result<()> {
    await_condition(format!("{bytes} bytes have come"), PATIENCE, async || {
        ensure!(gateway.served() >= bytes, "{}", gateway.served());
        Ok(())
    })
    .await
}

/// Waits until nothing comes any more.
pub(super) async fn is_quiet(gateway: &Gateway) -> Result<()> {
    await_condition("nothing comes any more", PATIENCE, async || {
        let before = gateway.served();
        tokio::time::sleep(Duration::from_secs(1)).await;
        ensure!(gateway.served() == before, "{before} bytes, and more");
        Ok(())
    })
    .await
}

/// Returns the pulls that `berthctl pulls` shows for an image.
pub(super) async fn pulls(node: &Node, reference: &str) -> Result<Vec<Value>> {
    let shown = node.berthd()?.ctl(&["pulls", reference, "-o", "json"]).await?;
    let shown: Value = serde_json::from_str(&shown).with_context(|| shown.clone())?;
    shown["pulls"].as_array().cloned().with_context(|| shown.to_string())
}

/// Waits until `berthctl pulls` shows one wish for an image, in this phase.
pub(super) async fn pulls_show(node: &Node, reference: &str, phase: &str) -> Result<Value> {
    await_condition(format!("berthctl pulls: {reference} {phase}"), PATIENCE, async || {
        let pulls = pulls(node, reference).await?;
        let [pull] = pulls.as_slice() else { bail!("{pulls:?}") };
        ensure!(pull["phase"] == phase, "{pull}");
        Ok(pull.clone())
    })
    .await
}

/// Everything that a `NodeImage` has said since, and when it was heard.
pub(super) struct Story {
    versions: Arc<Mutex<Vec<(Instant, NodeImageStatus)>>>,
    listening: AbortHandle,
}

impl Story {
    pub(super) fn so_far(&self) -> Vec<(Instant, NodeImageStatus)> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The `NodeImage` of the node.
pub(crate) struct Wanted {
    api: Api<NodeImage>,
}

impl Wanted {
    pub(crate) async fn of(case: &Case) -> Result<Self> {
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

    /// Listens from now on.
    pub(super) fn listen(&self) -> Story {
        let versions = Arc::<Mutex<Vec<_>>>::default();
        let (api, heard) = (self.api.clone(), versions.clone());
        let listening = tokio::spawn(async move {
            let own = watcher::Config::default().fields(&format!("metadata.name={NODE_NAME}"));
            let mut events = pin!(watcher::watcher(api, own));
            while let Some(event) = events.next().await {
                if let Ok(Event::InitApply(object) | Event::Apply(object)) = event {
                    let version = (Instant::now(), object.status.unwrap_or_default());
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(version);
                }
            }
        });
        Story { versions, listening: listening.abort_handle() }
    }

    /// Desires images as the manager does; what it desired before is replaced.
    pub(super) async fn desire(&self, images: Value) -> Result<()> {
        let object = json!({
            "apiVersion": NodeImage::api_version(&()), "kind": NodeImage::kind(&()),
            "metadata": { "name": NODE_NAME }, "status": { "desiredImages": images },
        });
        let params = PatchParams::apply("berth-manager").force();
        self.api.patch_status(NODE_NAME, &params, &Patch::Apply(object)).await.context("desire images")?;
        Ok(())
    }

    /// Waits until what is told of one of the manager's wishes is as the condition says.
    pub(super) async fn pull(
        &self,
        uid: &str,
        what: &str,
        condition: impl Fn(&PullStatus) -> Result<()>,
    ) -> Result<PullStatus> {
        await_condition(format!("wish {uid}: {what}"), PATIENCE, async || {
            let status = self.status().await?;
            let status = status.pulls.iter().find(|told| told.uid == uid).context("no answer to the wish")?;
            condition(status)?;
            Ok(status.clone())
        })
        .await
    }

    /// Asks for tags of an image; what was asked of it before is replaced. No tags: it is not asked for any
    /// more.
    pub(crate) async fn ask(&self, name: &str, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "images": { name: spec } } }));
        self.api.patch(NODE_NAME, &PatchParams::default(), &patch).await.context("patch NodeImage")?;
        Ok(())
    }

    /// Waits until what is told of a tag is as the condition says.
    pub(crate) async fn tag(
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
pub(crate) fn split(reference: &str) -> Result<(&str, &str)> {
    reference.rsplit_once(':').context("a reference with a tag")
}

pub(crate) fn is_phase(status: &ImageTagStatus, phase: berth_proto::crd::ImagePhase) -> Result<()> {
    ensure!(status.phase == phase, "{status:?}");
    Ok(())
}
