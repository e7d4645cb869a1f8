//! Lookups that are on their way. Each is asked for once, however many budgets wait for it, and a few are
//! handed out at a time: what is handed out is carried out at once, so one without an answer for long is
//! lost.
//!
//! A kind may fail in all namespaces, as where its conversion webhook does not answer. Its lookups have few
//! of the places, so the workloads of all other kinds are looked up meanwhile.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use berth_base::round_robin::RoundRobin;

use super::{
    LOOKED_UP_WITHIN,
    lookup::{Lookup, What},
};
use crate::{steps, time::later};

/// Lookups of one namespace that are handed out at once: one whose workloads do not answer leaves the others
/// their places.
pub(super) const OF_A_NAMESPACE: usize = steps::AT_ONCE / 2;
/// Lookups of kinds that fail that are handed out at once, of all namespaces.
pub(super) const OF_FAILING: usize = 2;
/// Failures in a row after which a kind is one that fails.
const FAILS_AFTER: u32 = 4;
/// Kinds whose failures are counted; past them all are counted anew.
const MOST_KINDS: usize = 1024;

/// Names of budgets.
type Waiters = BTreeSet<Arc<str>>;

/// Lookups without an answer.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Budgets of its namespace that wait for each.
    waiters: HashMap<Lookup, Waiters>,
    /// Lookups that are handed out, and since when.
    out: HashMap<Lookup, Instant>,
    /// Lookups that wait for a place: those of kinds that fail are in the second one.
    lanes: [RoundRobin<Lookup>; 2],
    /// Failures in a row, by API version and kind.
    failures: HashMap<(Arc<str>, Arc<str>), u32>,
}

impl InFlight {
    /// Asks for a fact in the name of a budget. Nothing is done where that is asked for already.
    pub(super) fn ask(&mut self, lookup: &Lookup, budget: &Arc<str>) {
        if let Some(waiters) = self.waiters.get_mut(lookup) {
            waiters.insert(budget.clone());
            return;
        }
        self.waiters.insert(lookup.clone(), Waiters::from([budget.clone()]));
        let fails = self.fails(lookup);
        self.lanes[usize::from(fails)].push(lookup.namespace.clone(), lookup.clone());
    }

    /// A lookup was answered: the fact was read, or it could not be.
    pub(super) fn was_read(&mut self, lookup: &Lookup, is_read: bool) {
        let Some(kind) = kind(lookup) else { return };
        if is_read {
            self.failures.remove(&kind);
            return;
        }
        if self.failures.len() >= MOST_KINDS {
            self.failures.clear();
        }
        let failures = self.failures.entry(kind).or_default();
        *failures = failures.saturating_add(1);
    }

    /// Takes out one that has its answer: since when it was handed out, and who waits for it.
    pub(super) fn answered(&mut self, lookup: &Lookup) -> Option<(Instant, Waiters)> {
        let since = self.out.remove(lookup)?;
        Some((since, self.waiters.remove(lookup).unwrap_or_default()))
    }

    /// Forgets those whose answers are lost: they can be asked for again.
    pub(super) fn forget_lost(&mut self, now: Instant) {
        let waiters = &mut self.waiters;
        self.out.retain(|lookup, since| {
            let stays = later(*since, LOOKED_UP_WITHIN) > now;
            if !stays {
                waiters.remove(lookup);
            }
            stays
        });
    }

    /// Forgets what waits in a namespace that has no budget any more.
    pub(super) fn forget(&mut self, namespace: &str) {
        for lane in &mut self.lanes {
            for lookup in lane.remove(namespace) {
                self.waiters.remove(&lookup);
            }
        }
    }

    /// Forgets all that is not handed out.
    pub(super) fn rests(&mut self) {
        self.lanes = Default::default();
        self.failures.clear();
        self.waiters.retain(|lookup, _| self.out.contains_key(lookup));
    }

    /// Hands out one, as long as there are places.
    pub(super) fn hand_out(&mut self, now: Instant) -> Option<Lookup> {
        if self.out.len() >= steps::AT_ONCE {
            return None;
        }
        while let Some(lookup) = self.next(false) {
            if !self.fails(&lookup) {
                self.out.insert(lookup.clone(), now);
                return Some(lookup);
            }
            // Its kind has begun to fail while it waited.
            self.lanes[1].push(lookup.namespace.clone(), lookup);
        }
        if self.out.keys().filter(|lookup| self.fails(lookup)).count() >= OF_FAILING {
            return None;
        }
        let lookup = self.next(true)?;
        self.out.insert(lookup.clone(), now);
        Some(lookup)
    }

    /// Takes out the next one of those whose kinds fail, or of the others.
    fn next(&mut self, fails: bool) -> Option<Lookup> {
        let out = &self.out;
        let has_place = |namespace: &str| {
            out.keys().filter(|lookup| *lookup.namespace == *namespace).count() < OF_A_NAMESPACE
        };
        self.lanes[usize::from(fails)].take(has_place)
    }

    fn fails(&self, lookup: &Lookup) -> bool {
        let failures = kind(lookup).and_then(|kind| self.failures.get(&kind).copied());
        failures.is_some_and(|failures| failures >= FAILS_AFTER)
    }
}

/// API version and kind of the workload whose scale is looked up.
fn kind(lookup: &Lookup) -> Option<(Arc<str>, Arc<str>)> {
    match &lookup.what {
        What::Scale(workload) => Some((workload.api_version.clone(), workload.kind.clone())),
        What::Parent { .. } => None,
    }
}
