//! Store of what the cluster shows, which never goes back behind what was written here.
//!
//! A watch is late by nature. Whoever decides on it alone makes a pod twice. So what a write answered goes in
//! at once, and what the watch shows later is taken only if it is newer; a list that was begun before a write
//! takes nothing of that write away. An event that is lost is mended by the next list. Nothing waits for an
//! event, so no lost one can hold anything up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Objects that are remembered to be gone: of ten minutes in which fifty a second go in the whole cluster. No
/// plan takes longer.
const MOST_GONE: usize = 30_000;

/// An object in a store.
pub trait Stored {
    /// Tells it from all others.
    fn uid(&self) -> &str;
    /// Its version, as the API server counts; larger is newer.
    fn version(&self) -> u64;
}

/// Objects by UID. Each lies apart: a third of a map's room is free, and a list fills one that is merged into
/// the other.
#[derive(Clone, Debug)]
pub struct Store<T> {
    objects: BTreeMap<String, Box<T>>,
    /// Written since the list that comes in began: it may be missing there.
    written: BTreeSet<String>,
    /// Ended, and not seen to be gone: they do not come back. With the version up to which that holds: a
    /// newer one shows that what was missing in a list is there.
    ended: BTreeMap<String, u64>,
    /// A list that comes in: what it has shown so far; `None` where that is known as it is.
    listed: Option<BTreeMap<String, Option<Box<T>>>>,
    gone: Gone,
}

/// Objects that the watch has shown to be gone, the last ones: the answer of an earlier write, which comes
/// late, does not bring them back. A UID is never used again.
#[derive(Clone, Debug, Default)]
struct Gone {
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Gone {
    fn insert(&mut self, uid: &str) {
        if self.uids.insert(uid.to_owned()) {
            self.order.push_back(uid.to_owned());
        }
        if self.order.len() > MOST_GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            written: BTreeSet::new(),
            ended: BTreeMap::new(),
            listed: None,
            gone: Gone::default(),
        }
    }
}

impl<T: Stored> Store<T> {
    /// The object of that UID.
    pub fn get(&self, uid: &str) -> Option<&T> {
        self.objects.get(uid).map(|object| &**object)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.objects.values().map(|object| &**object)
    }

    /// Number of all objects.
    pub fn count(&self) -> usize {
        self.objects.len()
    }

    /// A list begins: all objects follow.
    pub fn list_begins(&mut self) {
        self.listed = Some(BTreeMap::new());
        self.written.clear();
    }

    /// The list is complete; what is not in it is gone.
    pub fn list_ends(&mut self) {
        let Some(listed) = self.listed.take() else { return };
        let written = std::mem::take(&mut self.written);
        let (objects, gone) = (&mut self.objects, &mut self.gone);
        objects.retain(|uid, _| {
            let is_there = listed.contains_key(uid) || written.contains(uid);
            if !is_there {
                gone.insert(uid);
            }
            is_there
        });
        self.ended.retain(|uid, _| listed.contains_key(uid));
        for object in listed.into_values().flatten() {
            self.shown(object);
        }
    }

    /// The watch shows an object. False: something newer is known, or it counts at the end of the list.
    pub fn applied(&mut self, object: T) -> bool {
        let known = self.objects.get(object.uid());
        let is_known = known.is_some_and(|known| known.version() >= object.version());
        if let Some(listed) = &mut self.listed {
            // Most are as they were: a list does not take their memory twice.
            listed.insert(object.uid().to_owned(), (!is_known).then(|| Box::new(object)));
            return false;
        }
        self.shown(Box::new(object))
    }

    fn shown(&mut self, object: Box<T>) -> bool {
        // One that did not count may count again.
        self.gone.uids.remove(object.uid());
        self.take(object)
    }

    /// The watch shows that an object is gone.
    pub fn gone(&mut self, uid: &str) -> Option<T> {
        self.ended.remove(uid);
        self.gone.insert(uid);
        if let Some(listed) = &mut self.listed {
            listed.remove(uid);
        }
        self.objects.remove(uid).map(|object| *object)
    }

    /// An object is there, and not kept any more. It counts again when it is shown.
    pub fn forget(&mut self, uid: &str) -> Option<T> {
        let listed = self.listed.as_mut().and_then(|listed| listed.remove(uid)).flatten();
        self.objects.remove(uid).or(listed).map(|object| *object)
    }

