//! The agent's own questions to the runtime, over its own connection: what is there, and what runs in a sandbox.

use std::time::Duration;

use berth_policy::{Container, ContainerId, ContainerState, ListedSandbox, SandboxId};
use berth_proto::cri::{
    ContainerFilter, ContainerStatusRequest, ListContainersRequest, ListPodSandboxRequest, VersionRequest,
    VersionResponse, runtime_service_client::RuntimeServiceClient,
};
use berth_shim::{RuntimeEndpoint, convert};
use tonic::{Code, Status, transport::Channel};

use crate::unix;

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
        let channel =
            unix::endpoint().timeout(PATIENCE).connect_with_connector_lazy(unix::connector(endpoint.path()));
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
                ContainerState::Exited { .. } => containers.extend(self.status(&container.id).await?),
                ContainerState::Created | ContainerState::Running | ContainerState::Unknown => {
                    containers.push(container);
                }
            }
        }
        Ok(containers)
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

    /// Which attempt of its container this instance is: as often it was restarted before. `None` when it is not there.
    pub async fn attempt(&self, container: &ContainerId) -> Result<Option<u32>, RuntimeError> {
        let status = self.status(container).await?;
        Ok(status.map(|container| container.attempt))
    }

    /// `None` when it was removed since it was listed.
    async fn status(&self, container: &ContainerId) -> Result<Option<Container>, RuntimeError> {
        let request = ContainerStatusRequest { container_id: container.as_str().to_owned(), verbose: false };
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
