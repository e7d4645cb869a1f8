//! Berth's node agent.
//!
//! ```text
//!   kubelet --CRI--> berth_shim --Call, Event--> agent (policy::Node) --Step--> exec --> runtime, kubelet
//!                                                   ^         |
//!                              pod_view ---Event----'         '--> store (latches)
//! ```
//!
//! Two threads: one turns the data path and nothing else, the other everything that may take its time (the pod watch,
//! the executor, the admin socket, HTTP). They share [`agent::Agent`], whose lock is never held over an await.
//!
//! - [`config`], [`telemetry`], [`systemd`], [`allocator`], [`open_files`]: how a run begins.
//! - [`run`]: wires all of it, and ends it in order; [`data_path`] is the thread of the calls.
//! - [`handover`]: how a new process takes the place of this one. [`takeover`]: how this one takes the runtime's.
//! - [`agent`]: the one owner of the state; the gate of the data path.
//! - [`pod_view`], [`runtime`]: where facts come from. [`exec`]: where steps go; [`hook`]: stops without the kubelet.
//! - [`probe`]: carries out one run of a probe.
//! - [`node_image`]: the images the node should have: wishes, and what is told of them. [`images`]: pulling them.
//! - [`in_place_update`]: updates of running pods, in order.
//! - [`node_pod_probe`]: probes of one's own, written on pods. [`probe`]: running one.
//! - [`desired`]: requests that are files. [`cluster`]: the side towards the API server: identity, requests, answers.
//! - [`store`]: what survives. `descriptor`: descriptors that are passed. `durable`: files that are replaced. [`health`], [`http`], [`admin`], [`metrics`], [`heartbeat`]: what can be seen from outside.
//! - [`unix`], [`causes`], [`quantity`]: what the agent and `berthctl` have in common.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod admin;
pub mod agent;
pub mod allocator;
pub mod causes;
pub mod cluster;
pub mod config;
pub mod data_path;
pub mod deadline;
mod descriptor;
pub mod desired;
pub mod durable;
pub mod exec;
pub mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod handover;
pub mod health;
pub mod heartbeat;
pub mod hook;
pub mod http;
mod http_get;
pub mod images;
pub mod in_place_update;
mod kept;
pub mod metrics;
pub mod node_image;
pub mod node_pod_probe;
pub mod open_files;
pub mod pod_view;
pub mod probe;
pub mod quantity;
mod request_status;
pub mod run;
pub mod runtime;
mod set_aside;
mod stop;
pub mod store;
pub mod systemd;
pub mod takeover;
pub mod telemetry;
mod text;
pub mod unix;
