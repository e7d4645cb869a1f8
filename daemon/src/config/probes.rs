//! Limits of what probes of one's own (`PodProbeMarker`) may cost the node.

use std::{num::NonZeroU16, time::Duration};

use berth_policy::ProbeLimits;
use serde::{Deserialize, Serialize};

/// The budget of exec probes: each is a process that the runtime starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Probes {
    /// Most exec probes that begin in a second, on average.
    pub exec_per_second: NonZeroU16,
    /// Most exec probes that run at once.
    pub exec_concurrent: NonZeroU16,
    /// Most of these in one pod.
    pub exec_concurrent_per_pod: NonZeroU16,
    /// Carry out `spec.podProbes` of the NodePodProbe, too, which no PodProbeMarker has to ask for.
    pub accept_spec: bool,
}

impl Default for Probes {
    fn default() -> Self {
        let number = |number: u16| NonZeroU16::MIN.saturating_add(number - 1);
        Self {
            exec_per_second: number(8),
            exec_concurrent: number(4),
            exec_concurrent_per_pod: number(2),
            accept_spec: false,
        }
    }
}

impl Probes {
    /// The same for the policy.
    pub fn limits(&self) -> ProbeLimits {
        ProbeLimits {
            exec_every: Duration::from_secs(1) / u32::from(self.exec_per_second.get()),
            exec_concurrent: self.exec_concurrent.get().into(),
            exec_concurrent_per_pod: self.exec_concurrent_per_pod.get().into(),
            ..ProbeLimits::default()
        }
    }
}
