//! Pause of all writes while the API server says that it has too much to do. Pure.

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

/// Standing of the pause.
#[derive(Debug, Default)]
pub(super) struct Busy {
    until: Option<Instant>,
    /// Pauses in a row.
    times: usize,
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
}
