//! Does the thread of the data path still turn?

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(1);

/// A pulse one thread gives and another one looks at.
#[derive(Debug)]
pub struct Heartbeat {
    start: Instant,
    /// Milliseconds from `start` to the last beat.
    last: AtomicU64,
}

impl Heartbeat {
    /// A pulse that was just given.
    pub fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Beats until the shutdown; to be spawned on the thread in question.
    pub async fn beat(&self, shutdown: CancellationToken) {
        let mut tick = tokio::time::interval(PERIOD);
        while shutdown.run_until_cancelled(tick.tick()).await.is_some() {
            let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last.store(now, Ordering::Relaxed);
        }
    }

    /// The last beat is younger than `limit`.
    pub fn is_alive(&self, limit: Duration) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) < limit.max(2 * PERIOD)
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_stands_still_is_noticed() {
        let limit = Duration::from_secs(10);
        let heartbeat = Heartbeat { start: Instant::now() - limit, last: AtomicU64::new(0) };
        assert!(!heartbeat.is_alive(limit));
        heartbeat.last.store(1000, Ordering::Relaxed);
        assert!(heartbeat.is_alive(limit));
    }
}
