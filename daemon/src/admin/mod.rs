//! The admin API: what `berthctl` asks. Root only, twice: by the mode of the socket and by the caller's
//! credentials.

mod accept;
mod explain;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod health;
pub(crate) mod http;
mod last_answer;
mod order;
pub(crate) mod own;
mod probes;
mod pulls;
mod requests;
mod updates;
mod upgrade;

use std::{
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{Origin, PodOrder};
use berth_proto::admin::{self, admin_server};
use berth_shim::{Listener, Metrics, Shutdown};
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, transport::server::UdsConnectInfo};
use tracing::warn;

use self::{
    accept::accepted,
    order::{picks, pod_order},
};
use crate::{
    admin::health::Health,
    base::causes::chain,
    cluster::{
        features::Feature,
        identity::{Identity, IdentityState},
        policies::{self, PolicyState},
    },
    images::node_image::SharedImages,
    probes::node_pod_probe::SharedProbes,
    recreate::{codec::Row, files::Files},
    succession::handover::HandOver,
    update::Updates,
};

/// Open calls of a connection at most; the client's library keeps the rest.
const CALLS: u32 = 64;
/// A connection ends after so long, when its calls have ended: one that somebody forgot to close gives its
/// place back. The client's library makes another one when it needs it.
const LIFETIME: Duration = Duration::from_secs(300);

/// The service behind the admin socket.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Whether all is well.
    pub health: Health,
    /// Metrics of the data path.
    pub shim: Metrics,
    /// Where the agent is: between kubelet and runtime, or beside them.
    pub path: &'static str,
    /// The CRI socket we listen on.
    pub socket: String,
    /// The runtime behind it.
    pub runtime_endpoint: String,
    /// When we began.
    pub started: Instant,
    /// The requests that are files.
    pub files: Files,
    /// The in-place updates, where there is an API server.
    pub updates: Option<Updates>,
    /// The probes of one's own.
    pub probes: Arc<SharedProbes>,
    /// The images that are wanted.
    pub images: Arc<SharedImages>,
    /// Ends what would go on for ever.
    pub stop: CancellationToken,
    /// Identity of the agent at the API server, where there is one.
    pub identity: Option<watch::Receiver<IdentityState>>,
    /// Whether the admission policies keep the agent to its node, where there is an API server.
    pub policies: Option<watch::Receiver<PolicyState>>,
    /// The place of this process.
    pub handover: HandOver,
    /// How this process ends.
    pub shutdown: Shutdown,
    /// Where the configuration comes from.
    pub config_file: Option<PathBuf>,
}

