//! The thread that runs the data path, and nothing else.
//!
//! Its runtime is single-threaded: that costs half the CPU and latency of one that steals work, and one
//! thread carries more calls than any kubelet makes. The socket is taken on it at once, because a socket
//! belongs to the runtime it was made on; clients wait in its backlog until the agent is ready and says go.

use std::{
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    sync::Arc,
    thread,
};

use anyhow::{Context, anyhow};
use berth_shim::{Clients, FdStore, Listener, Metrics, RuntimeEndpoint, Shutdown};
use tokio::{runtime::Handle, sync::oneshot};

use crate::{images::gate::ImageGate, succession::heartbeat::Heartbeat};

/// A data path that has its socket and does not serve yet.
#[derive(Debug)]
pub(super) struct DataPath {
    go: oneshot::Sender<Serving>,
    ended: oneshot::Receiver<()>,
    handle: Handle,
}

/// Inputs of serving.
#[derive(Debug)]
pub(super) struct Serving {
    /// The gate.
    pub gate: Arc<ImageGate>,
    /// Which clients are the kubelet.
    pub clients: Clients,
    /// Metrics of the data path.
    pub metrics: Metrics,
    /// The thread's pulse.
    pub heartbeat: Arc<Heartbeat>,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Store of the runtime's connections where this process is killed.
    pub fd_store: Option<Arc<dyn FdStore>>,
}

impl DataPath {
    /// Starts the thread, which takes the socket at `path`, or `passed` if systemd or a predecessor passed
    /// one. Gives a second descriptor of it, to be passed on.
    pub(super) async fn take(
        path: PathBuf,
        passed: Option<UnixListener>,
        endpoint: RuntimeEndpoint,
    ) -> anyhow::Result<(Self, OwnedFd)> {
        let (taken_tx, taken) = oneshot::channel();
        let (go, go_rx) = oneshot::channel();
        let (ended_tx, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new().name("data-path".to_owned()).spawn(move || {
            // Dropped when this thread ends in whatever way, which is what the receiver waits for.
            let _ended = ended_tx;
            runtime.block_on(async {
                let listener = match passed {
                    Some(socket) => Listener::adopt(socket, &endpoint),
                    None => berth_shim::bind(&path, &endpoint).await,
                };
                let taken = listener.map_err(anyhow::Error::from).and_then(|listener| {
                    let descriptor = listener.descriptor()?;
                    Ok((listener, descriptor))
                });
                let listener = match taken {
                    Ok((listener, descriptor)) => {
                        // Nobody to tell means that the start was given up.
                        let _ = taken_tx.send(Ok(descriptor));
                        listener
                    }
                    Err(error) => {
                        let _ = taken_tx.send(Err(error));
                        return;
                    }
                };
                if let Ok(serving) = go_rx.await {
                    serve(listener, endpoint, serving).await;
                }
            });
        })?;
        let taken = taken.await.map_err(|_| anyhow!("the data path's thread died"))?;
        Ok((Self { go, ended, handle }, taken.context("cannot listen")?))
    }

    /// Gives the handle of the tokio runtime that its tasks are on.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Lets it serve. What is returned ends with the data path.
    pub(super) fn serve(self, serving: Serving) -> anyhow::Result<oneshot::Receiver<()>> {
        self.go.send(serving).map_err(|_| anyhow!("the data path's thread died"))?;
        Ok(self.ended)
    }
}

async fn serve(listener: Listener, endpoint: RuntimeEndpoint, serving: Serving) {
    let Serving { gate, clients, metrics, heartbeat, shutdown, fd_store } = serving;
    let stopped = shutdown.token.clone();
    tokio::spawn(async move { heartbeat.beat(stopped).await });
    berth_shim::serve(listener, endpoint, gate, clients, metrics, shutdown, fd_store).await;
}
