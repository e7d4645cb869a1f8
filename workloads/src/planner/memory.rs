//! Memory of an object between its plans; lost with the program, and never needed for what is decided.

use std::{collections::BTreeMap, time::Instant};

use berth_workloads_policy::action::Note;

use crate::{
    object::Aside,
    put_off::PutOff,
    reading::Unread,
    timing::{Backoff, StatusPace, TELL_AGAIN},
    unkept::Unkept,
};

/// Things that were told and are remembered.
const MOST_TOLD: usize = 16;

/// Memory of one object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) backoff: Backoff,
    /// Decisions do not wait for it.
    pub(crate) status: StatusPace,
    pub(crate) unkept: Unkept,
    /// Nobody may know what was written for it last: its objects are read before it is planned.
    pub(crate) unread: Unread,
    /// Term in which its objects were read apart from all others.
    pub(crate) read_in: Option<u64>,
    told: BTreeMap<String, Instant>,
    /// Failure of its last writes.
    pub(crate) failure: Option<String>,
    /// Name of an object that the API server has refused to make.
    pub(crate) refused: Option<String>,
    /// Names of objects whose making has failed once, and UIDs of those that could not be written to: they
    /// are tried after all others.
    pub(crate) put_off: PutOff,
    /// How often the name of a new revision was taken.
    pub(crate) collisions: i32,
    pub(crate) aside: Aside,
}

impl Memory {
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
    use std::time::Duration;

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
}
