//! Writes that were refused by a missing right or by somebody's rule. Rights come back and rules are mended
//! with no event of the object, so each write is tried again after a long pause. Meanwhile it takes no room
//! from those that wait. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use super::{CAPACITY, Item};
use crate::{time::later_timer, write::Target};

/// Pause before a refused write is tried again: as many as there may be are some thirty a second.
pub(super) const PAUSE: Duration = Duration::from_secs(300);

/// Refused writes, as many as may wait. What is beyond is tried again when its object changes.
#[derive(Debug, Default)]
pub(super) struct Aside {
    items: HashMap<Target, (Instant, Item)>,
    due: BTreeSet<(Instant, Target)>,
}

impl Aside {
    /// Takes a write, until its pause is over.
    pub(super) fn put(&mut self, target: Target, item: Item, now: Instant) {
        self.forget(&target);
        if self.items.len() < CAPACITY {
            let at = later_timer(now, PAUSE);
            self.due.insert((at, target.clone()));
            self.items.insert(target, (at, item));
        }
    }

    /// Forgets the write of an object: there is a newer one.
    pub(super) fn forget(&mut self, target: &Target) {
        if let Some((at, _)) = self.items.remove(target) {
            self.due.remove(&(at, target.clone()));
        }
    }

    /// Gives back a write whose pause is over.
    pub(super) fn take(&mut self, now: Instant) -> Option<(Target, Item)> {
        self.next().filter(|at| *at <= now)?;
        let (_, target) = self.due.pop_first()?;
        let (_, item) = self.items.remove(&target)?;
        Some((target, item))
    }

    /// Time at which the first pause is over.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}
