//! Workloads, decided: which pods a CloneSet, a StatefulSet or a DaemonSet makes, updates and deletes, which
//! pods a BroadcastJob, which jobs an AdvancedCronJob, which workloads a UnitedDeployment and which copies a
//! ResourceDistribution makes, and what their status says.
//!
//! ```text
//!   CloneSet, ControllerRevisions, pods, claims, now ──▶ clone_set::plan ──▶ Plan { actions, status, again }
//! ```
//!
//! This crate is pure. It reads no clock and no file, talks to nobody, and what is random is an argument.
//! A decision on an old picture of the cluster harms nobody: each action names the object it was
//! decided on, and [`store`] never goes back behind what was written.
//!
//! The contract is OpenKruise 1.4. Where it went wrong, what is done instead stands beside the code.
//! Templates are `serde_json` values: a field that no type here knows reaches the pod.

pub mod action;
pub mod adopt;
pub mod agents;
pub mod amount;
pub mod broadcast_job;
mod build;
pub mod claim_change;
pub mod clone_set;
pub mod cron_job;
pub mod daemon_set;
pub mod defaults;
pub mod distribution;
pub mod fault;
pub mod hash;
pub mod holdings;
pub mod in_place;
pub mod jobs;
pub mod lifecycle;
pub mod marker_finalizers;
pub mod names;
pub mod place;
pub mod plan;
#[cfg(test)]
mod played;
pub mod pod;
pub mod predownload;
mod quantity;
pub mod revision;
pub mod schedule;
pub mod selector;
pub mod stateful_set;
pub mod store;
pub mod template;
mod time;
pub mod united_deployment;
mod unready;
pub mod update_order;
pub mod virtual_node;
