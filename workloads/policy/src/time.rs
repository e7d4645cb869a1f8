//! Sums on time that hold for every number an author can write.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Time as the API stores it: whole seconds.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Time until `since` is so many seconds ago; zero when it is.
pub(crate) fn until(since: Timestamp, seconds: i64, now: Timestamp) -> Duration {
    let due = since.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    let left = due.duration_since(now);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_too_large() {
        let (then, now) = (Timestamp::constant(100, 0), Timestamp::constant(105, 0));
        assert_eq!(until(then, 7, now), Duration::from_secs(2));
        assert_eq!(until(then, 5, now), Duration::ZERO);
        assert_eq!(until(then, -5, now), Duration::ZERO);
        assert!(until(then, i64::MAX, now) > Duration::from_secs(1_000_000_000));
    }
}
