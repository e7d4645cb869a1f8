//! Builds the components of the agent and starts its background tasks.

use std::{sync::Arc, time::Duration};

use berth_policy::time::later;
use berth_shim::{Metrics, RuntimeEndpoint, remote::Foresight};
use prometheus_client::registry::Registry;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::from_config;
use crate::{
    agent::{Agent, metrics::AgentMetrics, store::Store},
    base::causes::chain,
    cluster::{Cluster, node_labels::NodeLabels},
    config::{Configuration, ViewMode},
    cri::{self, Runtime},
    exec::Executor,
    images::{
        gate::tell_busy,
        node_image::{self, SharedImages},
    },
    pods::{
        api::{self, ApiView, Onlooker},
        exits,
    },
    probes::{
        node_pod_probe::{self, SharedProbes},
        prober::Prober,
    },
    recreate::{
        api::{ApiRequests, WatchHealth},
        files::Files,
    },
    update::Updates,
};

/// How long the start waits for the first lists of pods and of requests together. A node whose API server is
/// away must come up too.
const FIRST_VIEW: Duration = Duration::from_secs(6);
/// The same behind a shim, which lets calls wait for five seconds: in them the last process was found gone,
/// this one was started, the runtime is listed twice, and the shim is told.
const FIRST_VIEW_BEHIND_SHIM: Duration = Duration::from_millis(2500);

/// End of the wait for first lists that begins now.
fn first_lists_by(config: &Configuration) -> Instant {
    let wait = if config.shim_socket.is_some() { FIRST_VIEW_BEHIND_SHIM } else { FIRST_VIEW };
    Instant::from_std(later(Instant::now().into_std(), wait))
}

/// Components of the agent.
pub(super) struct Components {
    pub(super) agent: Arc<Agent>,
    pub(super) store: Arc<Store>,
    pub(super) images: Arc<SharedImages>,
    pub(super) probes: Arc<SharedProbes>,
    pub(super) runtime: Runtime,
    pub(super) executor: Executor,
    pub(super) files: Files,
    /// The side towards the API server, where there is one.
    pub(super) cluster: Option<Cluster>,
    pub(super) requests: Option<ApiRequests>,
    pub(super) updates: Option<Updates>,
    pub(super) shim_metrics: Metrics,
    pub(super) registry: Registry,
    prober: Prober,
    /// When the start waits no longer for first lists.
    listed_by: Instant,
}

/// Tasks of the agent, of two kinds.
#[derive(Default)]
pub(super) struct Tasks {
    /// Ends what the agent does of its own accord, which a successor takes over at once.
    pub(super) work: CancellationToken,
    pub(super) working: TaskTracker,
    /// Ends what its calls need.
    pub(super) stop: CancellationToken,
    pub(super) serving: TaskTracker,
}

// === impl Components ===

impl Components {
    pub(super) fn new(config: &Configuration, endpoint: &RuntimeEndpoint) -> anyhow::Result<Self> {
        let store = Arc::new(Store::open(&config.state_dir)?);
        let mut registry = Registry::default();
        // A shim of its own has its own.
        let shim_metrics = match config.shim_socket {
            Some(_) => Metrics::default(),
            None => Metrics::register(&mut registry),
        };
        let agent_metrics = AgentMetrics::register(&mut registry);
        from_config::tell(config, &agent_metrics);
        let images = Arc::new(SharedImages::new(node_image::limits(config), agent_metrics.clone()));
        let probes = Arc::new(SharedProbes::new(&config.probes, agent_metrics.clone()));
        let agent = Arc::new(Agent::new(from_config::policy(config), store.clone(), agent_metrics));
        if config.shim_socket.is_some() {
            // None is linked yet.
            Foresight::told(&*agent, None);
        }
        let runtime = Runtime::new(endpoint);
        let kubelet = from_config::kubelet(config)?;
        let cluster = from_config::cluster(config, &mut registry)?;
        let requests = cluster.clone().map(ApiRequests::new);
        let files = Files::new(agent.clone(), runtime.clone(), config.desired_dir.clone(), &config.state_dir);
        let prober = Prober::new(runtime.clone());
        let executor = Executor::new(
            agent.clone(),
            runtime.clone(),
            kubelet,
            files.clone(),
            requests.clone(),
            prober.clone(),
        );
        let updates = cluster
            .as_ref()
            .map(|cluster| Updates::new(agent.clone(), images.clone(), runtime.clone(), cluster, config));
        Ok(Self {
            agent,
            store,
            images,
            probes,
            runtime,
            executor,
            files,
            cluster,
            requests,
            updates,
            shim_metrics,
            registry,
            prober,
            listed_by: first_lists_by(config),
        })
    }

