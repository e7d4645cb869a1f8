//! Memory of an object between its plans; lost with the program, and never needed for what is decided.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_workloads_policy::action::Note;

use crate::timing::{Backoff, StatusPace};

/// The same is told again after it.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Things that were told and are remembered.
const MOST_TOLD: usize = 16;

/// Memory of one object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) backoff: Backoff,
    /// Decisions do not wait for it.
    pub(crate) status: StatusPace,
    /// Nobody knows what was written for it last: its objects are read before it is planned.
    pub(crate) unread: bool,
    /// Term in which its objects were read apart from all others.
    pub(crate) read_in: Option<u64>,
    told: BTreeMap<String, Instant>,
    /// Name of an object that the API server has refused to make.
    pub(crate) refused: Option<String>,
    /// Version of the object whose plan ended in a panic.
    aside: Option<String>,
}

impl Memory {
    /// Sets the object aside in this version of it.
    pub(crate) fn set_aside(&mut self, version: &str) {
        self.aside = Some(version.to_owned());
    }

    /// Tells whether the object is set aside in this version of it; in another one it is not any more.
    pub(crate) fn is_aside(&mut self, version: Option<&str>) -> bool {
        if self.aside.as_deref() != version {
            self.aside = None;
        }
        self.aside.is_some()
    }

    /// Tells whether something is to be told: it was not a moment ago.
    pub(crate) fn is_news(&mut self, now: Instant, note: &Note) -> bool {
        self.told.retain(|_, at| now.saturating_duration_since(*at) < TELL_AGAIN);
        let text = format!("{} {}", note.reason, note.text);
        if self.told.len() >= MOST_TOLD || self.told.contains_key(&text) {
            return false;
        }
        self.told.insert(text, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
