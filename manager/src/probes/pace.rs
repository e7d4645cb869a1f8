//! The pace at which the statuses of a namespace's markers are written, and who waits for their turn.
//!
//! Nobody waits for the thousandth status of one author; but each takes a part of the API server's time, and
//! of that everybody else's writes have to be done too. So a namespace has [`AT_ONCE`] of them, and then one
//! in [`EVERY`], in the order in which they were owed.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::time::later;

/// Statuses that are written without a pause.
pub(super) const AT_ONCE: u32 = 64;
/// From then on there is one in it.
pub(super) const EVERY: Duration = Duration::from_millis(200);

/// A bucket of [`AT_ONCE`] tokens, that gets one in [`EVERY`].
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Full again then.
    full_at: Option<Instant>,
}

impl Pace {
    /// Takes a token, or says when there is one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let missing = self.full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        match missing.checked_sub(EVERY.saturating_mul(AT_ONCE - 1)) {
            Some(wait) if !wait.is_zero() => Err(later(now, wait)),
            _ => {
                self.full_at = Some(later(now, missing.saturating_add(EVERY)));
                Ok(())
            }
        }
    }
}

/// Place of a marker in the line.
pub(super) type Ticket = u64;

/// Markers whose status is owed, the one that waits longest first.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<Ticket, Arc<str>>,
    last: Ticket,
}

impl Line {
    pub(super) fn join(&mut self, name: Arc<str>) -> Ticket {
        self.last += 1;
        self.waiting.insert(self.last, name);
        self.last
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    pub(super) fn first(&self) -> Option<&Arc<str>> {
        self.waiting.first_key_value().map(|(_, name)| name)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Tokens that are there after so many were taken, and so many milliseconds have passed.
    #[rstest]
    #[case::at_first(0, 0, AT_ONCE)]
    #[case::some_were_taken(10, 0, AT_ONCE - 10)]
    #[case::all_were_taken(AT_ONCE, 0, 0)]
    #[case::not_yet_one(AT_ONCE, 199, 0)]
    #[case::one_has_come(AT_ONCE, 200, 1)]
    #[case::five_a_second(AT_ONCE, 1000, 5)]
    #[case::full_again(AT_ONCE, 12_800, AT_ONCE)]
    #[case::and_no_fuller(AT_ONCE, 3_600_000, AT_ONCE)]
    fn tokens(#[case] taken: u32, #[case] passed: u64, #[case] left: u32) {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..taken {
            pace.take(now).unwrap();
        }
        now += Duration::from_millis(passed);
        for _ in 0..left {
            pace.take(now).unwrap();
        }
        let at = pace.take(now).unwrap_err();
        assert!(at > now && at <= now + EVERY, "{:?}", at - now);
        pace.take(at).unwrap();
    }

    #[test]
    fn first_come_first_served() {
        let mut line = Line::default();
        let tickets = ["c", "a", "b"].map(|name| line.join(name.into()));
        assert_eq!(line.first().map(|name| &**name), Some("c"));
        line.leave(tickets[0]);
        line.leave(tickets[0]);
        assert_eq!(line.first().map(|name| &**name), Some("a"));
        line.join("c".into());
        line.leave(tickets[1]);
        line.leave(tickets[2]);
        assert_eq!(line.first().map(|name| &**name), Some("c"));
    }
}
