//! The gate when whoever decides is another process: `berth-shim` has the calls, `berthd` decides.
//!
//! ```text
//!   berth-shim                                             berthd
//!       |<------------------------------------- connects ----|
//!       |<------- Hello (version, key of credentials) -------|
//!       |-------- Hello (version, connections) ------------->|
//!       |-------- what goes on, what waits, CaughtUp ------->|  lists the runtime
//!       |<------- Table (all of it) -------------------------|
//!       |                                                    |
//!       |-------- Passed, Event ---------------------------->|  of what needed no question
//!       |-------- Question --------------------------------->|
//!       |<------- Table (what changed), Answer --------------|
//! ```
//!
//! - [`Table`](table): what the agent says in advance. A call that it decides waits for nobody.
//! - `away`: what becomes of a call when nobody answers.
//! - [`RemoteGate`]: the gate of the data path. What waits and what goes on is told anew to each agent that
//!   comes, so that one that was killed leaves nothing behind.
//! - [`Line`]: the socket, on the side of the shim. Root only; the newest agent is the agent.
//! - [`AgentLink`]: the side of the agent, around the gate that it has anyway. A shim that is upgraded has
//!   two processes for a while: the agent is linked to both.
//! - [`look`], [`upgrade`], [`drain`], [`scrape`]: what others ask of the shim.
//!
//! An answer never overtakes what was decided before it: all goes over one connection, in order, and what the
//! table has to say goes before the answer.

mod agent;
mod answers;
mod away;
mod calls;
mod control;
mod frame;
mod gate;
mod holds;
mod line;
mod message;
mod questions;
mod session;
mod table;

pub use agent::{AgentLink, Foresight, Resync};
pub(crate) use calls::{MAX_LIST, MAX_NAME, cut};
pub use control::{ControlError, UpgradeAsk, drain, look, scrape, upgrade};
pub use gate::RemoteGate;
pub use line::{Line, LineEnds};
pub use message::{ShimState, UpgradeStage};

/// Version of the line. Another one is not spoken to.
pub(crate) const VERSION: u32 = 1;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;

#[cfg(test)]
#[path = "../tests/remote.rs"]
mod tests;
