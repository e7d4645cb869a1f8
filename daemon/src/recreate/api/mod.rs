//! ContainerRecreateRequests at the API server: which are given to this node, and what it answers.
//!
//! ```text
//!   API server --ContainerRecreateRequests of this node--> requests --codec--> Event --> agent
//!       ^  ^                                                   |
//!       |  |                                                 known: which object a request is
//!       |  |                                                   v
//!       |  '------ report (status, deletion) <----------    change <-- Effect <-- exec
//!       '--------- unready (readiness of a pod) <------- change_pod'
//! ```
//!
//! Nothing here decides about a pod. What is written concerns only objects of this node: requests assigned to
//! it, and the readiness of its pods. While the API server is away everything that was seen stays, and what
//! was not written is told as not done.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod report;
mod requests;
mod unready;

use std::sync::Arc;

use berth_policy::{PodEffect, PodRef, RequestEffect, RequestId, StepOutcome};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::requests::WatchHealth;
#[cfg(test)]
pub(in crate::recreate) use self::requests::shown;
use self::{
    report::Reporter,
    requests::{Refusals, Requests},
    unready::{Change, Readiness},
};
use crate::{
    agent::Agent,
    cluster::{Cluster, request_cache::RequestCache},
};

/// The requests of this node at the API server. A clone is the same.
#[derive(Clone, Debug)]
pub struct ApiRequests {
    cluster: Cluster,
    known: Arc<RequestCache>,
    reporter: Reporter,
    health: watch::Sender<WatchHealth>,
}

impl ApiRequests {
    /// Makes those of the cluster's node; nothing is asked before [`ApiRequests::run`].
    pub fn new(cluster: Cluster) -> Self {
        let known = Arc::<RequestCache>::default();
        let reporter = Reporter::new(cluster.connection().clone(), known.clone(), cluster.metrics().clone());
        Self { cluster, known, reporter, health: watch::Sender::default() }
    }

    /// Returns how the watch is, now and later.
    pub fn health(&self) -> watch::Receiver<WatchHealth> {
        self.health.subscribe()
    }

    /// Watches until the shutdown.
    pub async fn run(self, agent: Arc<Agent>, shutdown: CancellationToken) {
        let requests = Requests {
            agent,
            connection: self.cluster.connection().clone(),
            node: self.cluster.node().to_owned(),
            known: self.known,
            reporter: self.reporter,
            metrics: self.cluster.metrics().clone(),
            health: self.health,
            room: Refusals::default(),
        };
        requests.run(shutdown).await;
    }

    /// Changes a request that is an object of the API server.
    pub async fn change(&self, request: &RequestId, effect: &RequestEffect) -> StepOutcome {
        match effect {
            RequestEffect::Report(report) => self.reporter.report(request, report).await,
            RequestEffect::Delete => self.reporter.delete(request).await,
        }
    }

    /// Changes the readiness of a pod, or tells its users something.
    pub async fn change_pod(&self, pod: &PodRef, effect: &PodEffect) -> StepOutcome {
        match effect {
            PodEffect::HoldUnready(key) => self.change_readiness(pod, key, Change::Hold).await,
            PodEffect::ReleaseUnready(key) => self.change_readiness(pod, key, Change::Release).await,
            PodEffect::OpenGate => self.change_readiness(pod, "", Change::Open).await,
            PodEffect::Tell(notice) => {
                self.cluster.tell(pod, notice).await;
                StepOutcome::Done
            }
        }
    }

    async fn change_readiness(&self, pod: &PodRef, key: &str, change: Change) -> StepOutcome {
        Readiness(self.cluster.pods()).change(pod, key, change).await
    }
}
