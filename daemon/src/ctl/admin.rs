//! The connection to berthd's admin socket.

use std::path::Path;

use anyhow::{Result, anyhow};
use berth_proto::admin::admin_client::AdminClient;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::channel::{MESSAGE_LIMIT, dial};
use super::cli::Global;
use super::output;

/// Connects; when berthd is down the error says so and how to start it.
pub async fn connect(global: &Global) -> Result<AdminClient<Channel>> {
    let socket = &global.admin_socket;
    let channel = dial(socket, global.timeout).await.map_err(|error| unreachable(socket, &error))?;
    Ok(AdminClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT))
}

/// A request with the deadline of `--timeout`.
pub fn request<T>(global: &Global, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(global.timeout);
    request
}

/// An admin call that failed.
pub fn failed(call: &str, status: &Status) -> anyhow::Error {
    anyhow!("berthd could not answer {call}: {}", output::status(status))
}

fn unreachable(socket: &Path, error: &str) -> anyhow::Error {
    anyhow!(
        "berthd is not reachable at {}: {error}; start it (systemctl start berthd), run berthctl as root, or name its \
         socket with --admin-socket",
        socket.display()
    )
}
