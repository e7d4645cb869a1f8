//! The effects the core owes the world. A step carries all it needs: who executes it decides nothing.

use std::time::Duration;

use crate::{
    job_sidecars::SidecarMark,
    model::{ContainerId, Hook, PodRef, RequestId, SandboxId},
    probes::ProbeRun,
    recreate::{Origin, RecreateMark, RecreateReport},
};

/// An effect to be carried out; its outcome comes back as an [`crate::Event`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Ask the runtime for the containers of this sandbox, with the exit codes of those that ended.
    InspectSandbox(SandboxId),
    /// Ask the kubelet for its pods: something waits and the pod view may be behind.
    PollKubelet,
    /// Remove the latches of this sandbox from the store: it is gone.
    ForgetLatches(SandboxId),
    /// Run this probe of a container that others wait for, once. Its beginning and its end come back as
    /// [`crate::Event::ProbeBegan`] and [`crate::Event::ProbeEnded`].
    Probe(ProbeRun),

    /// Remove these exited containers from the runtime, and their logs.
    RemoveContainers(Vec<ContainerId>),
    /// Write these marks down durably, all or none; what they say happens only after that.
    WriteMarks(Vec<RecreateMark>),
    /// Remove the marks of this request from the store.
    ForgetMarks(RequestId),
    /// Stop this container without the kubelet: its hook, then the stop signal, then SIGKILL.
    StopContainer(DirectStop),
    /// Write this status of the request.
    Report(Origin, RequestId, RecreateReport),
    /// Hold the pod not Ready for the request with this key (`namespace/name`), by the gate `KruisePodReady`.
    HoldUnready(PodRef, String),
    /// Take that back.
    ReleaseUnready(PodRef, String),
    /// Let the pod become Ready: it has the gate, and nobody has written its condition yet.
    OpenGate(PodRef),
    /// Write these marks of job sidecars down durably, all or none; what they say happens only after that.
    MarkSidecars(Vec<SidecarMark>),
    /// Remove the marks of these containers from the store: they are gone.
    ForgetSidecars(Vec<ContainerId>),
    /// Tell the users of this pod.
    Tell(PodRef, Notice),
    /// Delete the request: it ended long enough ago.
    DeleteRequest(Origin, RequestId),
}

/// An Event about a pod; each is a new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// A constant word.
    pub reason: &'static str,
    /// Something is not as it was asked for.
    pub warning: bool,
    /// For people.
    pub note: String,
}

/// How a container is stopped without the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectStop {
    /// Which one.
    pub container: ContainerId,
    /// Its pod, for events and the address of an HTTP hook.
    pub pod: PodRef,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// `status.podIP`, where the pod view knows it.
    pub ip: Option<String>,
    /// preStop, unless it was run already.
    pub hook: Option<Hook>,
    /// From the beginning of the hook to SIGKILL.
    pub grace: Duration,
}
