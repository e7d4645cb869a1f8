//! How long to wait before something is tried again: doubled with each failure, and spread, so that the nodes of a cluster
//! and the wishes of a node do not all come back at once.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Jitter on top, in thousandths.
const SPREAD: u64 = 200;
/// Stands for instants that cannot be expressed. No process lives so long.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The pause of the node with this seed after so many failures of what this names. The same question has the same answer: the jitter is a hash.
pub(super) fn pause(seed: u64, of: &impl Hash, failures: u32) -> Duration {
    let plain = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    spread(plain, seed, of, failures)
}

/// For what nobody expects to be better in a moment.
pub(super) fn longest_pause(seed: u64, of: &impl Hash, failures: u32) -> Duration {
    spread(LONGEST, seed, of, failures)
}

fn spread(plain: Duration, seed: u64, of: &impl Hash, failures: u32) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, of, failures).hash(&mut hasher);
    let thousandths = u32::try_from(hasher.finish() % (SPREAD + 1)).unwrap_or(0);
    plain + plain * thousandths / 1000
}

/// The sum, where durations may be whatever a user wrote.
pub(super) fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by).unwrap_or_else(|| now + FAR)
}

/// Something that is tried until it works.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// Not before then; `None` before the first failure.
    pub(super) next: Option<Instant>,
}

impl Retry {
    pub(super) fn failed(&mut self, seed: u64, of: &impl Hash, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + pause(seed, of, self.failures));
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }
}
