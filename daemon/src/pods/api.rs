//! The pods of this node as the API server shows them: one watch with a field selector, as the kubelet has
//! it.

use std::{future::ready, sync::Arc};

use berth_policy::{Event, Pod, PodUid};
use berth_shim::Gate;
use futures::FutureExt;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::convert;
use crate::{
    agent::Agent,
    cluster::{
        client::Connection,
        follow::{Shown, Watch, follow},
        raw, v1 as core,
    },
};

/// Onlooker that sees the pods as they are, and not only the fields that the policy needs. Nothing of it may
/// block.
pub(crate) trait Onlooker: std::fmt::Debug + Send + Sync {
    /// The watch shows this, new or changed.
    fn seen(&self, pod: &core::Pod);
    /// It is not there any more.
    fn gone(&self, _pod: &PodUid) {}
    /// The watch is complete, with these pods and no others.
    fn listed(&self, _is_there: &dyn Fn(&PodUid) -> bool) {}
    /// The watch was lost.
    fn lost(&self) {}
}

/// The watch and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct ApiView {
    agent: Arc<Agent>,
    connection: Connection,
    node: String,
    onlookers: Vec<Arc<dyn Onlooker>>,
    health: watch::Sender<Health>,
}

/// How the watch is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// It was complete at least once.
    pub synced: bool,
    /// Why it does not follow.
    pub error: Option<String>,
}

impl ApiView {
    /// A view that does nothing before [`ApiView::run`].
    pub(crate) fn new(
        agent: Arc<Agent>,
        connection: Connection,
        node: String,
        onlookers: Vec<Arc<dyn Onlooker>>,
    ) -> Self {
        Self { agent, connection, node, onlookers, health: watch::Sender::default() }
    }

    /// How the watch is, now and later.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Watches until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let watch = Watch {
            what: "pods",
            single: false,
            // Nothing works without them, and rights may come after the agent.
            insists: true,
            selected: watcher::Config::default().fields(&format!("spec.nodeName={}", self.node)),
        };
        let each = |shown| self.take(shown);
        let followed =
            follow(&self.connection, &watch, raw::all::<core::Pod>, |_| ready(Ok(true)).boxed(), each);
        // Cancel-safe: dropping the watch loses nothing that was applied.
        shutdown.run_until_cancelled(followed).await;
    }

    fn take(&self, shown: Shown<core::Pod>) {
        match shown {
            Shown::Listed(pods) => {
                pods.iter().for_each(|pod| self.seen(pod));
                self.listed(pods.into_iter().filter_map(convert::pod).collect());
            }
            Shown::Applied(pod) => {
                self.seen(&pod);
                if let Some(pod) = convert::pod(pod) {
                    self.agent.observe(Event::PodSeen(Box::new(pod)));
                }
            }
            Shown::Deleted(pod) => {
                if let Some(pod) = convert::pod(pod) {
                    self.gone(pod.pod.uid);
                }
            }
            Shown::NotInstalled(why) => self.broke(why),
            Shown::Refused(error) | Shown::Lost(error) => self.broke(&error),
        }
    }

    fn broke(&self, error: &str) {
        // Read in a statement of its own: a borrow that lives on while the value is replaced is a deadlock.
        let synced = self.health.borrow().synced;
        let error = Some(format!("watch of the pods of node {}: {error}", self.node));
        self.health.send_replace(Health { synced, error });
        self.agent.metrics().view_failed();
        self.agent.metrics().view_fresh(false);
        self.agent.observe(Event::ViewFresh(false));
        self.onlookers.iter().for_each(|onlooker| onlooker.lost());
    }

    fn listed(&self, pods: Vec<Pod>) {
        let is_there = |uid: &PodUid| pods.iter().any(|pod| pod.pod.uid == *uid);
        self.onlookers.iter().for_each(|onlooker| onlooker.listed(&is_there));
        self.agent.observe(Event::PodsListed(pods));
        self.agent.observe(Event::ViewFresh(true));
        self.agent.metrics().view_fresh(true);
        self.health.send_replace(Health { synced: true, error: None });
    }

    fn seen(&self, pod: &core::Pod) {
        self.onlookers.iter().for_each(|onlooker| onlooker.seen(pod));
    }

    fn gone(&self, uid: PodUid) {
        self.onlookers.iter().for_each(|onlooker| onlooker.gone(&uid));
        self.agent.observe(Event::PodGone(uid));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{
        agent::{metrics::AgentMetrics, store::Store},
        cluster::client::Source,
    };

    /// A kubeconfig for an API server that refuses connections.
    const NOBODY: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

    #[tokio::test]
    async fn an_api_server_that_is_away_is_told_and_ends_with_the_agent() {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, NOBODY).unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let metrics = AgentMetrics::register(&mut Registry::default());
        let agent = Arc::new(Agent::new(berth_policy::Config::default(), store, metrics));
        let view = ApiView::new(
            agent,
            Connection::new(Source::kubeconfig(kubeconfig)),
            "node-a".to_owned(),
            Vec::new(),
        );
        let mut health = view.health();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(view.run(shutdown.clone()));
        let limit = Duration::from_secs(20);
        let told = tokio::time::timeout(limit, health.wait_for(|health| health.error.is_some()));
        let told = told.await.expect("told in time").unwrap().clone();
        assert!(!told.synced);
        assert!(told.error.unwrap().contains("node-a"));
        shutdown.cancel();
        tokio::time::timeout(limit, task).await.expect("ends in time").unwrap();
    }
}
