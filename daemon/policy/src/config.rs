//! Configuration of the decisions: which of them are taken on this node, and within which times.

use std::time::Duration;

use crate::recreate::Origin;

/// Configuration of the decisions on a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether anything shows pods at all.
    pub view: View,
    /// Enforce launch order.
    pub launch_order: bool,
    /// Enforce exit order.
    pub exit_order: bool,
    /// The longest a `CreateContainer` is held. It blocks the pod's worker in the kubelet, so it is short.
    pub hold: Duration,
    /// The agent runs the probes of containers that others wait for, and their success opens the gate before
    /// the kubelet's does. Where the path is not inline there is no gate and nothing is run.
    pub early_readiness: bool,
    /// The longest a `CreateContainer` is held for such a success, counted from when the awaited container
    /// began to run. It blocks the pod's worker in the kubelet, and so the kubelet's own probes of that
    /// container. Never longer than half of the call's own deadline.
    pub early_hold: Duration,
    /// A level begins in a later second of the wall clock than those above it.
    pub distinct_seconds: bool,
    /// Treatment of a container whose pod the view does not show in time and whose request shows no order.
    pub unknown_pods: UnknownPods,
    /// The kubelet can be asked for its pods.
    pub kubelet_poll: bool,
    /// Where the agent stands.
    pub path: Path,
    /// Requests may come from the API server.
    pub api_requests: bool,
    /// Requests may come from files and the admin socket.
    pub file_requests: bool,
    /// Requests may come from updates in place.
    pub update_requests: bool,
}

/// Where the agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Between kubelet and runtime: what the kubelet does passes through the agent.
    Inline,
    /// Beside the kubelet, as another client of the runtime: it sees what is, and stops what it must itself.
    Beside,
}

/// Where pods can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The API server or the kubelet shows them.
    Watched,
    /// Nothing does: only launch plans in sandbox annotations count, and Ready is running.
    None,
}

/// Fail open or closed; see [`Config::unknown_pods`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownPods {
    /// Start it, unordered.
    Open,
    /// Refuse it until the pod is known.
    Closed,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            view: View::Watched,
            launch_order: true,
            exit_order: true,
            hold: Duration::from_secs(5),
            early_readiness: true,
            early_hold: Duration::from_secs(10),
            distinct_seconds: false,
            unknown_pods: UnknownPods::Open,
            kubelet_poll: true,
            path: Path::Inline,
            api_requests: true,
            file_requests: false,
            update_requests: false,
        }
    }
}

impl Config {
    /// Tells whether requests can come from there at all.
    pub(crate) fn has_source(&self, origin: Origin) -> bool {
        match origin {
            Origin::Api => self.api_requests,
            Origin::File => self.file_requests,
            Origin::Update => self.update_requests,
        }
    }
}
