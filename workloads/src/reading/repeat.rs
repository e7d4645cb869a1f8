//! Namespaces that are read again, since nobody knows what was written for objects of theirs.
//!
//! After an answer that did not come an object is read before it is planned, and each such list is as much
//! work for the API server as the namespace is large. Where it fails on many writes, each of ten thousand
//! objects would list them all. So of a namespace the first few of a minute are read each by itself, and all
//! others wait for one reading of the namespace, which says what there is of each of them. The readings of a
//! namespace have pauses between them, longer ones while they fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_base::time::later;

use super::{MOST_APART, MOST_AT_ONCE, MOST_COUNTED};
use crate::timing::Backoff;

/// Time in which the objects that are read each by itself are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Time from the first object that waits for a reading to its begin: where one write fails, more do.
const GATHER: Duration = Duration::from_secs(1);
/// The shortest time from one reading of a namespace to the next one.
const AGAIN: Duration = Duration::from_secs(5);

/// Namespaces that are read again.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    counts: BTreeMap<String, Count>,
    /// Namespaces that are to be read, and when.
    wanted: BTreeMap<String, Instant>,
    /// Namespaces that are read now.
    on_its_way: BTreeSet<String>,
}

/// Readings of a namespace, and of its objects each by itself.
#[derive(Debug)]
struct Count {
    apart: usize,
    /// Time from which these are counted.
    since: Instant,
    /// Time of its next reading at the earliest.
    earliest: Instant,
    backoff: Backoff,
}

impl Repeats {
    /// Tells whether an object of the namespace is read by itself now. If not, the namespace is to be read.
    pub(super) fn reads_apart(&mut self, namespace: &str, now: Instant) -> bool {
        if self.wanted.contains_key(namespace) {
            return false;
        }
        // They may be gone by now.
        if self.counts.len() >= MOST_COUNTED && !self.counts.contains_key(namespace) {
            self.counts.clear();
        }
        let count = self.counts.entry(namespace.to_owned()).or_insert_with(|| Count::new(now));
        if now.saturating_duration_since(count.since) >= WINDOW {
            (count.apart, count.since) = (0, now);
        }
        if count.apart < MOST_APART {
            count.apart = count.apart.saturating_add(1);
            return true;
        }
        self.wanted.insert(namespace.to_owned(), later(now, GATHER).max(count.earliest));
        false
    }

    /// Time of the next reading.
    pub(super) fn next(&self) -> Option<Instant> {
        self.wanted.values().min().copied()
    }

    /// Namespaces that are to be read now, of all that have objects: some of those that are due, the ones
    /// first that have been for longest. Nobody waits for the end of all of them.
    pub(super) fn due(&mut self, all: &BTreeSet<String>, now: Instant) -> BTreeSet<String> {
        self.wanted.retain(|namespace, _| all.contains(namespace));
        let due = self.wanted.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<(Instant, &String)> = due.map(|(namespace, at)| (*at, namespace)).collect();
        due.sort_unstable();
        due.into_iter().take(MOST_AT_ONCE).map(|(_, namespace)| namespace.clone()).collect()
    }

    /// A reading of these namespaces begins.
    pub(super) fn begin(&mut self, namespaces: &BTreeSet<String>) {
        let wanted = namespaces.iter().filter(|namespace| self.wanted.remove(*namespace).is_some());
        self.on_its_way = wanted.cloned().collect();
    }

    /// The reading has ended: of its namespaces these were read, and the others are read again.
    pub(super) fn end(&mut self, read: &BTreeSet<String>, now: Instant) {
        for namespace in std::mem::take(&mut self.on_its_way) {
            let count = self.counts.entry(namespace.clone()).or_insert_with(|| Count::new(now));
            let is_read = read.contains(&namespace);
            let pause = count.backoff.ends(is_read);
            count.earliest = later(now, if is_read { pause.max(AGAIN) } else { pause });
            if !is_read {
                self.wanted.insert(namespace, count.earliest);
            } else if let Some(at) = self.wanted.get_mut(&namespace) {
                *at = count.earliest.max(*at);
            }
        }
    }
}

