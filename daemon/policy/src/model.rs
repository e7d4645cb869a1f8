//! The nouns of the core: identities as newtypes, and a pod, a sandbox and a container reduced to what
//! decisions need.
//!
//! Everything here was parsed at the edge (`berth-shim`, `berthd`'s pod view); a value of these types is
//! already valid.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    launch_priority::{LaunchOrder, OrderError},
    probes::Probe,
};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identity as the CRI and the API spell it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<S: Into<Arc<str>>> From<S> for $name {
            fn from(value: S) -> Self {
                Self(value.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

id! {
    /// `metadata.uid` of a pod; for a static pod its config hash, which is what the kubelet puts into the CRI
    /// labels.
    PodUid
}
id! {
    /// `PodSandbox.id` of the CRI.
    SandboxId
}
id! {
    /// `Container.id` of the CRI, without the `containerd://` scheme the API puts before it.
    ContainerId
}
id! {
    /// `spec.containers[].name`, unique within a pod.
    ContainerName
}
id! {
    /// A request to recreate containers: `metadata.uid` of its object, or what its other source calls it.
    RequestId
}

/// A client connection of the shim. A restarted kubelet comes with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// One CRI call in flight. Never used twice in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Pod to which a sandbox belongs, as its CRI labels say (`io.kubernetes.pod.{uid,namespace,name}`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Identity of the pod.
    pub uid: PodUid,
    /// Namespace, for people.
    pub namespace: String,
    /// Name, for people.
    pub name: String,
}

/// A pod of this node as its view (API server or kubelet) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Identity and name.
    pub pod: PodRef,
    /// The declared launch order; `None` when nothing is declared or all priorities are equal.
    pub order: Result<Option<LaunchOrder>, OrderError>,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// Set once `metadata.deletionTimestamp` is.
    pub deletion: Option<Deletion>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// `status.phase` is Succeeded or Failed, or will be when what still runs has exited: nothing of it runs
    /// again.
    pub ended: bool,
    /// `status.podIP`.
    pub ip: Option<String>,
    /// `metadata.uid` of the object that mirrors this static pod in the API: others know the pod by that.
    pub mirror: Option<PodUid>,
    /// The containers the kubelet keeps running: `spec.containers`, and those of `spec.initContainers` that
    /// restart always.
    pub containers: BTreeMap<ContainerName, ContainerSpec>,
    /// `status.containerStatuses` and `status.initContainerStatuses`, by name.
    pub statuses: BTreeMap<ContainerName, ContainerReport>,
    /// The readiness gate `KruisePodReady`, where the pod has it.
    pub unready: Option<Unready>,
}

impl Pod {
    /// The restart policy of a container: its own, that of a sidecar, or the pod's.
    pub fn restart_policy_of(&self, name: &ContainerName) -> RestartPolicy {
        match self.containers.get(name) {
            Some(spec) if spec.sidecar => RestartPolicy::Always,
            Some(spec) => spec.restart_policy.unwrap_or(self.restart_policy),
            None => self.restart_policy,
        }
    }

    /// The kubelet starts a container again that has exited so: by a rule of the container, or by its policy.
    pub fn restarts_exited(&self, name: &ContainerName, code: Option<i32>) -> bool {
        let by_rule = |rule: &RestartRule| rule.takes_in(code);
        self.containers.get(name).is_some_and(|spec| spec.restart_rules.iter().any(by_rule))
            || self.restart_policy_of(name).restarts(code)
    }

    /// The kubelet starts a container again that has completed, exit code 0: nothing that it can be shown
    /// ends it.
    pub fn restarts_completed(&self, name: &ContainerName) -> bool {
        self.restarts_exited(name, Some(0))
    }

    /// The kubelet does not start this instance again, which has exited so. Where it has rules, that is not
    /// known before the kubelet has said that it has ended, as one may be unknown here. That word alone says
    /// nothing: the kubelet also says it of one that it starts again in the very next moment.
    pub fn leaves_exited(&self, name: &ContainerName, id: &ContainerId, code: Option<i32>) -> bool {
        let is_told = || self.statuses.get(name).is_some_and(|report| report.ended && report.id == *id);
        let rules = self.containers.get(name).is_some_and(|spec| !spec.restart_rules.is_empty());
        !self.restarts_exited(name, code) && (!rules || is_told())
    }
}

/// Declarations about a container, as far as a decision depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Its place in the pod: restartable init containers first, then the regular ones, both in the order of
    /// the spec.
    pub position: usize,
    /// It is an init container with `restartPolicy: Always`.
    pub sidecar: bool,
    /// `restartPolicy` of a regular container; it takes the place of the pod's.
    pub restart_policy: Option<RestartPolicy>,
    /// `restartPolicyRules`: which exits are restarted against its policy.
    pub restart_rules: Vec<RestartRule>,
    /// How it becomes Ready.
    pub readiness: Readiness,
    /// `lifecycle.preStop`.
    pub pre_stop: Option<Hook>,
    /// Graces that the kubelet gives to a stop of it alone: the pod's, and those of its startup and liveness
    /// probes. Empty where it has a `preStop`, whose time is taken off them.
    pub graces: Vec<Duration>,
    /// `startupProbe`, where the agent can run it as the kubelet does.
    pub startup_probe: Option<Probe>,
    /// `readinessProbe`, where the agent can run it as the kubelet does, and `startupProbe` too if there is
    /// one.
    pub readiness_probe: Option<Probe>,
    /// It is to end when the other containers of a job have ended: env
    /// `KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT`.
    pub ends_with_job: bool,
}

