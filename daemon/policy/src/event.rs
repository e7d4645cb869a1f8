//! Facts from the CRI connection, the runtime and the pod view. Applying one never fails.

use std::{collections::BTreeSet, time::Instant};

use crate::{
    call::Declared,
    creation_env::CreationEnv,
    images::CredentialKey,
    job_sidecars::SidecarMark,
    model::{CallId, ConnectionId, Container, ContainerId, Pod, PodRef, PodUid, RequestId, SandboxId},
    probes::{ProbeResult, ProbeRun},
    recreate::{Origin, RecreateMark, RecreateRequest},
    step::Effect,
    verdict::Latch,
};

/// A fact. See [`crate::Node::apply`].
#[derive(Clone, Debug)]
pub enum Event {
    /// The pod view shows this pod, new or changed.
    PodSeen(Box<Pod>),
    /// The pod view shows it no more.
    PodGone(PodUid),
    /// The pod view was listed anew: these and no others.
    PodsListed(Vec<Pod>),
    /// The pod view has these pods and cannot read them, and reads all others.
    PodsUnread(Vec<PodRef>),

    /// `RunPodSandbox` answered.
    SandboxCreated {
        /// Its new identity.
        sandbox: SandboxId,
        /// Whose it is.
        pod: PodRef,
        /// Declarations in its annotations.
        declared: Declared,
    },
    /// `StopPodSandbox` was asked: whatever waits in this sandbox must not wait longer.
    SandboxStopping(SandboxId),
    /// `RemovePodSandbox` succeeded.
    SandboxRemoved(SandboxId),
    /// `CreateContainer` answered with this container.
    ContainerCreated {
        /// The call, as it was admitted.
        call: CallId,
        /// The new instance.
        container: ContainerId,
    },
    /// `StartContainer` succeeded.
    ContainerStarted(ContainerId),
    /// `StopContainer` succeeded: the process has ended.
    ContainerStopped(ContainerId),
    /// The kubelet asks for a lifecycle hook, by a command in this container.
    HookAsked {
        /// The command's call.
        call: CallId,
        /// The hook's container.
        container: ContainerId,
        /// Connection of the kubelet.
        connection: ConnectionId,
    },
    /// A lifecycle hook of the kubelet ended, by a command in this container: well, or not.
    HookEnded(ContainerId, bool),
    /// A preStop hook that the agent runs begins now: that is durable.
    HookBegins(ContainerId),
    /// `RemoveContainer` succeeded.
    ContainerRemoved(ContainerId),

    /// An unfiltered `ListContainers` was asked: the first half of a PLEG relist.
    RelistAsked {
        /// The list call.
        call: CallId,
        /// Connection of the client that asks.
        connection: ConnectionId,
    },
    /// The kubelet's list was answered in full.
    RelistAnswered {
        /// The list call.
        call: CallId,
        /// Connection of the client that asked.
        connection: ConnectionId,
    },
    /// `ContainerStatus` of this container was asked: with Evented PLEG it takes the place of the relist.
    StatusAsked {
        /// The container asked about.
        container: ContainerId,
        /// Connection of the client that asks.
        connection: ConnectionId,
    },
    /// `PullImage` goes to the runtime.
    PullPassed {
        /// The call.
        call: CallId,
        /// Image that the call asks for.
        image: String,
        /// With what.
        credential: CredentialKey,
    },
    /// A call ended: answered, failed or cancelled. Nothing of it stays.
    CallEnded(CallId),
    /// A client went away.
    ConnectionClosed(ConnectionId),

    /// The executor began to ask the runtime about a sandbox (see [`crate::Question::InspectSandbox`]).
    InspectionStarted(SandboxId),
    /// The runtime's answer: all containers of the sandbox, none left out.
    SandboxInspected {
        /// The sandbox.
        sandbox: SandboxId,
        /// Its containers.
        containers: Vec<Container>,
    },
    /// The runtime gave no answer.
    InspectionFailed(SandboxId),

    /// The executor began to run a probe (see [`crate::Question::Probe`]); it is not due again before it
    /// ended, or is given up ten seconds after its own timeout.
    ProbeBegan(ProbeRun),
    /// A run of probes ended.
    ProbeEnded(ProbeRun, ProbeResult),

    /// The executor began to list the runtime; what comes into being from now on may be missing in the
    /// answer.
    ListingStarted,
    /// Sandboxes and containers that the runtime has: at start, and now and then against drift. What is
    /// missing here is forgotten.
    RuntimeListed {
        /// All sandboxes.
        sandboxes: Vec<ListedSandbox>,
        /// All containers, with the sandbox of each.
        containers: Vec<(SandboxId, Container)>,
    },
    /// When containers were created, as far as the agent has not seen it: after each list.
    ContainersCreated(Vec<(ContainerId, Instant)>),
    /// Another process takes the place of this one: it does what is due, and has the store. This one keeps
    /// the calls it has until they end, and asks only what their holds need.
    HandedOver,
    /// The latches read from the store at start.
    LatchesLoaded(Vec<Latch>),
    /// The store has no latch of this sandbox any more.
    LatchesForgotten(SandboxId),

    /// A source of requests shows this one, new or changed.
    RecreateSeen(Box<RecreateRequest>),
    /// The source does not show this request any more.
    RecreateGone(RequestId),
    /// A source was listed anew: these and no others of its kind.
    RecreatesListed(Origin, Vec<RecreateRequest>),
    /// The marks read from the store at start.
    MarksLoaded(Vec<RecreateMark>),
    /// The marks of job sidecars read from the store at start.
    SidecarsLoaded(Vec<SidecarMark>),
    /// A mark became durable on behalf of a call on this connection.
    MarkWritten(RecreateMark, ConnectionId),
    /// The executor began to carry out an effect; nothing of its subject is due again before it ended.
    EffectBegan(Effect),
    /// An effect ended, well or not.
    EffectEnded(Effect, StepOutcome),

    /// The runtime says that the main process of this container has ended. A hint to look.
    EndHinted(ContainerId),
    /// Whether the runtime says so of every end from now on; if not, an end may go unsaid.
    EndsTold(bool),
    /// The containers of this pod are to be created with these env values; without any, as the kubelet says.
    CreationEnvSet(PodUid, CreationEnv),
    /// These pods are probed, and no others.
    ProbedPods(BTreeSet<PodUid>),
    /// Whether an image is pulled by the agent, or may have to be (see [`crate::Images::is_busy`]).
    ImagesBusy(bool),

    /// The pod view follows the API server (`true`), or lost it and shows what it knew (`false`).
    ViewFresh(bool),
    /// The executor began to ask the kubelet for its pods.
    KubeletPollStarted,
    /// The question to the kubelet ended, well or not; its pods were given as [`Event::PodSeen`] before.
    KubeletPollEnded,
}

/// How an effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Carried out.
    Done,
    /// Its subject is not there (any more).
    Gone,
    /// Failed; it is tried again.
    Failed,
}

/// One entry of `ListPodSandbox`.
#[derive(Clone, Debug)]
pub struct ListedSandbox {
    /// Its identity.
    pub sandbox: SandboxId,
    /// Whose it is.
    pub pod: PodRef,
    /// Declarations in its annotations.
    pub declared: Declared,
}
