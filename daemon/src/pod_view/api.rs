//! The pods of this node as the API server shows them: one watch with a field selector, as the kubelet has it.

use std::{pin::pin, sync::Arc, time::Duration};

use berth_policy::{Event, Pod, PodUid};
use berth_shim::Gate;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    runtime::watcher,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::convert;
use crate::agent::{Agent, chain};

/// Pauses between attempts to reach the API server; the last one is repeated.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The watch and what became of it.
#[derive(Clone, Debug)]
pub struct ApiView {
    agent: Arc<Agent>,
    kubeconfig: std::path::PathBuf,
    node: String,
    health: watch::Sender<Health>,
}

/// How the watch is.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// It follows.
    pub fresh: bool,
    /// It was complete at least once.
    pub synced: bool,
    /// Why it does not follow.
    pub error: Option<String>,
}

/// The watch broke.
#[derive(Debug, thiserror::Error)]
pub enum ApiViewError {
    /// No usable kubeconfig.
    #[error("kubeconfig {path:?}")]
    Kubeconfig {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// No client can be made of it.
    #[error("client of the API server")]
    Client(#[source] Box<kube::Error>),
    /// The list or the watch failed.
    #[error("watch of the pods of node {node}")]
    Watch {
        /// This node.
        node: String,
        /// What came back.
        source: Box<watcher::Error>,
    },
}

impl ApiView {
    /// A view that does nothing before [`ApiView::run`].
    pub fn new(agent: Arc<Agent>, kubeconfig: std::path::PathBuf, node: String) -> Self {
        Self { agent, kubeconfig, node, health: watch::Sender::default() }
    }

    /// How the watch is, now and later.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Watches until the shutdown. Every failure begins anew from the kubeconfig: the kubelet's client certificate is
    /// replaced under its name now and then.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut attempt = 0;
        // Cancel-safe: dropping the watch loses nothing that was applied.
        while let Some(ended) = shutdown.run_until_cancelled(self.follow()).await {
            let was_fresh = self.health.borrow().fresh;
            attempt = if was_fresh { 0 } else { attempt + 1 };
            self.broke(ended.err());
            let pause = PAUSES[attempt.min(PAUSES.len() - 1)];
            if shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
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
    }

    /// One list and the watch after it, until it breaks.
    async fn follow(&self) -> Result<(), ApiViewError> {
        let pods: Api<core::Pod> = Api::all(self.client().await?);
        let selected = watcher::Config::default().fields(&format!("spec.nodeName={}", self.node));
        let mut events = pin!(watcher::watcher(pods, selected));
        let mut listed: Vec<Pod> = Vec::new();
        let failed = |source| ApiViewError::Watch { node: self.node.clone(), source: Box::new(source) };
        while let Some(event) = events.try_next().await.map_err(failed)? {
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(pod) => listed.extend(convert::pod(pod)),
                watcher::Event::InitDone => self.listed(std::mem::take(&mut listed)),
                watcher::Event::Apply(pod) => {
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
        self.agent.observe(Event::PodsListed(pods));
        self.agent.observe(Event::ViewFresh(true));
        self.agent.metrics().view_fresh(true);
        self.health.send_replace(Health { fresh: true, synced: true, error: None });
    }

    fn gone(&self, uid: PodUid) {
        self.agent.observe(Event::PodGone(uid));
    }

    async fn client(&self) -> Result<Client, ApiViewError> {
        let failed =
            |source| ApiViewError::Kubeconfig { path: self.kubeconfig.clone(), source: Box::new(source) };
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(failed)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(failed)?;
        Client::try_from(config).map_err(|source| ApiViewError::Client(Box::new(source)))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::{metrics::AgentMetrics, store::Store};

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
        let view = ApiView::new(agent, kubeconfig, "node-a".to_owned());
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
