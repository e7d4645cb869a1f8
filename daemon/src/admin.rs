//! The admin API: what `berthctl` asks. Root only, twice: by the mode of the socket and by the caller's credentials.

use std::{io, time::Instant};

use berth_policy::{ContainerOrder, ContainerState, PodOrder, PodRef, SandboxId};
use berth_proto::admin::{self, admin_server};
use berth_shim::{Listener, Metrics};
use futures::Stream;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::server::UdsConnectInfo};
use tracing::warn;

use crate::{agent::chain, health::Health};

/// The service behind the admin socket.
#[derive(Debug)]
pub struct Admin {
    /// Whether all is well.
    pub health: Health,
    /// What the data path counts.
    pub shim: Metrics,
    /// The CRI socket we listen on.
    pub socket: String,
    /// The runtime behind it.
    pub runtime_endpoint: String,
    /// When we began.
    pub started: Instant,
}

/// Serves the admin API until the shutdown.
pub async fn serve(listener: Listener, admin: Admin, shutdown: CancellationToken) {
    let service = admin_server::AdminServer::with_interceptor(admin, root_only);
    let served = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(accepted(listener), shutdown.cancelled_owned())
        .await;
    if let Err(error) = served {
        warn!(error = %chain(&error), "Admin socket not served any more");
    }
}

fn accepted(listener: Listener) -> impl Stream<Item = io::Result<UnixStream>> {
    futures::stream::unfold(listener, |listener| async move { Some((listener.accept().await, listener)) })
}

#[allow(clippy::result_large_err, reason = "the signature of an interceptor")]
fn root_only(request: Request<()>) -> Result<Request<()>, Status> {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    match peer {
        Some(peer) if peer.uid() == 0 => Ok(request),
        Some(peer) => Err(Status::permission_denied(format!(
            "the admin socket is for root, not for uid {}",
            peer.uid()
        ))),
        None => Err(Status::permission_denied("the admin socket is for root, and the caller cannot be told")),
    }
}

#[tonic::async_trait]
impl admin_server::Admin for Admin {
    async fn status(
        &self,
        _request: Request<admin::StatusRequest>,
    ) -> Result<Response<admin::StatusResponse>, Status> {
        let (holds, size) = self.health.agent.read(|node, now| (node.held_calls(now), node.size()));
        let runtime = match self.health.runtime.version().await {
            Ok(version) => admin::Runtime {
                endpoint: self.runtime_endpoint.clone(),
                reachable: true,
                name: version.runtime_name,
                version: version.runtime_version,
                error: String::new(),
            },
            Err(error) => admin::Runtime {
                endpoint: self.runtime_endpoint.clone(),
                error: chain(&error),
                ..admin::Runtime::default()
            },
        };
        let mode = self.health.mode.name();
        let view = self.health.api_health();
        Ok(Response::new(admin::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.to_owned(),
            path: "inline".to_owned(),
            socket: self.socket.clone(),
            runtime: Some(runtime),
            pod_view: Some(admin::PodView {
                source: mode.to_owned(),
                synced: view.as_ref().is_none_or(|view| view.synced),
                error: view.and_then(|view| view.error).unwrap_or_default(),
            }),
            uptime_seconds: self.started.elapsed().as_secs(),
            client_connections: self.shim.connections_open().try_into().unwrap_or(0),
            pods: number(size.pods),
            sandboxes: number(size.sandboxes),
            latches: number(size.latches),
            holds: holds.into_iter().map(hold).collect(),
            policy_panics: self.health.agent.metrics().policy_panics(),
        }))
    }

    async fn order(
        &self,
        request: Request<admin::OrderRequest>,
    ) -> Result<Response<admin::OrderResponse>, Status> {
        let wanted = request.into_inner().pod;
        let pods = self
            .health
            .agent
            .read(|node, now| node.explain(now, |pod, sandbox| picks(&wanted, pod, sandbox)));
        // Without a name: only pods with something to tell.
        let told = |pod: &PodOrder| !wanted.is_empty() || !pod.containers.is_empty() || pod.error.is_some();
        Ok(Response::new(admin::OrderResponse {
            pods: pods.into_iter().filter(told).map(pod_order).collect(),
        }))
    }
}

/// Name, namespace/name, UID, or the beginning of a sandbox ID.
fn picks(wanted: &str, pod: &PodRef, sandbox: Option<&SandboxId>) -> bool {
    wanted.is_empty()
        || wanted == pod.name
        || wanted == pod.uid.as_str()
        || wanted.split_once('/') == Some((&pod.namespace, &pod.name))
        || sandbox.is_some_and(|sandbox| sandbox.as_str().starts_with(wanted))
}

fn hold(hold: berth_policy::HeldCall) -> admin::Hold {
    admin::Hold {
        rpc: hold.rpc.to_owned(),
        namespace: hold.pod.namespace,
        pod: hold.pod.name,
        container: hold.container.as_str().to_owned(),
        waiting_for: hold.waiting_for.iter().map(ToString::to_string).collect(),
        held_milliseconds: millis(hold.held),
        remaining_milliseconds: millis(hold.remaining),
    }
}

fn pod_order(order: PodOrder) -> admin::PodOrder {
    admin::PodOrder {
        namespace: order.pod.namespace,
        name: order.pod.name,
        uid: order.pod.uid.as_str().to_owned(),
        sandbox_id: order.sandbox.map(|sandbox| sandbox.as_str().to_owned()).unwrap_or_default(),
        ordered: !order.containers.is_empty(),
        error: order.error.unwrap_or_default(),
        containers: order.containers.into_iter().map(container_order).collect(),
        deleting: order.deleting,
    }
}

fn container_order(order: ContainerOrder) -> admin::ContainerOrder {
    let waits = !order.waiting_for.is_empty();
    let state = match &order.instance {
        Some((_, ContainerState::Running)) if order.ready => "Ready",
        Some((_, ContainerState::Running)) => "Running",
        Some((_, ContainerState::Created)) => "Created",
        Some((_, ContainerState::Exited { .. })) => "Exited",
        Some((_, ContainerState::Unknown)) => "Unknown",
        None if waits => "Waiting",
        None => "Absent",
    };
    admin::ContainerOrder {
        name: order.name.as_str().to_owned(),
        priority: order.priority,
        state: state.to_owned(),
        container_id: order.instance.map(|(id, _)| id.as_str().to_owned()).unwrap_or_default(),
        waiting_for: order.waiting_for.iter().map(ToString::to_string).collect(),
        waiting_milliseconds: millis(order.waiting),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_picked_by_any_of_its_names() {
        let pod = PodRef { uid: "u-1".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let sandbox = SandboxId::from("abcdef");
        for wanted in ["", "web", "shop/web", "u-1", "abc", "abcdef"] {
            assert!(picks(wanted, &pod, Some(&sandbox)), "{wanted}");
        }
        for wanted in ["we", "shop", "other/web", "u-", "bcd"] {
            assert!(!picks(wanted, &pod, Some(&sandbox)), "{wanted}");
        }
    }
}
