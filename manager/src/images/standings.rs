//! Standings of all jobs together: how many there are, and how many there may be.
//!
//! A namespace has its turns, but there are many namespaces. So beyond a number of standings each has fewer
//! of them, and its other jobs wait until some have gone.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Standings after which turns are few. One takes some 30 bytes, so they are a part of the manager's memory.
const MOST: usize = 2_000_000;

/// Number of standings, shared by all rollouts: each counts its own, and counts them off when it ends.
#[derive(Clone, Debug)]
pub(super) struct Standings {
    count: Arc<AtomicUsize>,
    pub(super) most: usize,
}

impl Default for Standings {
    fn default() -> Self {
        Self { count: Arc::default(), most: MOST }
    }
}

impl Standings {
    /// Tells whether there are so many that turns are few.
    pub(super) fn are_many(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.most
    }

    pub(super) fn one_came(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn went(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}
