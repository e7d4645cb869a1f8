//! Pace of the writes of a configuration.
//!
//! With each of them every API server compiles the conditions of all entries anew. So whoever makes and
//! deletes a spread, or changes a budget, again and again does not decide how often that is.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Pauses after a write, by how many there were in a row; the last one is repeated.
pub(in crate::admission) const PAUSES: [Duration; 7] = [
    Duration::from_millis(50),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
];
/// Writes in [`TIME`] that wait for nothing more: a cluster that comes up brings many.
const MOST: usize = 100;
const TIME: Duration = Duration::from_secs(60);
/// Pause after each of the others. Who waits for an entry waits for no more than that, because one write has
/// all that came in it.
const PAUSE: Duration = Duration::from_millis(500);

/// Writes of other entries each time.
#[derive(Debug, Default)]
pub(super) struct Crowd(VecDeque<Instant>);

impl Crowd {
    /// Takes in a write of this moment. Returns the pause after it.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > TIME;
        while self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back(now);
        if self.0.len() > MOST { PAUSE } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: seconds of the begin, writes then, and how many of them are followed by the pause.
    #[test]
    fn a_flood_of_writes_has_a_pace() {
        let (mut crowd, begin) = (Crowd::default(), Instant::now());
        for (seconds, writes, paused) in [(0, 60, 0), (30, 50, 10), (59, 1, 1), (61, 40, 0), (200, 101, 1)] {
            let now = begin + Duration::from_secs(seconds);
            let pauses = (0..writes).filter(|_| !crowd.pause(now).is_zero()).count();
            assert_eq!(pauses, paused, "{seconds}");
        }
    }
}