    /// Less is kept of an object, if it is known.
    pub fn reduce(&mut self, uid: &str, mut reduce: impl FnMut(T) -> T) {
        if let Some(object) = self.objects.remove(uid) {
            self.objects.insert(uid.to_owned(), Box::new(reduce(*object)));
        }
        if let Some(listed) = self.listed.as_mut().and_then(|listed| listed.get_mut(uid)) {
            *listed = listed.take().map(|object| Box::new(reduce(*object)));
        }
    }

    /// A write was answered with this object.
    pub fn wrote(&mut self, object: T) {
        let uid = object.uid().to_owned();
        let is_news = !self.gone.uids.contains(&uid) && self.take(Box::new(object));
        // A watch may go on for weeks until its next list.
        if is_news && self.listed.is_some() {
            self.written.insert(uid);
        }
    }

    /// A write has ended this object: it is gone, whatever a late watch shows.
    pub fn ended(&mut self, uid: &str) {
        self.ends(uid, u64::MAX);
    }

    /// A list of this version, which was read at once, does not have this object: it is gone, or it was not
    /// asked for. What a late watch shows of an earlier version does not bring it back.
    pub fn missing(&mut self, uid: &str, version: u64) {
        self.ends(uid, version);
    }

    /// Tells whether a list did not have this object, and no write has ended it.
    pub fn is_missing(&self, uid: &str) -> bool {
        self.ended.get(uid).is_some_and(|until| *until != u64::MAX)
    }

    /// The list did not ask for this object: that it did not have it says nothing.
    pub fn may_be_there(&mut self, uid: &str) {
        if self.is_missing(uid) {
            self.ended.remove(uid);
        }
    }

    fn ends(&mut self, uid: &str, version: u64) {
        self.objects.remove(uid);
        // The watch may have been faster.
        if !self.gone.uids.contains(uid) {
            let until = self.ended.entry(uid.to_owned()).or_default();
            *until = version.max(*until);
        }
    }

    fn take(&mut self, object: Box<T>) -> bool {
        let is_old = self.objects.get(object.uid()).is_some_and(|known| known.version() >= object.version());
        let is_ended = self.ended.get(object.uid()).is_some_and(|until| object.version() <= *until);
        if is_old || is_ended {
            return false;
        }
        self.ended.remove(object.uid());
        self.objects.insert(object.uid().to_owned(), object);
        true
    }
}

