//! Sums on time that hold for every number an author can write.
//!
//! Durations come from pods, requests and files. `Instant + Duration` panics where the sum cannot be
//! expressed, so the operators are denied by a lint (`clippy::arithmetic_side_effects`), and these take their
//! place.

use std::time::{Duration, Instant};

/// The longest time that anything is taken to mean: ten years. It stands for all that are longer, and for
/// instants that cannot be expressed. No process lives so long.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Seconds as objects of the API have them: a negative number is 0, one above [`LONGEST`] is that.
pub fn seconds(seconds: impl Into<i64>) -> Duration {
    Duration::from_secs(seconds.into().try_into().unwrap_or(0)).min(LONGEST)
}

/// The instant so much later, at most [`LONGEST`] from `at`.
pub fn later(at: Instant, by: Duration) -> Instant {
    at.checked_add(by.min(LONGEST)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::NowForTests as _;

    #[test]
    fn no_number_is_too_large_or_too_small() {
        for (given, meant) in [
            (i64::MIN, Duration::ZERO),
            (-1, Duration::ZERO),
            (0, Duration::ZERO),
            (30, Duration::from_secs(30)),
            (i64::MAX, LONGEST),
        ] {
            assert_eq!(seconds(given), meant, "{given}");
        }
        let now = Instant::now_for_tests();
        assert_eq!(later(now, Duration::from_secs(1)), now.checked_add(Duration::from_secs(1)).unwrap());
        assert_eq!(later(now, Duration::MAX), later(now, LONGEST));
        let mut far = now;
        for _ in 0..100 {
            far = later(far, Duration::MAX);
        }
        assert!(far > now);
    }
}
