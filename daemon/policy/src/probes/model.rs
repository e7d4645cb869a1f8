//! The nouns of probes. What a `Probe` of the API leaves out has been filled in at the edge, and named ports
//! are numbers.

use std::time::Duration;

use crate::model::{ContainerId, PodRef, SandboxId};

/// A probe, as `core/v1` `Probe` with the kubelet's defaults (`SetDefaults_Probe`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Action of the probe.
    pub action: ProbeAction,
    /// `initialDelaySeconds`, counted from the start of the container.
    pub initial_delay: Duration,
    /// `timeoutSeconds`.
    pub timeout: Duration,
    /// `periodSeconds`.
    pub period: Duration,
    /// `successThreshold`; at least 1.
    pub success_threshold: u32,
    /// `failureThreshold`; at least 1.
    pub failure_threshold: u32,
}

/// Action of a probe. None of them names a host: what is dialled is the pod's own address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeAction {
    /// `exec`.
    Exec {
        /// `command`, without a shell.
        command: Vec<String>,
    },
    /// `httpGet`.
    Http {
        /// `port`.
        port: u16,
        /// `path`.
        path: String,
        /// `scheme: HTTPS`; the certificate is not checked, as the kubelet does not.
        https: bool,
        /// `httpHeaders`.
        headers: Vec<(String, String)>,
    },
    /// `tcpSocket`.
    Tcp {
        /// `port`.
        port: u16,
    },
    /// `grpc`: `grpc.health.v1.Health/Check`.
    Grpc {
        /// `port`.
        port: u16,
        /// `service`; empty for the server as a whole.
        service: String,
    },
}

/// One run of a probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeRun {
    /// The pod.
    pub pod: PodRef,
    /// Its sandbox, whose network it has.
    pub sandbox: SandboxId,
    /// The instance that is probed.
    pub container: ContainerId,
    /// Action of the run.
    pub action: ProbeAction,
    /// For how long at most.
    pub timeout: Duration,
}

/// Result of one run; each with what there is to say about it. Parts of it may come from the container: it is
/// shown in conditions and Events, never logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// It succeeded.
    Success(String),
    /// It failed: the container said no, or did not answer in time.
    Failure(String),
    /// It could not be carried out: nothing is known of the container.
    Unknown(String),
    /// The runtime refused it, be it for the command or for a container that has died meanwhile.
    Refused(String),
}

// === impl ProbeAction ===

/// Commands, paths and headers may hold secrets.
impl std::fmt::Debug for ProbeAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exec { .. } => "exec",
            Self::Http { .. } => "httpGet",
            Self::Tcp { .. } => "tcpSocket",
            Self::Grpc { .. } => "grpc",
        })
    }
}
