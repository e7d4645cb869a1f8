//! Wires the agent together, and takes it apart in order.
//!
//! Start: take the socket (clients wait in its backlog), open the store, list the runtime, see the pods, *then* accept.
//! Stop: no new connection, GOAWAY, open calls to their end within the drain limit, then everything else.

use std::{os::unix::net::UnixListener, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use berth_shim::{Clients, Metrics, Shutdown};
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    admin::{self, Admin},
    agent::{Agent, chain},
    cluster::{Cluster, metrics::ClusterMetrics, requests::WatchHealth},
    config::{Configuration, FailurePolicy, Place, ViewMode},
    data_path::{DataPath, Parts},
    desired::Files,
    exec::Executor,
    health::Health,
    heartbeat::Heartbeat,
    http,
    in_place_update::{Pods, Updates},
    metrics::AgentMetrics,
    node_image::{self, Keeper},
    pod_view::{
        api::{self, ApiView},
        kubelet::KubeletView,
    },
    runtime::{self, Runtime},
    store::Store,
    systemd,
};

/// How long the start waits for the first list of pods. A node whose API server is away must come up too.
const FIRST_VIEW: Duration = Duration::from_secs(3);

/// Runs the agent until it is told to stop.
pub fn run(config: Configuration, passed: Option<UnixListener>) -> anyhow::Result<()> {
    // One provider for the process; without it rustls panics at the first use when features bring in two.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider is installed already"))?;
    let control = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    control.block_on(serve(config, passed))
}

async fn serve(config: Configuration, passed: Option<UnixListener>) -> anyhow::Result<()> {
    // Before anything is taken: a stop that is asked for during the start is a clean one too.
    let mut signals = Signals::new()?;
    let endpoint = match config.runtime_endpoint.clone() {
        Some(endpoint) => endpoint.0,
        None => runtime::find().parse()?,
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        socket = %config.socket,
        runtime = %endpoint,
        pod_view = config.pod_view.mode.name(),
        "berthd starts"
    );
    anyhow::ensure!(
        endpoint.path() != config.socket.as_path(),
        "runtimeEndpoint {endpoint} is the agent's own socket; give the runtime's"
    );

    // The socket first: it is also the lock that keeps a second agent out of the store.
    let data_path = match config.path {
        Place::Inline => {
            let socket = config.socket.as_path().to_owned();
            Some(DataPath::take(socket, passed, endpoint.clone()).await?)
        }
        Place::Beside => None,
    };
    let admin_listener =
        berth_shim::bind(config.admin_socket.as_path(), &endpoint).await.context("adminSocket")?;
    let http_listener = TcpListener::bind(config.http_address)
        .await
        .with_context(|| format!("httpAddress {}", config.http_address))?;
    let store = Arc::new(Store::open(&config.state_dir)?);

    let mut registry = Registry::default();
    let shim_metrics = Metrics::register(&mut registry);
    let agent_metrics = AgentMetrics::register(&mut registry);
    let images = Arc::new(Keeper::new(node_image::limits(&config), agent_metrics.clone()));
    let agent = Arc::new(Agent::new(policy(&config), store, images.clone(), agent_metrics));
    let runtime = Runtime::new(&endpoint);
    let kubelet = kubelet(&config)?;

    let cluster = cluster(&config, &mut registry)?;
    let files = Files::new(agent.clone(), runtime.clone(), config.desired_dir.clone(), &config.state_dir);
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    node_image::start(&config, &endpoint, &images, cluster.as_ref(), &mut registry, &tasks, &stop);
    let executor = Executor::new(agent.clone(), runtime.clone(), kubelet, files.clone(), cluster.clone());
    let listed = recover(&executor).await;
    tasks.spawn(files.watch().await.run(stop.clone()));
    tasks.spawn(executor.clone().run(stop.clone()));
    tasks.spawn(executor.clone().keep_in_step(listed, stop.clone()));
    // Before the pods: where the agent renews its token, they may need it.
    if let Some(cluster) = &cluster {
        tasks.spawn(cluster.clone().run(agent.clone(), stop.clone()));
    }
    let updates = cluster
        .as_ref()
        .map(|cluster| Updates::new(agent.clone(), images.clone(), runtime.clone(), cluster, &config));
    let pods = updates.as_ref().map(Updates::pods).unwrap_or_default();
    let api = view(&config, cluster.as_ref(), pods, &agent, &executor, &tasks, &stop).await;
    if let Some(updates) = &updates {
        tasks.spawn(updates.clone().run(stop.clone()));
    }

    let heartbeat = Arc::new(Heartbeat::new());
    let health = Health {
        agent: agent.clone(),
        runtime,
        heartbeat: heartbeat.clone(),
        mode: config.pod_view.mode,
        api,
    };
    let admin = Admin {
        health: health.clone(),
        shim: shim_metrics.clone(),
        path: config.path.name(),
        socket: config.socket.to_string(),
        runtime_endpoint: endpoint.to_string(),
        started: std::time::Instant::now(),
        files,
        updates: updates.clone(),
        images,
        stop: stop.clone(),
        identity: cluster.as_ref().map(Cluster::identity),
    };
    tasks.spawn(admin::serve(admin_listener, admin, stop.clone()));
    tasks.spawn(http::serve(http_listener, Arc::new(http::Pages { health, registry }), stop.clone()));

    let drain = Shutdown { token: CancellationToken::new(), drain_limit: config.drain_timeout.0 };
    if let (Some(cluster), Some(updates)) = (&cluster, &updates) {
        await_requests(cluster, updates).await;
    }
    let ended = match data_path {
        Some(data_path) => Some(data_path.serve(Parts {
            agent,
            clients: Clients { kubelet: config.kubelet_processes },
            metrics: shim_metrics,
            heartbeat: heartbeat.clone(),
            shutdown: drain.clone(),
        })?),
        None => {
            let (heartbeat, stopped) = (heartbeat.clone(), drain.token.clone());
            tokio::spawn(async move { heartbeat.beat(stopped).await });
            None
        }
    };
    tokio::spawn(systemd::watchdog(heartbeat, drain.token.clone()));
    systemd::notify(&[NotifyState::Ready]);
    info!("berthd serves");

    let result = signals.until_told(&drain, ended).await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    info!("berthd stopped");
    result
}

