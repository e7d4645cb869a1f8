//! Conversion between the API's wall clock and the policy's clock.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Longest time that the two clocks may drift apart before they are compared anew.
const DRIFT: Duration = Duration::from_secs(1);

/// The same moment on both clocks. It is kept as long as it holds, so that the same timestamp is always the
/// same instant: the order among requests depends on it. The clocks of the node and of the API server are
/// taken to agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    instant: Instant,
    wall: Timestamp,
}

impl Clock {
    /// Both clocks, read at the same moment.
    pub(crate) fn new(instant: Instant, wall: Timestamp) -> Self {
        Self { instant, wall }
    }

    /// Both clocks, as they are now; tokio's, so that tests can pause it.
    pub(crate) fn read() -> Self {
        Self::new(tokio::time::Instant::now().into_std(), Timestamp::now())
    }

    /// The clocks, compared again: the same as before unless somebody set the wall clock meanwhile.
    pub(crate) fn kept(self, now: Self) -> Self {
        let drift = now.wall.duration_since(self.instant_as_wall(now.instant)).unsigned_abs();
        if drift > DRIFT { now } else { self }
    }

    /// A timestamp of the API. What is out of the clock's range is now.
    pub(crate) fn instant(&self, timestamp: Timestamp) -> Instant {
        let since = timestamp.duration_since(self.wall);
        let there = if since.is_negative() {
            self.instant.checked_sub(since.unsigned_abs())
        } else {
            self.instant.checked_add(since.unsigned_abs())
        };
        there.unwrap_or(self.instant)
    }

    /// An instant of the policy.
    pub(crate) fn instant_as_wall(&self, instant: Instant) -> Timestamp {
        let there = match instant.checked_duration_since(self.instant) {
            Some(since) => self.wall.checked_add(since),
            None => self.wall.checked_sub(self.instant.duration_since(instant)),
        };
        there.unwrap_or(self.wall)
    }
}

/// The wall clock as it is now, since the epoch.
pub(crate) fn wall() -> Duration {
    since_epoch(Timestamp::now())
}

/// A time before the epoch is the epoch.
pub(crate) fn since_epoch(at: Timestamp) -> Duration {
    at.duration_since(Timestamp::UNIX_EPOCH).max(SignedDuration::ZERO).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn timestamps_before_and_after() {
        let (instant, wall) = (Instant::now(), Timestamp::from_second(1_000_000).unwrap());
        let clock = Clock::new(instant, wall);
        let at = |second| clock.instant(Timestamp::from_second(second).unwrap());
        assert_eq!(at(1_000_000), instant);
        assert_eq!(at(1_000_007), instant + 7 * SECOND);
        assert_eq!(at(999_990), instant - 10 * SECOND);
    }

    #[test]
    fn compared_anew_only_when_the_wall_clock_was_set() {
        let (instant, wall) = (Instant::now(), Timestamp::from_second(1_000_000).unwrap());
        let clock = Clock::new(instant, wall);
        let later = |seconds: u64, wall: i64| {
            Clock::new(instant + Duration::from_secs(seconds), Timestamp::from_second(wall).unwrap())
        };
        assert_eq!(clock.kept(later(60, 1_000_060)).instant, instant);
        assert_eq!(clock.kept(later(60, 1_000_061)).instant, instant);
        assert_eq!(clock.kept(later(60, 1_000_070)).instant, instant + 60 * SECOND);
        assert_eq!(clock.kept(later(60, 999_000)).instant, instant + 60 * SECOND);
    }
}
