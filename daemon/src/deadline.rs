//! Waiting for a moment that a policy names.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Never spin: a deadline that has passed is somebody else's to act on.
const SOON: Duration = Duration::from_millis(1);

/// Waits until then; for ever without a deadline. Cancel-safe.
pub(crate) async fn reached(deadline: Option<std::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(Instant::from_std(deadline).max(Instant::now() + SOON)).await,
        None => std::future::pending().await,
    }
}
