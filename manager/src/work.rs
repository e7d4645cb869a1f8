//! Work of an index whose objects have one status each, written by the leader: which of them to look at and
//! when, which belong to a namespace, and which write is not answered yet.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    store::{Key, Kind, Now, Views},
    time::later,
    timers::Timers,
};

/// Time to wait for the effect of a write, which is seen in the next version of its object.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// It doubles so often when nothing comes of the writes, to some two minutes.
const MOST_DOUBLINGS: u32 = 6;
/// Objects that are looked at in one call.
const MOST_AT_ONCE: usize = 64;
/// Pause before a fact that could not be read is asked for again, and so much longer each time.
pub(crate) const AGAIN: Duration = Duration::from_secs(5);
/// It grows so often, to a minute.
const MOST_TIMES_LONGER: u32 = 12;
/// Counts of workloads may change without an event of a pod: an object is looked at again after it, or up to
/// a minute later.
const LOOKED_EVERY: Duration = Duration::from_secs(300);
/// Objects that are looked at after the same time are spread over so many seconds.
const SPREAD_SECONDS: u64 = 60;
/// A leader that has just begun may see pods later than the one before it did.
const SETTLED: Duration = Duration::from_secs(2);

/// Work queue of objects to look at, at once or at a time.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    timers: Timers<Key>,
    /// Objects to look at before the call returns.
    touched: BTreeSet<Key>,
}

impl WorkQueue {
    pub(crate) fn touch(&mut self, key: Key) {
        self.touched.insert(key);
    }

    pub(crate) fn touch_all<'a>(&mut self, keys: impl IntoIterator<Item = &'a Key>) {
        self.touched.extend(keys.into_iter().cloned());
    }

    /// Sets when to look at an object again although nothing happens.
    pub(crate) fn again(&mut self, key: Key, at: Option<Instant>) {
        self.timers.set(key, at);
    }

    /// Takes an object out that is not there any more.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.timers.set(key.clone(), None);
        self.touched.remove(key);
    }

    /// Takes out what was touched, and that whose time has come; of many those that wait longest. The others
    /// are due at once, and what has happened meanwhile is not held up by all of them.
    pub(crate) fn due(&mut self, now: Instant) -> BTreeSet<Key> {
        self.put_off(now);
        let mut due = BTreeSet::new();
        while due.len() < MOST_AT_ONCE
            && let Some(key) = self.timers.due(now)
        {
            due.insert(key);
        }
        due
    }

    /// Leaves what was touched to the next call of [`WorkQueue::due`], which shows the pods as they are then.
    pub(crate) fn put_off(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.touched) {
            self.timers.set_sooner(key, now);
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.timers.next()
    }
}

/// Names of the objects of each namespace.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<Arc<str>, BTreeSet<Arc<str>>>);

impl Names {
    pub(crate) fn insert(&mut self, key: &Key) {
        self.0.entry(key.namespace.clone()).or_default().insert(key.name.clone());
    }

    /// Takes a name out, and says whether it was the last of its namespace.
    pub(crate) fn remove(&mut self, key: &Key) -> bool {
        let Some(names) = self.0.get_mut(&key.namespace) else { return false };
        names.remove(&key.name);
        let is_last = names.is_empty();
        if is_last {
            self.0.remove(&key.namespace);
        }
        is_last
    }

    /// The name as it is kept, where the namespace has it.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<str>> {
        self.0.get(namespace).and_then(|names| names.get(name))
    }
}

/// Newest write to an object. Until another version is seen, or the time for that is over, nothing is decided
/// on the old one.
#[derive(Debug, Default)]
pub(crate) struct Sent(Option<Newest>);

#[derive(Debug)]
struct Newest {
    /// The version that it was decided on.
    version: Box<str>,
    /// The end of the wait for its effect.
    until: Instant,
    /// How many writes that were decided on this version had none before it.
    lost: u32,
}

impl Sent {
    /// Notes a write, and says when its effect is late. One that is lost again and again, as where the API
    /// server refuses it, is tried less and less often.
    pub(crate) fn now(&mut self, version: &str, now: Instant) -> Instant {
        let before = self.0.take().filter(|before| *before.version == *version);
        let lost = before.map_or(0, |before| before.lost.saturating_add(1));
        let until = later(now, ANSWERED_WITHIN.saturating_mul(1 << lost.min(MOST_DOUBLINGS)));
        self.0 = Some(Newest { version: version.into(), until, lost });
        until
    }

