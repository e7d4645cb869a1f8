//! How long to wait before something about an image is tried again: doubled with each failure, and spread, so
//! that the nodes of a cluster and the wishes of a node do not all come back at once.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use crate::backoff::Pace;

const PACE: Pace = Pace { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// Jitter on top, in thousandths.
const SPREAD: u64 = 200;

/// The pause of the node with this seed after so many failures of what this names. The same question has the
/// same answer: the jitter is a hash.
pub(super) fn pause(seed: u64, of: &impl Hash, failures: u32) -> Duration {
    spread(PACE.pause(failures), seed, of, failures)
}

/// Pause before what nobody expects to be better in a moment.
pub(super) fn longest_pause(seed: u64, of: &impl Hash, failures: u32) -> Duration {
    spread(PACE.longest, seed, of, failures)
}

fn spread(plain: Duration, seed: u64, of: &impl Hash, failures: u32) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, of, failures).hash(&mut hasher);
    let thousandths = u32::try_from(hasher.finish() % (SPREAD + 1)).unwrap_or(0);
    plain.saturating_add(plain.saturating_mul(thousandths) / 1000)
}
