//! When pages are worth returning: not by the clock, but when there are more than before.
//!
//! Returned pages come back as far as they are used, within some seconds. What is there then is what the
//! program needs at rest; a rare event or a burst adds to that, and the program has to give it back itself.

/// Growth that is worth a return, in bytes.
const WORTH: usize = 1 << 20;

/// Memory of the program from one look to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    phase: Phase,
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

impl Growth {
    /// Takes what is resident now. True: pages are to be returned.
    pub fn look(&mut self, resident: usize) -> bool {
        let (phase, is_due) = match self.phase {
            Phase::Begun => (Phase::Returned, true),
            Phase::Returned => (Phase::Rests(resident), false),
            Phase::Rests(rest) if resident > rest.saturating_add(WORTH) => (Phase::Returned, true),
            Phase::Rests(rest) => (Phase::Rests(rest.min(resident)), false),
        };
        self.phase = phase;
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
}
