//! The agent's own questions to the runtime, and what it asks it to do, over its own connection.
//!
//! Every call has a deadline that fits it: a runtime that is alive lists in milliseconds, but a stop takes
//! its grace.

pub(crate) mod creation_record;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod network;
mod patience;
#[cfg(test)]
pub(crate) mod played;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    time::{Duration, Instant},
};

use berth_policy::{Container, ContainerId, ContainerState, ListedSandbox, SandboxId};
use berth_proto::cri::{
    self, ContainerFilter, ContainerStatusRequest, ExecSyncRequest, ListContainersRequest,
    ListPodSandboxRequest, PodSandboxStatusRequest, RemoveContainerRequest, StopContainerRequest,
    VersionRequest, VersionResponse, runtime_service_client::RuntimeServiceClient,
};
use berth_shim::{RuntimeEndpoint, convert};
use k8s_openapi::jiff::Timestamp;
use tonic::{Code, Response, Status};
use tracing::warn;

use self::{creation_record::CreationRecord, network::Network, patience::Patience};
use crate::{
    base::{clock::Clock, deadline, unix},
    trace,
};

/// Limit of the output of a command, in bytes, before its answer is refused; see [`Runtime::exec_output`].
pub(crate) const OUTPUT_LIMIT: usize = 1 << 20;
/// The kubelet's own limit for one message.
pub(crate) const MESSAGE_LIMIT: usize = 16 << 20;
/// A runtime that is alive lists in milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Longest time until a probe knows where to ask; most have less of their own.
const PATIENCE_FOR_PROBE: Duration = Duration::from_secs(10);
/// The most time for the start of a command; who waits for a run of a probe does so for 10 s after its time.
const LONGEST_START: Duration = Duration::from_secs(8);
/// Characters of an identity in an error; those of runtimes have 64.
const LONGEST_ID: usize = 128;
/// Longest time that stopping and removing may take beyond the grace, on a disk that is busy; the kubelet's
/// own figure.
const LONG_PATIENCE: Duration = Duration::from_secs(120);

/// A client of the runtime. Cheap to clone; connects when it is used, and again after the runtime went away.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    client: RuntimeServiceClient<trace::Joined>,
    patience: Patience,
}

/// The runtime did not answer, or not in a way that can be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeError {
    /// No answer or an error.
    #[error("{method} of the runtime: {} ({:?})", status.message(), status.code())]
    Call {
        /// The CRI method.
        method: &'static str,
        /// Error that came back.
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
    /// It was asked about one container, and answered about another.
    #[error("ContainerStatus of the runtime is about container {answered:?}, not {asked}")]
    Another {
        /// The container.
        asked: ContainerId,
        /// Identity in the answer.
        answered: String,
    },
    /// It was to be removed, and runs.
    #[error("container {0} still runs")]
    StillRuns(ContainerId),
}

impl RuntimeError {
    /// Tells whether the connection is at fault, or that there is none: what the runtime itself answers has
    /// no source.
    pub(crate) fn is_of_connection(&self) -> bool {
        matches!(self, Self::Call { status, .. } if std::error::Error::source(&**status).is_some())
    }
}

/// Everything the runtime has.
#[derive(Debug)]
pub(crate) struct Listing {
    /// All sandboxes.
    pub sandboxes: Vec<ListedSandbox>,
    /// All containers.
    pub containers: Vec<(SandboxId, Container)>,
    /// When each container was created.
    pub created: Vec<(ContainerId, Instant)>,
}

impl Runtime {
    /// A client of the runtime at `endpoint`; nothing is dialled yet.
    pub(crate) fn new(endpoint: &RuntimeEndpoint) -> Self {
        let channel = unix::endpoint().connect_with_connector_lazy(unix::connector(endpoint.path()));
        let client = RuntimeServiceClient::new(trace::joined(channel));
        Self { client: client.max_decoding_message_size(MESSAGE_LIMIT), patience: Patience::default() }
    }

