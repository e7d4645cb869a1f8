//! Pauses before something is tried again: doubled with each failure, up to a limit.

use std::time::{Duration, Instant};

use crate::time::later;

/// Pauses between attempts to reach the API server. The last one is repeated.
pub const API_PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// A pause that doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

/// Attempts of what is tried until it works.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retry {
    failures: u32,
    /// Not before then; `None` before the first failure.
    pub(crate) next: Option<Instant>,
}

impl Pace {
    /// The pause after this many failures in a row, at least one.
    pub(crate) fn pause(self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(self.longest)
    }
}

impl Retry {
    /// Takes in that it failed once more; `pause` is the one after so many failures in a row.
    pub(crate) fn failed(&mut self, now: Instant, pause: impl FnOnce(u32) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        self.next = Some(later(now, pause(self.failures)));
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes in that nothing is to be expected before then, although it did not fail.
    pub(crate) fn rest(&mut self, until: Instant) {
        self.next = Some(until);
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }
}