impl Count {
    fn new(now: Instant) -> Self {
        Self { apart: 0, since: now, earliest: now, backoff: Backoff::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::names, *};

    fn after(now: Instant, seconds: f64) -> Instant {
        later(now, Duration::from_secs_f64(seconds))
    }

    /// Thousands of objects wait for each namespace's reading, and again after it: readings are counted, not
    /// objects.
    #[test]
    fn many_objects_of_a_namespace_wait_for_one_reading() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let (mut apart, mut readings) = (0, 0);
        for tenth in 0..600_u32 {
            let now = after(start, f64::from(tenth) / 10.0);
            apart += (0..1000).filter(|_| repeats.reads_apart("crowd", now)).count();
            let due = repeats.due(&names(&["crowd", "other"]), now);
            if !due.is_empty() {
                repeats.begin(&due);
                repeats.end(&due, now);
                readings += 1;
            }
        }
        assert_eq!(apart, MOST_APART);
        assert!((10..=12).contains(&readings), "{readings}");
        assert!(repeats.reads_apart("other", start), "it is no matter of another namespace");
    }

    /// Rows: seconds after the first time, and how many of fifty objects are read each by itself then.
    #[test]
    fn few_are_read_each_by_itself() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        for (second, count) in [(0.0, MOST_APART), (59.0, 0), (60.0, 0)] {
            let now = after(start, second);
            assert_eq!((0..50).filter(|_| repeats.reads_apart("ns", now)).count(), count, "at {second} s");
        }
        let now = after(start, 61.0);
        assert_eq!(repeats.next(), Some(after(start, 1.0)), "it is asked for once");
        let due = repeats.due(&names(&["ns"]), now);
        repeats.begin(&due);
        assert!(repeats.reads_apart("ns", now), "nobody waits any more, and the minute is over");
        repeats.end(&due, now);
        assert_eq!(repeats.next(), None);
    }

    /// A reading does not tell of what becomes unknown while it goes on.
    #[test]
    fn who_comes_during_a_reading_waits_for_the_next_one() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let ask = |repeats: &mut Repeats| (0..50).filter(|_| repeats.reads_apart("ns", start)).count();
        ask(&mut repeats);
        let now = after(start, 1.0);
        let due = repeats.due(&names(&["ns"]), now);
        repeats.begin(&due);
        assert_eq!((repeats.next(), ask(&mut repeats)), (None, 0));
        repeats.end(&due, now);
        assert_eq!(repeats.next(), Some(later(now, AGAIN)));
    }

    #[test]
    fn a_namespace_that_cannot_be_read_is_read_less_and_less_often() {
        let (mut repeats, mut now) = (Repeats::default(), Instant::now());
        for _ in 0..=MOST_APART {
            repeats.reads_apart("ns", now);
        }
        let mut pauses = Vec::new();
        for _ in 0..9 {
            now = repeats.next().unwrap();
            let due = repeats.due(&names(&["ns"]), now);
            assert_eq!(due, names(&["ns"]));
            repeats.begin(&due);
            repeats.end(&names(&[]), now);
            pauses.push(repeats.next().unwrap().duration_since(now));
        }
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60), "{pauses:?}");
        // Its last object has gone.
        assert_eq!((repeats.due(&names(&["other"]), now), repeats.next()), (names(&[]), None));
    }

    #[test]
    fn many_namespaces_are_read_again_some_at_a_time() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let mut all: BTreeSet<String> = (0..MOST_AT_ONCE).map(|number| format!("ns-{number:03}")).collect();
        let ask = |repeats: &mut Repeats, namespace: &str, second| {
            assert!((0..=MOST_APART).any(|_| !repeats.reads_apart(namespace, after(start, second))));
        };
        ask(&mut repeats, "waits for longest", 0.0);
        all.iter().for_each(|namespace| ask(&mut repeats, namespace, 0.5));
        all.insert("waits for longest".to_owned());
        let now = after(start, 2.0);
        let due = repeats.due(&all, now);
        assert_eq!((due.len(), due.contains("waits for longest")), (MOST_AT_ONCE, true));
        repeats.begin(&due);
        repeats.end(&due, now);
        assert!(repeats.next().is_some_and(|next| next <= now), "one is left");
        assert_eq!(repeats.due(&all, now), &all - &due);
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..3 * MOST_COUNTED {
            repeats.reads_apart(&number.to_string(), now);
        }
        assert!(repeats.counts.len() <= MOST_COUNTED);
    }
}
