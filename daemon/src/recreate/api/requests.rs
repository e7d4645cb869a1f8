//! The ContainerRecreateRequests that are assigned to this node: one watch with a field selector.
//!
//! An assignment is `status.nodeName`; an object that loses it is shown as deleted. Without the kind in the API server
//! there are no requests, and now and then it is looked for again.

use std::{pin::pin, sync::Arc, time::Duration};

use berth_policy::{Event, Origin, RecreateReport, RequestId, StepOutcome};
use berth_shim::Gate;
use futures::TryStreamExt;
use kube::{Api, core::DynamicObject, runtime::watcher};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::report::{self, Reporter};
use crate::{
    agent::Agent,
    base::{causes::chain, clock::Clock},
    cluster::{
        client::{self, ClientError, Connection},
        known::Known,
        metrics::ClusterMetrics,
        object::Object,
        pause,
    },
    recreate::codec::{self, Refused, Shown},
};

/// How often the kind is looked for when the API server does not have it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The watch.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) agent: Arc<Agent>,
    pub(super) connection: Connection,
    pub(super) node: String,
    pub(super) known: Arc<Known>,
    pub(super) reporter: Reporter,
    pub(super) metrics: ClusterMetrics,
    pub(super) health: watch::Sender<WatchHealth>,
}

/// How the watch is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchHealth {
    /// Nothing is known yet.
    #[default]
    Starting,
    /// It follows.
    Follows,
    /// The API server does not have the kind, or not the way it is needed; the text says what to do.
    NotInstalled(&'static str),
    /// It does not follow, for this reason. What it showed stays.
    Broken(String),
}

/// The watch broke.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("watch of the ContainerRecreateRequests of node {node}")]
    Client { node: String, source: ClientError },
    #[error("watch of the ContainerRecreateRequests of node {node}")]
    Watch { node: String, source: Box<watcher::Error> },
    #[error("the watch of the ContainerRecreateRequests of node {node} ended")]
    Ended { node: String },
}

/// Obstacle that neither another client nor haste can remove.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    /// The API server does not have the kind the way it is needed; what to do.
    NotInstalled(&'static str),
    /// It does not let this identity see it. Without the right it does not say whether the kind is there.
    Forbidden,
}

// === impl Requests ===

impl Requests {
    /// Watches until the shutdown. Every failure begins anew with a new client.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        let mut attempt = 0;
        // Cancel-safe: dropping the watch loses nothing that was applied, and a refusal is written at the next list.
        while let Some(error) = shutdown.run_until_cancelled(self.follow()).await {
            let followed = *self.health.borrow() == WatchHealth::Follows;
            attempt = if followed { 0 } else { attempt + 1 };
            let pause = match error.obstacle() {
                Some(Obstacle::NotInstalled(reason)) => {
                    self.not_installed(reason);
                    LOOK_AGAIN
                }
                Some(Obstacle::Forbidden) => {
                    self.broke(&error);
                    LOOK_AGAIN
                }
                None => {
                    self.broke(&error);
                    pause::after(attempt)
                }
            };
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    fn not_installed(&self, reason: &'static str) {
        let health = WatchHealth::NotInstalled(reason);
        if self.health.send_replace(health.clone()) != health {
            info!(reason, "No ContainerRecreateRequests, looking again every 30 s");
            self.metrics.watch_follows(false);
            // They went with their kind.
            self.known.clear();
            self.agent.observe(Event::RecreatesListed(Origin::Api, Vec::new()));
        }
    }

    fn broke(&self, error: &WatchError) {
        let text = chain(error);
        let health = WatchHealth::Broken(text.clone());
        if self.health.send_replace(health.clone()) != health {
            warn!(node = self.node, error = text, "Request watch lost, what it showed stays");
        }
        self.metrics.watch_failed();
    }

    /// One list and the watch after it, until it breaks.
    async fn follow(&self) -> WatchError {
        let session = match self.connection.session().await {
            Ok(session) => session,
            Err(source) => return WatchError::Client { node: self.node.clone(), source },
        };
        let requests: Api<DynamicObject> = Api::all_with(session.client.clone(), &report::kind());
        let error = match self.follow_in(requests).await {
            Ok(()) => WatchError::Ended { node: self.node.clone() },
            Err(source) => WatchError::Watch { node: self.node.clone(), source: Box::new(source) },
        };
        // Another client would hear the same.
        if error.obstacle().is_none() {
            self.connection.discard(&session).await;
        }
        error
    }

    async fn follow_in(&self, requests: Api<DynamicObject>) -> Result<(), watcher::Error> {
        let selected = watcher::Config::default().fields(&format!("status.nodeName={}", self.node));
        let mut events = pin!(watcher::watcher(requests, selected));
        let mut listed: Vec<Object> = Vec::new();
        let mut clock = Clock::read();
        // Dropped with the watch; the next list finds what was not refused yet.
        let mut refusals = JoinSet::new();
        while let Some(event) = events.try_next().await? {
            clock = clock.kept(Clock::read());
            while refusals.try_join_next().is_some() {}
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(object) => listed.extend(Object::read(object)),
                watcher::Event::InitDone => self.listed(&std::mem::take(&mut listed), &clock, &mut refusals),
                watcher::Event::Apply(object) => self.seen(object, &clock, &mut refusals),
                watcher::Event::Delete(object) => {
                    if let Some(object) = <Object>::read(object) {
                        self.known.remove(&object.id);
                        self.agent.observe(Event::RecreateGone(object.id));
                    }
                }
            }
        }
        Ok(())
    }

