//! Limits of what probing may cost the node and the API server.

use std::time::Duration;

/// Budgets. A count of 0 is taken for 1.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLimits {
    /// Exec probes at once on the node. Each is a process that the runtime starts: 40 a second drove a node
    /// of 2 cores to a load of 30.
    pub exec_concurrent: usize,
    /// Exec probes at once in one pod.
    pub exec_concurrent_per_pod: usize,
    /// At most one exec probe begins in this time, over time.
    pub exec_every: Duration,
    /// Exec probes that may begin together when none did for a while.
    pub exec_burst: u32,
    /// All other probes at once on the node.
    pub other_concurrent: usize,
    /// Other probes at once in one pod.
    pub other_concurrent_per_pod: usize,
    /// No run takes longer, whatever its `timeoutSeconds`: a few probes that hang would keep the whole node
    /// waiting.
    pub longest_run: Duration,
    /// At most one write to a pod in this time, over time. As many Events are written beside them.
    pub write_every: Duration,
    /// Writes that may come together when there were none for a while.
    pub write_burst: u32,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        Self {
            exec_concurrent: 4,
            exec_concurrent_per_pod: 2,
            exec_every: Duration::from_millis(125),
            exec_burst: 4,
            other_concurrent: 64,
            other_concurrent_per_pod: 16,
            longest_run: Duration::from_secs(60),
            write_every: Duration::from_millis(100),
            write_burst: 20,
        }
    }
}
