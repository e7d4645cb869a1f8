//! The configuration: one strict YAML file, flags over it, complete and checked before anything is bound.
//!
//! A value that parses is a valid one: durations, socket paths and endpoints are types of their own, so that
//! an error carries the line and the field where it stands.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod images;
mod launch_order;
mod logging;
mod metrics;
mod pod_view;
mod probes;
mod tracing;
mod updates;
mod values;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

pub use images::{Images, InvalidReserve, Reserve};
pub use launch_order::{FailurePolicy, LaunchOrder};
pub use logging::{LogFormat, Logging};
pub use metrics::Metrics;
pub use pod_view::{Cluster, Kubelet, PodView, ServiceAccount, ViewMode};
pub use probes::Probes;
use serde::{Deserialize, Serialize};
pub use tracing::{Collector, Tracing};
pub use updates::{ContainersMeta, Updates};
use values::ValueError;
pub use values::{Endpoint, GoDuration, SocketPath};

use crate::base::yaml::{Document, YamlError};

/// Output of `berthd config print-defaults`: every field with its default and its meaning.
pub const DEFAULTS: &str = include_str!("defaults.yaml");

/// The longest time for which a call may be held: its pod waits in the kubelet for as long.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// `kind: BerthdConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Configuration {
    /// `berth.dev/v1alpha1`.
    pub api_version: ApiVersion,
    /// `BerthdConfiguration`.
    pub kind: Kind,
    /// The CRI socket berthd listens on.
    pub socket: SocketPath,
    /// The socket of a `berth-shim` that has the CRI socket in this process's place; `None` = this process
    /// has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim_socket: Option<SocketPath>,
    /// The namespace of this process's own pod, where it is one and a `berth-shim` is in the runtime's place.
    pub agent_namespace: Option<String>,
    /// The runtime; `None` = found as crictl finds it.
    pub runtime_endpoint: Option<Endpoint>,
    /// The process names of what is, or contains, the kubelet.
    pub kubelet_processes: Vec<String>,
    /// The admin socket, for `berthctl`.
    pub admin_socket: SocketPath,
    /// Where the store is kept, and the requests of the admin socket.
    pub state_dir: PathBuf,
    /// Where requests are looked for that are files.
    pub desired_dir: PathBuf,
    /// `/healthz`, `/readyz` and `/metrics`; loopback only.
    pub http_address: SocketAddr,
    /// `/metrics` for scrapers of the cluster.
    pub metrics: Metrics,
    /// This node's name in the API; `None` = the host name in lower case.
    pub node_name: Option<String>,
    /// How long streams may go on after a stop was asked for.
    pub drain_timeout: GoDuration,
    /// Where berthd stands: inline, beside or takeover.
    pub path: PathMode,
    /// Where pods are seen.
    pub pod_view: PodView,
    /// Identity of the agent at the API server.
    pub cluster: Cluster,
    /// Launch order.
    pub launch_order: LaunchOrder,
    /// Exit order.
    pub exit_order: ExitOrder,
    /// Images that are wanted before they are needed.
    pub images: Images,
    /// Updates in place.
    pub updates: Updates,
    /// Probes of one's own.
    pub probes: Probes,
    /// Logs.
    pub logging: Logging,
    /// Traces.
    pub tracing: Tracing,
}

/// The only version so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ApiVersion {
    /// `berth.dev/v1alpha1`.
    #[default]
    #[serde(rename = "berth.dev/v1alpha1")]
    V1Alpha1,
}

/// The only kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Kind {
    /// `BerthdConfiguration`.
    #[default]
    BerthdConfiguration,
}

/// Position of the agent, field `path`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PathMode {
    /// Between kubelet and runtime: everything works.
    #[default]
    Inline,
    /// Another client of the runtime, where the kubelet's endpoint cannot be changed: no order, everything
    /// else.
    Beside,
    /// Between kubelet and runtime, at the runtime's own path: everything works where the kubelet's endpoint
    /// cannot be changed.
    Takeover,
}

/// Exit order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ExitOrder {
    /// Enforce it.
    pub enabled: bool,
}

