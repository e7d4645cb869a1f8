//! The policy's clock beside the API's.

use std::time::{Duration, Instant};

use crate::time::later;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Instant,
    /// Since the epoch.
    pub(crate) wall: Duration,
}

impl Clock {
    /// A time of the API. What is out of the clock's range is now.
    pub(crate) fn instant(&self, at: Duration) -> Instant {
        match self.wall.checked_sub(at) {
            Some(ago) => self.now.checked_sub(ago).unwrap_or(self.now),
            None => later(self.now, at.saturating_sub(self.wall)),
        }
    }

    /// Whole seconds since the epoch.
    pub(crate) fn seconds(&self) -> i64 {
        self.wall.as_secs().try_into().unwrap_or(i64::MAX)
    }
}
