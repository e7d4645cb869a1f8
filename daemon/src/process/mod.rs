//! Wires the agent together, and takes it apart in order.
//!
//! Start: take the socket (clients wait in its backlog), open the store, list the runtime, see the pods, *then* accept.
//! Stop: no new connection, GOAWAY, open calls to their end within the drain limit, then everything else. A hand-over is a stop
//! without a limit, by a successor that accepts already.

pub mod allocator;
mod data_path;
pub mod flags;
pub mod open_files;
mod own;
mod parts;
mod signals;
mod sockets;
pub mod telemetry;
mod text_pages;

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, anyhow};
use berth_shim::{Clients, RuntimeEndpoint, Shutdown};
use sd_notify::NotifyState;
use tokio::{runtime::Handle, sync::oneshot};
use tracing::info;

use self::{
    own::{Own, Tasks},
    signals::Signals,
    sockets::Front,
};
use crate::{
    admin::{self, Admin, health::Health, http},
    agent::fault::Point,
    cluster::Cluster,
    config::Configuration,
    cri::Runtime,
    images::gate::ImageGate,
    process::data_path::{DataPath, Parts},
    succession::{
        handover::{HandOver, Owned, Predecessor, Sockets, TakeOver},
        heartbeat::Heartbeat,
        kept,
        systemd::{self, Passed},
        takeover::Leaving,
    },
};

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

    let (predecessor, inherited) = inherit(start.take_over.as_ref(), &endpoint).await?;
    let shutdown = Shutdown::new(config.drain_timeout.0);
    let front = Front::take(&config, &endpoint, paths, start.passed.socket, inherited).await?;
    let mut leaving = Leaving::new(front.place.clone(), shutdown.succeeded.clone(), predecessor.is_none());
    let mut own = Own::new(&config, &endpoint)?;
    let tasks = Tasks::default();
    let view = own.begin(&config, &endpoint, &tasks).await;

    let heartbeat = Arc::new(Heartbeat::new());
    let health = Health {
        agent: own.agent.clone(),
        runtime: own.runtime.clone(),
        heartbeat: heartbeat.clone(),
        mode: config.pod_view.mode,
        place: front.place.clone(),
        api: view,
        threads: [("control", Handle::current())]
            .into_iter()
            .chain(front.data_path.as_ref().map(|data_path| ("data-path", data_path.handle())))
            .collect(),
    };
    // Ends the accepting of those who are not the kubelet, which is also the end of the agent.
    let accepting = tasks.stop.child_token();
    let handover = HandOver::new(Owned {
        agent: own.agent.clone(),
        executor: own.executor.clone(),
        store: own.store.clone(),
        sockets: front.descriptors,
        work: tasks.work.clone(),
        working: tasks.working.clone(),
        front: accepting.clone(),
        shutdown: shutdown.clone(),
    });
    let admin = Admin {
        health: health.clone(),
        shim: own.shim_metrics.clone(),
        path: config.path.name(),
        socket,
        runtime_endpoint: endpoint.to_string(),
        started: std::time::Instant::now(),
        files: own.files.clone(),
        updates: own.updates.clone(),
        images: own.images.clone(),
        stop: tasks.work.clone(),
        identity: own.cluster.as_ref().map(Cluster::identity),
        policies: own.cluster.as_ref().map(Cluster::policies),
        handover: handover.clone(),
        shutdown: shutdown.clone(),
        config_file: start.config_file,
    };
    let pages = Arc::new(http::Pages { health, registry: std::mem::take(&mut own.registry) });
    tasks.serving.spawn(admin::serve(front.admin, admin, accepting.clone()));
    tasks.serving.spawn(handover.clone().serve(front.handover, accepting.clone()));
    tasks.serving.spawn(http::serve(front.http, pages, accepting));

    own.await_requests().await;
    let parts = Parts {
        gate: Arc::new(ImageGate::new(own.agent.clone(), own.images.clone())),
        clients: Clients { kubelet: config.kubelet_processes },
        metrics: own.shim_metrics.clone(),
        heartbeat: heartbeat.clone(),
        shutdown: shutdown.clone(),
        keeper: kept::keeper(shutdown.succeeded.clone()),
    };
    let kept = kept::take_over(start.passed.connections);
    tasks.serving.spawn(kept::hold(kept, tasks.stop.clone()));
    let ended = serve_calls(front.data_path, parts)?;
    if let Some(predecessor) = predecessor {
        Point::Accepting.reached();
        predecessor.ready().await?;
        leaving.succeed();
        Point::Succeeded.reached();
    }
    if let Some(place) = &front.place {
        tasks.working.spawn(place.clone().keep(tasks.work.clone()));
    }
    tokio::spawn(systemd::watchdog(heartbeat, shutdown.clone()));
    tokio::spawn(text_pages::return_after_start());
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

/// Lets the data path begin; beside the runtime there is none, and its pulse is the agent's own. Gives its end.
fn serve_calls(data_path: Option<DataPath>, parts: Parts) -> anyhow::Result<Option<oneshot::Receiver<()>>> {
    if let Some(data_path) = data_path {
        return data_path.serve(parts).map(Some);
    }
    let Parts { heartbeat, shutdown, .. } = parts;
    tokio::spawn(async move { heartbeat.beat(shutdown.token).await });
    Ok(None)
}
