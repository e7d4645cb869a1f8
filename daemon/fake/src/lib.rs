//! A runtime for unit tests, on a unix socket of its own: containers are entries in a list, and who may be
//! created is a closure of the test. berthd's own tests and those of berthctl play on it.

#![allow(clippy::unwrap_used, reason = "the helpers of a test fail like the test")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use berth_proto::cri::image_service_server::{ImageService, ImageServiceServer};
use berth_proto::cri::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use berth_proto::cri::*;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tonic::{Request, Response, Status, async_trait};
use tower::Service;

/// Verdict of CreateContainer on a container by name, given the containers there are.
type Admit = Box<dyn Fn(&str, &[Container]) -> Result<(), Status> + Send + Sync>;

/// The runtime.
pub struct Fake {
    admit: Admit,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<String>,
    sandboxes: Vec<PodSandbox>,
    containers: Vec<Container>,
}

/// A runtime that listens in a directory of its own.
pub struct Node {
    /// State that it plays.
    pub fake: Arc<Fake>,
    /// Its directory.
    pub dir: tempfile::TempDir,
}

impl Node {
    /// A runtime that listens now, in the tokio runtime of the test.
    pub fn new(admit: impl Fn(&str, &[Container]) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake { admit: Box::new(admit), state: Mutex::default() });
        let node = Self { fake, dir };
        node.listen();
        node
    }

    /// Listens in the tokio runtime that this is called in: anew, where the one before it has ended.
    pub fn listen(&self) {
        let socket = self.socket();
        if socket.exists() {
            std::fs::remove_file(&socket).unwrap();
        }
        let runtime = RuntimeServiceServer::from_arc(Arc::clone(&self.fake));
        let images = ImageServiceServer::from_arc(Arc::clone(&self.fake));
        serve(&socket, move |request: http::Request<hyper::body::Incoming>| {
            let (mut runtime, mut images) = (runtime.clone(), images.clone());
            async move {
                match request.uri().path().starts_with("/runtime.v1.ImageService/") {
                    true => images.call(request).await,
                    false => runtime.call(request).await,
                }
            }
        });
    }

    /// Returns where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("cri.sock")
    }

    /// Calls so far, with one word of the object each.
    pub fn calls(&self) -> Vec<String> {
        self.fake.state.lock().unwrap().calls.clone()
    }

    /// A container that is there and runs.
    pub fn put(&self, id: &str, name: &str, attempt: u32) {
        self.fake.state.lock().unwrap().containers.push(Container {
            id: id.into(),
            metadata: Some(ContainerMetadata { name: name.into(), attempt }),
            state: ContainerState::ContainerRunning.into(),
            ..Container::default()
        });
    }

    /// The sandboxes there are.
    pub fn sandboxes(&self) -> Vec<PodSandbox> {
        self.fake.state.lock().unwrap().sandboxes.clone()
    }
}

