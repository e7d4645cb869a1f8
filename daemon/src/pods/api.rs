//! The pods of this node as the API server shows them: one watch with a field selector, as the kubelet has it.

use std::{pin::pin, sync::Arc};

use berth_policy::{Event, Pod, PodUid};
use berth_shim::Gate;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::{Api, runtime::watcher};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::convert;
use crate::{
    agent::Agent,
    base::causes::chain,
    cluster::{
        client::{ClientError, Connection},
        pause,
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
    /// It follows.
    pub fresh: bool,
    /// It was complete at least once.
    pub synced: bool,
    /// Why it does not follow.
    pub error: Option<String>,
}

/// The watch broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiViewError {
    /// There is no client.
    #[error("watch of the pods of node {node}")]
    Client {
        /// This node.
        node: String,
        /// Why.
        source: ClientError,
    },
    /// The list or the watch failed.
    #[error("watch of the pods of node {node}")]
    Watch {
        /// This node.
        node: String,
        /// Error that came back.
        source: Box<watcher::Error>,
    },
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

    /// Watches until the shutdown. Every failure begins anew with a new client.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut attempt = 0;
        // Cancel-safe: dropping the watch loses nothing that was applied.
        while let Some(ended) = shutdown.run_until_cancelled(self.follow()).await {
            let was_fresh = self.health.borrow().fresh;
            attempt = if was_fresh { 0 } else { attempt + 1 };
            self.broke(ended.err());
            if shutdown.run_until_cancelled(tokio::time::sleep(pause::after(attempt))).await.is_none() {
                return;
            }
        }
    }

    fn broke(&self, error: Option<ApiViewError>) {
        let text = error.as_ref().map_or_else(|| "the watch ended".to_owned(), |error| chain(error));
        // Read in a statement of its own: a borrow that lives on while the value is replaced is a deadlock.
        let synced = self.health.borrow().synced;
        let before = self.health.send_replace(Health { fresh: false, synced, error: Some(text.clone()) });
        if before.fresh || before.error.as_ref() != Some(&text) {
            warn!(node = self.node, error = text, "Pod watch lost, what it showed stays");
        }
        self.agent.metrics().view_failed();
        self.agent.metrics().view_fresh(false);
        self.agent.observe(Event::ViewFresh(false));
        self.onlookers.iter().for_each(|onlooker| onlooker.lost());
    }

    /// One list and the watch after it, until it breaks.
    async fn follow(&self) -> Result<(), ApiViewError> {
        let no_client = |source| ApiViewError::Client { node: self.node.clone(), source };
        let session = self.connection.session().await.map_err(no_client)?;
        let ended = self.follow_in(Api::all(session.client.clone())).await;
        self.connection.discard(&session).await;
        ended
    }

    async fn follow_in(&self, pods: Api<core::Pod>) -> Result<(), ApiViewError> {
        let selected = watcher::Config::default().fields(&format!("spec.nodeName={}", self.node));
        let mut events = pin!(watcher::watcher(pods, selected));
        let mut listed: Vec<Pod> = Vec::new();
        let failed = |source| ApiViewError::Watch { node: self.node.clone(), source: Box::new(source) };
        while let Some(event) = events.try_next().await.map_err(failed)? {
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(pod) => {
                    self.seen(&pod);
                    listed.extend(convert::pod(pod));
                }
                watcher::Event::InitDone => self.listed(std::mem::take(&mut listed)),
                watcher::Event::Apply(pod) => {
                    self.seen(&pod);
                    if let Some(pod) = convert::pod(pod) {
                        self.agent.observe(Event::PodSeen(Box::new(pod)));
                    }
                }
                watcher::Event::Delete(pod) => {
                    if let Some(pod) = convert::pod(pod) {
                        self.gone(pod.pod.uid);
                    }
                }
            }
        }
        Ok(())
    }

    fn listed(&self, pods: Vec<Pod>) {
        info!(node = self.node, pods = pods.len(), "Pod watch follows");
        let is_there = |uid: &PodUid| pods.iter().any(|pod| pod.pod.uid == *uid);
        self.onlookers.iter().for_each(|onlooker| onlooker.listed(&is_there));
        self.agent.observe(Event::PodsListed(pods));
        self.agent.observe(Event::ViewFresh(true));
        self.agent.metrics().view_fresh(true);
        self.health.send_replace(Health { fresh: true, synced: true, error: None });
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
        assert!(!told.fresh && !told.synced);
        assert!(told.error.unwrap().contains("node-a"));
        shutdown.cancel();
        tokio::time::timeout(limit, task).await.expect("ends in time").unwrap();
    }
}
