//! gRPC over a unix socket: what the agent and `berthctl` dial alike, over the socket of the data path, which
//! takes few system calls.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use berth_shim::Socket;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::Endpoint;
use tower::Service;

/// Connects to one socket, whatever name is asked for.
#[derive(Clone, Debug)]
pub struct Connector(PathBuf);

/// A connector to the socket at this path.
pub fn connector(socket: &Path) -> Connector {
    Connector(socket.to_owned())
}

/// The endpoint to use with it. The name is what the kubelet sends as the authority; it is not looked up.
pub fn endpoint() -> Endpoint {
    Endpoint::from_static("http://localhost")
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.and_then(Socket::new).map(TokioIo::new) })
    }
}
