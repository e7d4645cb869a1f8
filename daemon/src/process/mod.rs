//! Wires the agent together, and takes it apart in order.
//!
//! Start: take the socket (clients wait in its backlog), open the store, list the runtime, see the pods,
//! *then* accept. Stop: no new connection, GOAWAY, open calls to their end within the drain limit, then
//! everything else. A hand-over is a stop without a limit, by a successor that accepts already.

mod components;
mod data_path;
pub mod flags;
mod from_config;
mod link;
pub mod open_files;
mod signals;
mod sockets;
pub mod telemetry;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, anyhow};
use berth_malloc::growth::keep_small;
use berth_shim::{Clients, RuntimeEndpoint, Shutdown, remote::AgentLink};
use sd_notify::NotifyState;
use tokio::{runtime::Handle, sync::oneshot};
use tracing::info;

use self::{
    components::{Components, Tasks},
    signals::Signals,
    sockets::Front,
};
use crate::{
    admin::{
        self, Admin,
        health::{Answered, Health},
        http,
        own::OwnMetrics,
    },
    agent::fault::Point,
    cluster::Cluster,
    config::Configuration,
    cri::Runtime,
    images::gate::ImageGate,
    process::data_path::{DataPath, Serving},
    scrape::{self, Reviewer},
    succession::{
        fd_store,
        handover::{HandOver, OldProcess, Owned, Sockets, TakeOver},
        heartbeat::Heartbeat,
        systemd::{self, Passed},
        takeover::Leaving,
    },
    trace,
};

/// Time from the start until its memory is returned: by then the pods are listed and the watches stand.
const RETURN_UNUSED: Duration = Duration::from_secs(30);

/// Circumstances of a start, besides its configuration.
#[derive(Debug, Default)]
pub struct Start {
    /// The file the configuration comes from.
    pub config_file: Option<PathBuf>,
    /// Descriptors that systemd passed.
    pub passed: Passed,
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

    let (old, inherited) = inherit(start.take_over.as_ref(), &endpoint).await?;
    let shutdown = Shutdown::new(config.drain_timeout.0);
    let front = Front::take(&config, &endpoint, paths, start.passed.socket, inherited).await?;
    let mut leaving = Leaving::new(front.place.clone(), shutdown.succeeded.clone(), old.is_none());
    let mut components = Components::new(&config, &endpoint)?;
    let tasks = Tasks::default();
    if config.tracing.endpoint.is_some() {
        let (node, serving) = (from_config::node_name(&config)?, &tasks.serving);
        trace::start(&config.tracing, node, &mut components.registry, serving, tasks.stop.clone())?;
    }
    let view = components.begin(&config, &endpoint, &tasks).await;

