//! Pauses of an update after something did not work, and when a refusal is taken for one that stays.

use std::time::Instant;

use crate::backoff::{API_PAUSES, Retry};

/// A refusal that comes so often is meant: an API server that comes up refuses what it will allow in a
/// moment.
const MEANT: u32 = 6;

/// Attempts at something that did not work so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts(Retry);

impl Attempts {
    pub(crate) fn failed(&mut self, now: Instant) {
        self.0.failed(now, |failures| {
            let index = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
            API_PAUSES.get(index).copied().unwrap_or(API_PAUSES[API_PAUSES.len() - 1])
        });
    }

    /// The end of the pause, while there is one.
    pub(crate) fn pause(&self, now: Instant) -> Option<Instant> {
        self.0.next.filter(|until| *until > now)
    }

    /// Tells whether a refusal that comes now is meant.
    pub(crate) fn refusal_is_meant(&self) -> bool {
        self.0.failures() >= MEANT
    }
}
