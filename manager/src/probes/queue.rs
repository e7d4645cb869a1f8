//! Which markers of a namespace are carried out: the first [`MOST`], the one made first before all others.
//!
//! Every pod is looked at by all of them, so it is their number that an event of a pod costs; and a namespace
//! with thousands of markers costs no more than one with as many as are carried out.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

/// Markers of one namespace that are carried out. One for each workload is what they are made for.
pub(super) const MOST: usize = 512;

/// The order of markers: made first, then first by name.
pub(super) type Rank = (Option<Timestamp>, Arc<str>);

/// The markers of a namespace that make sense.
#[derive(Debug, Default)]
pub(super) struct MarkerQueue {
    carried: BTreeSet<Rank>,
    waiting: BTreeSet<Rank>,
}

impl MarkerQueue {
    /// Takes one in, and says who is carried out from now on or not any more, with it or because of it.
    pub(super) fn enter(&mut self, rank: Rank) -> Vec<(Rank, bool)> {
        if self.carried.contains(&rank) || self.waiting.contains(&rank) {
            return Vec::new();
        }
        if self.carried.len() < MOST {
            self.carried.insert(rank.clone());
            return vec![(rank, true)];
        }
        match self.carried.last().filter(|last| rank < **last).cloned() {
            Some(last) => {
                self.carried.remove(&last);
                self.carried.insert(rank.clone());
                self.waiting.insert(last.clone());
                vec![(last, false), (rank, true)]
            }
            None => {
                self.waiting.insert(rank.clone());
                vec![(rank, false)]
            }
        }
    }

    /// Gives the markers that are carried out, in their order.
    pub(super) fn carried(&self) -> impl Iterator<Item = &Rank> {
        self.carried.iter()
    }

    /// Lets one go; the same.
    pub(super) fn leave(&mut self, rank: &Rank) -> Vec<(Rank, bool)> {
        if !self.carried.remove(rank) {
            self.waiting.remove(rank);
            return Vec::new();
        }
        let next = self.waiting.pop_first();
        self.carried.extend(next.clone());
        next.into_iter().map(|rank| (rank, true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(second: i64, name: &str) -> Rank {
        (Some(Timestamp::from_second(second).unwrap()), name.into())
    }

    /// Each by one step, however many there are.
    #[test]
    fn the_oldest_of_ten_thousand() {
        let mut turns = MarkerQueue::default();
        for number in (0..10_000).rev() {
            assert!(turns.enter(rank(number, "m")).len() <= 2);
        }
        assert_eq!((turns.carried.len(), turns.waiting.len()), (MOST, 10_000 - MOST));
        let last = rank(MOST as i64 - 1, "m");
        assert_eq!(turns.carried.last(), Some(&last));
        assert_eq!(turns.leave(&rank(0, "m")), [(rank(MOST as i64, "m"), true)]);
        assert_eq!(turns.leave(&rank(9_999, "m")), []);
        assert_eq!(turns.enter(rank(0, "a")), [(rank(MOST as i64, "m"), false), (rank(0, "a"), true)]);
        assert_eq!(turns.enter(rank(0, "a")), [], "it is in");
    }

    #[test]
    fn of_the_same_age_the_first_by_name() {
        let mut turns = MarkerQueue::default();
        for number in 0..MOST {
            turns.enter(rank(7, &format!("m{number:05}")));
        }
        assert_eq!(turns.enter(rank(7, "n")), [(rank(7, "n"), false)]);
        let last = rank(7, &format!("m{:05}", MOST - 1));
        assert_eq!(turns.enter(rank(7, "a")), [(last, false), (rank(7, "a"), true)]);
    }
}
