//! The connection to the runtime that belongs to one client connection: dialled with the first call, and
//! again when it is gone. A runtime that is down is an error at once, never a wait and never an empty answer.

use std::{
    future::poll_fn,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::client::SendRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{net::UnixStream, sync::Mutex};
use tracing::debug;

use crate::{
    endpoint::RuntimeEndpoint,
    fd_store::FdStore,
    http2::{self, Windows},
    metrics::Metrics,
    socket::Socket,
};

/// A connection that was looked at is taken to live for so long: its task has seen what came before, if this
/// process did not stand still, and then it is longer ago.
const LIVES_FOR: Duration = Duration::from_millis(5);

/// The way to the runtime.
pub(crate) struct Upstream {
    endpoint: RuntimeEndpoint,
    windows: Windows,
    metrics: Metrics,
    fd_store: Option<Arc<dyn FdStore>>,
    /// The connection in use. Behind an async lock so that calls that find it gone dial once, not once each.
    current: Mutex<Option<Connection>>,
}

/// A connection to the runtime.
struct Connection {
    sender: SendRequest<Bytes>,
    /// The socket as its task has it, to be looked at.
    socket: Weak<OwnedFd>,
    /// When it was found to live.
    lived: Option<Instant>,
}

/// The runtime cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("the container runtime at {endpoint} cannot be reached")]
    Connect { endpoint: RuntimeEndpoint, source: io::Error },
    #[error("the container runtime at {endpoint} closes its connections")]
    Handshake { endpoint: RuntimeEndpoint, source: h2::Error },
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(
        endpoint: RuntimeEndpoint,
        windows: Windows,
        metrics: Metrics,
        fd_store: Option<Arc<dyn FdStore>>,
    ) -> Self {
        Self { endpoint, windows, metrics, fd_store, current: Mutex::new(None) }
    }

    pub(crate) fn endpoint(&self) -> &RuntimeEndpoint {
        &self.endpoint
    }

    /// A sender on a connection that takes new streams: neither closed nor told to go away.
    pub(crate) async fn sender(&self) -> Result<SendRequest<Bytes>, DialError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_mut()
            && connection.lives()
        {
            let mut sender = connection.sender.clone();
            if poll_fn(|cx| sender.poll_ready(cx)).await.is_ok() {
                return Ok(sender);
            }
        }
        *current = None;
        let connection = self.dial().await.inspect_err(|_| self.metrics.dial_failed())?;
        Ok(current.insert(connection).sender.clone())
    }

    async fn dial(&self) -> Result<Connection, DialError> {
        let endpoint = || self.endpoint.clone();
        let socket = UnixStream::connect(self.endpoint.path())
            .await
            .map_err(|source| DialError::Connect { endpoint: endpoint(), source })?;
        let kept = self.fd_store.as_ref().and_then(|fd_store| fd_store.store(socket.as_fd()));
        let looked_at = Arc::new(
            socket
                .as_fd()
                .try_clone_to_owned()
                .map_err(|source| DialError::Connect { endpoint: endpoint(), source })?,
        );
        let socket =
            Socket::new(socket).map_err(|source| DialError::Connect { endpoint: endpoint(), source })?;
        let (sender, connection) = http2::client(self.windows)
            .handshake(socket)
            .await
            .map_err(|source| DialError::Handshake { endpoint: endpoint(), source })?;
        let socket = Arc::downgrade(&looked_at);
        // Drives the frames of this connection; ends when the last sender and stream are gone or the runtime
        // is.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "Runtime connection ended");
            }
            drop((kept, looked_at));
        });
        Ok(Connection { sender, socket, lived: None })
    }
}

// === impl Connection ===

impl Connection {
    /// Asks the kernel whether the runtime has closed it, unless that was a moment ago. Its task may not have
    /// seen it yet, because this process stood still meanwhile: a call would be lost, and nobody could say
    /// whether it had begun.
    fn lives(&mut self) -> bool {
        let Some(socket) = self.socket.upgrade() else { return false };
        let now = Instant::now();
        if self.lived.is_some_and(|then| now.saturating_duration_since(then) < LIVES_FOR) {
            return true;
        }
        let mut polled = [PollFd::new(&*socket, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Where it cannot be looked at, its task tells.
        let closed = poll(&mut polled, Some(&at_once)).is_ok()
            && polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        self.lived = (!closed).then_some(now);
        !closed
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// On this one thread nothing is polled between the end of the runtime and the next call, as after a
    /// process stood still.
    #[tokio::test]
    async fn a_connection_that_the_runtime_has_closed_takes_no_call() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runtime.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let endpoint = RuntimeEndpoint::from(path);
        let upstream =
            Upstream::new(endpoint, Windows::of(true), Metrics::register(&mut Default::default()), None);
        let dialled = || listener.accept().is_ok();

        upstream.sender().await.unwrap();
        let (runtime, _) = listener.accept().unwrap();
        upstream.sender().await.unwrap();
        assert!(!dialled(), "one that lives is used again");
        drop(runtime);
        std::thread::sleep(LIVES_FOR);
        upstream.sender().await.unwrap();
        assert!(dialled(), "the call went out on a connection that nobody reads");
    }
}
