//! Memory of an object between its plans; lost with the program, and never needed for what is decided.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::action::Note;

/// The status of an object is written at most once in it, but for decisions.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Time from a plan's end to the next one: what it wrote is often followed by more.
const SPACING: Duration = Duration::from_millis(10);
/// Pauses after failures in a row; the last one is repeated.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// The same is told again after it.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Things that were told and are remembered.
const MOST_TOLD: usize = 16;

/// Memory of one object.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tries: usize,
    status_at: Option<Instant>,
    /// Term in which its objects were read.
    pub(super) read_in: Option<u64>,
    told: BTreeMap<String, Instant>,
    /// Name of an object that the API server has refused to make.
    pub(super) refused: Option<String>,
    /// Version of the object whose plan ended in a panic.
    aside: Option<String>,
}

/// Objects that are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// When an object is looked at, by UID.
    due: BTreeMap<String, Instant>,
    pub(super) in_flight: BTreeSet<String>,
}

impl Memory {
    /// Takes in how a plan ended: the pause until the next one.
    pub(super) fn ends(&mut self, well: bool) -> Duration {
        if well {
            self.tries = 0;
            return SPACING;
        }
        let pause = PAUSES[self.tries.min(PAUSES.len() - 1)];
        self.tries = self.tries.saturating_add(1);
        pause
    }

    /// Sets the object aside in this version of it.
    pub(super) fn set_aside(&mut self, version: &str) {
        self.aside = Some(version.to_owned());
    }

    /// Tells whether the object is set aside in this version of it; in another one it is not any more.
    pub(super) fn is_aside(&mut self, version: Option<&str>) -> bool {
        if self.aside.as_deref() != version {
            self.aside = None;
        }
        self.aside.is_some()
    }

    /// Time from which a status that is no decision may be written; `None`: now.
    pub(super) fn status_waits(&self, now: Instant) -> Option<Instant> {
        self.status_at.map(|at| later(at, STATUS_EVERY)).filter(|at| *at > now)
    }

    pub(super) fn status_written(&mut self, now: Instant) {
        self.status_at = Some(now);
    }

    /// Tells whether something is to be told: it was not a moment ago.
    pub(super) fn is_news(&mut self, now: Instant, note: &Note) -> bool {
        self.told.retain(|_, at| now.saturating_duration_since(*at) < TELL_AGAIN);
        let text = format!("{} {}", note.reason, note.text);
        if self.told.len() >= MOST_TOLD || self.told.contains_key(&text) {
            return false;
        }
        self.told.insert(text, now);
        true
    }
}

impl Agenda {
    /// The object is looked at then, or sooner.
    pub(super) fn add(&mut self, uid: String, at: Instant) {
        let due = self.due.entry(uid).or_insert(at);
        *due = (*due).min(at);
    }

    /// Takes objects that are due, up to so many in flight.
    pub(super) fn take(&mut self, now: Instant, most: usize) -> Vec<String> {
        let due = self.due.iter().filter(|(uid, at)| **at <= now && !self.in_flight.contains(*uid));
        let due: Vec<String> =
            due.map(|(uid, _)| uid.clone()).take(most.saturating_sub(self.in_flight.len())).collect();
        due.iter().for_each(|uid| {
            self.due.remove(uid);
        });
        due
    }

    /// The next time at which one is due.
    pub(super) fn next(&self, most: usize) -> Option<Instant> {
        if self.in_flight.len() >= most {
            return None;
        }
        self.due.iter().filter(|(uid, _)| !self.in_flight.contains(*uid)).map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_tried_less_and_less() {
        let mut memory = Memory::default();
        let pauses: Vec<_> = (0..9).map(|_| memory.ends(false)).collect();
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60));
        assert_eq!((memory.ends(true), memory.ends(false)), (SPACING, PAUSES[0]));
    }

    #[test]
    fn each_thing_is_told_once_a_minute_and_not_too_many() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let note = |text: &str| Note { warning: true, reason: "Reason", text: text.to_owned() };
        let told: Vec<bool> = [(0, "a"), (1, "b"), (2, "a"), (59, "b"), (61, "a")]
            .map(|(seconds, text)| memory.is_news(at(seconds), &note(text)))
            .to_vec();
        assert_eq!(told, [true, true, false, false, true]);
        let many = (0..100).filter(|number| memory.is_news(at(62), &note(&number.to_string()))).count();
        assert!(many < MOST_TOLD);
    }

    #[test]
    fn an_object_is_set_aside_until_it_changes() {
        let mut memory = Memory::default();
        assert!(!memory.is_aside(Some("1")) && !memory.is_aside(None));
        memory.set_aside("1");
        assert!(memory.is_aside(Some("1")) && memory.is_aside(Some("1")));
        assert!(!memory.is_aside(Some("2")) && !memory.is_aside(Some("1")));
    }

    #[test]
    fn an_object_in_flight_waits() {
        let (mut agenda, now) = (Agenda::default(), Instant::now());
        agenda.add("a".to_owned(), now);
        agenda.add("a".to_owned(), now + Duration::from_secs(9));
        agenda.add("b".to_owned(), now + Duration::from_secs(5));
        agenda.in_flight.insert("a".to_owned());
        assert!(agenda.take(now, 9).is_empty());
        assert_eq!(agenda.next(9), Some(now + Duration::from_secs(5)));
        assert_eq!(agenda.next(1), None);
        agenda.in_flight.clear();
        assert_eq!(agenda.take(now, 9), ["a"]);
    }
}
