//! Launch order, as far as the configuration says something about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::GoDuration;

/// Launch order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct LaunchOrder {
    /// Enforce it.
    pub enabled: bool,
    /// The longest a `CreateContainer` is held.
    pub hold_timeout: GoDuration,
    /// Run the probes of containers that others wait for, so that their success counts before the kubelet
    /// tells of it.
    pub early_readiness: bool,
    /// The longest a `CreateContainer` is held for such a success, from the start of the awaited container
    /// on.
    pub early_hold_timeout: GoDuration,
    /// A level begins in a later second of the wall clock than those above it.
    pub distinct_seconds: bool,
    /// Fate of a container whose pod cannot be seen.
    pub failure_policy: FailurePolicy,
}

/// Open: start it unordered. Closed: refuse it until its pod is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FailurePolicy {
    /// Start it unordered.
    #[default]
    Open,
    /// Refuse it.
    Closed,
}

impl Default for LaunchOrder {
    fn default() -> Self {
        Self {
            enabled: true,
            hold_timeout: GoDuration(Duration::from_secs(5)),
            early_readiness: true,
            early_hold_timeout: GoDuration(Duration::from_secs(10)),
            distinct_seconds: false,
            failure_policy: FailurePolicy::Open,
        }
    }
}