/// Reads a version; one that is no number is older than all others.
pub fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Object(&'static str, u64);

    impl Stored for Object {
        fn uid(&self) -> &str {
            self.0
        }

        fn version(&self) -> u64 {
            self.1
        }
    }

    fn shown(store: &Store<Object>) -> Vec<(&'static str, u64)> {
        store.iter().map(|object| (object.0, object.1)).collect()
    }

    #[test]
    fn a_late_watch_takes_nothing_back() {
        let mut store = Store::default();
        store.wrote(Object("a", 5));
        assert!(!store.applied(Object("a", 3)));
        assert_eq!(shown(&store), [("a", 5)]);
        store.ended("a");
        assert!(!store.applied(Object("a", 6)));
        assert_eq!(shown(&store), []);
        store.gone("a");
        assert!(store.applied(Object("b", 7)));
    }

    #[test]
    fn a_late_answer_brings_nothing_back() {
        let mut store = Store::default();
        for uid in ["a", "b", "c", "d"] {
            store.applied(Object(uid, 1));
        }
        // Deleted by a plan that goes on for a while; the watch is faster.
        store.gone("a");
        store.wrote(Object("a", 2));
        store.gone("b");
        store.ended("b");
        assert!(store.ended.is_empty(), "nobody will say again that it is gone");
        store.list_begins();
        store.applied(Object("d", 1));
        store.list_ends();
        store.wrote(Object("c", 2));
        assert_eq!(shown(&store), [("d", 1)]);
        // A pod that another owner had for a while.
        assert!(store.applied(Object("c", 3)));
        store.wrote(Object("c", 4));
        assert_eq!(shown(&store), [("c", 4), ("d", 1)]);
    }

    #[test]
    fn what_a_list_did_not_have_comes_back_with_a_newer_version() {
        // Missing in a list of version 5; ended by a write too; then shown at that version.
        let table = [(false, 5, false), (false, 6, true), (true, 6, false)];
        for (is_ended, version, comes_back) in table {
            for in_a_list in [false, true] {
                let mut store = Store::default();
                store.applied(Object("a", 3));
                if is_ended {
                    store.ended("a");
                }
                store.missing("a", 5);
                assert_eq!(shown(&store), []);
                if in_a_list {
                    store.list_begins();
                }
                store.applied(Object("a", version));
                store.list_ends();
                assert_eq!(!shown(&store).is_empty(), comes_back, "{is_ended} {version} {in_a_list}");
            }
        }
    }

    /// A list of all objects does not take their memory twice.
    #[test]
    fn what_is_known_as_a_list_shows_it_is_not_held_twice() {
        let mut store = Store::default();
        for uid in ["changed", "gone", "newer", "same"] {
            store.applied(Object(uid, 5));
        }
        store.list_begins();
        store.applied(Object("changed", 6));
        store.applied(Object("newer", 4));
        store.applied(Object("same", 5));
        let listed = store.listed.iter().flatten().filter(|(_, object)| object.is_some());
        assert_eq!(listed.map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["changed"]);
        store.list_ends();
        assert_eq!(shown(&store), [("changed", 6), ("newer", 5), ("same", 5)]);
        // One that a write ends meanwhile does not come back.
        store.list_begins();
        store.applied(Object("same", 5));
        store.ended("same");
        store.list_ends();
        assert_eq!(shown(&store), []);
    }

    #[test]
    fn what_is_forgotten_or_reduced_is_so_in_a_list_that_comes_in() {
        for in_a_list in [false, true] {
            let mut store = Store::default();
            if in_a_list {
                store.list_begins();
            }
            for uid in ["forgotten", "other", "reduced"] {
                store.applied(Object(uid, 5));
            }
            assert_eq!(store.forget("forgotten"), Some(Object("forgotten", 5)));
            assert_eq!(store.forget("forgotten"), None);
            store.reduce("reduced", |object| Object(object.0, 0));
            store.reduce("unknown", |object| Object(object.0, 0));
            store.list_ends();
            assert_eq!(shown(&store), [("other", 5), ("reduced", 0)], "{in_a_list}");
            // It is there: nothing has said that it is gone.
            store.wrote(Object("forgotten", 6));
            assert!(store.applied(Object("reduced", 5)));
            assert_eq!(shown(&store), [("forgotten", 6), ("other", 5), ("reduced", 5)]);
            // A list of what is known takes none of it away, though less is kept of it meanwhile.
            store.list_begins();
            for uid in ["forgotten", "other", "reduced"] {
                store.applied(Object(uid, 5));
            }
            store.reduce("reduced", |object| Object(object.0, 0));
            store.list_ends();
            assert_eq!(shown(&store), [("forgotten", 6), ("other", 5), ("reduced", 0)]);
        }
    }

    #[test]
    fn few_are_remembered() {
        let mut store = Store::<Object>::default();
        for number in 0..3 * MOST_GONE {
            store.gone(&number.to_string());
        }
        assert_eq!((store.gone.uids.len(), store.gone.order.len()), (MOST_GONE, MOST_GONE));
    }

    /// Many are made and gone between two lists.
    #[test]
    fn what_is_written_is_remembered_for_a_list_that_comes_in_alone() {
        let mut store = Store::default();
        store.wrote(Object("before", 1));
        assert!(store.written.is_empty());
        store.list_begins();
        store.wrote(Object("during", 2));
        assert_eq!(store.written.len(), 1);
        store.list_ends();
        assert!(store.written.is_empty());
    }

    #[test]
    fn a_list_that_was_begun_before_a_write_takes_nothing_of_it_away() {
        let mut store = Store::default();
        store.applied(Object("old", 1));
        store.wrote(Object("before", 2));
        store.list_begins();
        store.applied(Object("x", 3));
        store.wrote(Object("during", 4));
        store.ended("x");
        store.list_ends();
        assert_eq!(shown(&store), [("during", 4)]);
        store.list_begins();
        store.list_ends();
        assert_eq!(shown(&store), []);
    }
}
