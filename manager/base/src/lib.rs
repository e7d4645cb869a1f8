//! Base of Berth's central programs, the manager and the workloads: leader election, logs, pages of health
//! and metrics, the client of the API server, Events, queues of namespaces that take turns, metadata that are
//! reduced while they are read, objects of lists and watches that nobody can read, the silence of agents, the
//! pace of log lines, and the room that entries have in the objects of nodes. It knows nothing of what they
//! decide.

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
pub mod ownership;
pub mod round_robin;
pub mod sent;
pub mod signals;
pub mod silence;
pub mod telemetry;
pub mod time;
