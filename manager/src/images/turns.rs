//! Jobs of a namespace that are carried out: the oldest [`MOST`], and one more when one of them is over.
//!
//! A job keeps a standing for each of its nodes, so a namespace costs its jobs times the nodes of the
//! cluster. A job that waits has none, and one that has its turn keeps it: its pulls are on their way.

use std::{collections::BTreeSet, sync::Arc};

use super::rollout::Rank;

/// Jobs of one namespace that are carried out. A node has room for a dozen of them.
pub(super) const MOST: usize = 64;

/// A job by its age, with its UID.
pub(super) type Entrant = (Rank, Arc<str>);

/// The jobs of one namespace that are not over.
#[derive(Debug, Default)]
pub(super) struct Turns {
    carried: BTreeSet<Entrant>,
    waiting: BTreeSet<Entrant>,
}

impl Turns {
    /// Lets a job wait for its turn, unless it has it.
    pub(super) fn enter(&mut self, job: Entrant) {
        if !self.carried.contains(&job) {
            self.waiting.insert(job);
        }
    }

    /// Gives the turn to the oldest job that waits, if one is free.
    pub(super) fn next(&mut self) -> Option<Entrant> {
        if self.carried.len() >= MOST {
            return None;
        }
        let job = self.waiting.pop_first()?;
        self.carried.insert(job.clone());
        Some(job)
    }

    /// Takes a job out.
    pub(super) fn leave(&mut self, job: &Entrant) {
        self.carried.remove(job);
        self.waiting.remove(job);
    }

    /// Says whether a job waits.
    pub(super) fn has_waiting(&self, job: &Entrant) -> bool {
        self.waiting.contains(job)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.carried.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn job(second: i64, name: &str) -> Entrant {
        ((Timestamp::from_second(second).unwrap(), name.into()), format!("uid-{name}").into())
    }

    #[test]
    fn the_oldest_first_and_nobody_is_put_back() {
        let mut turns = Turns::default();
        for second in (1..=1000).rev() {
            turns.enter(job(second, "j"));
        }
        let mut first = Vec::new();
        while let Some(next) = turns.next() {
            first.push(next);
        }
        assert_eq!(first, (1..=MOST as i64).map(|second| job(second, "j")).collect::<Vec<_>>());
        turns.enter(job(0, "older"));
        turns.enter(job(1, "j"));
        assert_eq!((turns.next(), turns.has_waiting(&job(0, "older"))), (None, true));
        assert!(!turns.has_waiting(&job(1, "j")), "it has its turn");
        turns.leave(&job(7, "j"));
        assert_eq!((turns.next(), turns.next()), (Some(job(0, "older")), None));
        turns.leave(&job(65, "j"));
        turns.leave(&job(1, "j"));
        assert_eq!(turns.next(), Some(job(66, "j")), "one that waited has left");
    }

    #[test]
    fn one_that_left_leaves_nothing() {
        let mut turns = Turns::default();
        turns.enter(job(1, "a"));
        turns.enter(job(2, "b"));
        turns.next();
        turns.leave(&job(1, "a"));
        turns.leave(&job(2, "b"));
        assert!(turns.is_empty());
    }
}
