//! Lifecycle hooks and stops without the kubelet, where Berth cannot ask it for them (path `beside`).
//!
//! What the kubelet's own runner does, with three differences: a hook has a limit and can be called off, an
//! HTTP answer of 400 or more is a failure, and `tcpSocket`, which the kubelet accepts and never runs, is
//! dialled.
//!
//! Nothing here decides: what to stop, with which hook and how much grace, comes in a [`DirectStop`]. And
//! nothing a hook prints, sends or is answered is logged or kept, because it may be a secret.

mod http;
mod stop;

use std::{io, time::Duration};

use berth_policy::{DirectStop, Hook, SandboxId};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

pub(crate) use self::stop::stop_directly;
pub(crate) use crate::base::http_get::HttpError;
use crate::{
    base::http_get::Target,
    cri::{Runtime, RuntimeError},
};

/// Pause before a runtime that is away is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// A hook did not succeed. `Display` carries nothing of what it printed, sent or was answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// The agent is stopping, or nobody wants the result any more.
    #[error("the hook was called off")]
    Cancelled,
    /// It has not ended within its limit.
    #[error("the hook has not ended within {0:?}")]
    TimedOut(Duration),
    /// The runtime did not run the command.
    #[error("the command was not run")]
    Exec(#[source] RuntimeError),
    /// The command ran and failed.
    #[error("the command ended with exit code {0}")]
    ExitCode(i32),
    /// Nobody knows where to dial.
    #[error("sandbox {0} has no address")]
    NoAddress(SandboxId),
    /// The runtime did not say where to dial.
    #[error("the address of the pod is not known")]
    Address(#[source] RuntimeError),
    /// Nobody answers there.
    #[error("{host} port {port} cannot be reached")]
    Dial {
        /// Host or address.
        host: String,
        /// Port.
        port: u16,
        /// Error of the system.
        source: io::Error,
    },
    /// The HTTP request failed.
    #[error("the HTTP request failed")]
    Http(#[source] HttpError),
}

/// Runs this hook of the container that is to be stopped, for at most `limit`.
pub(crate) async fn run(
    runtime: &Runtime,
    stop: &DirectStop,
    hook: &Hook,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<(), HookError> {
    let hook = tokio::time::timeout(limit, run_to_its_end(runtime, stop, hook, limit));
    // Cancel-safe as far as a hook can be: dropped, the runtime ends the command and the connection is
    // closed.
    match cancel.run_until_cancelled(hook).await {
        None => Err(HookError::Cancelled),
        Some(Err(_)) => Err(HookError::TimedOut(limit)),
        Some(Ok(result)) => result,
    }
}

async fn run_to_its_end(
    runtime: &Runtime,
    stop: &DirectStop,
    hook: &Hook,
    limit: Duration,
) -> Result<(), HookError> {
    match hook {
        Hook::Exec { command } => {
            await_runtime(runtime).await;
            match runtime.exec(&stop.container, command, limit).await.map_err(HookError::Exec)? {
                0 => Ok(()),
                code => Err(HookError::ExitCode(code)),
            }
        }
        Hook::Http { host, port, path, https, headers } => {
            let host = address(runtime, stop, host.as_deref()).await?;
            let target = Target::new(*https, host, *port, path);
            http::get(target, headers).await
        }
        Hook::Tcp { host, port } => {
            let host = address(runtime, stop, host.as_deref()).await?;
            dial(&host, *port).await.map(drop)
        }
        Hook::Sleep(duration) => {
            tokio::time::sleep(*duration).await;
            Ok(())
        }
    }
}

/// Waits until the runtime answers. A command that goes out on a connection that has ended unseen, with a
/// runtime that was restarted, is lost: nobody knows whether it began, so it is not sent again.
async fn await_runtime(runtime: &Runtime) {
    while runtime.version().await.is_err_and(|error| error.is_of_connection()) {
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The host that is named, or else the pod's address: from the runtime, which has it first, or from the pod's
/// status, which also knows the node's address of a pod on the host's network.
async fn address(runtime: &Runtime, stop: &DirectStop, host: Option<&str>) -> Result<String, HookError> {
    if let Some(host) = host {
        return Ok(host.to_owned());
    }
    match (runtime.sandbox_ip(&stop.sandbox).await, &stop.ip) {
        (Ok(Some(ip)), _) => Ok(ip),
        (_, Some(ip)) => Ok(ip.clone()),
        (Ok(None), None) => Err(HookError::NoAddress(stop.sandbox.clone())),
        (Err(error), None) => Err(HookError::Address(error)),
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, HookError> {
    TcpStream::connect((host, port)).await.map_err(|source| HookError::Dial {
        host: host.to_owned(),
        port,
        source,
    })
}

#[cfg(test)]
mod tests;
