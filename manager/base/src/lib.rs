//! Base of Berth's central programs, the manager and the workloads: what both need beside their decisions,
//! from the lease to Events. It knows nothing of what they decide.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod client;
pub mod entry_room;
pub mod events;
pub mod http;
pub mod lease;
pub mod line_pace;
pub mod metadata;
pub mod openkruise;
pub mod outage;
pub mod overload;
pub mod ownership;
pub mod program;
pub mod round_robin;
pub mod sent;
pub mod signals;
pub mod silence;
pub mod telemetry;
pub mod time;