/// Rule about the exits of a container: those that it takes in are followed by a restart, of the container or
/// of all containers of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartRule {
    /// Exits with one of these codes.
    In(Vec<i32>),
    /// Exits with any other code.
    NotIn(Vec<i32>),
    /// One of a later version of the API: only the kubelet knows what it means.
    Unknown,
}

impl RestartRule {
    /// Tells whether it takes in an exit with this code. One whose code is not known yet it may take in.
    pub(crate) fn takes_in(&self, code: Option<i32>) -> bool {
        match (self, code) {
            (Self::In(codes), Some(code)) => codes.contains(&code),
            (Self::NotIn(codes), Some(code)) => !codes.contains(&code),
            (Self::In(_) | Self::NotIn(_), None) => true,
            (Self::Unknown, _) => false,
        }
    }
}

/// A lifecycle handler, its named port resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// `exec`.
    Exec {
        /// `command`, without a shell.
        command: Vec<String>,
    },
    /// `httpGet`.
    Http {
        /// `host`; the pod's own address when left out.
        host: Option<String>,
        /// `port`.
        port: u16,
        /// `path`.
        path: String,
        /// `scheme: HTTPS`; its certificate is not checked, as the kubelet does not.
        https: bool,
        /// `httpHeaders`.
        headers: Vec<(String, String)>,
    },
    /// `tcpSocket`.
    Tcp {
        /// `host`; the pod's own address when left out.
        host: Option<String>,
        /// `port`.
        port: u16,
    },
    /// `sleep`.
    Sleep(Duration),
}

/// The condition behind the readiness gate `KruisePodReady`, which several writers share: it is False as long
/// as one of them has an entry in its message, a JSON list of `{userAgent, key}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unready {
    /// The condition is not there yet, so the pod cannot become Ready.
    pub unwritten: bool,
    /// The keys (`namespace/name`) of the entries of `ContainerRecreateRequest`.
    pub requests: Vec<String>,
}

/// `metadata.deletionTimestamp` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `metadata.deletionGracePeriodSeconds`; a second delete can only shorten it.
    pub grace: Duration,
}

/// `spec.restartPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Restarted whatever the exit code.
    Always,
    /// Restarted unless it exited 0.
    OnFailure,
    /// Never restarted.
    Never,
}

impl RestartPolicy {
    /// An exited container is started again by the kubelet (`ShouldContainerBeRestarted`).
    pub fn restarts(self, code: Option<i32>) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != Some(0),
            Self::Never => false,
        }
    }
}

/// Precondition for the kubelet to call a running container Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No readiness probe, startup probe or postStart hook: it is Ready when it runs.
    Running,
    /// A postStart hook but no probe: Ready with the first status the kubelet generates after the hook.
    PostStart,
    /// A startup probe without a readiness probe: Ready only after another SyncPod (kubelet
    /// `SetContainerStartup` stores `started`, not `ready`).
    StartupProbe,
    /// A readiness probe: its result is stored beside the pod worker, even while that worker waits.
    ReadinessProbe,
}

/// One entry of `status.containerStatuses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerReport {
    /// The instance this entry speaks of; an entry about an older instance says nothing about the running
    /// one.
    pub id: ContainerId,
    /// `ready`.
    pub ready: bool,
    /// `restartCount`.
    pub restart_count: u32,
    /// `state.terminated` is there: unless a rule or its policy says so, the kubelet does not start it again.
    pub ended: bool,
}

/// A container instance as the runtime shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// CRI identity.
    pub id: ContainerId,
    /// `metadata.name`.
    pub name: ContainerName,
    /// `metadata.attempt`: 0 for the first instance in a sandbox, counted up by the kubelet.
    pub attempt: u32,
    /// State that the runtime reports.
    pub state: ContainerState,
}

/// `ContainerState` of the CRI, with what an exit means for the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended; the code is unknown until the runtime was asked for it.
    Exited {
        /// `ContainerStatus.exit_code`.
        code: Option<i32>,
    },
    /// The runtime does not know. Neither running nor gone.
    Unknown,
}
