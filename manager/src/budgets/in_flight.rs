//! Lookups that are on their way. Each is asked for once, however many budgets wait for it, and a few are
//! handed out at a time: what is handed out is carried out at once, so one without an answer for long is
//! lost.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Instant,
};

use super::{LOOKED_UP_WITHIN, lookup::Lookup};
use crate::{steps, time::later};

/// Lookups of one namespace that are handed out at once: one whose workloads do not answer leaves the others
/// their places.
pub(super) const OF_A_NAMESPACE: usize = steps::AT_ONCE / 2;

/// Names of budgets.
type Waiters = BTreeSet<Arc<str>>;

/// Lookups without an answer.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Budgets of its namespace that wait for each.
    waiters: HashMap<Lookup, Waiters>,
    /// Lookups that are handed out, and since when.
    out: HashMap<Lookup, Instant>,
    /// Lookups that wait for a place, by namespace.
    waiting: BTreeMap<Arc<str>, VecDeque<Lookup>>,
    /// Namespace that had the newest place: the next one is another's.
    last: Arc<str>,
}

impl InFlight {
    /// Asks for a fact in the name of a budget. Nothing is done where that is asked for already.
    pub(super) fn ask(&mut self, lookup: &Lookup, budget: &Arc<str>) {
        if let Some(waiters) = self.waiters.get_mut(lookup) {
            waiters.insert(budget.clone());
            return;
        }
        self.waiters.insert(lookup.clone(), Waiters::from([budget.clone()]));
        self.waiting.entry(lookup.namespace.clone()).or_default().push_back(lookup.clone());
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
        for lookup in self.waiting.remove(namespace).into_iter().flatten() {
            self.waiters.remove(&lookup);
        }
    }

    /// Forgets all that is not handed out.
    pub(super) fn rests(&mut self) {
        self.waiting.clear();
        self.waiters.retain(|lookup, _| self.out.contains_key(lookup));
    }

    /// Hands out one, as long as there are places.
    pub(super) fn hand_out(&mut self, now: Instant) -> Option<Lookup> {
        if self.out.len() >= steps::AT_ONCE {
            return None;
        }
        let out = &self.out;
        let has_place = |namespace: &&Arc<str>| {
            out.keys().filter(|lookup| lookup.namespace == **namespace).count() < OF_A_NAMESPACE
        };
        let after = self.waiting.range::<str, _>((Bound::Excluded(&*self.last), Bound::Unbounded));
        let mut turns = after.map(|(namespace, _)| namespace).chain(self.waiting.keys());
        let namespace = turns.find(has_place)?.clone();
        let lookups = self.waiting.get_mut(&namespace)?;
        let lookup = lookups.pop_front();
        if lookups.is_empty() {
            self.waiting.remove(&namespace);
        }
        self.last = namespace;
        self.out.insert(lookup.clone()?, now);
        lookup
    }
}
