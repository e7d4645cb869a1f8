//! Steps that wait, and whose turn it is. Pure.
//!
//! Namespaces take turns, and none has more than half of the places: ten thousand objects of one tenant hold
//! up another one no longer than a request takes. Of steps about one object that are superseded by newer ones
//! only the newest waits, in the place of the first: an index decides anew what has waited for too long, and
//! what waits is bounded by the objects that there are.

use std::{collections::HashMap, sync::Arc};

use berth_base::round_robin::RoundRobin;

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
pub(super) struct StepQueue<S> {
    places: RoundRobin<Place<S>>,
    /// Steps that give way to newer ones, by their objects.
    newest: HashMap<Key, S>,
    /// Steps on their way, by namespace.
    on_their_way: HashMap<Arc<str>, usize>,
}

/// A place in the queue.
#[derive(Debug)]
enum Place<S> {
    /// This step's alone.
    One(S),
    /// The newest step's about this object.
    Newest(Key),
}

impl<S> Default for StepQueue<S> {
    fn default() -> Self {
        Self { places: RoundRobin::default(), newest: HashMap::new(), on_their_way: HashMap::new() }
    }
}

impl<S: Queued> StepQueue<S> {
    pub(super) fn push(&mut self, step: S) {
        let namespace = step.namespace().clone();
        let place = match step.object().cloned() {
            None => Place::One(step),
            Some(key) => match self.newest.insert(key.clone(), step) {
                None => Place::Newest(key),
                // It has a place.
                Some(_older) => return,
            },
        };
        self.places.push(namespace, place);
    }

    /// The next one to carry out. [`StepQueue::done`] says when that is over.
    pub(super) fn next(&mut self) -> Option<S> {
        let of = |namespace: &str| self.on_their_way.get(namespace).copied().unwrap_or_default();
        let step = match self.places.take(|namespace| of(namespace) < OF_A_NAMESPACE)? {
            Place::One(step) => step,
            Place::Newest(key) => self.newest.remove(&key)?,
        };
        let own = self.on_their_way.entry(step.namespace().clone()).or_default();
        *own = own.saturating_add(1);
        Some(step)
    }

    /// One of this namespace is over.
    pub(super) fn done(&mut self, namespace: &str) {
        let Some(own) = self.on_their_way.get_mut(namespace) else { return };
        *own = own.saturating_sub(1);
        if *own == 0 {
            self.on_their_way.remove(namespace);
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

    fn turns(steps: &[Given<'_>]) -> StepQueue<Test> {
        let mut turns = StepQueue::default();
        for (number, (namespace, name, gives_way)) in (0..).zip(steps) {
            let key = Key { namespace: (*namespace).into(), name: (*name).into() };
            turns.push(Test(key, *gives_way, number));
        }
        turns
    }

    /// Numbers of all that come out, each of which is over at once.
    fn order(mut turns: StepQueue<Test>) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(Test(key, _, number)) = turns.next() {
            turns.done(&key.namespace);
            all.push(number);
        }
        assert!(turns.newest.is_empty() && turns.on_their_way.is_empty(), "nothing is kept of what is over");
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
