//! Wires the agent together, and takes it apart in order.
//!
//! Start: take the socket (clients wait in its backlog), open the store, list the runtime, see the pods, *then* accept.
//! Stop: no new connection, GOAWAY, open calls to their end within the drain limit, then everything else. A hand-over is a stop
//! without a limit, by a successor that accepts already.

mod parts;
mod signals;
mod sockets;

use std::{os::unix::net::UnixListener, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use berth_shim::{Clients, Metrics, RuntimeEndpoint, Shutdown};
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use self::{signals::Signals, sockets::Front};
use crate::{
    admin::{self, Admin},
    agent::{Agent, chain},
    cluster::{Cluster, node_labels::NodeLabels, requests::WatchHealth},
    config::{Configuration, ViewMode},
    data_path::Parts,
    desired::Files,
    exec::Executor,
    fault::Point,
    handover::{HandOver, Owned, Predecessor, Sockets, TakeOver},
    health::Health,
    heartbeat::Heartbeat,
    http,
    in_place_update::Updates,
    metrics::AgentMetrics,
    node_image::{self, Keeper},
    node_pod_probe,
    pod_view::api::{self, ApiView, Onlooker},
    probe::Prober,
    runtime::{self, Runtime},
    store::Store,
    systemd,
    takeover::Leaving,
};

/// How long the start waits for the first list of pods. A node whose API server is away must come up too.
const FIRST_VIEW: Duration = Duration::from_secs(3);

/// What a run begins with, besides its configuration.
#[derive(Debug, Default)]
pub struct Start {
    /// The file the configuration comes from.
    pub config_file: Option<PathBuf>,
    /// The CRI socket, if systemd passed one.
    pub passed: Option<UnixListener>,
    /// Where to look for a berthd whose place is to be taken.
    pub take_over: Option<TakeOver>,
}

/// Runs the agent until it is told to stop, or has handed its place over.
pub fn run(config: Configuration, start: Start) -> anyhow::Result<()> {
    // One provider for the process; without it rustls panics at the first use when features bring in two.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider is installed already"))?;
    let control = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    control.block_on(serve(config, start))
}

async fn serve(config: Configuration, start: Start) -> anyhow::Result<()> {
    // Before anything is taken: a stop that is asked for during the start is a clean one too.
    let mut signals = Signals::new()?;
    let (socket, endpoint, paths) = sockets::addresses(&config)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        socket,
        runtime = %endpoint,
        pod_view = config.pod_view.mode.name(),
        "berthd starts"
    );
    anyhow::ensure!(
        endpoint.path() != config.socket.as_path(),
        "runtimeEndpoint {endpoint} is the agent's own socket; give the runtime's"
    );

    let (predecessor, inherited) = inherit(start.take_over.as_ref(), &endpoint).await?;
    let shutdown = Shutdown::new(config.drain_timeout.0);
    let front = Front::take(&config, &endpoint, paths, start.passed, inherited).await?;
    let mut leaving = Leaving::new(front.place.clone(), shutdown.succeeded.clone(), predecessor.is_none());
    let store = Arc::new(Store::open(&config.state_dir)?);

    let mut registry = Registry::default();
    let shim_metrics = Metrics::register(&mut registry);
    let agent_metrics = AgentMetrics::register(&mut registry);
    let images = Arc::new(Keeper::new(node_image::limits(&config), agent_metrics.clone()));
    let agent = Arc::new(Agent::new(parts::policy(&config), store.clone(), images.clone(), agent_metrics));
    let runtime = Runtime::new(&endpoint);
    let kubelet = parts::kubelet(&config)?;

    let cluster = parts::cluster(&config, &mut registry)?;
    let files = Files::new(agent.clone(), runtime.clone(), config.desired_dir.clone(), &config.state_dir);
    // Two kinds: what the agent does of its own accord, which a successor takes over at once, and what its calls need.
    let (work, working) = (CancellationToken::new(), TaskTracker::new());
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    node_image::start(&config, &endpoint, &images, cluster.as_ref(), &mut registry, &working, &work);
    let prober = Prober::new(runtime.clone());
    let (files_too, cluster_too) = (files.clone(), cluster.clone());
    let executor =
        Executor::new(agent.clone(), runtime.clone(), kubelet, files_too, cluster_too, prober.clone());
    let listed = recover(&executor).await;
    working.spawn(files.watch().await.run(work.clone()));
    tasks.spawn(executor.clone().run(stop.clone()));
    tasks.spawn(runtime::exits::follow(agent.clone(), endpoint.clone(), stop.clone()));
    tasks.spawn(executor.clone().keep_in_step(listed, stop.clone()));
    // Before the pods: where the agent renews its token, they may need it.
    if let Some(cluster) = &cluster {
        working.spawn(cluster.clone().run(agent.clone(), work.clone()));
    }
    let updates = cluster
        .as_ref()
        .map(|cluster| Updates::new(agent.clone(), images.clone(), runtime.clone(), cluster, &config));
    let probes = Arc::new(node_pod_probe::Keeper::new(config.probes.limits(), agent.metrics().clone()));
    let mut onlookers: Vec<Arc<dyn Onlooker>> = vec![probes.clone()];
    onlookers.extend(updates.as_ref().map(|updates| -> Arc<dyn Onlooker> { updates.pods() }));
    let api = view(&config, cluster.as_ref(), onlookers, &agent, &executor, &tasks, &stop).await;
    if let Some(cluster) = &cluster {
        working.spawn(NodeLabels::new(cluster.clone(), shim_metrics.clone(), &config).run(work.clone()));
        working.spawn(node_pod_probe::run(agent.clone(), probes, cluster.clone(), prober, work.clone()));
    }
    if let Some(updates) = &updates {
        working.spawn(updates.clone().run(work.clone()));
    }

    let heartbeat = Arc::new(Heartbeat::new());
    let health = Health {
        agent: agent.clone(),
        runtime,
        heartbeat: heartbeat.clone(),
        mode: config.pod_view.mode,
        place: front.place.clone(),
        api,
        threads: [("control", Handle::current())]
            .into_iter()
            .chain(front.data_path.as_ref().map(|data_path| ("data-path", data_path.handle())))
            .collect(),
    };
    // Ends the accepting of those who are not the kubelet, which is also the end of the agent.
    let accepting = stop.child_token();
    let handover = HandOver::new(Owned {
        agent: agent.clone(),
        executor,
        store,
        sockets: front.descriptors,
        work: work.clone(),
        working: working.clone(),
        front: accepting.clone(),
        shutdown: shutdown.clone(),
    });
    let admin = Admin {
        health: health.clone(),
        shim: shim_metrics.clone(),
        path: config.path.name(),
        socket,
        runtime_endpoint: endpoint.to_string(),
        started: std::time::Instant::now(),
        files,
        updates: updates.clone(),
        images,
        stop: work.clone(),
        identity: cluster.as_ref().map(Cluster::identity),
        handover: handover.clone(),
        shutdown: shutdown.clone(),
        config_file: start.config_file,
    };
    tasks.spawn(admin::serve(front.admin, admin, accepting.clone()));
    tasks.spawn(handover.clone().serve(front.handover, accepting.clone()));
    tasks.spawn(http::serve(front.http, Arc::new(http::Pages { health, registry }), accepting));

    if let (Some(cluster), Some(updates)) = (&cluster, &updates) {
        await_requests(cluster, updates).await;
    }
    let ended = match front.data_path {
        Some(data_path) => Some(data_path.serve(Parts {
            agent,
            clients: Clients { kubelet: config.kubelet_processes },
            metrics: shim_metrics,
            heartbeat: heartbeat.clone(),
            shutdown: shutdown.clone(),
        })?),
        None => {
            let (heartbeat, stopped) = (heartbeat.clone(), shutdown.token.clone());
            tokio::spawn(async move { heartbeat.beat(stopped).await });
            None
        }
    };
    if let Some(predecessor) = predecessor {
        Point::Accepting.reached();
        predecessor.ready().await?;
        leaving.succeed();
        Point::Succeeded.reached();
    }
    if let Some(place) = &front.place {
        working.spawn(place.clone().keep(work.clone()));
    }
    tokio::spawn(systemd::watchdog(heartbeat, shutdown.clone()));
    systemd::notify(&[NotifyState::Ready]);
    info!("berthd serves");

    let result = signals.until_told(&shutdown, ended, front.place.as_deref()).await;
    handover.settled().await;
    work.cancel();
    stop.cancel();
    for tasks in [working, tasks] {
        tasks.close();
        tasks.wait().await;
    }
    info!("berthd stopped");
    result
}

/// What a berthd that runs hands over, where there is one to take the place of.
async fn inherit(
    at: Option<&TakeOver>,
    endpoint: &RuntimeEndpoint,
) -> anyhow::Result<(Option<Predecessor>, Sockets)> {
    let predecessor = match at {
        Some(at) => Predecessor::meet(at).await?,
        None => None,
    };
    let Some(mut predecessor) = predecessor else { return Ok((None, Sockets::default())) };
    // Before anything is taken: where this fails nothing has changed.
    let answer = Runtime::new(endpoint).version().await;
    answer.context("the runtime does not answer, the berthd that runs stays")?;
    let sockets = predecessor.take().await?;
    Point::Taken.reached();
    Ok((Some(predecessor), sockets))
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

/// Starts the pod view and waits a moment for its first list.
async fn view(
    config: &Configuration,
    cluster: Option<&Cluster>,
    onlookers: Vec<Arc<dyn Onlooker>>,
    agent: &Arc<Agent>,
    executor: &Executor,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Option<watch::Receiver<api::Health>> {
    if let Some(cluster) = cluster {
        let (connection, node) = (cluster.connection().clone(), cluster.node().to_owned());
        let view = ApiView::new(agent.clone(), connection, node, onlookers);
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
