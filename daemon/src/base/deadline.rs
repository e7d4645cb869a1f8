//! Waiting for a moment that a policy names.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Never spin: a deadline that has passed is somebody else's to act on.
const SOON: Duration = Duration::from_millis(1);

/// The sum on the clock of timers, of any length of time; see [`berth_policy::time::later`].
pub fn later(at: Instant, by: Duration) -> Instant {
    Instant::from_std(berth_policy::time::later(at.into_std(), by))
}

/// Waits until then; for ever without a deadline. Cancel-safe.
pub(crate) async fn reached(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline).max(later(Instant::now(), SOON))).await,
        None => std::future::pending().await,
    }
}
