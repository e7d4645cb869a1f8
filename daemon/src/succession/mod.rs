//! One process after another, and the sockets that outlive both.
//!
//! - `handover`: how a new process takes the place of this one. [`takeover`]: how this one takes the
//!   runtime's.
//! - [`systemd`], `heartbeat`, `stop`: what systemd is told, and how the agent begins to end.
//! - `fd_store`, `descriptor`: descriptors that systemd keeps, and those that are passed.

pub(crate) mod fd_store;
pub(crate) mod handover;
pub(crate) mod heartbeat;
pub(crate) mod stop;
pub mod systemd;
pub mod takeover;