/// The signals the agent is told to stop with.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, drains, and waits for the end of the data path where there is one. A second signal cuts the
    /// drain short.
    async fn until_told(
        &mut self,
        drain: &Shutdown,
        ended: Option<oneshot::Receiver<()>>,
    ) -> anyhow::Result<()> {
        let stopped = drain.token.clone();
        let mut ended = pin!(async move {
            match ended {
                // An error is the end of the thread, too.
                Some(ended) => drop(ended.await),
                None => stopped.cancelled().await,
            }
        });
        loop {
            // Cancel-safe: a signal that comes while another one is handled stays pending.
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = self.hangup.recv() => {
                    warn!("SIGHUP does not reload the configuration, restart berthd for that");
                    continue;
                }
                () = &mut ended => {
                    anyhow::ensure!(drain.token.is_cancelled(), "the data path's thread died");
                    return Ok(());
                }
            }
            if drain.token.is_cancelled() {
                warn!("Second signal, open calls are cut");
                return Ok(());
            }
            systemd::notify(&[NotifyState::Stopping]);
            drain.token.cancel();
        }
    }
}

fn policy(config: &Configuration) -> berth_policy::Config {
    berth_policy::Config {
        view: match config.pod_view.mode {
            ViewMode::None => berth_policy::View::None,
            ViewMode::Auto | ViewMode::Api | ViewMode::Kubelet => berth_policy::View::Watched,
        },
        launch_order: config.launch_order.enabled,
        exit_order: config.exit_order.enabled,
        hold: config.launch_order.hold_timeout.0,
        unknown_pods: match config.launch_order.failure_policy {
            FailurePolicy::Open => berth_policy::UnknownPods::Open,
            FailurePolicy::Closed => berth_policy::UnknownPods::Closed,
        },
        kubelet_poll: config.pod_view.kubelet.is_some(),
        path: match config.path {
            Place::Inline => berth_policy::Path::Inline,
            Place::Beside => berth_policy::Path::Beside,
        },
        api_requests: config.pod_view.mode == ViewMode::Api,
        file_requests: true,
        update_requests: config.pod_view.mode == ViewMode::Api,
    }
}

fn kubelet(config: &Configuration) -> anyhow::Result<Option<Arc<KubeletView>>> {
    let alone = config.pod_view.mode == ViewMode::Kubelet;
    let view =
        config.pod_view.kubelet.as_ref().map(|kubelet| KubeletView::new(kubelet, alone)).transpose()?;
    Ok(view.map(Arc::new))
}

/// Waits for the first list of requests: what the kubelet is shown of the containers of an interrupted recreate depends on
/// it. While the API server is away they have to wait.
async fn await_requests(cluster: &Cluster, updates: &Updates) {
    let (mut requests, mut updates) = (cluster.requests(), updates.ready());
    let first = async {
        // Errors are the end of the run.
        let _ = requests.wait_for(|health| *health != WatchHealth::Starting).await;
        let _ = updates.wait_for(|ready| *ready).await;
    };
    if tokio::time::timeout(FIRST_VIEW, first).await.is_err() {
        warn!("Requests not listed yet, starting without");
    }
}

/// Lists the runtime once. One that is away is no reason not to start: its clients get UNAVAILABLE until it is back.
async fn recover(executor: &Executor) -> bool {
    match executor.resync().await {
        Ok(()) => true,
        Err(error) => {
            warn!(error = %chain(&error), "Runtime not listed at start, calls fail until it is there");
            false
        }
    }
}

/// The side towards the API server, where there is one.
fn cluster(config: &Configuration, registry: &mut Registry) -> anyhow::Result<Option<Cluster>> {
    if config.pod_view.mode != ViewMode::Api {
        return Ok(None);
    }
    let node = config.node_name.clone().map_or_else(host_name, Ok)?;
    Ok(Some(Cluster::new(config, node, ClusterMetrics::register(registry))))
}

/// Starts the pod view and waits a moment for its first list.
async fn view(
    config: &Configuration,
    cluster: Option<&Cluster>,
    pods: Arc<Pods>,
    agent: &Arc<Agent>,
    executor: &Executor,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Option<watch::Receiver<api::Health>> {
    if let Some(cluster) = cluster {
        let view = ApiView::new(agent.clone(), cluster.connection().clone(), cluster.node().to_owned(), pods);
        let mut health = view.health();
        tasks.spawn(view.run(stop.clone()));
        let first = tokio::time::timeout(FIRST_VIEW, health.wait_for(|health| health.synced)).await.is_ok();
        if !first {
            warn!("Pods not listed yet, starting without");
        }
        return Some(health);
    }
    if config.pod_view.mode == ViewMode::Kubelet {
        executor.poll_kubelet().await;
    } else {
        warn!(
            "No pod view: only pods played by berthctl are ordered; give podView.kubeconfig for the others"
        );
    }
    None
}

/// The kubelet's default for the name of its node.
fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("the host name, for nodeName")?;
    let name =
        name.into_string().map_err(|name| anyhow!("host name {name:?} is not UTF-8; give nodeName"))?;
    Ok(name.trim().to_lowercase())
}
