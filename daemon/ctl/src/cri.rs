//! The CRI client: one method a call, with a deadline and an error that says what failed on which object.

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, anyhow};
use berth_proto::cri::image_service_client::ImageServiceClient;
use berth_proto::cri::runtime_service_client::RuntimeServiceClient;
use berth_proto::cri::*;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::channel::{MESSAGE_LIMIT, dial};
use super::cli::Global;
use super::{endpoint, output};

/// The kubelet's deadline for calls that do something. berthd holds within it.
const ACTION: Duration = Duration::from_secs(120);

/// A call that the other side refused or that did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("{call} of {subject}: {}", output::status(.status))]
pub(crate) struct CallError {
    /// The RPC.
    pub call: &'static str,
    /// Subject of the call.
    pub subject: String,
    /// The answer.
    pub status: Box<Status>,
}

impl CallError {
    /// The gRPC code.
    pub(crate) fn code(&self) -> Code {
        self.status.code()
    }
}

/// A connection to the runtime, or to berthd in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Cri {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    timeout: Duration,
}

impl Cri {
    /// Connects to the socket of `--runtime-endpoint` or the one that is found.
    pub(crate) async fn connect(global: &Global) -> Result<Self> {
        let socket = endpoint::find(global.runtime_endpoint.as_deref())?;
        let channel = dial(&socket, global.timeout).await.map_err(|error| {
            anyhow!(
                "cannot connect to the CRI socket {}: {error}; start what serves it (berthd or the container runtime), \
                 run berthctl as root, or name another socket with --runtime-endpoint",
                socket.display()
            )
        })?;
        Ok(Self {
            runtime: RuntimeServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            images: ImageServiceClient::new(channel)
                .max_decoding_message_size(MESSAGE_LIMIT)
                .max_encoding_message_size(MESSAGE_LIMIT),
            timeout: global.timeout,
        })
    }

    /// The runtime's name and version.
    pub(crate) async fn version(&self) -> Result<VersionResponse, CallError> {
        let request = with_deadline(VersionRequest { version: "0.1.0".to_owned() }, self.timeout);
        let mut client = self.runtime.clone();
        answer("Version", || "the runtime".to_owned(), client.version(request)).await
    }

    /// All sandboxes, or those of a filter.
    pub(crate) async fn sandboxes(
        &self,
        filter: Option<PodSandboxFilter>,
    ) -> Result<Vec<PodSandbox>, CallError> {
        let request = with_deadline(ListPodSandboxRequest { filter }, self.timeout);
        let mut client = self.runtime.clone();
        let list =
            answer("ListPodSandbox", || "all pods".to_owned(), client.list_pod_sandbox(request)).await?;
        Ok(list.items)
    }

    /// All containers, or those of a filter.
    pub(crate) async fn containers(
        &self,
        filter: Option<ContainerFilter>,
    ) -> Result<Vec<Container>, CallError> {
        let request = with_deadline(ListContainersRequest { filter }, self.timeout);
        let mut client = self.runtime.clone();
        let list =
            answer("ListContainers", || "all containers".to_owned(), client.list_containers(request)).await?;
        Ok(list.containers)
    }

    /// The containers of one sandbox.
    pub(crate) async fn containers_of(&self, sandbox: &str) -> Result<Vec<Container>, CallError> {
        let filter = ContainerFilter { pod_sandbox_id: sandbox.to_owned(), ..ContainerFilter::default() };
        self.containers(Some(filter)).await
    }

