//! Objects whose write was refused by a missing right or by somebody's rule. Rights come back and rules are
//! mended with no event of the object, so it is given back after a long pause, and what is owed to it then is
//! decided anew: much else may have changed. Meanwhile it takes no room from those that wait. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use super::CAPACITY;
use crate::{time::later_timer, write::Target};

/// Pause before an object is given back: as many as there may be are some thirty a second.
pub(super) const PAUSE: Duration = Duration::from_secs(300);

/// Objects, as many as writes may wait. What is beyond is written again when it changes.
#[derive(Debug, Default)]
pub(super) struct Aside {
    objects: HashMap<Target, Standing>,
    due: BTreeSet<(Instant, Target)>,
}

#[derive(Debug)]
struct Standing {
    until: Instant,
    /// It was given back: a write of it that comes until then was refused before.
    given_back: bool,
}

impl Aside {
    /// Takes an object whose write was refused.
    pub(super) fn put(&mut self, target: Target, now: Instant) {
        self.forget(&target);
        self.insert(target, now, false);
    }

    /// Forgets an object, because there is another write of it. Tells whether it was given back for that.
    pub(super) fn forget(&mut self, target: &Target) -> bool {
        let Some(Standing { until, given_back }) = self.objects.remove(target) else { return false };
        self.due.remove(&(until, target.clone()));
        given_back
    }

    /// Gives back objects whose pause is over, so many at the most.
    pub(super) fn give_back(&mut self, most: usize, now: Instant) -> Vec<Target> {
        let mut given = Vec::new();
        while given.len() < most
            && self.next().is_some_and(|at| at <= now)
            && let Some((_, target)) = self.due.pop_first()
        {
            // Nothing is owed to one that was given back before, and has got no write.
            let is_over = self.objects.remove(&target).is_none_or(|standing| standing.given_back);
            if !is_over {
                self.insert(target.clone(), now, true);
                given.push(target);
            }
        }
        given
    }

    /// Time at which the first pause is over.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn insert(&mut self, target: Target, now: Instant, given_back: bool) {
        if self.objects.len() < CAPACITY {
            let until = later_timer(now, PAUSE);
            self.due.insert((until, target.clone()));
            self.objects.insert(target, Standing { until, given_back });
        }
    }
}
