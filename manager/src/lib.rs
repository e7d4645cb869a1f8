//! Berth's manager: a small central controller.
//!
//! - [`requests`]: which node carries out a request to recreate or update, and which instances it is about;
//!   ends those that no agent can end.
//! - [`images`]: which node is to have which image now, and how far each ImagePullJob is.
//! - [`probes`]: what each node is to probe for the PodProbeMarkers.
//! - [`sidecarsets`]: the revisions of a SidecarSet, its pods by number, and which of them are upgraded when.
//! - [`budgets`], [`spreads`], [`podstates`]: the status of PodUnavailableBudgets, WorkloadSpreads and
//!   PersistentPodStates.
//!
//! Everything that touches a container or an image happens on its node, by the agent there, and what an agent
//! has been told goes on while no manager runs.
//!
//! These seven decide and are pure, in the words of [`store`]: each is an [`index`], and they share the pods.
//! [`watch`] and [`wire`] feed them, [`controller`] owns them, with `room` for so many bytes, [`writer`]
//! carries out the [writes](mod@write) they give, [`lease`] says who may. [`secrets`] reads what the pulls of
//! a job need and seals it. [`pod_updates`] is the entrance to updates in place; [`notes`] tells of them.
//!
//! [`admission`] answers the API server about new pods, SidecarSets and requests, on every replica. It stands
//! beside all of this and shares nothing with it but the lease.
//!
//! The manager never does this: write anything but `status` of Berth's own kinds, its Lease, Events, and for
//! its admission server one Secret, its own webhook configurations, the conversion of StatefulSets and two
//! marks of requests (`admission::request_marks`); touch a pod that exists, or a node; delete anything but
//! ImagePullJobs that are over and say when they are to go; read a Secret that nobody has allowed it by name.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

pub mod admission;
pub mod budgets;
mod condition;
pub mod config;
pub mod controller;
pub mod effect;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod health;
mod hex;
pub mod images;
pub mod index;
pub mod indexes;
pub mod metrics;
pub mod notes;
mod observed;
pub mod pod_updates;
pub mod podstates;
pub mod probes;
mod reads;
pub mod requests;
mod room;
pub mod run;
pub mod secrets;
mod selector;
#[cfg(test)]
mod served;
pub mod sidecarsets;
pub mod spreads;
mod steps;
pub mod store;
mod timers;
pub mod watch;
pub mod wire;
mod work;
pub mod write;
pub mod writer;

pub use berth_base::{http, lease, telemetry};

use berth_base::time;
use berth_proto::size;
