//! What really happened, as the runtime tells it: when each container was started and when it ended.
//!
//! Tests of an order compare these times and nothing that Berth says. The client goes to the runtime's own socket.

mod cri;
mod recorder;

pub use self::cri::{Cri, Instance};
pub use self::recorder::{History, Recorder};
