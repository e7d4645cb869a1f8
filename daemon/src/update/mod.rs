//! Ordered in-place updates of running pods: the side that carries out what
//! `berth_policy::in_place_update::Updates` decides.
//!
//! ```text
//!   ContainerUpdateRequests ── requests ────────┐                         ┌── write: patches of the pod, its readiness gate
//!   NodePodUpdate ──────────── node_pod_update ─┤                         ├── agent: restarts for env, exited instances, env
//!   berthctl update ────────── admin_requests ──┼── shared ── reconciler ─┼── crate::images::node_image: images
//!   the pod watch ──────────── pods ────────────┤ (policy::Updates) effects└── requests, node_pod_update,
//!   the node, images ───────── snapshot ────────┘                             admin_requests: report
//! ```
//!
//! All that is decided and remembered between events is the policy's; here facts are put into its words, and
//! its actions are carried out. What it takes to go on after a crash is in the pod (its images, its metadata,
//! its annotation) and in the status of the requests.
//!
//! - `convert`, `report`: between objects and the policy's words. `state`: the annotation. `env`: hashes.
//! - `runtime_meta`: an annotation for others. `readiness_gate`: where no update goes on. `work_queue`: the
//!   pods of both.
//! - `upgradable`: words of SidecarSets in a condition of pods.
//! - `submit`: the way in for `berthctl update`. `keys`: Kubernetes' rules for metadata.
//! - `simulated`: the same without a node, for benchmarks.

mod admin_requests;
mod convert;
mod effects;
mod env;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod keys;
mod node_pod_update;
mod owners;
mod pods;
mod readiness_gate;
mod reconciler;
mod report;
mod requests;
mod round_robin;
mod runtime_meta;
mod shared;
mod sidecar_sets;
mod simulated;
mod snapshot;
mod state;
mod submit;
mod upgradable;
mod words;
mod work_queue;
mod workloads;
mod write;

use std::{sync::Arc, time::Duration};

use berth_policy::{Path, PodUid, Wish, WishId, WishSource, in_place_update::UpdateSource};
use berth_proto::image::Reference;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

pub use self::simulated::{SimulatedAgent, SimulatedStep};
use self::{
    admin_requests::AdminRequests,
    node_pod_update::{NodeUpdates, Sighting},
    reconciler::Reconciler,
    requests::Requests,
    shared::SharedUpdates,
    write::Writer,
};
pub(crate) use self::{pods::Pods, submit::SubmitError};
use crate::{
    agent::Agent,
    cluster::{
        Cluster,
        features::{self, Permission},
        identity::IdentityState,
    },
    config::{Configuration, PathMode},
    cri::Runtime,
    images::node_image::{self, SharedImages},
};

/// Pause before updates that have panicked begin anew.
const BEGIN_ANEW: Duration = Duration::from_secs(1);

/// The updates of this node.
#[derive(Clone, Debug)]
pub(crate) struct Updates(Arc<Parts>);

/// Parts that the updates need.
#[derive(Debug)]
struct Parts {
    agent: Arc<Agent>,
    images: Arc<SharedImages>,
    runtime: Runtime,
    pods: Arc<Pods>,
    updates: Arc<SharedUpdates>,
    requests: Requests,
    node_pod_update: NodeUpdates,
    admin_requests: AdminRequests,
    writer: Writer,
    cluster: Cluster,
    identity: watch::Receiver<IdentityState>,
    /// How long an image is kept for its first use.
    pin: Option<Duration>,
    /// All requests are known, and what follows from them.
    ready: watch::Sender<bool>,
}

