//! One budget, as it is known, and how far its counting is.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use berth_proto::crd::{PodUnavailableBudgetSpec, PodUnavailableBudgetStatus};

use super::{
    count::Permits,
    lookup::{Fact, Lookup},
    spec::Budget,
};
use crate::{observed::Observed, store::BudgetSeen};

#[derive(Debug)]
pub(super) struct Known {
    pub(super) object: Observed<PodUnavailableBudgetSpec, PodUnavailableBudgetStatus>,
    /// The budget, or why it cannot be kept.
    pub(super) budget: Result<Budget, String>,
    pub(super) permits: Permits,
    /// Something has happened since the newest round began.
    pub(super) dirty: bool,
    pub(super) round: Option<Round>,
    /// When the newest round began.
    pub(super) counted: Option<Instant>,
    /// Number of times in a row that facts could not be read.
    pub(super) failures: u32,
    /// End of the pause after that.
    pub(super) pauses: Option<Instant>,
}

/// A round of counting: facts are looked up, then the pods are counted.
#[derive(Debug)]
pub(super) struct Round {
    /// Its begin. A scale that was asked for before may be older than what the round is about.
    pub(super) began: Instant,
    /// Facts that it waits for. Pods are looked at when there are none left.
    pub(super) open: BTreeSet<Lookup>,
    /// Scales; what ReplicaSets belong to is kept for all budgets.
    pub(super) found: HashMap<Lookup, Fact>,
    /// A fact that could not be read, and why.
    pub(super) failed: Option<(Lookup, String)>,
}

impl Round {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, open: BTreeSet::new(), found: HashMap::new(), failed: None }
    }
}

impl Known {
    pub(super) fn new(seen: &BudgetSeen, list: u32) -> Self {
        let spec = seen.spec.as_ref().map_err(Clone::clone);
        Self {
            object: Observed::new(seen, list),
            budget: spec.and_then(|spec| Budget::parse(spec, &seen.annotations)),
            permits: Permits::default(),
            dirty: true,
            round: None,
            counted: None,
            failures: 0,
            pauses: None,
        }
    }

    /// Version as a number; 0 if it is none.
    pub(super) fn version(&self) -> u64 {
        self.object.resource_version.parse().unwrap_or(0)
    }

    /// Rests: this replica does not lead any more, and what is under way counts for nothing.
    pub(super) fn rests(&mut self) {
        (self.round, self.counted) = (None, None);
        (self.failures, self.pauses) = (0, None);
        self.object.rests();
    }
}