    /// `Version`: who the runtime is.
    pub(crate) async fn version(&self) -> Result<VersionResponse, RuntimeError> {
        within("Version", PATIENCE, self.client.clone().version(VersionRequest::default())).await
    }

    /// Everything the runtime has.
    pub(crate) async fn list(&self, patience: Duration) -> Result<Listing, RuntimeError> {
        let mut client = self.client.clone();
        let listing = client.list_pod_sandbox(ListPodSandboxRequest::default());
        let sandboxes = within("ListPodSandbox", patience, listing).await?.items;
        let listed = self.listed(None, patience).await?;
        let clock = Clock::read();
        let created = |container: &cri::Container| {
            let at = Timestamp::from_nanosecond(container.created_at.into()).ok()?;
            Some((container.id.as_str().into(), clock.instant(at)))
        };
        let created = listed.iter().filter_map(created).collect();
        let sandboxes = understood("ListPodSandbox", sandboxes.into_iter().map(convert::listed_sandbox));
        let containers = understood("ListContainers", listed.into_iter().map(convert::listed_container));
        Ok(Listing { created, sandboxes, containers })
    }

    /// The containers of a sandbox, those that ended with their exit code. A `known` one is not asked for.
    pub(crate) async fn inspect(
        &self,
        sandbox: &SandboxId,
        known: &BTreeMap<ContainerId, i32>,
    ) -> Result<Vec<Container>, RuntimeError> {
        let mut containers = Vec::new();
        let time = self.patience.now();
        let listed = self.patience.learning(time, self.listed(Some(sandbox), time)).await?.into_iter();
        for (_, container) in understood("ListContainers", listed.map(convert::listed_container)) {
            let code = known.get(&container.id).copied();
            match container.state {
                ContainerState::Exited { .. } if code.is_some() => {
                    containers.push(Container { state: ContainerState::Exited { code }, ..container });
                }
                ContainerState::Exited { .. } => containers.extend(self.status(&container.id).await?),
                ContainerState::Created | ContainerState::Running | ContainerState::Unknown => {
                    containers.push(container);
                }
            }
        }
        Ok(containers)
    }

    async fn listed(
        &self,
        sandbox: Option<&SandboxId>,
        patience: Duration,
    ) -> Result<Vec<cri::Container>, RuntimeError> {
        let filter = sandbox.map(|sandbox| ContainerFilter {
            pod_sandbox_id: sandbox.as_str().to_owned(),
            ..ContainerFilter::default()
        });
        let mut client = self.client.clone();
        let listing = client.list_containers(ListContainersRequest { filter });
        let mut containers = within("ListContainers", patience, listing).await?.containers;
        // Whatever the runtime makes of the filter: what is of another sandbox is not taken for one of this.
        containers.retain(|listed| sandbox.is_none_or(|sandbox| listed.pod_sandbox_id == sandbox.as_str()));
        Ok(containers)
    }

    /// Finds which attempt of its container this instance is: as often it was restarted before. `None` when
    /// it is not there.
    pub(crate) async fn attempt(&self, container: &ContainerId) -> Result<Option<u32>, RuntimeError> {
        Ok(self.status(container).await?.map(|container| container.attempt))
    }

    /// Asks how a container is; `None` when it was removed since it was listed.
    async fn status(&self, container: &ContainerId) -> Result<Option<Container>, RuntimeError> {
        let status = self.container_status(container).await?;
        status.map(convert::container_status).transpose().map_err(understand("ContainerStatus"))
    }

    /// Asks for the status of a container; `None` when there is no such container.
    async fn container_status(&self, id: &ContainerId) -> Result<Option<cri::ContainerStatus>, RuntimeError> {
        Ok(self.answered(id, false).await?.and_then(|answer| answer.status))
    }

