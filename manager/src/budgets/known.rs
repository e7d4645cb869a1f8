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
use crate::{seen::BudgetSeen, work::Sent};

#[derive(Debug)]
pub(super) struct Known {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) generation: Option<i64>,
    pub(super) deleting: bool,
    /// The number of the list that showed it last.
    pub(super) list: u32,
    pub(super) spec: Result<PodUnavailableBudgetSpec, String>,
    /// The budget, or why it cannot be kept.
    pub(super) budget: Result<Budget, String>,
    pub(super) status: Result<PodUnavailableBudgetStatus, String>,
    pub(super) permits: Permits,
    /// Something has happened since the newest round began.
    pub(super) dirty: bool,
    pub(super) round: Option<Round>,
    /// When the newest round began.
    pub(super) counted: Option<Instant>,
    pub(super) sent: Sent,
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
        let spec = seen.spec.clone();
        Self {
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            generation: seen.generation,
            deleting: seen.deleting,
            list,
            budget: spec
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|spec| Budget::parse(spec, &seen.annotations)),
            spec,
            status: seen.status.clone(),
            permits: Permits::default(),
            dirty: true,
            round: None,
            counted: None,
            sent: Sent::default(),
        }
    }

    /// Version as a number; 0 if it is none.
    pub(super) fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// This replica does not lead any more: what is under way counts for nothing.
    pub(super) fn rests(&mut self) {
        (self.round, self.counted, self.sent) = (None, None, Sent::default());
    }
}
