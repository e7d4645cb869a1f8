//! A CRI client on a unix socket, reduced to the questions of the tests.

use std::path::Path;

use anyhow::{Context, Result};
use berth_proto::cri::image_service_client::ImageServiceClient;
use berth_proto::cri::runtime_service_client::RuntimeServiceClient;
use berth_proto::cri::{
    ContainerFilter, ContainerState, ContainerStatusRequest, ExecSyncRequest, Image, ImageSpec,
    ImageStatusRequest, ListContainersRequest, ListPodSandboxRequest, PodSandbox, PodSandboxFilter,
    PullImageRequest, RuntimeCondition, StatusRequest, VersionRequest, VersionResponse,
};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::compare::{Nothing, RemoveImageRequest};

/// The labels by which the kubelet, and `berthctl play`, mark what belongs to a pod.
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// One container of the runtime, as it was when it was asked about. Times are nanoseconds since the epoch,
/// 0 = not yet.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The runtime's ID.
    pub id: String,
    /// The name in the pod's spec.
    pub name: String,
    /// How many instances of that name there were before.
    pub attempt: u32,
    /// State of the container.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: i64,
    /// When its process was started.
    pub started_at: i64,
    /// When its process ended.
    pub finished_at: i64,
    /// How it ended.
    pub exit_code: i32,
    /// The runtime's word for how it ended.
    pub reason: String,
}

/// A connection that is made when it is needed and made again when it was lost.
#[derive(Clone, Debug)]
pub struct Cri {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    /// For calls that Berth itself never makes.
    channel: Channel,
}

impl Cri {
    /// A client of the socket; nothing is dialled yet.
    pub fn connect(socket: &Path) -> Result<Self> {
        let socket = socket.to_owned();
        let connector = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::try_from("http://localhost").context("endpoint")?;
        let channel = endpoint.connect_with_connector_lazy(connector);
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20),
            images: ImageServiceClient::new(channel.clone()),
            channel,
        })
    }

    /// `Version`.
    pub async fn version(&self) -> Result<VersionResponse> {
        let request = VersionRequest { version: "v1".to_owned() };
        Ok(self.runtime.clone().version(request).await.context("Version")?.into_inner())
    }

    /// The conditions of `Status`: the runtime and its network.
    pub async fn conditions(&self) -> Result<Vec<RuntimeCondition>> {
        let answer = self.runtime.clone().status(StatusRequest { verbose: false }).await.context("Status")?;
        Ok(answer.into_inner().status.context("no status")?.conditions)
    }

    /// All sandboxes of a pod, running or not.
    pub async fn sandboxes(&self, namespace: &str, pod: &str) -> Result<Vec<PodSandbox>> {
        let filter = PodSandboxFilter { label_selector: labels(namespace, pod), ..Default::default() };
        let request = ListPodSandboxRequest { filter: Some(filter) };
        Ok(self.runtime.clone().list_pod_sandbox(request).await.context("ListPodSandbox")?.into_inner().items)
    }

    /// ID and state of all containers of a pod, running or not.
    pub async fn states(&self, namespace: &str, pod: &str) -> Result<Vec<(String, ContainerState)>> {
        let filter = ContainerFilter { label_selector: labels(namespace, pod), ..Default::default() };
        let request = ListContainersRequest { filter: Some(filter) };
        let answer =
            self.runtime.clone().list_containers(request).await.context("ListContainers")?.into_inner();
        Ok(answer.containers.into_iter().map(|container| (container.id.clone(), container.state())).collect())
    }

    /// One container; `None` when the runtime does not have it (any more).
    pub async fn container(&self, id: &str) -> Result<Option<Instance>> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let status = match self.runtime.clone().container_status(request).await {
            Ok(answer) => answer.into_inner().status.context("no status")?,
            Err(status) if status.code() == tonic::Code::NotFound => return Ok(None),
            Err(status) => return Err(status).context("ContainerStatus"),
        };
        let metadata = status.metadata.clone().context("no metadata")?;
        Ok(Some(Instance {
            id: status.id.clone(),
            name: metadata.name,
            attempt: metadata.attempt,
            state: status.state(),
            created_at: status.created_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
            reason: status.reason,
        }))
    }

    /// All containers of a pod, in the order in which they were created.
    pub async fn containers(&self, namespace: &str, pod: &str) -> Result<Vec<Instance>> {
        let mut found = Vec::new();
        for (id, _) in self.states(namespace, pod).await? {
            found.extend(self.container(&id).await?);
        }
        found.sort_by_key(|instance| instance.created_at);
        Ok(found)
    }

    /// Runs a command in a container: its exit code and its output.
    pub async fn exec(&self, id: &str, command: &[&str]) -> Result<(i32, String)> {
        let request = ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.iter().map(|&part| part.to_owned()).collect(),
            // Only what hangs is to end.
            timeout: 180,
        };
        let answer = self.runtime.clone().exec_sync(request).await.context("ExecSync")?.into_inner();
        Ok((answer.exit_code, String::from_utf8_lossy(&answer.stdout).into_owned()))
    }

    /// Pulls an image, as anybody may.
    pub async fn pull(&self, image: &str) -> Result<()> {
        let spec = ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = PullImageRequest { image: Some(spec), auth: None, sandbox_config: None };
        self.images.clone().pull_image(request).await.context("PullImage")?;
        Ok(())
    }

    /// Removes an image, which is no error when it is not on the node.
    pub async fn remove_image(&self, image: &str) -> Result<()> {
        let spec = ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = Request::new(RemoveImageRequest { image: Some(spec) });
        let path = PathAndQuery::from_static("/runtime.v1.ImageService/RemoveImage");
        let codec = ProstCodec::<RemoveImageRequest, Nothing>::default();
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await.context("RemoveImage")?;
        client.unary(request, path, codec).await.context("RemoveImage")?;
        Ok(())
    }

    /// Returns the data that the runtime has of an image; `None` when it is not on the node.
    pub async fn image(&self, image: &str) -> Result<Option<Image>> {
        let spec = ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = ImageStatusRequest { image: Some(spec), verbose: false };
        Ok(self.images.clone().image_status(request).await.context("ImageStatus")?.into_inner().image)
    }
}

fn labels(namespace: &str, pod: &str) -> std::collections::HashMap<String, String> {
    [(POD_NAMESPACE, namespace), (POD_NAME, pod)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