    /// Starts all of it, and waits a moment for the first list of pods. Gives the health of what is seen of
    /// them.
    pub(super) async fn begin(
        &mut self,
        config: &Configuration,
        endpoint: &RuntimeEndpoint,
        tasks: &Tasks,
    ) -> Option<watch::Receiver<api::Health>> {
        let Tasks { work, working, stop, serving } = tasks;
        let cluster = self.cluster.as_ref();
        node_image::start(config, endpoint, &self.images, cluster, &mut self.registry, working, work);
        if config.shim_socket.is_some() {
            serving.spawn(tell_busy(self.agent.clone(), self.images.clone(), stop.clone()));
        }
        working.spawn(self.agent.clone().recall_in_time(work.clone()));
        let listed = self.recover().await;
        working.spawn(self.files.watch().await.run(work.clone()));
        serving.spawn(self.executor.clone().run(stop.clone()));
        serving.spawn(exits::follow(self.agent.clone(), endpoint.clone(), stop.clone()));
        serving.spawn(self.executor.clone().keep_in_step(listed, stop.clone()));
        // Before the pods: where the agent renews its token, they may need it.
        if let Some(cluster) = cluster {
            working.spawn(cluster.clone().run(work.clone()));
        }
        if let Some(requests) = &self.requests {
            working.spawn(requests.clone().run(self.agent.clone(), work.clone()));
        }
        let probes = self.probes.clone();
        let mut onlookers: Vec<Arc<dyn Onlooker>> = vec![probes.clone()];
        onlookers.extend(self.updates.as_ref().map(|updates| -> Arc<dyn Onlooker> { updates.pods() }));
        let view = self.view(config, onlookers, tasks).await;
        if let Some(cluster) = cluster {
            let labels = NodeLabels::new(cluster.clone(), self.shim_metrics.clone(), config);
            working.spawn(labels.run(work.clone()));
            let (agent, prober) = (self.agent.clone(), self.prober.clone());
            working.spawn(node_pod_probe::run(agent, probes, cluster.clone(), prober, work.clone()));
        }
        if let Some(updates) = &self.updates {
            working.spawn(updates.clone().run(work.clone()));
        }
        view
    }

    /// Lists the runtime once. One that is away is no reason not to start: its clients get UNAVAILABLE until
    /// it is back.
    async fn recover(&self) -> bool {
        match self.executor.resync(cri::PATIENCE).await {
            Ok(()) => true,
            Err(error) => {
                warn!(error = %chain(&error), "Runtime not listed at start, calls fail until it is there");
                false
            }
        }
    }

    /// Starts the pod view and waits a moment for its first list.
    async fn view(
        &self,
        config: &Configuration,
        onlookers: Vec<Arc<dyn Onlooker>>,
        tasks: &Tasks,
    ) -> Option<watch::Receiver<api::Health>> {
        if let Some(cluster) = &self.cluster {
            let (connection, node) = (cluster.connection().clone(), cluster.node().to_owned());
            let view = ApiView::new(self.agent.clone(), connection, node, onlookers);
            let mut health = view.health();
            tasks.serving.spawn(view.run(tasks.stop.clone()));
            let first = health.wait_for(|health| health.synced);
            if timeout_at(self.listed_by, first).await.is_err() {
                warn!(
                    "Pods not listed yet, starting without: stops wait 2 s for them, and then keep no order"
                );
            }
            return Some(health);
        }
        if config.pod_view.mode == ViewMode::Kubelet {
            // Cancel-safe: it is asked again when something waits for it.
            if timeout_at(self.listed_by, self.executor.poll_kubelet()).await.is_err() {
                warn!("Kubelet has not shown its pods yet, starting without");
            }
        } else {
            warn!(
                "No pod view: only pods played by berthctl are ordered; give podView.kubeconfig for the others"
            );
        }
        None
    }

    /// Waits a moment for the first list of requests: what the kubelet is shown of the containers of an
    /// interrupted recreate depends on it. While the API server is away they have to wait.
    pub(super) async fn await_requests(&self) {
        let (Some(requests), Some(updates)) = (&self.requests, &self.updates) else { return };
        let (mut requests, mut updates) = (requests.health(), updates.ready());
        let first = async {
            // Errors are the end of the run.
            let _ = requests.wait_for(|health| *health != WatchHealth::Starting).await;
            let _ = updates.wait_for(|ready| *ready).await;
        };
        if timeout_at(self.listed_by, first).await.is_err() {
            warn!("Requests not listed yet, starting without");
        }
    }
}

// === impl Tasks ===

impl Tasks {
    /// Ends all of them.
    pub(super) async fn end(self) {
        self.work.cancel();
        self.stop.cancel();
        for tasks in [self.working, self.serving] {
            tasks.close();
            tasks.wait().await;
        }
    }
}
