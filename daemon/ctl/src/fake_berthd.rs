//! A berthd for tests: it knows one pod, and tells a story of what it was asked to do.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use berth_proto::admin::admin_server::{Admin, AdminServer};
use berth_proto::admin::*;
use tonic::{Request, Response, Status};
use tower::Service;

use super::fake::{Node, global, serve};

/// The name of what it takes.
pub(crate) const TAKEN: &str = "shop/web-x";

/// Result of one look.
pub(crate) type Look<T> = Result<Option<T>, Status>;

/// Questions that were asked, and the answers to one look after another; the last answer stays.
pub(crate) struct Told<Q, S> {
    pub(crate) asked: Mutex<Vec<Q>>,
    pub(crate) story: Mutex<Vec<Look<S>>>,
}

/// State of a request of the admin socket, with containers by name, phase, and whether they were told to
/// stop.
pub(crate) fn recreate_state(phase: &str, outcome: &str, containers: &[(&str, &str, bool)]) -> RecreateState {
    let containers = containers.iter().map(|(name, phase, killed)| ContainerRecreateState {
        name: (*name).into(),
        phase: (*phase).into(),
        killed: *killed,
        message: String::new(),
    });
    RecreateState {
        origin: "admin".into(),
        phase: phase.into(),
        outcome: outcome.into(),
        containers: containers.collect(),
        ..RecreateState::default()
    }
}

impl<Q, S> Default for Told<Q, S> {
    fn default() -> Self {
        Self { asked: Mutex::default(), story: Mutex::default() }
    }
}

impl<Q, S: Clone> Told<Q, S> {
    pub(crate) fn of(story: Vec<Look<S>>) -> Self {
        Self { story: Mutex::new(story), ..Self::default() }
    }

    fn look(&self) -> Look<S> {
        let mut story = self.story.lock().unwrap();
        if story.len() > 1 { story.remove(0) } else { story[0].clone() }
    }
}

#[derive(Default)]
pub(crate) struct Berthd {
    pub(crate) recreates: Told<RecreateRequest, RecreateState>,
    pub(crate) updates: Told<UpdateRequest, UpdateState>,
    /// How an upgrade goes.
    pub(crate) upgrade: Vec<Result<UpgradeStage, Status>>,
    /// How often it is asked for its status before it reaches the runtime.
    pub(crate) unreached: AtomicU32,
    /// How a drain goes.
    pub(crate) drain: Vec<DrainState>,
}

impl Berthd {
    /// Serves the admin socket of a node.
    pub(crate) fn serve(self, node: &Node) -> Arc<Self> {
        let berthd = Arc::new(self);
        let server = AdminServer::from_arc(berthd.clone());
        serve(&global(node).admin_socket, move |request| {
            let mut server = server.clone();
            async move { server.call(request).await }
        });
        berthd
    }
}

#[tonic::async_trait]
impl Admin for Berthd {
    type PullStream = futures::stream::Empty<Result<PullState, Status>>;

    async fn pull(&self, _: Request<PullRequest>) -> Result<Response<Self::PullStream>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    async fn probes(&self, _: Request<ProbesRequest>) -> Result<Response<ProbesResponse>, Status> {
        Ok(Response::new(ProbesResponse::default()))
    }

    async fn pulls(&self, _: Request<PullsRequest>) -> Result<Response<PullsResponse>, Status> {
        Err(Status::unimplemented("not part of these tests"))
    }

    type UpgradeStream = futures::stream::Iter<std::vec::IntoIter<Result<UpgradeStage, Status>>>;

    async fn upgrade(&self, _: Request<UpgradeRequest>) -> Result<Response<Self::UpgradeStream>, Status> {
        Ok(Response::new(futures::stream::iter(self.upgrade.clone())))
    }

    type DrainStream = futures::stream::Iter<std::vec::IntoIter<Result<DrainState, Status>>>;

    async fn drain(&self, _: Request<DrainRequest>) -> Result<Response<Self::DrainStream>, Status> {
        let states: Vec<_> = self.drain.iter().cloned().map(Ok).collect();
        Ok(Response::new(futures::stream::iter(states)))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let one_less = |looks: u32| looks.checked_sub(1);
        let reachable = self.unreached.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err();
        let runtime = Some(Runtime { reachable, ..Runtime::default() });
        Ok(Response::new(StatusResponse {
            version: "1.2.3".into(),
            pid: 7,
            runtime,
            ..StatusResponse::default()
        }))
    }

    async fn order(&self, request: Request<OrderRequest>) -> Result<Response<OrderResponse>, Status> {
        let pods = match request.into_inner().pod.as_str() {
            "web" => vec![PodOrder { name: "web".into(), error: "x".repeat(100), ..PodOrder::default() }],
            "broken" => return Err(Status::internal("on fire")),
            _ => Vec::new(),
        };
        Ok(Response::new(OrderResponse { pods }))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        let pods = match request.into_inner().pod.as_str() {
            "web" => vec![PodFacts { name: "web".into(), ..PodFacts::default() }],
            _ => Vec::new(),
        };
        Ok(Response::new(ExplainResponse { pods }))
    }

    async fn events(&self, _: Request<EventsRequest>) -> Result<Response<EventsResponse>, Status> {
        Ok(Response::new(EventsResponse::default()))
    }

    async fn recreate(
        &self,
        request: Request<RecreateRequest>,
    ) -> Result<Response<RecreateResponse>, Status> {
        let request = request.into_inner();
        on_this_node(&request.pod)?;
        self.recreates.asked.lock().unwrap().push(request);
        let (namespace, name) = TAKEN.split_once('/').unwrap();
        Ok(Response::new(RecreateResponse { namespace: namespace.into(), name: name.into() }))
    }

    async fn requests(
        &self,
        request: Request<RequestsRequest>,
    ) -> Result<Response<RequestsResponse>, Status> {
        let foreign =
            RecreateState { origin: "api".into(), name: "again".into(), ..RecreateState::default() };
        let requests = match request.into_inner().name.as_str() {
            TAKEN => [foreign].into_iter().chain(self.recreates.look()?).collect(),
            "" | "again" => vec![foreign],
            _ => Vec::new(),
        };
        Ok(Response::new(RequestsResponse { requests }))
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        let request = request.into_inner();
        on_this_node(&request.pod)?;
        self.updates.asked.lock().unwrap().push(request);
        let (namespace, name) = TAKEN.split_once('/').unwrap();
        Ok(Response::new(UpdateResponse { namespace: namespace.into(), name: name.into() }))
    }

    async fn updates(&self, request: Request<UpdatesRequest>) -> Result<Response<UpdatesResponse>, Status> {
        let foreign = UpdateState { origin: "api".into(), name: "again".into(), ..UpdateState::default() };
        let updates = match request.into_inner().name.as_str() {
            TAKEN => [foreign].into_iter().chain(self.updates.look()?).collect(),
            "" | "again" => vec![foreign],
            _ => Vec::new(),
        };
        Ok(Response::new(UpdatesResponse { updates }))
    }
}

#[allow(clippy::result_large_err, reason = "what a service answers")]
fn on_this_node(pod: &str) -> Result<(), Status> {
    match pod {
        "nothing" => Err(Status::not_found("pod nothing is not on this node")),
        "static" => Err(Status::failed_precondition("a static pod cannot be updated in place")),
        _ => Ok(()),
    }
}
