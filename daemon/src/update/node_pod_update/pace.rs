//! Pace of answers to the node's object that are not taken.

use std::time::{Duration, Instant};

use berth_policy::time::later;

use crate::cluster::pause;

/// Answers in a row that were not taken, and when the next one may be tried.
#[derive(Debug, Default)]
pub(super) struct Pace {
    failures: usize,
    /// The object they were for: another one is no reason to wait.
    uid: String,
    next: Option<Instant>,
}

impl Pace {
    /// Tells whether the object of this UID may be answered now.
    pub(super) fn may(&self, uid: &str, now: Instant) -> bool {
        self.uid != uid || self.next.is_none_or(|next| next <= now)
    }

    /// Time until the next answer; `None`: the last one was taken.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(now))
    }

    /// An answer to this object was not taken.
    pub(super) fn failed(&mut self, uid: &str, now: Instant) {
        if self.uid != uid {
            *self = Self { uid: uid.to_owned(), ..Self::default() };
        }
        self.next = Some(later(now, pause::after(self.failures)));
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_taken_come_apart_and_another_object_waits_for_none() {
        let now = Instant::now();
        let mut pace = Pace::default();
        assert!(pace.may("a", now));
        assert_eq!(pace.left(now), None);
        let mut pauses = Vec::new();
        let mut at = now;
        for _ in 0..7 {
            pace.failed("a", at);
            let left = pace.left(at).unwrap();
            assert!(!pace.may("a", at) && pace.may("b", at));
            at += left;
            assert!(pace.may("a", at));
            pauses.push(left.as_millis());
        }
        assert_eq!(pauses, [200, 500, 1000, 2000, 5000, 5000, 5000]);
        pace.failed("b", at);
        assert_eq!(pace.left(at), Some(Duration::from_millis(200)));
    }
}