    /// Returns how a container was created; `None`: there is no such container, or the runtime does not tell.
    pub(crate) async fn creation_record(
        &self,
        id: &ContainerId,
    ) -> Result<Option<CreationRecord>, RuntimeError> {
        let Some(answer) = self.answered(id, true).await? else { return Ok(None) };
        Ok(answer.status.map(|status| CreationRecord::read(status, &answer.info)))
    }

    /// Asks about a container; `None` when there is no such one. An answer about another one is an error.
    async fn answered(
        &self,
        id: &ContainerId,
        verbose: bool,
    ) -> Result<Option<cri::ContainerStatusResponse>, RuntimeError> {
        let request = ContainerStatusRequest { container_id: id.as_str().to_owned(), verbose };
        let mut client = self.client.clone();
        let time = self.patience.now();
        let asked = within("ContainerStatus", time, client.container_status(request));
        let answer = unless_gone(self.patience.learning(time, asked).await)?;
        let status = answer.as_ref().and_then(|answer| answer.status.as_ref());
        if let Some(status) = status.filter(|status| status.id != id.as_str()) {
            let answered = status.id.chars().take(LONGEST_ID).collect();
            return Err(RuntimeError::Another { asked: id.clone(), answered });
        }
        Ok(answer)
    }

    /// The address of a sandbox; `None` on the host's network.
    pub(crate) async fn sandbox_ip(&self, sandbox: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.as_str().to_owned(), verbose: false };
        let mut client = self.client.clone();
        let answer =
            within("PodSandboxStatus", PATIENCE_FOR_PROBE, client.pod_sandbox_status(request)).await?;
        let ip = answer.status.and_then(|status| status.network).map(|network| network.ip);
        Ok(ip.filter(|ip| !ip.is_empty()))
    }

    /// Runs a command in a container and gives its exit code. What it prints is forgotten: it may be a
    /// secret.
    pub(crate) async fn exec(
        &self,
        container: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<i32, RuntimeError> {
        let request = exec_request(container, command, limit);
        let mut client = self.client.clone();
        // The runtime ends the command at the whole second; a moment later we do not wait any more.
        let answer = within("ExecSync", limit.saturating_add(PATIENCE), client.exec_sync(request)).await?;
        Ok(answer.exit_code)
    }

    /// Runs a command in a container for at most `limit`, and gives what it printed. The runtime ends it, and
    /// counts from its start, as for the kubelet's probes; on a busy node that comes late.
    ///
    /// The runtime sends all of it in one message, up to 16 MiB, and would have us keep it twice. Beyond
    /// [`OUTPUT_LIMIT`] the answer is dropped unread (`OUT_OF_RANGE`), beyond the runtime's own limit it
    /// never sends one (`RESOURCE_EXHAUSTED`): in both cases the exit code is lost with it.
    pub(crate) async fn exec_output(
        &self,
        container: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse, RuntimeError> {
        let request = exec_request(container, command, limit);
        let mut client = self.client.clone().max_decoding_message_size(OUTPUT_LIMIT);
        let start = self.patience.now().min(LONGEST_START);
        within("ExecSync", limit.saturating_add(start), client.exec_sync(request)).await
    }

    /// Finds where the network of a sandbox is; `None` while it has no address.
    pub(crate) async fn network(&self, sandbox: &SandboxId) -> Result<Option<Network>, RuntimeError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox.as_str().to_owned(), verbose: true };
        let mut client = self.client.clone();
        let answer =
            within("PodSandboxStatus", PATIENCE_FOR_PROBE, client.pod_sandbox_status(request)).await?;
        Ok(Network::read(answer))
    }

    /// Sends the stop signal, and SIGKILL after `grace`. One that is not there is stopped.
    pub(crate) async fn stop_container(
        &self,
        container: &ContainerId,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        let request = StopContainerRequest {
            container_id: container.as_str().to_owned(),
            timeout: whole_seconds(grace),
        };
        let mut client = self.client.clone();
        let answer =
            within("StopContainer", grace.saturating_add(LONG_PATIENCE), client.stop_container(request))
                .await;
        unless_gone(answer).map(drop)
    }

    /// Removes a container that does not run, and with it its log and the rotated parts of it, as the kubelet
    /// does. One that is not there is removed.
    pub(crate) async fn remove_container(&self, container: &ContainerId) -> Result<(), RuntimeError> {
        let Some(status) = self.container_status(container).await? else { return Ok(()) };
        self.remove(container, &status).await?;
        remove_logs(Path::new(&status.log_path)).await;
        Ok(())
    }

    async fn remove(
        &self,
        container: &ContainerId,
        status: &cri::ContainerStatus,
    ) -> Result<(), RuntimeError> {
        // The runtime would kill it at once, without its grace.
        if status.state() == cri::ContainerState::ContainerRunning {
            return Err(RuntimeError::StillRuns(container.clone()));
        }
        let request = RemoveContainerRequest { container_id: container.as_str().to_owned() };
        let mut client = self.client.clone();
        let answer = within("RemoveContainer", LONG_PATIENCE, client.remove_container(request)).await;
        unless_gone(answer).map(drop)
    }
}

