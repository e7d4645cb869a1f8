//! The connection to the runtime that belongs to one client connection: dialled with the first call, and again when it
//! is gone. A runtime that is down is an error at once, never a wait and never an empty answer.

use std::{future::poll_fn, io, os::fd::AsFd, sync::Arc};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{net::UnixStream, sync::Mutex};
use tracing::debug;

use crate::{endpoint::RuntimeEndpoint, http2, keep::Keeper, metrics::Metrics};

/// The way to the runtime.
pub(crate) struct Upstream {
    endpoint: RuntimeEndpoint,
    metrics: Metrics,
    keeper: Option<Arc<dyn Keeper>>,
    /// The connection in use. Behind an async lock so that calls that find it gone dial once, not once each.
    current: Mutex<Option<SendRequest<Bytes>>>,
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
    pub(crate) fn new(endpoint: RuntimeEndpoint, metrics: Metrics, keeper: Option<Arc<dyn Keeper>>) -> Self {
        Self { endpoint, metrics, keeper, current: Mutex::new(None) }
    }

    pub(crate) fn endpoint(&self) -> &RuntimeEndpoint {
        &self.endpoint
    }

    /// A sender on a connection that takes new streams: neither closed nor told to go away.
    pub(crate) async fn sender(&self) -> Result<SendRequest<Bytes>, DialError> {
        let mut current = self.current.lock().await;
        if let Some(sender) = current.as_ref() {
            let mut sender = sender.clone();
            if poll_fn(|cx| sender.poll_ready(cx)).await.is_ok() {
                return Ok(sender);
            }
        }
        *current = None;
        let sender = self.dial().await.inspect_err(|_| self.metrics.dial_failed())?;
        Ok(current.insert(sender).clone())
    }

    async fn dial(&self) -> Result<SendRequest<Bytes>, DialError> {
        let endpoint = || self.endpoint.clone();
        let socket = UnixStream::connect(self.endpoint.path())
            .await
            .map_err(|source| DialError::Connect { endpoint: endpoint(), source })?;
        let kept = self.keeper.as_ref().and_then(|keeper| keeper.keep(socket.as_fd()));
        let (sender, connection) = http2::client()
            .handshake(socket)
            .await
            .map_err(|source| DialError::Handshake { endpoint: endpoint(), source })?;
        // Drives the frames of this connection; ends when the last sender and stream are gone or the runtime is.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "Runtime connection ended");
            }
            drop(kept);
        });
        Ok(sender)
    }
}
