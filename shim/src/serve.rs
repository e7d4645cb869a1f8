//! The accept loop, and the life of a client connection from its first byte to its last open stream.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_policy::{ConnectionId, Event, time::later};
use tokio::{
    net::UnixStream,
    task::JoinSet,
    time::{Instant, error::Elapsed, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    bounds::{CONNECTIONS, Memory, SILENCE},
    call::{Context, serve_call},
    endpoint::RuntimeEndpoint,
    fd_store::FdStore,
    gate::Gate,
    http2::{self, Windows},
    listener::Listener,
    metrics::{Metrics, Shed},
    peer::Clients,
    relist::Relists,
    socket::Socket,
    upstream::Upstream,
};

/// Time that the last answer on a connection has to get to its client before that is cut.
const FLUSH: Duration = Duration::from_secs(1);
/// The services of the CRI, of whatever version.
const CRI: &str = "/runtime.v";
/// Pause after a failed accept, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type Connection = h2::server::Connection<Socket, bytes::Bytes>;

/// Time that calls which are not of the CRI have beside a successor: some of containerd's own never end.
const FOREIGN_LIMIT: Duration = Duration::from_secs(600);

/// When and how to stop.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Cancelled, it ends the accepting of connections and of calls.
    pub token: CancellationToken,
    /// How long the calls that are under way then may take. A pull has no deadline of its own.
    pub drain_limit: Duration,
    /// Cancelled before `token` where a successor accepts on the same socket from then on. Then the calls
    /// that are under way have all the time they need, and a held `CreateContainer` goes back to its client
    /// as not processed, whose library asks the successor without anybody noticing.
    pub succeeded: CancellationToken,
    /// Time that calls of other services than the CRI have then, where nothing else is left on their
    /// connection: a stream of events of containerd's never ends by itself, and so would this process.
    pub foreign_limit: Duration,
}

/// Signals by which the calls of a connection learn of its end.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    /// The client was told to go elsewhere, on this connection: what it is given back now it takes there.
    pub(crate) goodbye: CancellationToken,
    /// A successor accepts on the socket.
    pub(crate) succeeded: CancellationToken,
}

impl Shutdown {
    /// One that nobody has asked for yet.
    pub fn new(drain_limit: Duration) -> Self {
        Self {
            token: CancellationToken::new(),
            drain_limit,
            succeeded: CancellationToken::new(),
            foreign_limit: FOREIGN_LIMIT,
        }
    }
}

