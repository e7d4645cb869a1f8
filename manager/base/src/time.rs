//! Sums on time that hold for every number an author can write: `Instant + Duration` panics where the sum
//! cannot be expressed, so the operators are denied by a lint (`clippy::arithmetic_side_effects`).

use std::time::{Duration, Instant};

/// The longest time that anything is taken to mean, ten years: it stands for all that are longer.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The instant so much later, at most [`LONGEST`] from `at`.
pub fn later(at: Instant, by: Duration) -> Instant {
    at.checked_add(by.min(LONGEST)).unwrap_or(at)
}

/// The same on the clock of timers.
pub fn later_timer(at: tokio::time::Instant, by: Duration) -> tokio::time::Instant {
    tokio::time::Instant::from_std(later(at.into_std(), by))
}

/// Waits until then; for ever without a time. Cancel-safe.
pub async fn reached(at: Option<impl Into<tokio::time::Instant>>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_length_is_too_large() {
        let now = Instant::now();
        assert_eq!(later(now, Duration::from_secs(1)), now + Duration::from_secs(1));
        assert_eq!(later(now, Duration::MAX), now + LONGEST);
        assert!(later_timer(tokio::time::Instant::now(), Duration::MAX) > tokio::time::Instant::now());
    }
}
