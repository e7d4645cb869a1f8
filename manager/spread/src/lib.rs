//! WorkloadSpreads, decided: which subset a new pod is in, what a status says, and in which order pods go.
//!
//! ```text
//!  new pod ────▶ choose ──▶ status (optimistic write) ──▶ inject        admission, every replica
//!  deletion ───▶ release ─▶ status                                      admission, every replica
//!  pods ───────▶ count ───▶ status                                      manager, the leader
//!  pods ───────▶ plan ────▶ costs, adoption, pods that move on          berth-workloads
//! ```
//!
//! A pod says in its annotation [`MATCHED`] which subset it is in. Between the admission of a pod and the
//! moment at which the leader sees it, it stands in `creatingPods` of its subset; so does one that goes in
//! `deletingPods`. How many pods a subset may still have follows from these, from the number that was
//! counted, and from its limit at this moment: never from a number that was right once.
//!
//! Nothing here reads a clock or knows of clients.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")
)]

mod choose;
mod count;
mod inject;
mod merge;
mod plan;
mod spec;
mod terms;

#[cfg(test)]
mod tests;

pub use self::{
    choose::{Choice, Question, choose, release},
    count::{Ages, Counted, Facts, Member, Note, count, is_open},
    inject::{Matched, inject},
    merge::{is_merged, merge, metadata},
    plan::{Fit, Move, PodSeen, Room, SpreadPlan, adopt, plan},
    spec::{Amount, Limits, Spread, Subset, Target},
};

/// Annotation of a pod: its subset.
pub const MATCHED: &str = "apps.kruise.io/matched-workloadspread";
/// Annotation of a pod that orders scale-in.
pub const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation of a WorkloadSpread: with `true` pods that were there before get no metadata of its patches.
pub const IGNORE_METADATA: &str = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata";
/// The condition of a subset that takes new pods.
pub const SCHEDULABLE: &str = "Schedulable";
/// Entries of one map of a subset at the same time.
pub const MOST_ENTRIES: usize = 2_000;
