//! Carries out one run of a probe, custom or the container's own, from the node, as the kubelet would.
//!
//! A command runs in the container, by the runtime; what is dialled is the pod's own address, from inside the
//! pod's network. Nothing here decides when a probe runs, how many run at once, or what follows: a
//! [`ProbeRun`] comes in, a [`ProbeResult`] goes out. What a container says in it is never logged.
//!
//! ```text
//!   Prober -- exec --> runtime (ExecSync)
//!      '-- http, tcp, grpc --> place (which address) --> netns (a socket in that network)
//! ```

mod exec;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod grpc;
mod http;
mod message;
mod netns;
mod pod_network;

use std::time::Duration;

use berth_policy::{ProbeAction, ProbeResult, ProbeRun};
use tokio::time::Instant;

use self::{
    message::steady,
    pod_network::{AskError, PodNetwork, PodNetworks},
};
use crate::{
    base::{
        causes::chain,
        deadline::{by, later},
    },
    cri::Runtime,
    trace::Span,
};

/// Runs probes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Prober {
    runtime: Runtime,
    networks: PodNetworks,
}

impl Prober {
    /// One that asks this runtime; nothing happens yet.
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { networks: PodNetworks::new(runtime.clone()), runtime }
    }

    /// Runs it once. Comes back within its timeout and some seconds, whatever the container or the runtime
    /// do, and can be dropped at any moment: the command is killed then, the connection closed.
    ///
    /// `host_ip` is dialled for a pod on the host's network, of which the runtime knows no address.
    pub(crate) async fn run(&self, run: &ProbeRun, host_ip: Option<&str>) -> ProbeResult {
        let span = Span::own("probe");
        span.set("container.id", || run.container.as_str());
        let result = span.within(self.asked(run, host_ip)).await;
        // What the container says may be a secret.
        span.set("berth.result", || match &result {
            ProbeResult::Success(_) => "success",
            ProbeResult::Failure(_) => "failure",
            ProbeResult::Unknown(_) => "unknown",
            ProbeResult::Refused(_) => "refused",
        });
        result
    }

    async fn asked(&self, run: &ProbeRun, host_ip: Option<&str>) -> ProbeResult {
        match &run.action {
            ProbeAction::Exec { command } => exec::run(&self.runtime, run, command).await,
            ProbeAction::Http { port, path, https, headers } => {
                let get = async |pod_network: &PodNetwork<'_>| {
                    http::get(pod_network, *https, *port, path, headers).await
                };
                self.dialling(run, host_ip, get).await
            }
            ProbeAction::Tcp { port } => {
                let connect = async |pod_network: &PodNetwork<'_>| match pod_network.connect(*port).await {
                    Ok(_) => ProbeResult::Success(String::new()),
                    Err(error) => not_asked(&error),
                };
                self.dialling(run, host_ip, connect).await
            }
            ProbeAction::Grpc { port, service } => {
                let check = async |pod_network: &PodNetwork<'_>| match pod_network.connect(*port).await {
                    Ok(stream) => grpc::check(stream, service).await,
                    Err(error) => not_asked(&error),
                };
                self.dialling(run, host_ip, check).await
            }
        }
    }

    /// Asks a place, within the run's timeout.
    async fn dialling(
        &self,
        run: &ProbeRun,
        host_ip: Option<&str>,
        ask: impl AsyncFnOnce(&PodNetwork<'_>) -> ProbeResult,
    ) -> ProbeResult {
        let deadline = later(Instant::now(), run.timeout);
        let pod_network = match by(deadline, self.networks.of(&run.sandbox, host_ip)).await {
            Some(Ok(pod_network)) => pod_network,
            Some(Err(error)) => return ProbeResult::Unknown(steady(&chain(&error))),
            None => {
                let text = format!("the runtime did not say within {:?} where the pod is", run.timeout);
                return ProbeResult::Unknown(text);
            }
        };
        let asked = by(deadline, ask(&pod_network)).await;
        asked.unwrap_or_else(|| {
            pod_network.forget();
            timed_out(run.timeout)
        })
    }
}

/// Result without a connection, or without a use of it: the container's fault, but where nothing was asked of
/// it.
fn not_asked(error: &AskError) -> ProbeResult {
    let said = steady(&chain(error));
    match error.is_ours() {
        true => ProbeResult::Unknown(said),
        false => ProbeResult::Failure(said),
    }
}

fn timed_out(timeout: Duration) -> ProbeResult {
    ProbeResult::Failure(format!("timed out after {timeout:?}"))
}

#[cfg(test)]
mod tests;
