//! The agent's own questions to the runtime, over its own connection: what is there, and what runs in a sandbox.

use std::{path::PathBuf, time::Duration};

use berth_policy::{Container, ContainerState, ListedSandbox, SandboxId};
use berth_proto::cri::{
    ContainerFilter, ContainerStatusRequest, ListContainersRequest, ListPodSandboxRequest, VersionRequest,
    VersionResponse, runtime_service_client::RuntimeServiceClient,
};
use berth_shim::{RuntimeEndpoint, convert};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// The kubelet's own limit for one message.
const MESSAGE_LIMIT: usize = 16 << 20;
/// A runtime that is alive lists in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A client of the runtime. Cheap to clone; connects when it is used, and again after the runtime went away.
#[derive(Clone, Debug)]
pub struct Runtime {
    client: RuntimeServiceClient<Channel>,
}

/// The runtime did not answer, or not in a way that can be understood.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// No answer or an error.
    #[error("{method} of the runtime: {} ({:?})", status.message(), status.code())]
    Call {
        /// The CRI method.
        method: &'static str,
        /// What came back.
        status: Box<Status>,
    },
    /// An answer without a field that must be there.
    #[error("{method} of the runtime")]
    Answer {
        /// The CRI method.
        method: &'static str,
        /// Which field.
        source: convert::Missing,
    },
}

/// Everything the runtime has.
#[derive(Debug)]
pub struct Listing {
    /// All sandboxes.
    pub sandboxes: Vec<ListedSandbox>,
    /// All containers.
    pub containers: Vec<(SandboxId, Container)>,
}

impl Runtime {
    /// A client of the runtime at `endpoint`; nothing is dialled yet.
    pub fn new(endpoint: &RuntimeEndpoint) -> Self {
        let path: PathBuf = endpoint.path().to_owned();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost")
            .timeout(PATIENCE)
            .connect_with_connector_lazy(connector);
        Self { client: RuntimeServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT) }
    }

    /// `Version`: who the runtime is.
    pub async fn version(&self) -> Result<VersionResponse, RuntimeError> {
        let answer = self.client.clone().version(VersionRequest::default()).await;
        Ok(answer.map_err(call("Version"))?.into_inner())
    }

    /// Everything the runtime has.
    pub async fn list(&self) -> Result<Listing, RuntimeError> {
        let mut client = self.client.clone();
        let answer = client.list_pod_sandbox(ListPodSandboxRequest::default()).await;
        let sandboxes = answer.map_err(call("ListPodSandbox"))?.into_inner().items;
        let containers = self.containers(None).await?;
        Ok(Listing {
            sandboxes: sandboxes
                .into_iter()
                .map(convert::listed_sandbox)
                .collect::<Result<_, _>>()
                .map_err(understand("ListPodSandbox"))?,
            containers,
        })
    }

    /// The containers of a sandbox, those that ended with their exit code.
    pub async fn inspect(&self, sandbox: &SandboxId) -> Result<Vec<Container>, RuntimeError> {
        let mut containers = Vec::new();
        for (_, container) in self.containers(Some(sandbox)).await? {
            match container.state {
                ContainerState::Exited { .. } => containers.extend(self.status(&container).await?),
                ContainerState::Created | ContainerState::Running | ContainerState::Unknown => {
                    containers.push(container);
                }
            }
        }
        Ok(containers)
    }

    /// Removes a container that has exited; one that is not there is removed.
    pub async fn remove_container(&self, id: &berth_policy::ContainerId) -> Result<(), RuntimeError> {
        let request = berth_proto::cri::RemoveContainerRequest { container_id: id.as_str().to_owned() };
        match self.client.clone().remove_container(request).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Ok(()),
            Err(status) => Err(call("RemoveContainer")(status)),
        }
    }

    async fn containers(
        &self,
        sandbox: Option<&SandboxId>,
    ) -> Result<Vec<(SandboxId, Container)>, RuntimeError> {
        let filter = sandbox.map(|sandbox| ContainerFilter {
            pod_sandbox_id: sandbox.as_str().to_owned(),
            ..ContainerFilter::default()
        });
        let answer = self.client.clone().list_containers(ListContainersRequest { filter }).await;
        let listed = answer.map_err(call("ListContainers"))?.into_inner().containers;
        listed
            .into_iter()
            .map(convert::listed_container)
            .collect::<Result<_, _>>()
            .map_err(understand("ListContainers"))
    }

    /// `None` when it was removed since it was listed.
    async fn status(&self, container: &Container) -> Result<Option<Container>, RuntimeError> {
        let request =
            ContainerStatusRequest { container_id: container.id.as_str().to_owned(), verbose: false };
        let status = match self.client.clone().container_status(request).await {
            Ok(answer) => answer.into_inner().status,
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(call("ContainerStatus")(status)),
        };
        status.map(convert::container_status).transpose().map_err(understand("ContainerStatus"))
    }
}

fn call(method: &'static str) -> impl Fn(Status) -> RuntimeError {
    move |status| RuntimeError::Call { method, status: Box::new(status) }
}

fn understand(method: &'static str) -> impl Fn(convert::Missing) -> RuntimeError {
    move |source| RuntimeError::Answer { method, source }
}

/// The sockets crictl looks for, in its order.
const WELL_KNOWN: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock"];

/// The first of the well-known runtime sockets that exists; containerd's when none does, because at boot it may come
/// later than the agent.
pub fn find() -> &'static str {
    WELL_KNOWN.into_iter().find(|path| std::path::Path::new(path).exists()).unwrap_or(WELL_KNOWN[0])
}
