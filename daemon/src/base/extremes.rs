//! Bounds of fuzz targets that play sequences: how long one is, and the numbers that authors may write in it.

use std::time::Duration;

/// The most operations of one run; more say nothing new.
pub(crate) const MOST: usize = 400;
/// The lengths of time that somebody may write.
pub(crate) const LENGTHS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(1),
    Duration::from_secs(3600),
    Duration::from_secs(i64::MAX as u64),
    Duration::MAX,
];