    fn listed(&self, objects: &[Object], clock: &Clock, refusals: &mut JoinSet<()>) {
        info!(node = self.node, requests = objects.len(), "Request watch follows");
        self.known.replace(objects);
        let mut requests = Vec::new();
        for object in objects.iter().filter(|object| !object.deleting) {
            match codec::request(shown(object), clock) {
                Ok(request) => requests.push(request),
                Err(refused) => self.refuse(object, &refused, refusals),
            }
        }
        self.agent.observe(Event::RecreatesListed(Origin::Api, requests));
        self.metrics.watch_follows(true);
        self.health.send_replace(WatchHealth::Follows);
    }

    fn seen(&self, object: DynamicObject, clock: &Clock, refusals: &mut JoinSet<()>) {
        let Some(object) = Object::read(object) else { return };
        self.known.put(&object);
        let event = match codec::request(shown(&object), clock) {
            // Nothing new is begun for it any more; until its finalizers are gone it may still be written to.
            _ if object.deleting => Event::RecreateGone(object.id),
            Ok(request) => Event::RecreateSeen(Box::new(request)),
            Err(refused) => {
                self.refuse(&object, &refused, refusals);
                Event::RecreateGone(object.id)
            }
        };
        self.agent.observe(event);
    }

    /// Ends a request that cannot be carried out, beside the watch and until that is written.
    fn refuse(&self, object: &Object, refused: &Refused, refusals: &mut JoinSet<()>) {
        let report = refused.report();
        info!(request = object.target.key(), reason = report.message, "Request refused");
        refusals.spawn(insist(self.reporter.clone(), object.id.clone(), report));
    }
}

/// An object, for the codec.
pub(in crate::recreate) fn shown(object: &Object) -> Shown<'_> {
    Shown {
        id: object.id.clone(),
        origin: Origin::Api,
        key: object.target.key(),
        created: object.created,
        spec: object.spec.as_ref().map_err(String::as_str),
        status: &object.target.status,
    }
}

async fn insist(reporter: Reporter, id: RequestId, report: RecreateReport) {
    let mut attempt = 0;
    while reporter.report(&id, &report).await == StepOutcome::Failed {
        tokio::time::sleep(pause::after(attempt)).await;
        attempt += 1;
    }
}

// === impl WatchError ===

impl WatchError {
    fn obstacle(&self) -> Option<Obstacle> {
        let Self::Watch { source, .. } = self else { return None };
        let not_installed = |reason| Some(Obstacle::NotInstalled(reason));
        match client::watch_refusal(source)? {
            404 => not_installed("the API server does not know the kind: install deploy/crds"),
            400 => not_installed(
                "the kind installed has no selectable field status.nodeName: install deploy/crds",
            ),
            403 => Some(Obstacle::Forbidden),
            _ => None,
        }
    }
}

// === impl WatchHealth ===

impl WatchHealth {
    /// Why requests are not seen; `None` while they are.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Follows => None,
            Self::Starting => Some("not listed yet"),
            Self::NotInstalled(reason) => Some(reason),
            Self::Broken(error) => Some(error),
        }
    }
}
