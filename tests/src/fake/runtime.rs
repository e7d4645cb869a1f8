//! The server end.

use std::{future::Future, path::Path, sync::Arc};

use anyhow::{Context, Result};
use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Response};
use tokio::{
    net::{UnixListener, UnixStream},
    task::{JoinHandle, JoinSet},
};

use super::{framed, grpc_status};

/// A runtime that answers as its script says, until it is dropped: then it is gone at once, as after SIGKILL.
pub struct FakeRuntime {
    accepting: JoinHandle<()>,
}

/// One call as the runtime sees it, and the means to answer it in any way.
pub struct Exchange {
    /// Path and headers.
    pub head: http::request::Parts,
    /// The request's body.
    pub body: RecvStream,
    /// The way back.
    pub respond: SendResponse<Bytes>,
}

// === impl FakeRuntime ===

impl FakeRuntime {
    /// Listens at `path` (a stale socket there is removed) and gives each call to `script`.
    pub fn start<S, F>(path: &Path, script: S) -> Result<Self>
    where
        S: Fn(Exchange) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        if path.exists() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path).with_context(|| format!("listen at {}", path.display()))?;
        let script = Arc::new(script);
        let accepting = tokio::spawn(async move {
            // Owned here, so that the connections go with the listener.
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, script.clone()));
            }
        });
        Ok(Self { accepting })
    }

    /// Gone, and seen to be gone.
    pub async fn kill(mut self) {
        self.accepting.abort();
        // The error is the abort.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve<S, F>(socket: UnixStream, script: Arc<S>)
where
    S: Fn(Exchange) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let connection = h2::server::Builder::new()
        .initial_window_size(4 << 20)
        .initial_connection_window_size(16 << 20)
        .max_header_list_size(16 << 20)
        .max_pending_accept_reset_streams(1 << 16)
        .max_concurrent_reset_streams(1 << 16)
        .max_local_error_reset_streams(None)
        .handshake::<_, Bytes>(socket)
        .await;
    let Ok(mut connection) = connection else { return };
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            call = connection.accept() => {
                let Some(Ok((request, respond))) = call else { break };
                let (head, body) = request.into_parts();
                calls.spawn(script(Exchange { head, body, respond }));
            }
            Some(_) = calls.join_next() => {}
        }
    }
}

// === impl Exchange ===

impl Exchange {
    /// The method's name, without its service.
    pub fn method(&self) -> &str {
        self.head.uri.path().rsplit('/').next().unwrap_or_default()
    }

    /// Reads the request to its end.
    pub async fn read(&mut self) -> Result<Bytes, h2::Error> {
        let mut all = Vec::new();
        while let Some(frame) = self.body.data().await {
            let frame = frame?;
            self.body.flow_control().release_capacity(frame.len())?;
            all.extend_from_slice(&frame);
        }
        self.body.trailers().await?;
        Ok(all.into())
    }

    /// Answers with one message and status 0.
    pub async fn reply(mut self, message: &[u8]) -> Result<()> {
        let mut send = self.begin()?;
        send_all(&mut send, framed(message)).await?;
        send.send_trailers(grpc_status(0, ""))?;
        Ok(())
    }

    /// Answers with an error and nothing else ("trailers-only").
    pub fn fail(mut self, code: u32, message: &str) -> Result<()> {
        let mut response = Response::new(());
        *response.headers_mut() = grpc_status(code, message);
        response.headers_mut().insert("content-type", "application/grpc".parse()?);
        self.respond.send_response(response, true)?;
        Ok(())
    }

    /// Sends the headers of an answer.
    pub fn begin(&mut self) -> Result<SendStream<Bytes>> {
        self.begin_with(HeaderMap::new())
    }

    /// Sends these headers, and the content type.
    pub fn begin_with(&mut self, headers: HeaderMap) -> Result<SendStream<Bytes>> {
        let mut response = Response::new(());
        *response.headers_mut() = headers;
        response.headers_mut().insert("content-type", "application/grpc".parse()?);
        Ok(self.respond.send_response(response, false)?)
    }
}

/// Sends a body of any length at the reader's pace.
async fn send_all(send: &mut SendStream<Bytes>, mut rest: Bytes) -> Result<()> {
    while !rest.is_empty() {
        send.reserve_capacity(rest.len());
        let room = std::future::poll_fn(|cx| send.poll_capacity(cx)).await;
        let room = room.context("the stream is closed")??;
        send.send_data(rest.split_to(room.min(rest.len())), false)?;
    }
    Ok(())
}
