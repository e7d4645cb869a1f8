//! Steps that wait, and whose turn it is. Pure.
//!
//! Namespaces take turns, and none has more than half of the places: ten thousand objects of one tenant hold
//! up another one no longer than a request takes. Of steps about one object that are superseded by newer ones
//! only the newest waits, in the place of the first: an index decides anew what has waited for too long, and
//! what waits is bounded by the objects that there are.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use super::AT_ONCE;
use crate::store::Key;

/// Steps of one namespace that are on their way at once, half of all: another one's finds a place at once.
const OF_A_NAMESPACE: usize = AT_ONCE / 2;

/// A step that waits for its turn.
pub(crate) trait Queued {
    /// Namespace of what it is about.
    fn namespace(&self) -> &Arc<str>;

    /// Object of that namespace whose newest step it is: an older one that waits gives way to it.
    fn object(&self) -> Option<&Key> {
        None
    }
}

/// Steps that wait, by namespace.
#[derive(Debug)]
pub(super) struct RoundRobin<S> {
    lanes: HashMap<Arc<str>, Lane<S>>,
    /// Namespaces with a step that waits; the first one is next.
    turns: VecDeque<Arc<str>>,
    /// Number of the next step.
    number: u64,
}

#[derive(Debug)]
struct Lane<S> {
    /// By number, in the order in which they came.
    waiting: BTreeMap<u64, S>,
    /// Numbers of those that give way to a newer one, by the names of their objects.
    newest: HashMap<Arc<str>, u64>,
    on_their_way: usize,
}

impl<S> Default for RoundRobin<S> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), number: 0 }
    }
}

impl<S> Default for Lane<S> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), newest: HashMap::new(), on_their_way: 0 }
    }
}

impl<S: Queued> RoundRobin<S> {
    pub(super) fn push(&mut self, step: S) {
        let namespace = step.namespace().clone();
        let lane = self.lanes.entry(namespace.clone()).or_default();
        if lane.waiting.is_empty() {
            self.turns.push_back(namespace);
        }
        self.number = self.number.wrapping_add(1);
        let number = match step.object() {
            Some(key) => *lane.newest.entry(key.name.clone()).or_insert(self.number),
            None => self.number,
        };
        lane.waiting.insert(number, step);
    }

    /// The next one to carry out. [`RoundRobin::done`] says when that is over.
    pub(super) fn next(&mut self) -> Option<S> {
        for _ in 0..self.turns.len() {
            let namespace = self.turns.pop_front()?;
            let lane = self.lanes.get_mut(&namespace)?;
            let next = if lane.on_their_way < OF_A_NAMESPACE { lane.waiting.pop_first() } else { None };
            if !lane.waiting.is_empty() {
                self.turns.push_back(namespace);
            }
            if let Some((_, step)) = next {
                if let Some(key) = step.object() {
                    lane.newest.remove(&key.name);
                }
                lane.on_their_way = lane.on_their_way.saturating_add(1);
                return Some(step);
            }
        }
        None
    }

    /// One of this namespace is over.
    pub(super) fn done(&mut self, namespace: &str) {
        let Some(lane) = self.lanes.get_mut(namespace) else { return };
        lane.on_their_way = lane.on_their_way.saturating_sub(1);
        if lane.on_their_way == 0 && lane.waiting.is_empty() {
            self.lanes.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Namespace and name of an object, and whether a step about it gives way.
    type Given<'a> = (&'a str, &'a str, bool);

    /// The step, with its number.
    #[derive(Debug)]
    struct Test(Key, bool, u32);

    impl Queued for Test {
        fn namespace(&self) -> &Arc<str> {
            &self.0.namespace
        }

        fn object(&self) -> Option<&Key> {
            self.1.then_some(&self.0)
        }
    }

    fn turns(steps: &[Given<'_>]) -> RoundRobin<Test> {
        let mut turns = RoundRobin::default();
        for (number, (namespace, name, gives_way)) in (0..).zip(steps) {
            let key = Key { namespace: (*namespace).into(), name: (*name).into() };
            turns.push(Test(key, *gives_way, number));
        }
        turns
    }

    /// Numbers of all that come out, each of which is over at once.
    fn order(mut turns: RoundRobin<Test>) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(Test(key, _, number)) = turns.next() {
            turns.done(&key.namespace);
            all.push(number);
        }
        assert!(turns.lanes.is_empty() && turns.turns.is_empty(), "nothing is kept of what is over");
        all
    }

    #[test]
    fn namespaces_take_turns_and_the_newest_step_of_an_object_waits() {
        let table: &[(&[Given<'_>], &[u32])] = &[
            (&[("a", "x", true), ("a", "y", true), ("a", "z", true)], &[0, 1, 2]),
            (&[("a", "x", true), ("a", "y", true), ("b", "x", true), ("c", "x", true)], &[0, 2, 3, 1]),
            // In the place of the first.
            (&[("a", "x", true), ("a", "y", true), ("a", "x", true)], &[2, 1]),
            // Of another namespace.
            (&[("a", "x", true), ("b", "x", true)], &[0, 1]),
            // News are all told.
            (&[("a", "x", false), ("a", "x", true), ("a", "x", false), ("a", "x", true)], &[0, 3, 2]),
        ];
        for (steps, out) in table {
            assert_eq!(order(turns(steps)), *out, "{steps:?}");
        }
    }

    #[test]
    fn one_namespace_has_half_of_the_places() {
        let mut steps: Vec<Given<'_>> = vec![("crowd", "x", false); 10 * AT_ONCE];
        steps.push(("shop", "x", false));
        let mut turns = turns(&steps);
        let mut out = Vec::new();
        while let Some(Test(key, ..)) = turns.next() {
            out.push(key.namespace);
        }
        let of = |out: &[Arc<str>], namespace: &str| out.iter().filter(|one| &***one == namespace).count();
        assert_eq!((of(&out, "crowd"), of(&out, "shop")), (OF_A_NAMESPACE, 1));
        turns.done("crowd");
        assert_eq!(turns.next().map(|step| step.2), Some(u32::try_from(OF_A_NAMESPACE).unwrap()));
        assert!(turns.next().is_none());
    }

    #[test]
    fn what_comes_while_one_is_on_its_way_waits_behind_it() {
        let mut turns = turns(&[("a", "x", true)]);
        let first = turns.next().unwrap();
        turns.push(Test(first.0.clone(), true, 7));
        turns.done("a");
        assert_eq!(order(turns), [7]);
    }
}
