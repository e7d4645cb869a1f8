//! When something is to be looked at again although nothing happened: one timer for each thing, the last one
//! set.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Instant,
};

/// All that are set; a `W` says what is to be looked at.
#[derive(Debug)]
pub(crate) struct Timers<W> {
    order: BTreeSet<(Instant, W)>,
    set: HashMap<W, Instant>,
}

impl<W> Default for Timers<W> {
    fn default() -> Self {
        Self { order: BTreeSet::new(), set: HashMap::new() }
    }
}

impl<W: Clone + Eq + Hash + Ord> Timers<W> {
    pub(crate) fn set(&mut self, wake: W, at: Option<Instant>) {
        if let Some(before) = self.set.remove(&wake) {
            self.order.remove(&(before, wake.clone()));
        }
        if let Some(at) = at {
            self.order.insert((at, wake.clone()));
            self.set.insert(wake, at);
        }
    }

    /// Sets a timer, unless it is over sooner already.
    pub(crate) fn set_sooner(&mut self, wake: W, at: Instant) {
        if self.set.get(&wake).is_none_or(|before| at < *before) {
            self.set(wake, Some(at));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is over.
    pub(crate) fn due(&mut self, now: Instant) -> Option<W> {
        let (_, wake) = self.order.first().filter(|(at, _)| *at <= now).cloned()?;
        self.set(wake.clone(), None);
        Some(wake)
    }
}
