//! Pace of the writes to one node. Its object is dear to write, and its agent writes it as well: each write
//! makes one of the other's fail that was decided before it.

use std::time::{Duration, Instant};

use super::shown::Shown;
use crate::time::later;

/// The entries of a node that were written stay as they are for at most so long: pods are asked for one after
/// the other, while the agent begins with the first of them. An update takes longer.
pub(super) const NODE_EVERY: Duration = Duration::from_secs(1);
/// How long they stay at least.
const LEAST: Duration = Duration::from_millis(100);
/// How many times as long as the write took they stay: an API server that has little to do is asked again
/// soon.
const TIMES_A_WRITE: u32 = 10;
/// Pause after a write that came too late; it doubles with each further one, up to [`MOST_DOUBLINGS`] times.
const TOO_LATE: Duration = Duration::from_millis(50);
/// The most that [`TOO_LATE`] doubles, to 3.2 s.
const MOST_DOUBLINGS: u32 = 6;

/// Writes in a row that came too late, and when the next one may be asked for.
#[derive(Debug, Default)]
pub(super) struct Pace {
    too_late: u32,
    until: Option<Instant>,
}

impl Pace {
    /// Takes in another version of the object.
    pub(super) fn follow(&mut self, before: &Shown, shown: &Shown, now: Instant) {
        let is_as_asked = before.asked.as_ref().map(|asked| asked.iter().eq(shown.desired.values()));
        let pause = match is_as_asked {
            // The order was for the version before: the API server refuses it, or has.
            Some(false) => {
                let doublings = self.too_late.min(MOST_DOUBLINGS);
                self.too_late = self.too_late.saturating_add(1);
                TOO_LATE.saturating_mul(1 << doublings)
            }
            Some(true) => {
                self.too_late = 0;
                stay(before.asked_at.map_or(NODE_EVERY, |at| now.saturating_duration_since(at)))
            }
            None if before.desired != shown.desired => NODE_EVERY,
            None => return,
        };
        self.until = Some(later(now, pause));
    }

    /// Time until which the node waits for its next write; `None`: it may be asked for.
    pub(super) fn waits(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}

/// Returns how long entries stay as they are that took so long to write and to be shown.
fn stay(took: Duration) -> Duration {
    took.saturating_mul(TIMES_A_WRITE).clamp(LEAST, NODE_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_longer_where_writes_take_long() {
        for (took, stays) in [(0, 100), (9, 100), (25, 250), (100, 1000), (u64::MAX, 1000)] {
            assert_eq!(stay(Duration::from_millis(took)), Duration::from_millis(stays), "{took} ms");
        }
    }
}
