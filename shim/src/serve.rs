//! The accept loop, and the life of a client connection from its first byte to its last open stream.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_policy::{ConnectionId, Event};
use tokio::{net::UnixStream, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    call::{Context, serve_call},
    endpoint::RuntimeEndpoint,
    gate::Gate,
    http2,
    listener::Listener,
    metrics::Metrics,
    peer::Clients,
    relist::Relists,
    upstream::Upstream,
};

/// After a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// When and how to stop.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Cancelled, it ends the accepting of connections and of calls.
    pub token: CancellationToken,
    /// How long the calls that are under way then may take. A pull has no deadline of its own.
    pub drain_limit: Duration,
}

/// Serves the socket until the shutdown, and then the calls that are still open, up to the limit.
///
/// After the shutdown no connection is accepted, every client is told to go elsewhere (GOAWAY), held `CreateContainer`
/// calls are refused at once and held `StopContainer` calls are kept to their end.
pub async fn serve<G: Gate>(
    listener: Listener,
    runtime: RuntimeEndpoint,
    gate: Arc<G>,
    clients: Clients,
    metrics: Metrics,
    shutdown: Shutdown,
) {
    let server = Server {
        runtime,
        gate,
        clients,
        metrics,
        draining: shutdown.token.clone(),
        cutoff: CancellationToken::new(),
        next_connection: AtomicU64::new(1),
        next_call: Arc::new(AtomicU64::new(1)),
    };
    let mut connections = JoinSet::new();
    loop {
        // Cancel-safe: accept takes no connection unless it returns it, and join_next no task.
        tokio::select! {
            biased;
            () = shutdown.token.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(socket) => { connections.spawn(server.connection(socket)); }
                Err(error) => {
                    warn!(%error, "Connection not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Whoever has the socket now accepts; only then are the clients sent there.
    drop(listener);
    info!(connections = connections.len(), "Draining");
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(shutdown.drain_limit, drained).await.is_err() {
        warn!(connections = connections.len(), "Drain limit reached, open calls are cut");
        server.cutoff.cancel();
        while connections.join_next().await.is_some() {}
    }
}

struct Server<G> {
    runtime: RuntimeEndpoint,
    gate: Arc<G>,
    clients: Clients,
    metrics: Metrics,
    draining: CancellationToken,
    /// The drain limit was reached.
    cutoff: CancellationToken,
    next_connection: AtomicU64,
    next_call: Arc<AtomicU64>,
}

// === impl Server ===

impl<G: Gate> Server<G> {
    fn connection(&self, socket: UnixStream) -> impl Future<Output = ()> + Send + use<G> {
        let context = Context {
            connection: ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed)),
            // At once: later the process may be gone.
            kubelet: self.clients.is_kubelet(&socket),
            relists: Relists::default(),
            gate: self.gate.clone(),
            upstream: Upstream::new(self.runtime.clone(), self.metrics.clone()),
            metrics: self.metrics.clone(),
            draining: self.draining.clone(),
            next_call: self.next_call.clone(),
        };
        serve_connection(Arc::new(context), socket, self.cutoff.clone())
    }
}

async fn serve_connection<G: Gate>(context: Arc<Context<G>>, socket: UnixStream, cutoff: CancellationToken) {
    let _open = context.metrics.connection_opened();
    debug!(connection = context.connection.0, kubelet = context.kubelet, "Connection accepted");
    let handshake = http2::server().handshake(socket);
    let connection = tokio::select! {
        connection = handshake => connection,
        () = cutoff.cancelled() => return,
    };
    match connection {
        Ok(connection) => serve_calls(&context, connection, &cutoff).await,
        Err(error) => debug!(connection = context.connection.0, %error, "Connection speaks no HTTP/2"),
    }
    context.gate.observe(Event::ConnectionClosed(context.connection));
    debug!(connection = context.connection.0, "Connection closed");
}

async fn serve_calls<G: Gate>(
    context: &Arc<Context<G>>,
    mut connection: h2::server::Connection<UnixStream, bytes::Bytes>,
    cutoff: &CancellationToken,
) {
    // Owns the calls: when the connection ends, so do they.
    let mut calls = JoinSet::new();
    let mut told = false;
    let mut goodbye = pin!(context.draining.cancelled());
    let mut cutoff = pin!(cutoff.cancelled());
    loop {
        // Cancel-safe: accept keeps a call it did not return, join_next a task.
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    calls.spawn(serve_call(context.clone(), request, respond));
                }
                Some(Err(error)) => {
                    debug!(connection = context.connection.0, %error, "Connection failed");
                    break;
                }
                None => break,
            },
            Some(ended) = calls.join_next() => {
                if let Err(error) = ended {
                    warn!(connection = context.connection.0, %error, "Call panicked");
                }
            }
            () = &mut goodbye, if !told => {
                connection.graceful_shutdown();
                told = true;
            }
            () = &mut cutoff => break,
        }
    }
    drop(connection);
    calls.shutdown().await;
}
