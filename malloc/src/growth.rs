//! When pages are worth returning: not by the clock, but when there are more than before.
//!
//! Returned pages come back as far as they are used, within some seconds. What is there then is what the
//! program needs at rest; a rare event or a burst adds to that, and the program has to give it back itself.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

/// Growth that is worth a return, in bytes.
const WORTH: usize = 1 << 20;
/// Growth that is returned at once: a burst.
const BURST: usize = 4 << 20;
/// How often it is looked at: pods that come and go need what a quiet node does not.
const LOOKS: Duration = Duration::from_secs(10);
/// The most looks between two returns of less than a burst. What is used once a minute comes back once a
/// minute, and each page that comes back takes a fault: the pauses double up to ten minutes.
const MOST_LOOKS: u32 = 60;

/// Memory of the program from one look to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Growth {
    phase: Phase,
    /// Looks since the last return.
    looks: u32,
    /// Looks that are to pass until the next return of less than a burst.
    pause: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing was returned yet.
    #[default]
    Begun,
    /// Pages were returned at the last look; those in use are back at the next one.
    Returned,
    /// At rest it takes so many bytes.
    Rests(usize),
}

/// Returns memory that only the start needed, once that is over, and memory of rare events, soon after them.
/// For ever; `start`: how long the start takes.
pub async fn keep_small(start: Duration) {
    let mut growth = Growth::default();
    sleep(start).await;
    loop {
        let looked = crate::resident().and_then(|resident| match growth.look(resident) {
            true => crate::return_unused(),
            false => Ok(()),
        });
        if let Err(error) = looked {
            debug!(%error, "Pages of the program stay mapped");
        }
        sleep(LOOKS).await;
    }
}

/// Returns what a burst has freed, in a thread of its own. [`keep_small`] takes what a long start holds for
/// what the program needs at rest. To be called in a runtime.
pub fn burst_is_over() {
    drop(tokio::task::spawn_blocking(crate::heap::return_free));
}

impl Growth {
    /// Takes what is resident now. True: pages are to be returned.
    fn look(&mut self, resident: usize) -> bool {
        self.looks = self.looks.saturating_add(1);
        let worth = if self.looks < self.pause { BURST } else { WORTH };
        let (phase, is_due) = match self.phase {
            Phase::Begun => (Phase::Returned, true),
            Phase::Returned => (Phase::Rests(resident), false),
            Phase::Rests(rest) if resident > rest.saturating_add(worth) => (Phase::Returned, true),
            Phase::Rests(rest) => (Phase::Rests(rest.min(resident)), false),
        };
        self.phase = phase;
        if is_due {
            (self.looks, self.pause) = (0, self.pause.saturating_mul(2).clamp(2, MOST_LOOKS));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    #[test]
    fn pages_are_returned_when_there_are_more_than_at_rest() {
        let mut growth = Growth::default();
        // (resident, returned)
        let looks = [
            (20 * MB, true),
            (12 * MB, false),
            (12 * MB + MB / 2, false),
            (13 * MB, false),
            (13 * MB + 1, true),
            // More is kept than before, and is not returned again and again.
            (14 * MB, false),
            (14 * MB, false),
            // What was freed meanwhile is what it needs.
            (11 * MB, false),
            (12 * MB + 1, true),
            (usize::MAX, false),
            (usize::MAX, false),
        ];
        for (number, (resident, expect)) in looks.into_iter().enumerate() {
            assert_eq!(growth.look(resident), expect, "look {number}");
        }
    }

    /// A program whose rare events touch a megabyte between any two looks.
    #[test]
    fn small_growth_is_returned_ever_more_rarely_and_a_burst_at_once() {
        let mut growth = Growth::default();
        let mut returns = Vec::new();
        for look in 0..400_u32 {
            let resident = if growth.phase == Phase::Returned { 10 * MB } else { 12 * MB };
            if growth.look(resident) {
                returns.push(look);
            }
        }
        assert_eq!(returns, [0, 2, 6, 14, 30, 62, 122, 182, 242, 302, 362]);
        assert!(!growth.look(14 * MB) && growth.look(14 * MB + 1));
    }
}