    /// Makes the sandbox; `pod` names it in errors.
    pub(crate) async fn run_sandbox(
        &self,
        config: PodSandboxConfig,
        handler: &str,
        pod: &str,
    ) -> Result<String, CallError> {
        // The kubelet gives it twice the time: the network may be slow.
        let request = with_deadline(
            RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() },
            2 * ACTION,
        );
        let mut client = self.runtime.clone();
        let done = answer("RunPodSandbox", || format!("pod {pod}"), client.run_pod_sandbox(request)).await?;
        Ok(done.pod_sandbox_id)
    }

    /// Stops the sandbox, and whatever still runs in it.
    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = with_deadline(StopPodSandboxRequest { pod_sandbox_id: id.to_owned() }, ACTION);
        let mut client = self.runtime.clone();
        answer("StopPodSandbox", || format!("pod sandbox {id}"), client.stop_pod_sandbox(request))
            .await
            .map(drop)
    }

    /// Removes the sandbox and its containers.
    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<(), CallError> {
        let request = with_deadline(RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() }, ACTION);
        let mut client = self.runtime.clone();
        answer("RemovePodSandbox", || format!("pod sandbox {id}"), client.remove_pod_sandbox(request))
            .await
            .map(drop)
    }

    /// The addresses of the sandbox, primary first; none with hostNetwork.
    pub(crate) async fn sandbox_ips(&self, id: &str) -> Result<Vec<String>, CallError> {
        let request = with_deadline(
            PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false },
            self.timeout,
        );
        let mut client = self.runtime.clone();
        let status =
            answer("PodSandboxStatus", || format!("pod sandbox {id}"), client.pod_sandbox_status(request))
                .await?;
        let network = status.status.and_then(|status| status.network).unwrap_or_default();
        let all = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|ip| ip.ip));
        Ok(all.filter(|ip| !ip.is_empty()).collect())
    }

    /// Creates a container; `name` names it in errors.
    pub(crate) async fn create(
        &self,
        request: CreateContainerRequest,
        name: &str,
    ) -> Result<String, CallError> {
        let request = with_deadline(request, ACTION);
        let mut client = self.runtime.clone();
        let done =
            answer("CreateContainer", || format!("container {name}"), client.create_container(request))
                .await?;
        Ok(done.container_id)
    }

    /// Starts a container.
    pub(crate) async fn start(&self, id: &str, name: &str) -> Result<(), CallError> {
        let request = with_deadline(StartContainerRequest { container_id: id.to_owned() }, ACTION);
        let mut client = self.runtime.clone();
        answer("StartContainer", || format!("container {name}"), client.start_container(request))
            .await
            .map(drop)
    }

    /// Stops a container within `grace` seconds; answers when it has ended.
    pub(crate) async fn stop(&self, id: &str, grace: i64, name: &str) -> Result<(), CallError> {
        let deadline = ACTION.saturating_add(Duration::from_secs(grace.unsigned_abs()));
        let request =
            with_deadline(StopContainerRequest { container_id: id.to_owned(), timeout: grace }, deadline);
        let mut client = self.runtime.clone();
        answer("StopContainer", || format!("container {name}"), client.stop_container(request))
            .await
            .map(drop)
    }

    /// The state of a container.
    pub(crate) async fn status(&self, id: &str, name: &str) -> Result<ContainerStatus, CallError> {
        let request = with_deadline(
            ContainerStatusRequest { container_id: id.to_owned(), verbose: false },
            self.timeout,
        );
        let mut client = self.runtime.clone();
        let status =
            answer("ContainerStatus", || format!("container {name}"), client.container_status(request))
                .await?;
        Ok(status.status.unwrap_or_default())
    }

    /// Runs a command in a container; `limit` of none waits for ever.
    pub(crate) async fn exec(
        &self,
        id: &str,
        cmd: Vec<String>,
        limit: Option<Duration>,
        name: &str,
    ) -> Result<ExecSyncResponse, CallError> {
        let timeout = limit.map_or(0, |limit| i64::try_from(limit.as_secs().max(1)).unwrap_or(i64::MAX));
        let mut request = Request::new(ExecSyncRequest { container_id: id.to_owned(), cmd, timeout });
        if let Some(limit) = limit {
            // The runtime ends the command; what is left is the way there and back.
            request.set_timeout(limit.saturating_add(self.timeout));
        }
        let mut client = self.runtime.clone();
        answer("ExecSync", || format!("container {name}"), client.exec_sync(request)).await
    }

    /// The image, if it is on the node.
    pub(crate) async fn image(&self, image: &str) -> Result<Option<Image>, CallError> {
        let spec = ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
        let request = with_deadline(ImageStatusRequest { image: Some(spec), verbose: false }, self.timeout);
        let mut client = self.images.clone();
        let status = answer("ImageStatus", || format!("image {image}"), client.image_status(request)).await?;
        Ok(status.image)
    }

    /// Pulls an image, however long that takes, and gives its ID.
    pub(crate) async fn pull(&self, image: &str, sandbox: PodSandboxConfig) -> Result<String, CallError> {
        let spec = ImageSpec {
            image: image.to_owned(),
            user_specified_image: image.to_owned(),
            ..ImageSpec::default()
        };
        let request = PullImageRequest { image: Some(spec), auth: None, sandbox_config: Some(sandbox) };
        let mut client = self.images.clone();
        let done = answer("PullImage", || format!("image {image}"), client.pull_image(Request::new(request)))
            .await?;
        Ok(done.image_ref)
    }
}

fn with_deadline<T>(message: T, deadline: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}

async fn answer<T>(
    call: &'static str,
    subject: impl FnOnce() -> String,
    pending: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    let started = std::time::Instant::now();
    let result = pending.await;
    tracing::debug!(call, ok = result.is_ok(), elapsed_ms = started.elapsed().as_millis() as u64, "call");
    match result {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(CallError { call, subject: subject(), status: Box::new(status) }),
    }
}
