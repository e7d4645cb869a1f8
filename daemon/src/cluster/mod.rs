//! The agent's side towards the API server: its identity, its one client, a watch for any kind, and what
//! every kind of request has in common. What is done with an object is the business of the room of its kind.
//!
//! - [`client`]: the identity and the one client, which the pod watch uses too; `kubeconfig`: its file.
//!   [`identity`], [`features`]: who that is.
//! - [`policies`]: whether the admission policies keep that identity to its node.
//! - [`token`], `renewal`, `pod_token`: a token of a service account, renewed by the agent.
//! - [`node_labels`]: what the Node says of the agent.
//! - `follow`: one watch. `object`, `target`, `request_cache`: a request as the API server shows it, and
//!   writing to it.
//! - `raw`, `v1`: objects that are typed once they are here, and as much of a pod as the agent reads.
//! - `node_pods`, `events`: reading and patching pods of the node, and telling users of what became of them.

pub mod client;
pub mod features;
pub mod identity;
pub mod metrics;
pub mod node_labels;
pub mod pause;
pub mod policies;
pub mod renewal;
pub mod token;

mod events;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod follow;
mod kubeconfig;
pub(crate) mod node_object;
pub(crate) mod node_pods;
pub(crate) mod object;
mod pod_token;
pub(crate) mod raw;
pub(crate) mod request_cache;
pub(crate) mod target;
pub(crate) mod v1;

use berth_policy::{Notice, PodRef};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::events::Said;
use self::{
    client::{Connection, Source},
    events::Events,
    identity::IdentityState,
    metrics::ClusterMetrics,
    node_pods::NodePods,
    policies::PolicyState,
    renewal::{Renewal, TokenState},
};

use crate::config::{Configuration, ServiceAccount};

/// The owner of what the agent writes by server-side apply, as `managedFields` shows it.
pub(crate) const FIELD_MANAGER: &str = "berth-agent";

/// The side towards the API server. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Cluster {
    connection: Connection,
    node: String,
    account: Option<ServiceAccount>,
    pods: NodePods,
    events: Events,
    metrics: ClusterMetrics,
    identity: watch::Sender<IdentityState>,
    policies: watch::Sender<PolicyState>,
    token: watch::Sender<TokenState>,
}

impl Cluster {
    /// A cluster as it is configured, for the node of this name; nothing is asked before [`Cluster::run`].
    pub fn new(config: &Configuration, node: String, metrics: ClusterMetrics) -> Self {
        let connection = Connection::new(Source::of(config));
        Self {
            pods: NodePods::new(connection.clone(), node.clone(), metrics.clone()),
            events: Events::new(connection.clone(), node.clone(), metrics.clone()),
            connection,
            node,
            account: config.cluster.service_account.clone(),
            metrics,
            identity: watch::Sender::default(),
            policies: watch::Sender::default(),
            token: watch::Sender::default(),
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

    /// Metrics of the API server.
    pub(crate) fn metrics(&self) -> &ClusterMetrics {
        &self.metrics
    }

    /// Identity of the agent, and which features are on, now and later.
    pub fn identity(&self) -> watch::Receiver<IdentityState> {
        self.identity.subscribe()
    }

    /// Tells whether the admission policies keep the agent to its node, now and later.
    pub fn policies(&self) -> watch::Receiver<PolicyState> {
        self.policies.subscribe()
    }

    /// Returns how the token is that the agent renews, now and later; `None` if it renews none.
    pub fn token(&self) -> Option<watch::Receiver<TokenState>> {
        self.account.as_ref().map(|_| self.token.subscribe())
    }

    /// Learns and renews until the shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let renewal = self.account.map(|account| Renewal {
            connection: self.connection.clone(),
            account,
            node: self.node.clone(),
            metrics: self.metrics.clone(),
            state: self.token,
        });
        if let Some(renewal) = &renewal {
            // Whoever begins as the kubelet refuses what the account may do.
            shutdown.run_until_cancelled(renewal.begin()).await;
        }
        let learning =
            identity::learn(self.connection.clone(), self.node.clone(), self.identity, shutdown.clone());
        let trying =
            policies::keep_trying(self.connection, self.node, self.metrics, self.policies, shutdown.clone());
        let renewing = async {
            if let Some(renewal) = renewal {
                renewal.run(shutdown.clone()).await;
            }
        };
        tokio::join!(learning, trying, renewing);
    }

    /// Tells the users of a pod.
    pub(crate) async fn tell(&self, pod: &PodRef, notice: &Notice) {
        self.events.tell(pod, notice).await;
    }

    /// Tells who looks at this object.
    pub(crate) async fn tell_of(&self, about: ObjectReference, said: &Said<'_>) {
        self.events.tell_of(about, said).await;
    }
}
