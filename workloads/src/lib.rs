//! Berth's workloads: makes, updates and deletes the pods of CloneSets, Advanced StatefulSets and Advanced
//! DaemonSets, runs BroadcastJobs and AdvancedCronJobs, gives UnitedDeployments their workloads, orders the
//! pods of WorkloadSpreads, and makes PersistentPodStates; or, under another identity, distributes Secrets
//! and ConfigMaps.
//!
//! ```text
//!   watches ──▶ Controller { picture of the cluster } ──▶ plan ──▶ writes ──▶ API server
//!                  ▲                                                  │
//!                  └──────── what the API server answered ────────────┘
//! ```
//!
//! The decisions are those of `berth-workloads-policy`, which is pure. Here are the watches, the picture that
//! they give, and the writes. What a write was answered goes into the picture at once, so no decision is made
//! on a picture from before it; of one set at most one plan is carried out at a time.
//!
//! It is a program of its own, with an identity of its own: Berth's manager and agents make and delete no
//! pods, and go on without it.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

mod absent;
mod agenda;
mod claims;
mod cluster;
pub mod config;
mod controller;
mod distribution;
mod event_loop;
mod events;
mod jobs;
mod kinds;
mod lane;
mod marker_finalizers;
mod memory;
mod metrics;
mod node_updates;
mod object;
mod owned;
mod planner;
mod podstates;
mod put_off;
mod reading;
mod revisions;
mod room;
pub mod run;
#[cfg(test)]
mod served;
mod sidecar_sets;
mod spared;
mod spreads;
mod state;
mod timing;
mod trimmed;
mod united;
mod unkept;
mod update_store;
mod virtual_nodes;
mod watch;
mod write;
