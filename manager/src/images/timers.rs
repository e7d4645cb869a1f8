//! When something is to be looked at again although nothing happened: one timer for each thing, the last one set.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

/// What is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Wake {
    /// A job, or whoever else has this UID.
    Wish(Arc<str>),
    /// The entries of this UID on all nodes: their time may be over.
    Entries(Arc<str>),
    /// A node.
    Node(Arc<str>),
}

/// All that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: BTreeSet<(Instant, Wake)>,
    set: HashMap<Wake, Instant>,
}

impl Timers {
    pub(super) fn set(&mut self, wake: Wake, at: Option<Instant>) {
        if let Some(before) = self.set.remove(&wake) {
            self.order.remove(&(before, wake.clone()));
        }
        if let Some(at) = at {
            self.order.insert((at, wake.clone()));
            self.set.insert(wake, at);
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out one that is over.
    pub(super) fn due(&mut self, now: Instant) -> Option<Wake> {
        let (_, wake) = self.order.first().filter(|(at, _)| *at <= now).cloned()?;
        self.set(wake.clone(), None);
        Some(wake)
    }
}
