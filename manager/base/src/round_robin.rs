//! Queues of namespaces that take turns: thousands of things of one tenant hold up another one no longer than
//! one does. Pure.
//!
//! The first that came of a namespace is the first that goes. Bounds, places and what supersedes what are
//! rules of those who use it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// Things that wait, by namespace.
#[derive(Debug)]
pub struct RoundRobin<T> {
    /// Queue of each namespace of which something waits.
    lanes: HashMap<Arc<str>, VecDeque<T>>,
    /// These namespaces; the first one is next.
    turns: VecDeque<Arc<str>>,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> RoundRobin<T> {
    /// Adds a thing behind those of its namespace.
    pub fn push(&mut self, namespace: Arc<str>, thing: T) {
        let lane = self.lanes.entry(namespace.clone()).or_default();
        if lane.is_empty() {
            self.turns.push_back(namespace);
        }
        lane.push_back(thing);
    }

    /// Takes the next one out, of a namespace that may have its turn now.
    pub fn take(&mut self, may_go: impl Fn(&str) -> bool) -> Option<T> {
        let first = self.turns.iter().position(|namespace| may_go(namespace))?;
        self.turns.rotate_left(first);
        let namespace = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&namespace)?;
        let next = lane.pop_front();
        if lane.is_empty() {
            self.lanes.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        next
    }

    /// Takes out all of a namespace.
    pub fn remove(&mut self, namespace: &str) -> VecDeque<T> {
        let all = self.lanes.remove(namespace);
        if all.is_some() {
            self.turns.retain(|one| **one != *namespace);
        }
        all.unwrap_or_default()
    }

    /// Number of those that wait of a namespace.
    pub fn count_of(&self, namespace: &str) -> usize {
        self.lanes.get(namespace).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        // Namespaces of what comes, those that may go, and what is taken.
        let table: &[(&[&str], &str, &[usize])] = &[
            (&[], "abc", &[]),
            (&["a", "a", "a"], "abc", &[0, 1, 2]),
            (&["a", "a", "a", "b", "c", "b"], "abc", &[0, 3, 4, 1, 5, 2]),
            (&["a", "b", "a", "c", "b"], "bc", &[1, 3, 4]),
            (&["a", "a"], "b", &[]),
        ];
        for (all, may_go, order) in table {
            let mut queue = RoundRobin::default();
            for (number, namespace) in all.iter().enumerate() {
                queue.push((*namespace).into(), number);
            }
            let taken: Vec<usize> = std::iter::from_fn(|| queue.take(|one| may_go.contains(one))).collect();
            assert_eq!(taken, *order, "{all:?}, {may_go}");
            let left: usize = ["a", "b", "c"].iter().map(|namespace| queue.count_of(namespace)).sum();
            assert_eq!(left, all.len() - taken.len(), "{all:?}, {may_go}");
            while queue.take(|_| true).is_some() {}
            assert!(queue.lanes.is_empty() && queue.turns.is_empty(), "nothing is kept of what is over");
        }
    }
}