/// Serves the socket until the shutdown, and then the calls that are still open, up to the limit.
///
/// After the shutdown no connection is accepted, every client is told to go elsewhere (GOAWAY), held
/// `CreateContainer` calls are given back at once and held `StopContainer` calls are kept to their end.
///
/// What the kubelet has asked for the runtime goes on with where this process is killed, if there is an
/// `fd_store`.
pub async fn serve(
    listener: Listener,
    runtime: RuntimeEndpoint,
    gate: Arc<dyn Gate>,
    clients: Clients,
    metrics: Metrics,
    shutdown: Shutdown,
    fd_store: Option<Arc<dyn FdStore>>,
) {
    let server = Server {
        runtime,
        gate,
        clients,
        fd_store,
        memory: Memory::new(metrics.clone()),
        shedding: AtomicBool::new(false),
        metrics,
        shutdown: shutdown.clone(),
        cutoff: Cutoff::default(),
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
                Ok(socket) => if let Some(connection) = server.connection(socket, connections.len()) {
                    connections.spawn(connection);
                },
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
    let succeeded = shutdown.succeeded.is_cancelled();
    let limit = if succeeded { shutdown.foreign_limit } else { shutdown.drain_limit };
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(limit, drained).await.is_err() {
        if succeeded {
            info!(connections = connections.len(), "Connections without a call of the CRI are cut");
            server.cutoff.foreign.cancel();
        } else {
            warn!(connections = connections.len(), "Drain limit reached, open calls are cut");
            server.cutoff.all.cancel();
        }
        while connections.join_next().await.is_some() {}
    }
}

struct Server {
    runtime: RuntimeEndpoint,
    gate: Arc<dyn Gate>,
    clients: Clients,
    fd_store: Option<Arc<dyn FdStore>>,
    memory: Memory,
    /// Whether the log says that connections are not accepted any more.
    shedding: AtomicBool,
    metrics: Metrics,
    shutdown: Shutdown,
    cutoff: Cutoff,
    next_connection: AtomicU64,
    next_call: Arc<AtomicU64>,
}

/// Signals that cut calls which are still open at the end of a drain.
#[derive(Clone, Debug, Default)]
struct Cutoff {
    /// The drain limit was reached.
    all: CancellationToken,
    /// The limit of connections on which no call of the CRI is open was reached.
    foreign: CancellationToken,
}

// === impl Server ===

impl Server {
    /// The life of a connection; `None` for one too many. The kubelet always has another one.
    fn connection(&self, socket: UnixStream, open: usize) -> Option<impl Future<Output = ()> + Send + use<>> {
        // At once: later the process may be gone.
        let kubelet = self.clients.is_kubelet(&socket);
        if open >= CONNECTIONS && !kubelet {
            if !self.shedding.swap(true, Ordering::Relaxed) {
                warn!(open, "Too many connections, new ones are closed at once");
            }
            self.metrics.shed(Shed::Connection);
            return None;
        }
        if open < CONNECTIONS / 2 && self.shedding.swap(false, Ordering::Relaxed) {
            info!(open, "Connections are accepted again");
        }
        let windows = Windows::of(kubelet);
        let upstream =
            |fd_store| Upstream::new(self.runtime.clone(), windows, self.metrics.clone(), fd_store);
        let context = Context {
            connection: ConnectionId(self.next_connection.fetch_add(1, Ordering::Relaxed)),
            kubelet,
            memory: self.memory.clone(),
            relists: Relists::default(),
            gate: self.gate.clone(),
            upstream: upstream(None),
            // Other clients come and go by the thousand, and see for themselves that they were cut off.
            lasting: self.fd_store.clone().filter(|_| kubelet).map(|fd_store| upstream(Some(fd_store))),
            metrics: self.metrics.clone(),
            leaving: Leaving {
                goodbye: CancellationToken::new(),
                succeeded: self.shutdown.succeeded.clone(),
            },
            next_call: self.next_call.clone(),
        };
        let (draining, cutoff) = (self.shutdown.token.clone(), self.cutoff.clone());
        Some(serve_connection(Arc::new(context), socket, draining, cutoff))
    }
}

async fn serve_connection(
    context: Arc<Context>,
    socket: UnixStream,
    draining: CancellationToken,
    cutoff: Cutoff,
) {
    let _open = context.metrics.connection_opened(context.kubelet);
    let _closing = Closing(&context);
    debug!(connection = context.connection.0, kubelet = context.kubelet, "Connection accepted");
    let connection = match Socket::of_client(socket) {
        Ok(socket) => tokio::select! {
            connection = handshake(socket, Windows::of(context.kubelet)) => connection,
            () = cutoff.all.cancelled() => return,
        },
        Err(error) => {
            warn!(connection = context.connection.0, %error, "Connection not taken");
            return;
        }
    };
    match connection {
        Err(_) => {
            debug!(connection = context.connection.0, "Connection says nothing");
            context.metrics.shed(Shed::Silent);
        }
        Ok(Ok(connection)) => serve_calls(&context, connection, &draining, &cutoff).await,
        Ok(Err(error)) => debug!(connection = context.connection.0, %error, "Connection speaks no HTTP/2"),
    }
}

/// The end of a connection, told in whatever way it ends: who goes by its calls would wait for them for ever.
struct Closing<'a>(&'a Context);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.gate.observe(Event::ConnectionClosed(self.0.connection));
        debug!(connection = self.0.connection.0, "Connection closed");
    }
}

/// An error of the time means that the client has not said who it is: it does so first of all, and at once.
async fn handshake(socket: Socket, windows: Windows) -> Result<Result<Connection, h2::Error>, Elapsed> {
    timeout(SILENCE, http2::server(windows).handshake(socket)).await
}

async fn serve_calls(
    context: &Arc<Context>,
    mut connection: Connection,
    draining: &CancellationToken,
    cutoff: &Cutoff,
) {
    // Owns the calls: when the connection ends, so do they.
    let mut calls = JoinSet::new();
    let (mut told, mut cut, mut open_of_cri, mut idle) = (false, false, 0_usize, Instant::now());
    let mut goodbye = pin!(draining.cancelled());
    let (mut all, mut foreign) = (pin!(cutoff.all.cancelled()), pin!(cutoff.foreign.cancelled()));
    loop {
        // Cancel-safe: accept keeps a call it did not return, join_next a task.
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let of_cri = request.uri().path().starts_with(CRI);
                    open_of_cri = open_of_cri.saturating_add(usize::from(of_cri));
                    let call = serve_call(context.clone(), request, respond);
                    calls.spawn(async move {
                        call.await;
                        of_cri
                    });
                }
                Some(Err(error)) => {
                    debug!(connection = context.connection.0, %error, "Connection failed");
                    break;
                }
                None => break,
            },
            Some(ended) = calls.join_next() => match ended {
                Ok(of_cri) => {
                    open_of_cri = open_of_cri.saturating_sub(usize::from(of_cri));
                    if cut {
                        idle = Instant::now();
                    }
                }
                // It counts as open: that keeps this connection, which is the lesser evil.
                Err(error) => warn!(connection = context.connection.0, %error, "Call panicked"),
            },
            () = &mut goodbye, if !told => {
                connection.graceful_shutdown();
                // What the calls answer from now on goes out after it.
                context.leaving.goodbye.cancel();
                told = true;
            }
            () = &mut all => break,
            () = &mut foreign, if told && !cut => (cut, idle) = (true, Instant::now()),
            () = async { sleep_until(Instant::from_std(later(idle.into_std(), FLUSH))).await }, if cut && open_of_cri == 0 => break,
        }
    }
    drop(connection);
    calls.shutdown().await;
}

#[cfg(test)]
#[path = "tests/serve.rs"]
mod tests;
