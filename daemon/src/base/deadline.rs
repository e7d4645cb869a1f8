//! Waiting for a moment that a policy names.

use std::{pin::pin, time::Duration};

use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Never spin: a deadline that has passed is somebody else's to act on.
const SOON: Duration = Duration::from_millis(1);
/// A wait that ends so much too late ends after a standstill: the process had no turn on a processor.
const STANDSTILL: Duration = Duration::from_millis(500);
/// How long what came meanwhile takes to be heard.
const HEARD: Duration = Duration::from_secs(1);

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

/// Waits so long; `None`: it did not come. After a standstill, in which it may have come, it is heard first.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    by(later(Instant::now(), limit), work).await
}

/// The same until then.
pub(crate) async fn by<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    if let Ok(done) = timeout_at(deadline, work.as_mut()).await {
        return Some(done);
    }
    let stood_still = Instant::now().saturating_duration_since(deadline) >= STANDSTILL;
    if stood_still { timeout(HEARD, work).await.ok() } else { None }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::oneshot, task::yield_now, time::advance};

    use super::*;

    /// Rows: how long the process stands still, in seconds, and whether what came meanwhile counts.
    #[tokio::test(start_paused = true)]
    async fn what_came_in_a_standstill_is_heard() {
        for (still, expected) in [(1, None), (5, Some(7))] {
            let (sender, receiver) = oneshot::channel();
            let waiting = tokio::spawn(within(Duration::from_secs(1), receiver));
            yield_now().await;
            advance(Duration::from_secs(still)).await;
            yield_now().await;
            let _ = sender.send(7);
            assert_eq!(waiting.await.unwrap().map(Result::unwrap), expected, "{still} s");
        }
        let nothing = within(Duration::from_secs(1), std::future::pending::<()>());
        let begun = Instant::now();
        assert_eq!(nothing.await, None);
        assert_eq!(begun.elapsed().as_secs(), 1);
    }
}