/// Serves the admin API until the shutdown.
pub(crate) async fn serve(listener: Listener, admin: Admin, shutdown: CancellationToken) {
    let service = admin_server::AdminServer::with_interceptor(admin, root_only);
    let served = tonic::transport::Server::builder()
        .max_concurrent_streams(CALLS)
        .max_connection_age(LIFETIME)
        .add_service(service)
        .serve_with_incoming_shutdown(accepted(listener), shutdown.cancelled_owned())
        .await;
    if let Err(error) = served {
        warn!(error = %chain(&error), "Admin socket not served any more");
    }
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
        let identity = self.identity.as_ref().map(|identity| identity.borrow().clone()).unwrap_or_default();
        let (identity, identity_error, features) = match identity {
            IdentityState::Unknown => (String::new(), String::new(), Vec::new()),
            IdentityState::Failed(error) => (String::new(), error, Vec::new()),
            IdentityState::Known(Identity { user, warning, features, who: _ }) => {
                let missing =
                    self.policies.as_ref().is_some_and(|state| *state.borrow() == PolicyState::Missing);
                let missing = missing.then(|| {
                    format!(
                        "the admission policies do not keep this identity to its node: {}",
                        policies::REMEDY
                    )
                });
                let warnings: Vec<String> = warning.into_iter().chain(missing).collect();
                (user, warnings.join("; "), features)
            }
        };
        Ok(Response::new(admin::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.to_owned(),
            path: self.path.to_owned(),
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
            features: features.into_iter().map(feature).collect(),
            identity,
            identity_error,
            pid: std::process::id(),
            set_aside: self.health.agent.metrics().all_set_aside().into_iter().map(set_aside).collect(),
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

    async fn explain(
        &self,
        request: Request<admin::ExplainRequest>,
    ) -> Result<Response<admin::ExplainResponse>, Status> {
        let wanted = request.into_inner().pod;
        let pods =
            self.health.agent.read(|node, now| node.facts(now, |pod, sandbox| picks(&wanted, pod, sandbox)));
        Ok(Response::new(admin::ExplainResponse { pods: pods.into_iter().map(explain::pod_facts).collect() }))
    }

    async fn events(
        &self,
        request: Request<admin::EventsRequest>,
    ) -> Result<Response<admin::EventsResponse>, Status> {
        let wanted = request.into_inner().pod;
        let events = self.health.agent.read(|node, now| {
            let entries = node.timeline(|pod| picks(&wanted, pod, None));
            entries.map(|entry| explain::occurrence(entry, now)).collect()
        });
        Ok(Response::new(admin::EventsResponse { events }))
    }

    async fn recreate(
        &self,
        request: Request<admin::RecreateRequest>,
    ) -> Result<Response<admin::RecreateResponse>, Status> {
        let (pod, request) = requests::wanted(request.into_inner())?;
        let kept = self.files.submit(&pod, request).await.map_err(|error| requests::refusal(&error))?;
        Ok(Response::new(admin::RecreateResponse { namespace: kept.namespace, name: kept.name }))
    }

    async fn update(
        &self,
        request: Request<admin::UpdateRequest>,
    ) -> Result<Response<admin::UpdateResponse>, Status> {
        let updates = self.in_place()?;
        let (pod, spec) = updates::wanted(request.into_inner())?;
        let kept = updates.submit(&pod, spec).await.map_err(|error| updates::refusal(&error))?;
        Ok(Response::new(admin::UpdateResponse { namespace: kept.namespace, name: kept.name }))
    }

    async fn updates(
        &self,
        request: Request<admin::UpdatesRequest>,
    ) -> Result<Response<admin::UpdatesResponse>, Status> {
        let known = self.in_place()?.states().ok_or_else(updates::early)?;
        let now = self.health.agent.read(|_, now| now);
        Ok(Response::new(updates::answer(known, &request.get_ref().name, now)))
    }

    type PullStream = Pin<Box<dyn Stream<Item = Result<admin::PullState, Status>> + Send>>;

    async fn pull(&self, request: Request<admin::PullRequest>) -> Result<Response<Self::PullStream>, Status> {
        let states = pulls::pull(&self.images, request.get_ref())?;
        Ok(Response::new(Box::pin(states.take_until(self.stop.clone().cancelled_owned()))))
    }

    type UpgradeStream = Pin<Box<dyn Stream<Item = Result<admin::UpgradeStage, Status>> + Send>>;

    async fn upgrade(
        &self,
        request: Request<admin::UpgradeRequest>,
    ) -> Result<Response<Self::UpgradeStream>, Status> {
        Ok(Response::new(Box::pin(upgrade::upgrade(self, request.into_inner()))))
    }

    type DrainStream = Pin<Box<dyn Stream<Item = Result<admin::DrainState, Status>> + Send>>;

    async fn drain(
        &self,
        _request: Request<admin::DrainRequest>,
    ) -> Result<Response<Self::DrainStream>, Status> {
        // Behind a berth-shim the connections are that one's, and stay.
        let shim = self.health.shim.as_ref().map_or_else(|| self.shim.clone(), |_| Metrics::default());
        Ok(Response::new(Box::pin(upgrade::drain(&self.shutdown, &shim, self.health.place.as_deref()))))
    }

    async fn pulls(
        &self,
        request: Request<admin::PullsRequest>,
    ) -> Result<Response<admin::PullsResponse>, Status> {
        Ok(Response::new(pulls::pulls(&self.images, &request.get_ref().image)))
    }

    async fn probes(
        &self,
        request: Request<admin::ProbesRequest>,
    ) -> Result<Response<admin::ProbesResponse>, Status> {
        let (views, runs) = self.probes.explain();
        let now = self.health.agent.read(|_, now| now);
        Ok(Response::new(probes::answer(views, runs, &request.get_ref().pod, now)))
    }

    async fn requests(
        &self,
        request: Request<admin::RequestsRequest>,
    ) -> Result<Response<admin::RequestsResponse>, Status> {
        let wanted = request.into_inner().name;
        let files = self.files.list().await.into_iter();
        // Of files the status file is asked, which is there also for those that the policy has not heard of.
        let known = self.health.agent.read(|node, now| node.requests(now));
        let api = known.into_iter().filter(|known| known.origin == Origin::Api).map(Row::from);
        Ok(Response::new(requests::answer(files.chain(api), &wanted)))
    }
}

impl Admin {
    #[allow(clippy::result_large_err, reason = "what a service answers")]
    fn in_place(&self) -> Result<&Updates, Status> {
        self.updates.as_ref().ok_or_else(|| updates::no_cluster(self.health.mode.name()))
    }
}

fn feature(feature: Feature) -> admin::Feature {
    admin::Feature {
        name: feature.name.to_owned(),
        on: feature.off.is_none(),
        why: feature.off.unwrap_or_default(),
    }
}

fn set_aside((object, again): crate::agent::set_aside::Object) -> admin::SetAside {
    let again = again.saturating_duration_since(crate::agent::now());
    admin::SetAside { object, again_milliseconds: millis(again) }
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
