//! Ordered in-place updates of running pods: the side that does what `berth_policy::in_place_update` decides.
//!
//! ```text
//!   ContainerUpdateRequests ── requests ──┐                        ┌── write: patches of the pod, its readiness gate
//!   NodePodUpdate ──────────── mailbox ───┼── desk ── drive ───────┼── recreates: restarts for env, by the agent's marks
//!   berthctl update ────────── submitted ─┘    ^        |  ^       └── crate::node_image: images, before anything is stopped
//!                                              |        |  |
//!                                 report ──────┴────────'  '── see, observe: pods (the pod watch), the runtime, images
//! ```
//!
//! Nothing here decides about a pod. What it takes to go on after a crash is in the pod (its images, its metadata, its
//! annotation) and in the status of the requests; nothing else is kept.
//!
//! - `asked`, `report`: between objects and the policy's words. `state`: the annotation. `env`: hashes.
//! - `meta`: an annotation for others. `jobs`: the questions and writes, one at a time a pod.
//! - `submit`: the way in for `berthctl update`. `keys`: Kubernetes' rules for metadata.

mod asked;
mod desk;
mod drive;
mod env;
mod jobs;
mod keys;
mod mailbox;
mod meta;
mod observe;
mod pods;
mod recreates;
mod report;
mod requests;
mod see;
mod state;
mod submit;
mod submitted;
mod write;

use std::{sync::Arc, time::Duration};

use berth_policy::{Wish, WishId, in_place_update::UpdateSource};
use berth_proto::image::Reference;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    desk::Desk, drive::Driver, mailbox::Mailbox, requests::Requests, submitted::Submitted, write::Writer,
};
pub use self::{pods::Pods, submit::SubmitError};
use crate::{
    agent::Agent,
    cluster::{Cluster, features, identity::IdentityState},
    config::{Configuration, Place},
    node_image::{self, Keeper},
    runtime::Runtime,
};

/// The updates of this node.
#[derive(Clone, Debug)]
pub struct Updates(Arc<Parts>);

/// Who is needed for them.
#[derive(Debug)]
struct Parts {
    agent: Arc<Agent>,
    keeper: Arc<Keeper>,
    runtime: Runtime,
    pods: Arc<Pods>,
    desk: Desk,
    requests: Requests,
    mailbox: Mailbox,
    submitted: Submitted,
    writer: Writer,
    identity: watch::Receiver<IdentityState>,
    /// How long an image is kept for its first use.
    pin: Option<Duration>,
    /// All requests are known, and what follows from them.
    ready: watch::Sender<bool>,
}

impl Updates {
    /// Nothing is asked before [`Updates::run`].
    pub fn new(
        agent: Arc<Agent>,
        keeper: Arc<Keeper>,
        runtime: Runtime,
        cluster: &Cluster,
        config: &Configuration,
    ) -> Self {
        let (connection, node) = (cluster.connection().clone(), cluster.node().to_owned());
        Self(Arc::new(Parts {
            agent,
            keeper,
            runtime,
            pods: Arc::new(Pods::new(config.path == Place::Beside)),
            desk: Desk::default(),
            requests: Requests::new(connection.clone(), node.clone()),
            mailbox: Mailbox::new(connection.clone(), node.clone()),
            submitted: Submitted::new(&config.state_dir),
            writer: Writer { connection, node, metrics: cluster.metrics().clone() },
            identity: cluster.identity(),
            pin: Some(config.images.pin_for.0).filter(|pin| !pin.is_zero()),
            ready: watch::Sender::new(false),
        }))
    }

    /// Where the pod watch tells what it shows.
    pub fn pods(&self) -> Arc<Pods> {
        self.0.pods.clone()
    }

    /// Whether all requests are known, now and later.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.0.ready.subscribe()
    }

    /// Follows what is asked for and does it, until the shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let parts = self.0;
        parts.submitted.load(&parts.desk).await;
        let sources = async {
            tokio::join!(parts.requests.follow(&parts.desk), parts.follow_mailbox());
        };
        let driver = Driver::new(parts.clone());
        tokio::join!(driver.run(shutdown.clone()), async {
            // Cancel-safe: the next process lists anew.
            shutdown.run_until_cancelled(sources).await;
        });
    }
}

impl Parts {
    /// Follows the mailbox, and keeps annotations, if that can be done at all.
    async fn follow_mailbox(&self) {
        let mut identity = self.identity.clone();
        // An error is the end of the run.
        let known = identity.wait_for(|state| matches!(state, IdentityState::Known(_))).await.is_ok();
        if known && self.forbidden().is_none() {
            tokio::join!(self.mailbox.follow(&self.desk), self.keep_meta());
        } else {
            self.desk.listed(UpdateSource::Mailbox, Vec::new());
        }
    }

    /// Why the agent may not write to pods; `None` as long as nothing says so.
    fn forbidden(&self) -> Option<String> {
        match &*self.identity.borrow() {
            IdentityState::Known(identity) => {
                let mut all = identity.features.iter();
                all.find(|feature| feature.name == features::UPDATES).and_then(|feature| feature.off.clone())
            }
            IdentityState::Unknown | IdentityState::Failed(_) => None,
        }
    }

    /// A wish for an image; `None` for a reference that is none, which the API server would have refused.
    fn wish(&self, id: WishId, image: &str) -> Option<Wish> {
        let reference: Reference = image.parse().ok()?;
        Some(Wish { pin: self.pin, ..node_image::plain(id, &reference) })
    }
}