    let gate = Arc::new(ImageGate::new(components.agent.clone(), components.images.clone()));
    let link = config.shim_socket.as_ref().map(|_| link::of(gate.clone(), &components));
    let heartbeat = Arc::new(Heartbeat::new());
    let health = Health {
        agent: components.agent.clone(),
        runtime: components.runtime.clone(),
        answered: Answered::default(),
        heartbeat: heartbeat.clone(),
        mode: config.pod_view.mode,
        place: front.place.clone(),
        shim: link.as_ref().map(AgentLink::linked),
        api: view,
        threads: [("control", Handle::current())]
            .into_iter()
            .chain(front.data_path.as_ref().map(|data_path| ("data-path", data_path.handle())))
            .collect(),
        own: OwnMetrics::register(&mut components.registry),
        identity: components.cluster.as_ref().map(Cluster::identity),
    };
    // Ends the accepting of those who are not the kubelet, which is also the end of the agent.
    let accepting = tasks.stop.child_token();
    let handover = HandOver::new(Owned {
        agent: components.agent.clone(),
        executor: components.executor.clone(),
        store: components.store.clone(),
        sockets: front.descriptors,
        work: tasks.work.clone(),
        working: tasks.working.clone(),
        front: accepting.clone(),
        shutdown: shutdown.clone(),
    });
    let admin = Admin {
        health: health.clone(),
        shim: components.shim_metrics.clone(),
        path: config.path.name(),
        socket,
        runtime_endpoint: endpoint.to_string(),
        started: std::time::Instant::now(),
        files: components.files.clone(),
        updates: components.updates.clone(),
        images: components.images.clone(),
        probes: components.probes.clone(),
        stop: tasks.work.clone(),
        identity: components.cluster.as_ref().map(Cluster::identity),
        policies: components.cluster.as_ref().map(Cluster::policies),
        handover: handover.clone(),
        shutdown: shutdown.clone(),
        config_file: start.config_file,
    };
    let pages = Arc::new(http::Pages {
        health,
        registry: std::mem::take(&mut components.registry),
        shim: config.shim_socket.as_ref().map(|socket| http::OfShim::new(socket.as_path().to_owned())),
    });
    tasks.serving.spawn(admin::serve(front.admin, admin, accepting.clone()));
    tasks.serving.spawn(handover.clone().serve(front.handover, accepting.clone()));
    if let Some(cluster) = &components.cluster {
        let (reviewer, node) = (Reviewer::new(cluster.connection().clone()), cluster.node().to_owned());
        let (pages, accepting) = (pages.clone(), accepting.clone());
        tasks.serving.spawn(scrape::serve(config.metrics.clone(), reviewer, node, pages, accepting));
    }
    tasks.serving.spawn(http::serve(front.http, pages, accepting));

    components.await_requests().await;
    let serving = Serving {
        gate,
        clients: Clients { kubelet: config.kubelet_processes.clone() },
        metrics: components.shim_metrics.clone(),
        heartbeat: heartbeat.clone(),
        shutdown: shutdown.clone(),
        fd_store: fd_store::of_systemd(shutdown.succeeded.clone()),
    };
    let kept = fd_store::take_over(start.passed.connections);
    tasks.serving.spawn(fd_store::hold(kept, tasks.stop.clone()));
    let ended = match (&config.shim_socket, link) {
        (Some(socket), Some(link)) => {
            link::start(link, socket.as_path(), serving, tasks.work.clone())?;
            None
        }
        _ => serve_calls(front.data_path, serving)?,
    };
    if let Some(old) = old {
        Point::Accepting.reached();
        old.ready().await?;
        leaving.succeed();
        Point::Succeeded.reached();
    }
    if let Some(place) = &front.place {
        tasks.working.spawn(place.clone().keep(tasks.work.clone()));
    }
    tokio::spawn(systemd::watchdog(heartbeat, shutdown.clone()));
    tokio::spawn(keep_small(RETURN_UNUSED));
    systemd::notify(&[NotifyState::Ready]);
    info!("berthd serves");

    let result = signals.until_told(&shutdown, ended, front.place.as_deref()).await;
    handover.settled().await;
    tasks.end().await;
    info!("berthd stopped");
    result
}

/// Takes over from a berthd that runs, where there is one to take the place of.
async fn inherit(
    at: Option<&TakeOver>,
    endpoint: &RuntimeEndpoint,
) -> anyhow::Result<(Option<OldProcess>, Sockets)> {
    let old = match at {
        Some(at) => OldProcess::meet(at).await?,
        None => None,
    };
    let Some(mut old) = old else { return Ok((None, Sockets::default())) };
    // Before anything is taken: where this fails nothing has changed.
    let answer = Runtime::new(endpoint).version().await;
    answer.context("the runtime does not answer, the berthd that runs stays")?;
    let sockets = old.take().await?;
    Point::Taken.reached();
    Ok((Some(old), sockets))
}

/// Lets the data path begin; beside the runtime there is none, and its pulse is the agent's own. Gives its
/// end.
fn serve_calls(
    data_path: Option<DataPath>,
    serving: Serving,
) -> anyhow::Result<Option<oneshot::Receiver<()>>> {
    if let Some(data_path) = data_path {
        return data_path.serve(serving).map(Some);
    }
    let Serving { heartbeat, shutdown, .. } = serving;
    tokio::spawn(async move { heartbeat.beat(shutdown.token).await });
    Ok(None)
}