fn exec_request(container: &ContainerId, command: &[String], limit: Duration) -> ExecSyncRequest {
    ExecSyncRequest {
        container_id: container.as_str().to_owned(),
        cmd: command.to_vec(),
        // Never 0, which is no limit.
        timeout: whole_seconds(limit).max(1),
    }
}

/// Waits so long and no longer. A call that is given up is cancelled at the runtime, too.
pub(crate) async fn within<T>(
    method: &'static str,
    limit: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RuntimeError> {
    let late = || Err(Status::deadline_exceeded(format!("no answer in {limit:?}")));
    let answer = deadline::within(limit, answer).await.unwrap_or_else(late);
    answer.map(Response::into_inner).map_err(|status| RuntimeError::Call { method, status: Box::new(status) })
}

/// Turns the error of a missing object into `None`: an object that is gone needs nothing done to it.
fn unless_gone<T>(answer: Result<T, RuntimeError>) -> Result<Option<T>, RuntimeError> {
    match answer {
        Err(RuntimeError::Call { status, .. }) if status.code() == Code::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

/// Rounded up: a grace is at least what was asked for.
fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    seconds.try_into().unwrap_or(i64::MAX)
}

/// Removes `<log>` and `<log>.*`. The container is gone already, so a failure is told and nothing more.
async fn remove_logs(log: &Path) {
    let (Some(directory), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let rotated = format!("{name}.");
    let removed: io::Result<()> = async {
        let mut entries = tokio::fs::read_dir(directory).await?;
        while let Some(entry) = entries.next_entry().await? {
            let file = entry.file_name();
            let is_ours = file.to_str().is_some_and(|file| file == name || file.starts_with(&rotated));
            if is_ours && let Err(error) = tokio::fs::remove_file(entry.path()).await {
                // Somebody else cleans up here as well: the kubelet.
                if error.kind() != io::ErrorKind::NotFound {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
    .await;
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!(log = %log.display(), %error, "Log of a removed container not removed");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Leaves out what nobody could name, the kubelet neither: one such must not hide all others.
fn understood<T>(method: &str, listed: impl Iterator<Item = Result<T, convert::Missing>>) -> Vec<T> {
    let warned =
        |missing: &convert::Missing| warn!(method, error = %missing, "Left out of the runtime's list");
    listed.filter_map(|one| one.inspect_err(warned).ok()).collect()
}

fn understand(method: &'static str) -> impl Fn(convert::Missing) -> RuntimeError {
    move |source| RuntimeError::Answer { method, source }
}

/// The sockets crictl looks for, in its order.
const WELL_KNOWN: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock"];

/// The first of the well-known runtime sockets that exists; containerd's when none does, because at boot it
/// may come later than the agent.
pub(crate) fn find() -> &'static str {
    WELL_KNOWN.into_iter().find(|path| std::path::Path::new(path).exists()).unwrap_or(WELL_KNOWN[0])
}
