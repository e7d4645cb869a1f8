//! Token bucket: so many in a time, a few of them at once. It bounds what probes cost the node.

use std::time::{Duration, Instant};

use crate::time::later;

/// A token bucket, as the instant when it is full again.
#[derive(Debug)]
pub(super) struct Bucket {
    every: Duration,
    /// How long all but the last of its tokens take to come back.
    slack: Duration,
    full: Option<Instant>,
}

impl Bucket {
    /// Full, with `burst` tokens (at least one), of which one comes back each `every`.
    pub(super) fn new(every: Duration, burst: u32) -> Self {
        Self { every, slack: every.saturating_mul(burst.saturating_sub(1)), full: None }
    }

    /// Returns when there is a token; `None`: there always was one.
    pub(super) fn free_at(&self) -> Option<Instant> {
        self.full.and_then(|full| full.checked_sub(self.slack))
    }

    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.free_at().is_some_and(|free| free > now) {
            return false;
        }
        self.full = Some(later(self.full.map_or(now, |full| full.max(now)), self.every));
        true
    }
}
