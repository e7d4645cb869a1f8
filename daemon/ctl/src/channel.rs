//! gRPC over a unix socket.

use std::path::Path;
use std::time::Duration;

use berthd::base::causes::innermost;
use berthd::base::unix;
use tonic::transport::Channel;

/// The largest answer we take: the limit between kubelet and runtime.
pub(crate) const MESSAGE_LIMIT: usize = 16 << 20;

/// Connects; fails at once when nobody listens.
pub(crate) async fn dial(socket: &Path, timeout: Duration) -> Result<Channel, String> {
    let endpoint = unix::endpoint().connect_timeout(timeout);
    endpoint.connect_with_connector(unix::connector(socket)).await.map_err(|error| innermost(&error))
}
