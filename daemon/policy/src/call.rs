//! Calls of the kubelet that may have to wait, reduced to what a decision needs.

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::{
    launch_priority::OrderError,
    model::{CallId, ConnectionId, ContainerId, ContainerName, PodRef, SandboxId},
};

/// A CRI call that asks to pass. The same value is asked again while it is held.
#[derive(Clone, Debug)]
pub struct Call {
    /// Identity of this call.
    pub id: CallId,
    /// The connection it came over.
    pub connection: ConnectionId,
    /// When its request was complete.
    pub arrived: Instant,
    /// `arrived` + `grpc-timeout`; `None` when the client set none.
    pub deadline: Option<Instant>,
    /// Request that the call makes.
    pub request: Request,
}

/// The calls that are asked about. All others pass without a question.
#[derive(Clone, Debug)]
pub enum Request {
    /// `CreateContainer`.
    CreateContainer(CreateContainer),
    /// `StopContainer`.
    StopContainer(StopContainer),
}

/// `CreateContainerRequest`.
#[derive(Clone, Debug)]
pub struct CreateContainer {
    /// `pod_sandbox_id`.
    pub sandbox: SandboxId,
    /// From `sandbox_config.metadata`.
    pub pod: PodRef,
    /// `config.metadata.name`.
    pub container: ContainerName,
    /// `config.metadata.attempt`.
    pub attempt: u32,
    /// Declarations about an order in the request itself.
    pub declared: Declared,
    /// The image, by every name the request has for it: `config.image.image`,
    /// `config.image.user_specified_image`.
    pub images: Vec<String>,
}

/// Declarations of a `CreateContainerRequest` about the order of its pod. It shows one container only, so
/// alone it does not decide anything but a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The sandbox annotation `berth.dev/container-launch-plan`: every regular container with its priority,
    /// or why it cannot be read.
    pub plan: Option<Result<Vec<(ContainerName, i64)>, OrderError>>,
    /// The pod annotation `apps.kruise.io/container-launch-priority` or the container's own env
    /// `KRUISE_CONTAINER_PRIORITY` is there: the pod wants an order, whatever it is.
    pub hinted: bool,
    /// The pod is no kubelet's, which labels each of its sandboxes with the pod's UID
    /// (`io.kubernetes.pod.uid`, the kubelet's labels.go). No view will ever show it.
    pub foreign: bool,
}

/// `StopContainerRequest`.
#[derive(Clone, Debug)]
pub struct StopContainer {
    /// `container_id`.
    pub container: ContainerId,
    /// `timeout`: from the stop signal to SIGKILL. The kubelet has taken the time of preStop off already.
    pub timeout: Duration,
}

/// Env variables by name. Their values may be secret: they are printed nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EnvValues(pub Vec<(String, String)>);

impl fmt::Debug for EnvValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
