//! Berth's node agent.
//!
//! ```text
//!   kubelet --CRI--> berth_shim --Call, Event--> agent (policy::Node) --Step--> exec --> runtime, kubelet
//!                                                   ^         |
//!                                pods ----Event-----'         '--> agent::store (latches)
//! ```
//!
//! Two threads: one turns the data path and nothing else, the other everything that may take its time (the
//! pod watch, the executor, the admin socket, HTTP). They share [`agent::Agent`], whose lock is never held
//! over an await.
//!
//! Each folder is a room. A room uses those above it in this list and none below, which a test keeps so:
//!
//! - [`base`]: small helpers. [`config`]: the configuration. `trace`: spans of what is decided and done.
//!   `cri`: the agent's own calls to the runtime. `files`: desired state from a directory.
//! - [`agent`]: the one owner of the state, its store, the points where tests let it die.
//! - [`cluster`]: the side towards the API server: identity, watches, answers.
//! - [`pods`]: where pods are seen.
//! - [`recreate`], `images`, `probes`, `update`: one room a feature: ContainerRecreateRequests, images that
//!   are wanted, probes of one's own, in-place updates.
//! - `exec`: where steps go; stops without the kubelet.
//! - [`succession`]: one process after another. `admin`: what can be seen and asked from outside.
//! - `scrape`: the metrics for scrapers of the cluster, for who may read them.
//! - [`process`]: how a run begins, wires all of it, and ends it in order.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub(crate) mod admin;
pub mod agent;
pub mod base;
pub mod cluster;
pub mod config;
pub(crate) mod cri;
pub(crate) mod exec;
pub(crate) mod files;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub(crate) mod images;
pub mod pods;
pub(crate) mod probes;
pub mod process;
pub mod recreate;
pub(crate) mod scrape;
pub mod succession;
pub(crate) mod trace;
pub(crate) mod update;

/// Agents without a node, for benchmarks of a large cluster.
pub use update::{SimulatedAgent, SimulatedStep};
