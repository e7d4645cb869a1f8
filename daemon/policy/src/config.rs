//! How a node is told to behave.

use std::time::Duration;

/// How the node is told to behave.
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
    /// What becomes of a container whose pod the view does not show in time and whose request shows no order.
    pub unknown_pods: UnknownPods,
    /// The kubelet can be asked for its pods.
    pub kubelet_poll: bool,
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
            unknown_pods: UnknownPods::Open,
            kubelet_poll: true,
        }
    }
}
