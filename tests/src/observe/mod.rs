//! Observation of what really happened, as the runtime tells it: when each container was started and when it
//! ended.
//!
//! Tests of an order compare these times and nothing that Berth says. The client goes to the runtime's own
//! socket. What the rest of the cluster was told of the pods, and when, is the API server's.

mod caller;
mod cri;
mod node;
mod pods;
mod recorder;

pub use self::caller::{Caller, Calls};
pub use self::cri::{Cri, Instance};
pub use self::node::{Warned, complaints, is_complaint, node_ready, warnings};
pub use self::pods::{PodWatch, Seen};
pub(crate) use self::recorder::check_apart;
pub use self::recorder::{History, Recorder};
