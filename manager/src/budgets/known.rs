//! One budget, as it is known, and how far its counting is.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use berth_proto::crd::{PodUnavailableBudgetSpec, PodUnavailableBudgetStatus};

use super::{
    count::Permits,
    lookup::{Found, Lookup},
    spec::Budget,
};
use crate::{observed::Observed, seen::BudgetSeen};

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
}

/// A round of counting: facts are looked up, then the pods are counted.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// When each was asked for last.
    pub(super) asked: BTreeMap<Lookup, Instant>,
    pub(super) found: HashMap<Lookup, Found>,
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
        }
    }

    /// Version as a number; 0 if it is none.
    pub(super) fn version(&self) -> u64 {
        self.object.resource_version.parse().unwrap_or(0)
    }

    /// This replica does not lead any more: what is under way counts for nothing.
    pub(super) fn rests(&mut self) {
        (self.round, self.counted) = (None, None);
        self.object.rests();
    }
}
