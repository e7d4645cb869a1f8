//! Pause of all writes while the API server says that it has too much to do. Pure.
//!
//! It says so in plain text, before anybody is asked: the next write would meet with the same, whatever it is
//! about. The word of a webhook, or of who holds an object back, comes as an object: that is about one write.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::later_timer;

/// Pauses until the next write; the last one is repeated.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];
/// Reason that the library gives an answer that is no object.
const NO_OBJECT: &str = "Failed to parse error data";

/// Standing of the pause.
#[derive(Debug, Default)]
pub(super) struct Busy {
    until: Option<Instant>,
    /// Pauses in a row.
    times: usize,
}

/// Tells whether an error is the API server's own word that it has too much to do.
pub(super) fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429 && status.reason == NO_OBJECT)
}

impl Busy {
    /// The API server has said so.
    pub(super) fn is_told(&mut self, now: Instant) {
        // Writes that were sent beside the first one are refused as well.
        if self.waits(now).is_some() {
            return;
        }
        self.until = Some(later_timer(now, PAUSES[self.times.min(PAUSES.len() - 1)]));
        self.times = self.times.saturating_add(1);
    }

    /// The API server has taken a write.
    pub(super) fn has_written(&mut self, now: Instant) {
        // It may have been sent before the first one that was refused.
        if self.waits(now).is_none() {
            *self = Self::default();
        }
    }

    /// Time until which nothing is written.
    pub(super) fn waits(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_write_is_taken() {
        let (mut busy, mut now) = (Busy::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            // All that are on their way are answered alike.
            (0..16).for_each(|_| busy.is_told(now));
            // One was sent before.
            busy.has_written(now);
            let until = busy.waits(now).unwrap();
            pauses.push(until.duration_since(now).as_secs());
            assert_eq!(busy.waits(until), None);
            now = until;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        busy.has_written(now);
        busy.is_told(now);
        assert_eq!(busy.waits(now), Some(later_timer(now, PAUSES[0])));
    }

    /// Rows: code, reason, and whether it is the API server's own word.
    #[test]
    fn the_word_of_a_webhook_is_about_one_write() {
        let table = [
            (429, NO_OBJECT, true),
            (429, "TooManyRequests", false),
            (429, "", false),
            (503, NO_OBJECT, false),
        ];
        for (code, reason, expected) in table {
            let status = Status::failure("too many requests", reason).with_code(code);
            assert_eq!(is_busy(&kube::Error::Api(Box::new(status))), expected, "{code} {reason}");
        }
    }
}
