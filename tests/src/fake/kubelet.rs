//! The client end.

use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, Request};
use tokio::{net::UnixStream, task::JoinHandle};

use super::framed;

/// A client with one connection, as each of the kubelet's two.
pub struct FakeKubelet {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

/// A call under way. Dropped, it is cancelled.
pub struct OpenCall {
    /// The request's body.
    pub send: SendStream<Bytes>,
    /// The answer to come.
    pub response: ResponseFuture,
}

/// An answer whose head has come. Dropped, its call is cancelled.
pub struct Begun {
    head: http::response::Parts,
    body: RecvStream,
    /// It may not have ended.
    _send: SendStream<Bytes>,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status and headers.
    pub head: http::response::Parts,
    /// The DATA frames, as they came.
    pub frames: Vec<Bytes>,
    /// Trailers that followed them.
    pub trailers: Option<HeaderMap>,
}

// === impl FakeKubelet ===

impl FakeKubelet {
    /// Connects with windows like the runtime's other end has.
    pub async fn connect(path: &Path) -> Result<Self> {
        let socket =
            UnixStream::connect(path).await.with_context(|| format!("connect to {}", path.display()))?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .max_header_list_size(16 << 20)
            .max_concurrent_reset_streams(1 << 16)
            .max_local_error_reset_streams(None)
            .handshake(socket)
            .await?;
        Ok(Self { sender, driver: tokio::spawn(connection) })
    }

    /// Opens a call; nothing of its body is sent yet.
    pub async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Result<OpenCall> {
        let mut request = Request::post(format!("http://localhost{path}"))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.sender.clone().ready().await?;
        let (response, send) = sender.send_request(request.body(())?, false)?;
        Ok(OpenCall { send, response })
    }

    /// A unary call with this message.
    pub async fn call(&self, path: &str, message: &[u8]) -> Result<Reply> {
        self.call_with(path, &[], framed(message)).await
    }

    /// A call with these headers and this body.
    pub async fn call_with(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Reply> {
        let mut call = self.open(path, headers).await?;
        call.send.send_data(body, true)?;
        Ok(call.reply().await?)
    }

    /// Waits until the other end has closed the connection.
    pub async fn closed(self) -> Result<()> {
        drop(self.sender);
        Ok(self.driver.await??)
    }

    /// Goes away in the middle of whatever happens: no GOAWAY, no reset.
    pub fn vanish(self) {
        self.driver.abort();
    }
}

// === impl OpenCall ===

impl OpenCall {
    /// Waits for the beginning of the answer.
    pub async fn begins(self) -> Result<Begun, h2::Error> {
        let (head, body) = self.response.await?.into_parts();
        Ok(Begun { head, body, _send: self.send })
    }

    /// Waits for all of the answer.
    pub async fn reply(self) -> Result<Reply, h2::Error> {
        self.begins().await?.rest().await
    }
}

// === impl Begun ===

impl Begun {
    /// Waits for the rest of the answer.
    pub async fn rest(self) -> Result<Reply, h2::Error> {
        let Self { head, mut body, _send } = self;
        let mut frames = Vec::new();
        while let Some(frame) = body.data().await {
            let frame = frame?;
            body.flow_control().release_capacity(frame.len())?;
            frames.push(frame);
        }
        let trailers = body.trailers().await?;
        Ok(Reply { head, frames, trailers })
    }
}

// === impl Reply ===

impl Reply {
    /// The body without its cuts.
    pub fn body(&self) -> Vec<u8> {
        self.frames.concat()
    }

    /// `grpc-status`, wherever it stands.
    pub fn status(&self) -> Option<u32> {
        self.field("grpc-status")?.parse().ok()
    }

    /// `grpc-message`, wherever it stands.
    pub fn message(&self) -> &str {
        self.field("grpc-message").unwrap_or_default()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let trailers = self.trailers.as_ref().and_then(|trailers| trailers.get(name));
        trailers.or_else(|| self.head.headers.get(name))?.to_str().ok()
    }
}
