//! The agent's side towards the API server: who it is there, which requests it is given, and what it answers.
//!
//! ```text
//!   API server --ContainerRecreateRequests of this node--> requests --convert--> Event --> agent
//!       ^  ^                                                   |
//!       |  |                                                 known: which object a request is
//!       |  |                                                   v
//!       |  '------ report (status, deletion) <---------- carry_out <-- Step <-- exec
//!       '--------- unready (readiness of a pod) <-----------'
//! ```
//!
//! Nothing here decides about a pod. What is written concerns only objects of this node: requests assigned to it, and
//! the readiness of its pods. While the API server is away everything that was seen stays, and what was not written is
//! told as not done.
//!
//! - [`client`]: the identity and the one client, which the pod watch uses too. [`identity`], [`features`]: who that is.
//! - [`policies`]: whether the admission policies keep that identity to its node.
//! - [`token`], `renewal`: a token of a service account, renewed by the agent.
//! - [`node_labels`]: what the Node says of the agent.
//! - `requests`, `convert`: the watch; `object`, `target`, `known`, `clock` serve that of updates, too. `report`, `unready`, `events`: the writers.

pub mod client;
pub mod features;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub mod identity;
pub mod metrics;
pub mod node_labels;
pub mod pause;
pub mod policies;
pub mod renewal;
pub mod requests;
pub mod token;

pub(crate) mod clock;
mod convert;
mod events;
pub(crate) mod follow;
pub(crate) mod known;
pub(crate) mod node_object;
pub(crate) mod node_pods;
pub(crate) mod object;
mod report;
pub(crate) mod target;
mod unready;

use std::sync::Arc;

use berth_policy::{Notice, Origin, PodRef, Step, StepOutcome};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    client::{Connection, Source},
    events::Events,
    identity::IdentityState,
    known::Known,
    metrics::ClusterMetrics,
    node_pods::NodePods,
    policies::PolicyState,
    renewal::{Renewal, TokenState},
    report::Reporter,
    requests::{Requests, WatchHealth},
    unready::{Change, Readiness},
};
use crate::{
    agent::Agent,
    config::{Configuration, ServiceAccount},
};

/// The owner of what the agent writes by server-side apply, as `managedFields` shows it.
pub(crate) const FIELD_MANAGER: &str = "berth-agent";

/// The side towards the API server. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Cluster {
    connection: Connection,
    node: String,
    account: Option<ServiceAccount>,
    known: Arc<Known>,
    reporter: Reporter,
    pods: NodePods,
    events: Events,
    metrics: ClusterMetrics,
    identity: watch::Sender<IdentityState>,
    policies: watch::Sender<PolicyState>,
    token: watch::Sender<TokenState>,
    requests: watch::Sender<WatchHealth>,
}

impl Cluster {
    /// As it is configured, for the node of this name; nothing is asked before [`Cluster::run`].
    pub fn new(config: &Configuration, node: String, metrics: ClusterMetrics) -> Self {
        let connection = Connection::new(Source::of(config));
        let known = Arc::<Known>::default();
        Self {
            reporter: Reporter::new(connection.clone(), known.clone(), metrics.clone()),
            pods: NodePods::new(connection.clone(), node.clone(), metrics.clone()),
            events: Events::new(connection.clone(), node.clone(), metrics.clone()),
            connection,
            node,
            account: config.cluster.service_account.clone(),
            known,
            metrics,
            identity: watch::Sender::default(),
            policies: watch::Sender::default(),
            token: watch::Sender::default(),
            requests: watch::Sender::default(),
        }
    }

    /// The client, for the pod watch.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// This node's name in the API.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The pods of the node, read by name and patched.
    pub(crate) fn pods(&self) -> NodePods {
        self.pods.clone()
    }

    async fn change_readiness(&self, pod: &PodRef, key: &str, change: Change) -> StepOutcome {
        Readiness(self.pods()).change(pod, key, change).await
    }

    /// Who the agent is, and which features are on, now and later.
    pub fn identity(&self) -> watch::Receiver<IdentityState> {
        self.identity.subscribe()
    }

    /// Whether the admission policies keep the agent to its node, now and later.
    pub fn policies(&self) -> watch::Receiver<PolicyState> {
        self.policies.subscribe()
    }

    /// How the token is that the agent renews, now and later; `None` if it renews none.
    pub fn token(&self) -> Option<watch::Receiver<TokenState>> {
        self.account.as_ref().map(|_| self.token.subscribe())
    }

    /// How the watch of requests is, now and later.
    pub fn requests(&self) -> watch::Receiver<WatchHealth> {
        self.requests.subscribe()
    }

    /// Watches, learns and renews until the shutdown.
    pub async fn run(self, agent: Arc<Agent>, shutdown: CancellationToken) {
        let requests = Requests {
            agent,
            connection: self.connection.clone(),
            node: self.node.clone(),
            known: self.known,
            reporter: self.reporter,
            metrics: self.metrics.clone(),
            health: self.requests,
        };
        let learning =
            identity::learn(self.connection.clone(), self.node.clone(), self.identity, shutdown.clone());
        let trying = policies::keep_trying(
            self.connection.clone(),
            self.node.clone(),
            self.metrics.clone(),
            self.policies,
            shutdown.clone(),
        );
        let renewal = self.account.map(|account| Renewal {
            connection: self.connection,
            account,
            node: self.node,
            metrics: self.metrics,
            state: self.token,
        });
        let renewing = async {
            if let Some(renewal) = renewal {
                renewal.run(shutdown.clone()).await;
            }
        };
        tokio::join!(requests.run(shutdown.clone()), learning, trying, renewing);
    }

    /// Tells the users of a pod.
    pub(crate) async fn tell(&self, pod: &PodRef, notice: &Notice) {
        self.events.tell(pod, notice).await;
    }

    /// Carries out a step that concerns the API server. Whatever else is asked is not there.
    pub async fn carry_out(&self, step: &Step) -> StepOutcome {
        match step {
            Step::Report(Origin::Api, request, report) => self.reporter.report(request, report).await,
            Step::DeleteRequest(Origin::Api, request) => self.reporter.delete(request).await,
            Step::HoldUnready(pod, key) => self.change_readiness(pod, key, Change::Hold).await,
            Step::ReleaseUnready(pod, key) => self.change_readiness(pod, key, Change::Release).await,
            Step::OpenGate(pod) => self.change_readiness(pod, "", Change::Open).await,
            Step::Tell(pod, notice) => {
                self.tell(pod, notice).await;
                StepOutcome::Done
            }
            _ => StepOutcome::Gone,
        }
    }
}

/// Whether a step is one for [`Cluster::carry_out`].
pub fn concerns(step: &Step) -> bool {
    matches!(
        step,
        Step::Report(Origin::Api, ..)
            | Step::DeleteRequest(Origin::Api, _)
            | Step::HoldUnready(..)
            | Step::ReleaseUnready(..)
            | Step::OpenGate(_)
            | Step::Tell(..)
    )
}