/// Serves gRPC on a new socket until the test's runtime ends.
pub fn serve<S, F>(socket: &Path, service: S)
where
    S: Fn(http::Request<hyper::body::Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<http::Response<tonic::body::Body>, std::convert::Infallible>> + Send + 'static,
{
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(service.clone());
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
}

impl Fake {
    fn note(&self, call: &str, of: &str) -> std::sync::MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(format!("{call} {of}"));
        state
    }
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn name(container: &Container) -> String {
    container.metadata.clone().unwrap_or_default().name
}

#[async_trait]
impl RuntimeService for Fake {
    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(VersionResponse { runtime_name: "fake".into(), ..VersionResponse::default() }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Err(Status::unimplemented("Status"))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<RunPodSandboxRequest>,
    ) -> Result<Response<RunPodSandboxResponse>, Status> {
        let config = request.into_inner().config.unwrap();
        let metadata = config.metadata.clone().unwrap();
        let mut state = self.note("RunPodSandbox", &metadata.name);
        let id = format!("sandbox-{}", state.sandboxes.len());
        state.sandboxes.push(PodSandbox {
            id: id.clone(),
            metadata: Some(metadata),
            labels: config.labels,
            annotations: config.annotations,
            created_at: now(),
            ..PodSandbox::default()
        });
        Ok(Response::new(RunPodSandboxResponse { pod_sandbox_id: id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<StopPodSandboxRequest>,
    ) -> Result<Response<StopPodSandboxResponse>, Status> {
        drop(self.note("StopPodSandbox", &request.into_inner().pod_sandbox_id));
        Ok(Response::new(StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<RemovePodSandboxRequest>,
    ) -> Result<Response<RemovePodSandboxResponse>, Status> {
        let id = request.into_inner().pod_sandbox_id;
        let mut state = self.note("RemovePodSandbox", &id);
        state.sandboxes.retain(|sandbox| sandbox.id != id);
        state.containers.retain(|container| container.pod_sandbox_id != id);
        Ok(Response::new(RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        _: Request<PodSandboxStatusRequest>,
    ) -> Result<Response<PodSandboxStatusResponse>, Status> {
        Ok(Response::new(PodSandboxStatusResponse::default()))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Result<Response<ListPodSandboxResponse>, Status> {
        let wanted = request.into_inner().filter.unwrap_or_default().label_selector;
        let mut items = self.state.lock().unwrap().sandboxes.clone();
        items.retain(|sandbox| wanted.iter().all(|(key, value)| sandbox.labels.get(key) == Some(value)));
        Ok(Response::new(ListPodSandboxResponse { items }))
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Result<Response<CreateContainerResponse>, Status> {
        let request = request.into_inner();
        let config = request.config.unwrap();
        let metadata = config.metadata.unwrap();
        let mut state = self.note("CreateContainer", &metadata.name);
        (self.admit)(&metadata.name, &state.containers)?;
        let id = format!("container-{}", metadata.name);
        state.containers.push(Container {
            id: id.clone(),
            pod_sandbox_id: request.pod_sandbox_id,
            metadata: Some(metadata),
            annotations: config.annotations,
            labels: config.labels,
            created_at: now(),
            ..Container::default()
        });
        Ok(Response::new(CreateContainerResponse { container_id: id }))
    }

    async fn start_container(
        &self,
        request: Request<StartContainerRequest>,
    ) -> Result<Response<StartContainerResponse>, Status> {
        let id = request.into_inner().container_id;
        let mut state = self.note("StartContainer", &id);
        for container in state.containers.iter_mut().filter(|container| container.id == id) {
            container.set_state(ContainerState::ContainerRunning);
        }
        Ok(Response::new(StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<StopContainerRequest>,
    ) -> Result<Response<StopContainerResponse>, Status> {
        let StopContainerRequest { container_id: id, timeout } = request.into_inner();
        let mut state = self.note("StopContainer", &format!("{id} {timeout}"));
        for container in state.containers.iter_mut().filter(|container| container.id == id) {
            container.set_state(ContainerState::ContainerExited);
        }
        Ok(Response::new(StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        _: Request<RemoveContainerRequest>,
    ) -> Result<Response<RemoveContainerResponse>, Status> {
        Err(Status::unimplemented("RemoveContainer"))
    }

    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        let sandbox = request.into_inner().filter.unwrap_or_default().pod_sandbox_id;
        let mut containers = self.state.lock().unwrap().containers.clone();
        containers.retain(|container| sandbox.is_empty() || container.pod_sandbox_id == sandbox);
        Ok(Response::new(ListContainersResponse { containers }))
    }

    async fn container_status(
        &self,
        request: Request<ContainerStatusRequest>,
    ) -> Result<Response<ContainerStatusResponse>, Status> {
        let id = request.into_inner().container_id;
        let state = self.state.lock().unwrap();
        let found = state.containers.iter().find(|container| container.id == id);
        let container = found.ok_or_else(|| Status::not_found(format!("no container {id}")))?;
        let status = ContainerStatus {
            id,
            metadata: container.metadata.clone(),
            state: container.state,
            finished_at: if container.state() == ContainerState::ContainerExited { now() } else { 0 },
            ..ContainerStatus::default()
        };
        Ok(Response::new(ContainerStatusResponse { status: Some(status), ..Default::default() }))
    }

    async fn exec_sync(
        &self,
        request: Request<ExecSyncRequest>,
    ) -> Result<Response<ExecSyncResponse>, Status> {
        let request = request.into_inner();
        let state = self.note("ExecSync", &format!("{} {}", request.container_id, request.cmd.join(" ")));
        // A command that names a container succeeds when that one is there.
        let there = state.containers.iter().any(|container| request.cmd.first() == Some(&name(container)));
        let exit_code = i32::from(!there && request.cmd.first().is_some_and(|first| first != "true"));
        Ok(Response::new(ExecSyncResponse { exit_code, ..ExecSyncResponse::default() }))
    }
}

#[async_trait]
impl ImageService for Fake {
    async fn list_images(
        &self,
        _: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        Ok(Response::new(ListImagesResponse::default()))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        Ok(Response::new(ImageFsInfoResponse::default()))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let image = request.into_inner().image.unwrap_or_default().image;
        let found = image.contains(':').then(|| Image { id: format!("id of {image}"), ..Image::default() });
        Ok(Response::new(ImageStatusResponse { image: found }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let image = request.into_inner().image.unwrap_or_default().image;
        drop(self.note("PullImage", &image));
        Ok(Response::new(PullImageResponse { image_ref: format!("id of {image}") }))
    }
}