impl Updates {
    /// Nothing is asked before [`Updates::run`].
    pub(crate) fn new(
        agent: Arc<Agent>,
        images: Arc<SharedImages>,
        runtime: Runtime,
        cluster: &Cluster,
        config: &Configuration,
    ) -> Self {
        let (connection, node) = (cluster.connection().clone(), cluster.node().to_owned());
        let path = if config.path == PathMode::Beside { Path::Beside } else { Path::Inline };
        let updates = Arc::new(SharedUpdates::new(path));
        Self(Arc::new(Parts {
            agent,
            images,
            runtime,
            pods: Arc::new(Pods::new(updates.clone(), config.updates.containers_meta)),
            updates,
            requests: Requests::new(connection.clone(), node.clone()),
            node_pod_update: NodeUpdates::new(connection.clone(), node.clone()),
            admin_requests: AdminRequests::new(&config.state_dir),
            writer: Writer(cluster.pods()),
            cluster: cluster.clone(),
            identity: cluster.identity(),
            pin: Some(config.images.pin_for.0).filter(|pin| !pin.is_zero()),
            ready: watch::Sender::new(false),
        }))
    }

    /// Returns where the pod watch tells what it shows.
    pub(crate) fn pods(&self) -> Arc<Pods> {
        self.0.pods.clone()
    }

    /// Tells whether all requests are known, now and later.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.0.ready.subscribe()
    }

    /// Follows what is asked for and does it, until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let parts = self.0;
        let sources = async {
            // Those of the disk come first, but what is wrong with it is no reason to follow nothing else.
            tokio::join!(
                parts.admin_requests.load(&parts.updates),
                parts.requests.follow(&parts.updates),
                parts.follow_node_pod_update()
            );
        };
        tokio::join!(parts.clone().reconcile(shutdown.clone()), async {
            // Cancel-safe: the next process lists anew.
            shutdown.run_until_cancelled(sources).await;
        });
    }
}

impl Parts {
    /// Follows the `NodePodUpdate`, and keeps annotations, as long as what is in it can be done at all; for
    /// ever.
    async fn follow_node_pod_update(&self) {
        let mut identity = self.identity.clone();
        loop {
            identity.mark_unchanged();
            let both = async {
                let sight = |pod: &PodUid| self.sight(pod);
                tokio::join!(
                    self.node_pod_update.follow(&self.updates, &sight),
                    self.keep_meta(),
                    self.keep_gates(),
                    self.keep_words()
                )
            };
            let changed = match self.permission() {
                Permission::Unknown => identity.changed().await,
                Permission::Denied(_) => {
                    self.updates.listed(UpdateSource::NodePodUpdate, Vec::new());
                    // Cancel-safe: whoever may change pods says anew what it can.
                    tokio::select! {
                        changed = identity.changed() => changed,
                        () = self.node_pod_update.withdraw() => identity.changed().await,
                    }
                }
                // Cancel-safe: it is listed anew.
                Permission::Given => tokio::select! {
                    changed = identity.changed() => changed,
                    _ = both => return,
                },
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Knowledge of the node of a pod.
    fn sight(&self, pod: &PodUid) -> Sighting {
        self.agent.read(|node, _| match node.pod_of(pod) {
            Some(pod) => Sighting::There(pod),
            None if node.has_listed_pods() => Sighting::Gone,
            None => Sighting::Missing,
        })
    }

    /// Tells whether the agent may write to pods.
    fn permission(&self) -> Permission {
        features::permission(&self.identity.borrow(), features::UPDATES)
    }

    /// Decides and does, until the shutdown. What a mistake in it takes down is put up again: nothing it
    /// remembers has to last.
    async fn reconcile(self: Arc<Self>, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            let reconciler = Reconciler::new(self.clone());
            let ended = tokio::spawn(reconciler.run(shutdown.clone())).await;
            if shutdown.is_cancelled() {
                return;
            }
            self.agent.metrics().policy_panicked();
            error!(error = ?ended.err(), "Updates begin anew");
            tokio::time::sleep(BEGIN_ANEW).await;
        }
    }

    /// A wish for an image; `None` for a reference that is none.
    fn wish(&self, id: WishId, image: &str) -> Option<Wish> {
        let reference: Reference = image.parse().ok()?;
        Some(Wish { pin: self.pin, ..node_image::plain(id, &reference) })
    }
}

/// One wish for each pod and image: no other pod's update ends it.
fn wish_id(pod: &PodUid, image: &str) -> WishId {
    WishId { source: WishSource::Update, key: format!("{pod}/{image}").into() }
}
