//! gRPC over a unix socket.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// The largest answer we take: the limit between kubelet and runtime.
pub const MESSAGE_LIMIT: usize = 16 << 20;

/// Connects; fails at once when nobody listens.
pub async fn dial(socket: &Path, timeout: Duration) -> Result<Channel, String> {
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The name is what the kubelet sends as the authority; it is not looked up.
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(timeout);
    endpoint.connect_with_connector(connector).await.map_err(|error| innermost(&error))
}

/// The cause of all causes: the layers above it only say "transport error".
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
