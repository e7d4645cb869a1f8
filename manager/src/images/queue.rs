//! Jobs of a namespace that are carried out: the oldest [`MOST`], and one more when one of them is over or
//! rests.
//!
//! A job keeps a standing for each of its nodes, so a namespace costs its jobs times the nodes of the
//! cluster. A job that waits has none, and one that has its turn keeps it: its pulls are on their way. One
//! that has no pull to ask for, as a `Never` job that is done on all nodes, rests: it goes on following its
//! nodes, and another one has its turn. One that pauses leaves when it is written, and enters again when it
//! goes on. While there are many standings in the cluster, each namespace has fewer turns and places to rest.

use std::{collections::BTreeSet, sync::Arc};

use super::rollout::Rank;

/// Jobs of one namespace that are carried out. A node has room for a dozen of them.
pub(super) const MOST: usize = 64;
/// Jobs of one namespace that rest beside them.
pub(super) const MOST_RESTING: usize = 192;
/// The same while there are many standings.
pub(super) const FEW: usize = 4;
pub(super) const FEW_RESTING: usize = 12;

/// A job by its age, with its UID.
pub(super) type Entrant = (Rank, Arc<str>);

/// The jobs of one namespace that are not over.
#[derive(Debug, Default)]
pub(super) struct JobQueue {
    carried: BTreeSet<Entrant>,
    resting: BTreeSet<Entrant>,
    waiting: BTreeSet<Entrant>,
}

impl JobQueue {
    /// Lets a job wait for its turn, unless it has it.
    pub(super) fn enter(&mut self, job: Entrant) {
        if !self.carried.contains(&job) && !self.resting.contains(&job) {
            self.waiting.insert(job);
        }
    }

    /// Lets a job rest that has its turn and nothing to do; tells whether its turn is free now.
    pub(super) fn rest(&mut self, job: &Entrant, is_crowded: bool) -> bool {
        let most = if is_crowded { FEW_RESTING } else { MOST_RESTING };
        let rests = self.resting.len() < most && self.carried.remove(job);
        rests && self.resting.insert(job.clone())
    }

    /// Gives the turn to the oldest job that waits, if one is free.
    pub(super) fn next(&mut self, is_crowded: bool) -> Option<Entrant> {
        if self.carried.len() >= if is_crowded { FEW } else { MOST } {
            return None;
        }
        let job = self.waiting.pop_first()?;
        self.carried.insert(job.clone());
        Some(job)
    }

    /// Takes a job out; gives the jobs that may rest now, if they have nothing to do.
    pub(super) fn leave(&mut self, job: &Entrant) -> impl Iterator<Item = &Arc<str>> {
        self.carried.remove(job);
        self.waiting.remove(job);
        let may_rest = self.resting.remove(job);
        self.carried.iter().filter(move |_| may_rest).map(|(_, uid)| uid)
    }

    /// Jobs that have their turn.
    pub(super) fn carried(&self) -> impl Iterator<Item = &Arc<str>> {
        self.carried.iter().map(|(_, uid)| uid)
    }

    /// Says whether a job waits.
    pub(super) fn has_waiting(&self, job: &Entrant) -> bool {
        self.waiting.contains(job)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.carried.is_empty() && self.resting.is_empty() && self.waiting.is_empty()
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
        let mut turns = JobQueue::default();
        for second in (1..=1000).rev() {
            turns.enter(job(second, "j"));
        }
        let mut first = Vec::new();
        while let Some(next) = turns.next(false) {
            first.push(next);
        }
        assert_eq!(first, (1..=MOST as i64).map(|second| job(second, "j")).collect::<Vec<_>>());
        turns.enter(job(0, "older"));
        turns.enter(job(1, "j"));
        assert_eq!((turns.next(false), turns.has_waiting(&job(0, "older"))), (None, true));
        assert!(!turns.has_waiting(&job(1, "j")), "it has its turn");
        let _ = turns.leave(&job(7, "j"));
        assert_eq!((turns.next(false), turns.next(false)), (Some(job(0, "older")), None));
        let _ = turns.leave(&job(65, "j"));
        let _ = turns.leave(&job(1, "j"));
        assert_eq!(turns.next(false), Some(job(66, "j")), "one that waited has left");
    }

    #[test]
    fn one_that_rests_gives_its_turn_away() {
        let mut turns = JobQueue::default();
        let count = MOST + MOST_RESTING + 1;
        (0..count as i64).for_each(|second| turns.enter(job(second, "j")));
        let mut begun = 0;
        while let Some(next) = turns.next(false) {
            begun += 1;
            assert_eq!(turns.rest(&next, false), begun <= MOST_RESTING, "{begun}");
            turns.enter(next);
        }
        assert_eq!(begun, count - 1, "the last one waits");
        assert!(!turns.rest(&job(count as i64 - 1, "j"), false), "it has no turn");
        let carried = job(MOST_RESTING as i64, "j");
        assert_eq!(turns.leave(&carried).count(), 0);
        assert_eq!(turns.next(false), Some(job(count as i64 - 1, "j")));
        let resting = job(0, "j");
        assert_eq!(turns.leave(&resting).count(), MOST, "each of those may rest now");
        assert!(turns.rest(&job(count as i64 - 1, "j"), false));
    }

    /// While turns are few, those that have one keep it.
    #[test]
    fn few_turns() {
        let mut turns = JobQueue::default();
        (0..100).for_each(|second| turns.enter(job(second, "j")));
        let begun = std::iter::from_fn(|| turns.next(true)).count();
        assert_eq!(begun, FEW);
        assert!((0..FEW as i64).all(|second| turns.rest(&job(second, "j"), true)));
        let mut resting = FEW;
        while let Some(next) = turns.next(true).filter(|next| turns.rest(next, true)) {
            assert!(!turns.has_waiting(&next));
            resting += 1;
        }
        assert_eq!((resting, turns.next(false).is_some()), (FEW_RESTING, true));
    }

    #[test]
    fn one_that_left_leaves_nothing() {
        let mut turns = JobQueue::default();
        turns.enter(job(1, "a"));
        turns.enter(job(2, "b"));
        turns.next(false);
        let _ = turns.leave(&job(1, "a"));
        let _ = turns.leave(&job(2, "b"));
        assert!(turns.is_empty());
    }
}
