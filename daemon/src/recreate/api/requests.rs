//! The ContainerRecreateRequests that are assigned to this node: one watch with a field selector.
//!
//! An assignment is `status.nodeName`; an object that loses it is shown as deleted. Without the kind in the
//! API server there are no requests, and now and then it is looked for again.

use std::{future::ready, sync::Arc};

use berth_policy::{Event, Origin, StepOutcome};
use berth_proto::crd::ContainerRecreateRequest;
use berth_shim::Gate;
use futures::FutureExt;
use kube::runtime::watcher;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::report::Reporter;
use crate::{
    agent::Agent,
    base::clock::Clock,
    cluster::{
        client::Connection,
        follow::{self, Watch},
        metrics::ClusterMetrics,
        object::Object,
        pause,
        raw::{self, Raw},
        request_cache::RequestCache,
    },
    recreate::codec::{self, Refused, Shown},
};

/// Most refusals that are written at once: somebody's ten thousand must not keep the API server from
/// another's requests.
const REFUSED_AT_ONCE: usize = 16;

/// The watch.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) agent: Arc<Agent>,
    pub(super) connection: Connection,
    pub(super) node: String,
    pub(super) known: Arc<RequestCache>,
    pub(super) reporter: Reporter,
    pub(super) metrics: ClusterMetrics,
    pub(super) health: watch::Sender<WatchHealth>,
    pub(super) room: Refusals,
}

/// Room for writes of refusals.
#[derive(Clone, Debug)]
pub(super) struct Refusals(Arc<Semaphore>);

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

// === impl Requests ===

impl Requests {
    /// Watches until the shutdown.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        let watch = Watch {
            what: "ContainerRecreateRequests",
            single: false,
            insists: false,
            selected: watcher::Config::default().fields(&format!("status.nodeName={}", self.node)),
        };
        let mut clock = Clock::read();
        // The next list finds what was not refused yet.
        let mut refusals = JoinSet::new();
        let each = |shown| {
            clock = clock.kept(Clock::read());
            while refusals.try_join_next().is_some() {}
            self.take(shown, &clock, &mut refusals);
        };
        let api = raw::all::<ContainerRecreateRequest>;
        let followed = follow::follow(&self.connection, &watch, api, Ok, |_| ready(Ok(true)).boxed(), each);
        // Cancel-safe: dropping the watch loses nothing that was applied, and a refusal is written at the
        // next list.
        shutdown.run_until_cancelled(followed).await;
    }

    fn take(&self, shown: follow::Shown<Raw>, clock: &Clock, refusals: &mut JoinSet<()>) {
        match shown {
            follow::Shown::Listed(objects) => {
                let objects: Vec<Object> = objects.into_iter().filter_map(Object::read).collect();
                refusals.abort_all();
                self.listed(&objects, clock, refusals);
            }
            follow::Shown::Applied(object) => self.seen(object, clock, refusals),
            follow::Shown::Deleted(object) => {
                if let Some(object) = <Object>::read(object) {
                    self.known.remove(&object.id);
                    self.agent.observe(Event::RecreateGone(object.id));
                }
            }
            follow::Shown::NotInstalled(reason) => self.not_installed(reason),
            // What was shown stays.
            follow::Shown::Refused(error) | follow::Shown::Lost(error) => {
                self.health.send_replace(WatchHealth::Broken(error));
                self.metrics.watch_failed();
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

    fn listed(&self, objects: &[Object], clock: &Clock, refusals: &mut JoinSet<()>) {
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

    fn seen(&self, object: Raw, clock: &Clock, refusals: &mut JoinSet<()>) {
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
        let (reporter, id, room) = (self.reporter.clone(), object.id.clone(), self.room.clone());
        refusals.spawn(async move { room.insist(|| reporter.report(&id, &report)).await });
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

// === impl Refusals ===

impl Default for Refusals {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(REFUSED_AT_ONCE)))
    }
}

impl Refusals {
    /// Writes until that does not fail. One that waits for its next attempt leaves its room to others.
    async fn insist<F: Future<Output = StepOutcome>>(&self, write: impl Fn() -> F) {
        let mut attempt = 0;
        loop {
            let room = self.0.acquire().await;
            let outcome = write().await;
            drop(room);
            if outcome != StepOutcome::Failed {
                return;
            }
            tokio::time::sleep(pause::after(attempt)).await;
            attempt += 1;
        }
    }
}

// === impl WatchHealth ===

impl WatchHealth {
    /// Says why requests are not seen; `None` while they are.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Follows => None,
            Self::Starting => Some("not listed yet"),
            Self::NotInstalled(reason) => Some(reason),
            Self::Broken(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_written_some_at_a_time_and_each_until_it_is_written() {
        let refusals = Refusals::default();
        // Writes under way, the most of them, and those that were taken.
        let counts = Mutex::new((0, 0, 0));
        let one = |number: usize| {
            let (refusals, counts) = (&refusals, &counts);
            let failed = Mutex::new(false);
            async move {
                let write = || async {
                    {
                        let mut counts = counts.lock().unwrap();
                        counts.0 += 1;
                        counts.1 = counts.1.max(counts.0);
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                    counts.lock().unwrap().0 -= 1;
                    // Every third fails once.
                    if number.is_multiple_of(3) && !std::mem::replace(&mut *failed.lock().unwrap(), true) {
                        return StepOutcome::Failed;
                    }
                    counts.lock().unwrap().2 += 1;
                    StepOutcome::Done
                };
                refusals.insist(write).await;
            }
        };
        futures::future::join_all((0..100).map(one)).await;
        assert_eq!(*counts.lock().unwrap(), (0, REFUSED_AT_ONCE, 100));
    }
}
