//! Where the agent sees pods: their declared order, their deletion, and which containers are Ready.
//!
//! - [`api`]: a watch of this node's pods. While the API server is away nothing that was seen is forgotten.
//! - [`kubelet`]: the kubelet's `/pods`, asked only while something waits. It shows static pods with a live
//!   status, and API pods with the copy the API server had. `list`: what it sends.
//! - [`foreseen`]: pods that are not there yet, for `berthctl`.
//! - [`exits`]: the ends of containers, from the runtime itself.
//! - [`unready`]: the shared readiness gate, as text.
//! - [`convert`], [`probe`]: from a v1 Pod and its probes to what the policy needs.

pub(crate) mod api;
pub(crate) mod convert;
pub(crate) mod exits;
pub mod foreseen;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod kubelet;
mod list;
pub(crate) mod probe;
pub(crate) mod read;
pub(crate) mod unready;
