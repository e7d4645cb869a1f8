//! One budget, as it is known, and how far its counting is.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use berth_proto::crd::{PodUnavailableBudgetSpec, PodUnavailableBudgetStatus};

use super::{
    ENTERED_WITHIN,
    count::Permits,
    lookup::{Fact, Lookup},
    spec::Budget,
};
use crate::{
    observed::Observed,
    store::{ASKED_AFTER, BudgetSeen, Entered, Key},
    time::later,
};

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
    /// Since when it waits for its webhook entries, and since when they stand.
    pub(super) entering: (Option<Instant>, Option<Instant>),
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
            entering: (None, None),
        }
    }

    /// Tells whether nobody has counted it yet.
    pub(super) fn is_new(&self) -> bool {
        self.object.status.as_ref().is_ok_and(|status| status.observed_generation.is_none())
    }

    /// Says until when a new one is not counted. Who reads a count takes the pods for limited, and they are
    /// when the webhook entries stand.
    pub(super) fn waits_for_entry(&mut self, key: &Key, entered: &Entered, now: Instant) -> Option<Instant> {
        if !entered.is_on() || !self.is_new() || self.budget.is_err() {
            return None;
        }
        let (waits, stand) = &mut self.entering;
        let until = if entered.has(key) {
            later(*stand.get_or_insert(now), ASKED_AFTER)
        } else {
            *stand = None;
            later(*waits.get_or_insert(now), ENTERED_WITHIN)
        };
        Some(until).filter(|until| *until > now)
    }

    /// Version as a number; 0 if it is none.
    pub(super) fn version(&self) -> u64 {
        self.object.resource_version.parse().unwrap_or(0)
    }

    /// Rests: this replica does not lead any more, and what is under way counts for nothing.
    pub(super) fn rests(&mut self) {
        (self.round, self.counted) = (None, None);
        (self.failures, self.pauses) = (0, None);
        self.entering = (None, None);
        self.object.rests();
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::PodUnavailableBudgetStatus;
    use serde_json::json;

    use super::*;

    fn known(counted: Option<i64>) -> Known {
        let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "maxUnavailable": 1 });
        let status = PodUnavailableBudgetStatus { observed_generation: counted, ..Default::default() };
        let seen = BudgetSeen::of_test("shop", "b", Ok(serde_json::from_value(spec).unwrap()));
        Known::new(&BudgetSeen { status: Ok(status), ..seen }, 1)
    }

    /// One that says how many of its pods may go lets no more go.
    #[test]
    fn a_new_budget_is_counted_when_its_entries_stand() {
        let key = Key { namespace: "shop".into(), name: "b".into() };
        let (mut new, mut entered) = (known(None), Entered::unknown());
        let begin = Instant::now();
        let late = later(begin, ENTERED_WITHIN);
        assert_eq!(new.waits_for_entry(&key, &entered, begin), Some(late));
        let name = key.to_string();
        assert!(entered.stand(0, [&name].into_iter()) && !entered.stand(0, [&name].into_iter()));
        assert_eq!(new.waits_for_entry(&key, &entered, begin), Some(late), "in one of the two");
        assert!(entered.stand(1, [&name].into_iter()));
        let asked = later(begin, ASKED_AFTER);
        assert_eq!(new.waits_for_entry(&key, &entered, begin), Some(asked));
        assert_eq!(new.waits_for_entry(&key, &entered, asked), None);
        // They do not come, or nobody writes any, or it was counted before.
        let mut new = known(None);
        assert_eq!(new.waits_for_entry(&key, &Entered::unknown(), begin), Some(late));
        assert_eq!(new.waits_for_entry(&key, &Entered::unknown(), late), None);
        assert_eq!(known(None).waits_for_entry(&key, &Entered::default(), begin), None);
        assert_eq!(known(Some(1)).waits_for_entry(&key, &Entered::unknown(), begin), None);
    }
}