    /// Says until when the effect is waited for.
    pub(crate) fn waits(&self, version: &str, now: Instant) -> Option<Instant> {
        let newest = self.0.as_ref().filter(|newest| *newest.version == *version)?;
        (now < newest.until).then_some(newest.until)
    }
}

/// Time after which a fact is asked for again that could not be read so often in a row.
pub(crate) fn asked_after(failures: u32) -> Duration {
    AGAIN.saturating_mul(failures.min(MOST_TIMES_LONGER))
}

/// Time after which an object is looked at again of which nothing is heard: [`LOOKED_EVERY`] and up to a
/// minute more, by its name. Those that were looked at together, as when a leader begins, are not for ever.
pub(crate) fn looked_after(key: &Key) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    LOOKED_EVERY.saturating_add(Duration::from_secs(hasher.finish() % SPREAD_SECONDS))
}

/// Time up to which pods may be there that are not seen: since `leads`, or because a watch broke.
pub(crate) fn pods_unseen_until(views: &Views, leads: Instant, now: Now) -> Option<Instant> {
    let settles = later(leads, SETTLED);
    let doubt = views.doubt(Kind::Pod, now.instant);
    doubt.into_iter().chain([settles]).filter(|until| *until > now.instant).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "shop".into(), name: name.into() }
    }

    #[test]
    fn what_was_touched_is_due_once() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.touch(key("a"));
        queue.touch(key("a"));
        queue.touch(key("gone"));
        queue.forget(&key("gone"));
        assert_eq!(queue.due(now), BTreeSet::from([key("a")]));
        assert_eq!(queue.due(now), BTreeSet::new());
    }

    #[test]
    fn what_is_put_off_is_due_at_the_next_call() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        queue.touch(key("a"));
        queue.again(key("b"), Some(later(now, Duration::from_secs(1))));
        queue.put_off(now);
        assert_eq!(queue.next(), Some(now));
        assert_eq!(queue.due(now), BTreeSet::from([key("a")]));
        assert_eq!(queue.due(later(now, Duration::from_secs(1))), BTreeSet::from([key("b")]));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn many_take_turns() {
        let now = Instant::now();
        let mut queue = WorkQueue::default();
        for at in 0..2 * MOST_AT_ONCE {
            queue.again(key(&format!("old{at}")), Some(now));
        }
        let later = later(now, Duration::from_secs(1));
        for at in 0..MOST_AT_ONCE {
            queue.touch(key(&format!("new{at}")));
        }
        queue.touch(key("old1"));
        let of =
            |due: &BTreeSet<Key>, what: &str| due.iter().filter(|key| key.name.starts_with(what)).count();
        for _ in 0..2 {
            assert_eq!(of(&queue.due(later), "old"), MOST_AT_ONCE, "those that wait longest");
            assert!(queue.next().is_some_and(|at| at <= later));
        }
        assert_eq!(of(&queue.due(later), "new"), MOST_AT_ONCE);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn the_last_name_ends_its_namespace() {
        let mut names = Names::default();
        names.insert(&key("a"));
        names.insert(&key("b"));
        assert!(!names.remove(&key("a")));
        assert!(!names.remove(&key("a")), "one that is not there is not the last");
        assert_eq!(names.get("shop", "b"), Some(&"b".into()));
        assert!(names.remove(&key("b")));
        assert!(names.0.is_empty());
    }

    #[test]
    fn a_write_is_waited_for_until_another_version_is_seen() {
        let begin = Instant::now();
        let mut sent = Sent::default();
        assert_eq!(sent.waits("7", begin), None);
        let mut now = begin;
        for seconds in [2, 4, 8, 16, 32, 64, 128, 128] {
            let until = sent.now("7", now);
            assert_eq!(until, later(now, Duration::from_secs(seconds)), "each lost one is tried later");
            assert_eq!(sent.waits("7", now), Some(until));
            assert_eq!(sent.waits("7", until), None, "it is given up");
            assert_eq!(sent.waits("8", now), None, "it was answered");
            now = until;
        }
        assert_eq!(sent.now("8", now), later(now, ANSWERED_WITHIN), "another version begins anew");
    }
}