/// Why there is no configuration. `Display` names the file, and the line and field where they are known.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not a valid configuration.
    #[error("the configuration {} is not valid: {reason}", path.display())]
    Parse {
        /// Which file.
        path: PathBuf,
        /// Line, field and snippet.
        reason: String,
    },
    /// Fields that are valid alone contradict each other.
    #[error("{field}: {reason}")]
    Conflict {
        /// The field to change.
        field: &'static str,
        /// Contradiction, and the remedy.
        reason: String,
    },
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            api_version: ApiVersion::V1Alpha1,
            kind: Kind::BerthdConfiguration,
            socket: SocketPath::fixed("/run/berth/cri.sock"),
            shim_socket: None,
            agent_namespace: None,
            runtime_endpoint: None,
            kubelet_processes: ["kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent", "rke2"]
                .map(str::to_owned)
                .to_vec(),
            admin_socket: SocketPath::fixed("/run/berth/admin.sock"),
            state_dir: PathBuf::from("/var/lib/berth"),
            desired_dir: PathBuf::from("/etc/berth/desired"),
            http_address: SocketAddr::from(([127, 0, 0, 1], 10353)),
            metrics: Metrics::default(),
            node_name: None,
            drain_timeout: GoDuration(Duration::from_secs(150)),
            path: PathMode::default(),
            pod_view: PodView::default(),
            cluster: Cluster::default(),
            launch_order: LaunchOrder::default(),
            exit_order: ExitOrder::default(),
            images: Images::default(),
            updates: Updates::default(),
            probes: Probes::default(),
            logging: Logging::default(),
            tracing: Tracing::default(),
        }
    }
}

impl Default for ExitOrder {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl PathMode {
    /// Name of it, as it is written in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Beside => "beside",
            Self::Takeover => "takeover",
        }
    }
}

impl Configuration {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
            .map_err(|error| ConfigError::Parse { path: path.to_owned(), reason: error.to_string() })
    }

    fn parse(text: &str) -> Result<Self, YamlError> {
        /// Fields that tell a configuration from any other YAML; without default, so that both must be there.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Header {
            #[serde(rename = "apiVersion")]
            _api_version: ApiVersion,
            #[serde(rename = "kind")]
            _kind: Kind,
        }
        let document = Document::parse(text)?;
        document.typed::<Header>()?;
        document.typed()
    }

    /// Checks the fields against each other. `auto` is resolved here.
    pub fn check(self) -> Result<Self, ConfigError> {
        self.check_in(in_a_pod())
    }

    fn check_in(mut self, in_a_pod: bool) -> Result<Self, ConfigError> {
        let conflict = |field, reason: &str| Err(ConfigError::Conflict { field, reason: reason.to_owned() });
        if let Err((field, reason)) = self.tracing.check(cfg!(feature = "otlp")) {
            return conflict(field, reason);
        }
        if !self.http_address.ip().is_loopback() {
            return conflict(
                "httpAddress",
                "must be a loopback address, such as 127.0.0.1:10353; metrics.address may be another one",
            );
        }
        let holds = [
            ("launchOrder.holdTimeout", self.launch_order.hold_timeout),
            ("launchOrder.earlyHoldTimeout", self.launch_order.early_hold_timeout),
        ];
        for (field, GoDuration(hold)) in holds {
            if hold.is_zero() || hold > LONGEST_HOLD {
                return conflict(
                    field,
                    "must be more than 0s and at most 30s: a held call blocks its pod in the kubelet",
                );
            }
        }
        let kept = 1..=berth_shim::MAX_PROCESS_NAME;
        if let Some(name) = self.kubelet_processes.iter().find(|name| !kept.contains(&name.len())) {
            return conflict(
                "kubeletProcesses",
                &format!("{name:?} is no name of a process: the kernel keeps 1 to 15 bytes"),
            );
        }
        if self.shim_socket.is_some() && self.path == PathMode::Beside {
            return conflict("shimSocket", "goes with path: inline or takeover: berth-shim is in the path");
        }
        if self.shim_socket.as_ref().is_some_and(|shim| [&self.socket, &self.admin_socket].contains(&shim)) {
            return conflict("shimSocket", "must differ from socket and adminSocket");
        }
        if self.socket == self.admin_socket {
            return conflict("adminSocket", "must differ from socket");
        }
        if !self.desired_dir.is_absolute() {
            return conflict(
                "desiredDir",
                "must be an absolute path: it is part of the identity of requests",
            );
        }
        if self.desired_dir.starts_with(&self.state_dir) {
            return conflict("desiredDir", "must not be in stateDir, where berthd keeps requests of its own");
        }
        if let Err((field, reason)) = self.images.check() {
            return conflict(field, reason);
        }
        if let Err((field, reason)) = self.pod_view.resolve(in_a_pod) {
            return conflict(field, reason);
        }
        if let Err((field, reason)) = self.metrics.check(self.pod_view.mode == ViewMode::Api) {
            return conflict(field, reason);
        }
        if let Err((field, reason)) = self.cluster.check(&self.pod_view) {
            return conflict(field, reason);
        }
        Ok(self)
    }
}

/// Tells whether this process has the service account of a pod. The kubelet puts both there.
fn in_a_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
        && Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()
}

#[cfg(test)]
mod tests;
