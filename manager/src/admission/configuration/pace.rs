//! Pace of the writes of a configuration.
//!
//! With each of them every API server compiles the conditions of all entries anew. So whoever makes and
//! deletes a spread, or changes a budget, again and again does not decide how often that is.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::later_timer;

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
/// Writes that wait for nothing more: a cluster that comes up brings many, and so do tests that make one set
/// after the other.
const MOST: u32 = 600;
/// Pause after each of the others, and the time in which there is one more of those that wait for nothing.
/// It delays an entry by no more than that, because one write has all that came in it: a set is stored
/// without its entry after 1.5 s.
const PAUSE: Duration = Duration::from_millis(200);

/// Writes of other entries each time.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Time at which all of them have had their pause.
    paid: Option<Instant>,
}

impl Crowd {
    /// Takes in a write of this moment. Returns the pause after it.
    pub(super) fn pause(&mut self, now: Instant) -> Duration {
        let paid = later_timer(self.paid.map_or(now, |paid| paid.max(now)), PAUSE);
        self.paid = Some(paid);
        let owed = paid.saturating_duration_since(now);
        if owed > PAUSE.saturating_mul(MOST) { PAUSE } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: seconds of the begin, writes then, and how many of them are followed by the pause.
    #[test]
    fn a_flood_of_writes_has_a_pace() {
        let (mut crowd, begin) = (Crowd::default(), Instant::now());
        for (seconds, writes, paused) in [(0, 400, 0), (10, 260, 10), (11, 5, 5), (14, 1, 0), (1000, 601, 1)]
        {
            let now = begin + Duration::from_secs(seconds);
            let pauses = (0..writes).filter(|_| !crowd.pause(now).is_zero()).count();
            assert_eq!(pauses, paused, "{seconds}");
        }
    }

    /// However long it goes on there are five a second in the end.
    #[test]
    fn a_flood_that_goes_on_has_its_pace() {
        let (mut crowd, begin) = (Crowd::default(), Instant::now());
        let mut now = begin;
        for _ in 0..MOST + 3000 {
            now += Duration::from_millis(50).max(crowd.pause(now));
        }
        let seconds = now.saturating_duration_since(begin).as_secs();
        assert!((580..620).contains(&seconds), "{seconds}");
    }
}
