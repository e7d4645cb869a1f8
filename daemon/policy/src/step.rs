//! Steps that the core owes the world, grouped by who carries it out. A step carries all it needs: who
//! carries it out decides nothing, and each sees its own steps only.
//!
//! ```text
//!   Step ─┬─ Question       answered by an event of its own
//!         ├─ ForgetLatches  done at once
//!         └─ Effect ─┬─ Store     the agent's own store
//!                    ├─ Runtime   the container runtime
//!                    ├─ Request   the object or file that the request is
//!                    └─ Pod       the pod's object at the API server
//! ```

use std::time::Duration;

use crate::{
    job_sidecars::SidecarMark,
    model::{ContainerId, ContainerName, Hook, PodRef, RequestId, SandboxId},
    probes::ProbeRun,
    recreate::{RecreateMark, RecreateReport, Source},
};

/// A step to be carried out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Find something out. Its beginning and its answer come back as [`crate::Event`]s of its own.
    Question(Question),
    /// Remove the latches of this sandbox from the store: it is gone.
    ForgetLatches(SandboxId),
    /// Change something. Its beginning comes back as [`crate::Event::EffectBegan`], its end as
    /// [`crate::Event::EffectEnded`].
    Effect(Effect),
}

/// Fact to find out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Ask the runtime for the containers of this sandbox, with the exit codes of those that ended.
    InspectSandbox(SandboxId),
    /// Ask the kubelet for its pods: something waits and the pod view may be behind.
    PollKubelet,
    /// Run this probe of a container that others wait for, once. Its beginning and its end come back as
    /// [`crate::Event::ProbeBegan`] and [`crate::Event::ProbeEnded`].
    Probe(ProbeRun),
}

/// A change, by who makes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// In the agent's own store.
    Store(StoreEffect),
    /// At the container runtime.
    Runtime(RuntimeEffect),
    /// To this request, where it is kept.
    Request(Source, RequestId, RequestEffect),
    /// To this pod, or told about it, at the API server.
    Pod(PodRef, PodEffect),
}

/// A change of the agent's own store. It is durable, all or none, before what it says happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreEffect {
    /// Write down these marks of requests.
    WriteMarks(Vec<RecreateMark>),
    /// Remove the marks of this request.
    ForgetMarks(RequestId),
    /// Write down these marks of job sidecars.
    MarkSidecars(Vec<SidecarMark>),
    /// Remove the marks of these job sidecars: they are gone.
    ForgetSidecars(Vec<ContainerId>),
}

/// A change at the container runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeEffect {
    /// Remove these exited containers, and their logs.
    RemoveContainers(Vec<ContainerId>),
    /// Stop this container without the kubelet: its hook, then the stop signal, then SIGKILL.
    StopContainer(Box<DirectStop>),
}

/// A change of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestEffect {
    /// Write this status.
    Report(RecreateReport),
    /// Delete it: it ended long enough ago.
    Delete,
}

/// A change of a pod's object, or an Event about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodEffect {
    /// Hold it not Ready for the request with this key (`namespace/name`), by the gate `KruisePodReady`.
    HoldUnready(String),
    /// Take that back.
    ReleaseUnready(String),
    /// Let it become Ready: it has the gate, and nobody has written its condition yet.
    OpenGate,
    /// Tell its users.
    Tell(Notice),
}

/// An Event about a pod, or about this node because of a pod; each is a new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Object that it stands at.
    pub about: About,
    /// A constant word.
    pub reason: &'static str,
    /// Something is not as it was asked for.
    pub warning: bool,
    /// For people.
    pub note: String,
}

/// Object of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The pod.
    Pod,
    /// This node.
    Node,
}

/// How a container is stopped without the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectStop {
    /// Which one.
    pub container: ContainerId,
    /// Its name, for people.
    pub name: ContainerName,
    /// Its pod, for events and the address of an HTTP hook.
    pub pod: PodRef,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// `status.podIP`, where the pod view knows it.
    pub ip: Option<String>,
    /// preStop, unless it was run already.
    pub hook: Option<Hook>,
    /// Written down before the hook begins, where the hook is not to begin a second time. That it is durable
    /// comes back as [`crate::Event::HookBegins`].
    pub mark: Option<SidecarMark>,
    /// From the beginning of the hook to SIGKILL.
    pub grace: Duration,
}

impl From<Question> for Step {
    fn from(question: Question) -> Self {
        Self::Question(question)
    }
}

impl From<StoreEffect> for Step {
    fn from(effect: StoreEffect) -> Self {
        Self::Effect(Effect::Store(effect))
    }
}

impl From<RuntimeEffect> for Step {
    fn from(effect: RuntimeEffect) -> Self {
        Self::Effect(Effect::Runtime(effect))
    }
}

impl Step {
    /// A change of a pod.
    pub(crate) const fn of_pod(pod: PodRef, effect: PodEffect) -> Self {
        Self::Effect(Effect::Pod(pod, effect))
    }
}
