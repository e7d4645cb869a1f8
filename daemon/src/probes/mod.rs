//! Probes that the agent runs from the node.
//!
//! - [`prober`]: one run of a probe. [`node_pod_probe`]: probes of one's own, written on pods.

pub(crate) mod node_pod_probe;
pub(crate) mod prober;
