//! Which markers of a namespace are carried out: the first [`MOST`] that have [`ROOM`], the one made first
//! before all others.
//!
//! Every pod is looked at by all of them, so it is their number that an event of a pod costs; and a namespace
//! with thousands of markers costs no more than one with as many as are carried out. So it is with memory: of
//! a large one that waits no more is kept than that it does. Who is carried out follows from age and weight
//! alone, so the next manager goes on with the same.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

/// Markers of one namespace that are carried out. One for each workload is what they are made for.
pub(super) const MOST: usize = 512;
/// Bytes of memory that those take together, about. One takes some KiB.
pub(super) const ROOM: usize = 16 << 20;

/// The order of markers: made first, then first by name.
pub(super) type Rank = (Option<Timestamp>, Arc<str>);

/// The markers of a namespace that make sense, with their weights.
#[derive(Debug, Default)]
pub(super) struct MarkerQueue {
    /// All of them come before all that wait.
    carried: BTreeMap<Rank, usize>,
    waiting: BTreeMap<Rank, usize>,
    /// Weight of those that are carried out.
    weight: usize,
}

impl MarkerQueue {
    /// Takes one in, or its new weight, and says who is carried out from now on or not any more, with it or
    /// because of it.
    pub(super) fn enter(&mut self, rank: Rank, weight: usize) -> Vec<(Rank, bool)> {
        let mut moved = BTreeMap::new();
        if let Some(known) = self.carried.get_mut(&rank) {
            let before = std::mem::replace(known, weight);
            self.weight = self.weight.saturating_sub(before).saturating_add(weight);
        } else if let Some(known) = self.waiting.get_mut(&rank) {
            *known = weight;
        } else if self.carried.last_key_value().is_some_and(|(last, _)| rank < *last) {
            self.weight = self.weight.saturating_add(weight);
            self.carried.insert(rank.clone(), weight);
            moved.insert(rank, true);
        } else {
            self.waiting.insert(rank.clone(), weight);
            moved.insert(rank, false);
        }
        self.settle(moved)
    }

    /// Gives the markers that are carried out, in their order.
    pub(super) fn carried(&self) -> impl Iterator<Item = &Rank> {
        self.carried.keys()
    }

    /// Says whether one is carried out.
    pub(super) fn has_turn(&self, rank: &Rank) -> bool {
        self.carried.contains_key(rank)
    }

    /// Lets one go; the same.
    pub(super) fn leave(&mut self, rank: &Rank) -> Vec<(Rank, bool)> {
        if let Some(weight) = self.carried.remove(rank) {
            self.weight = self.weight.saturating_sub(weight);
        }
        self.waiting.remove(rank);
        self.settle(BTreeMap::new())
    }

    /// Lets the last ones wait for which there is no room, and the first ones in for which there is; with
    /// those that were moved before. Who waits from now on is named first.
    fn settle(&mut self, mut moved: BTreeMap<Rank, bool>) -> Vec<(Rank, bool)> {
        while (self.carried.len() > MOST || self.weight > ROOM)
            && let Some((rank, weight)) = self.carried.pop_last()
        {
            self.weight = self.weight.saturating_sub(weight);
            moved.insert(rank.clone(), false);
            self.waiting.insert(rank, weight);
        }
        while let Some(first) = self.waiting.first_entry() {
            let with_it = self.weight.saturating_add(*first.get());
            if self.carried.len() >= MOST || with_it > ROOM {
                break;
            }
            let (rank, weight) = first.remove_entry();
            self.weight = with_it;
            moved.insert(rank.clone(), true);
            self.carried.insert(rank, weight);
        }
        let (waits, comes): (Vec<_>, Vec<_>) = moved.into_iter().partition(|(_, is_carried)| !is_carried);
        [waits, comes].concat()
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
            assert!(turns.enter(rank(number, "m"), 1).len() <= 2);
        }
        assert_eq!((turns.carried.len(), turns.waiting.len()), (MOST, 10_000 - MOST));
        let last = rank(MOST as i64 - 1, "m");
        assert_eq!(turns.carried().last(), Some(&last));
        assert_eq!(turns.leave(&rank(0, "m")), [(rank(MOST as i64, "m"), true)]);
        assert_eq!(turns.leave(&rank(9_999, "m")), []);
        assert_eq!(turns.enter(rank(0, "a"), 1), [(rank(MOST as i64, "m"), false), (rank(0, "a"), true)]);
        assert_eq!(turns.enter(rank(0, "a"), 1), [], "it is in");
    }

    #[test]
    fn of_the_same_age_the_first_by_name() {
        let mut turns = MarkerQueue::default();
        for number in 0..MOST {
            turns.enter(rank(7, &format!("m{number:05}")), 1);
        }
        assert_eq!(turns.enter(rank(7, "n"), 1), [(rank(7, "n"), false)]);
        let last = rank(7, &format!("m{:05}", MOST - 1));
        assert_eq!(turns.enter(rank(7, "a"), 1), [(last, false), (rank(7, "a"), true)]);
    }

    /// In whatever order they come, the first ones are carried out as far as there is room.
    #[test]
    fn the_oldest_that_have_room() {
        let weights = [6, 9, 2, 1, 7].map(|mib| mib << 20);
        let mut order: Vec<usize> = (0..weights.len()).collect();
        for _ in 0..order.len() {
            order.rotate_left(1);
            for order in [order.clone(), order.iter().rev().copied().collect()] {
                let mut turns = MarkerQueue::default();
                order.iter().for_each(|at| drop(turns.enter(rank(*at as i64, "m"), weights[*at])));
                let carried: Vec<Rank> = turns.carried().cloned().collect();
                assert_eq!(carried, [rank(0, "m"), rank(1, "m")], "{order:?}: 17 MiB are too many");
            }
        }
        let mut turns = MarkerQueue::default();
        order.sort_unstable();
        order.iter().for_each(|at| drop(turns.enter(rank(*at as i64, "m"), weights[*at])));
        let entered = |second, carried| (rank(second, "m"), carried);
        // The second is smaller now, then the first one goes, and then it is larger than before.
        assert_eq!(turns.enter(rank(1, "m"), 7 << 20), [entered(2, true), entered(3, true)]);
        assert_eq!(turns.leave(&rank(0, "m")), []);
        assert!(turns.has_turn(&rank(3, "m")) && !turns.has_turn(&rank(4, "m")));
        assert_eq!(turns.enter(rank(1, "m"), 6 << 20), [entered(4, true)]);
        assert_eq!(turns.enter(rank(1, "m"), 14 << 20), [entered(3, false), entered(4, false)]);
    }
}
