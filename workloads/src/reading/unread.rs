//! Objects of which nobody knows what was written for them last: they are read before they are planned, each
//! by itself or with its namespace.
//!
//! A reading tells of a write only when it was begun after the write had ended. So it is noted how many
//! readings had been begun by then: one that was on its way says nothing.

/// Standing of an object.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Readings that had been begun when its last plan ended in a write of which nobody knows.
    since: Option<u64>,
    /// It was to be planned, and is as soon as its namespace was read.
    waits: bool,
}

impl Unread {
    /// Takes in that nobody knows what was written for it; so many readings had been begun by then.
    pub(crate) fn add(&mut self, readings: u64) {
        self.since = Some(readings);
    }

    /// Tells whether it is to be read.
    pub(crate) const fn is_so(&self) -> bool {
        self.since.is_some()
    }

    /// Its plan waits for a reading of its namespace.
    pub(crate) fn waits(&mut self) {
        self.waits = true;
    }

    /// Takes in that it was read by itself.
    pub(crate) fn was_read_apart(&mut self) {
        self.since = None;
    }

    /// Its namespace was read, by the last one of so many readings. Tells whether it waited for one: it is
    /// due.
    pub(crate) fn was_read(&mut self, readings: u64) -> bool {
        if self.since.is_some_and(|since| since < readings) {
            self.since = None;
        }
        std::mem::take(&mut self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: readings that had been begun when it became unread, whether it waits, readings that have ended;
    /// whether it is due then, and whether it is still to be read.
    #[test]
    fn a_reading_that_was_begun_before_says_nothing() {
        let table = [
            (None, false, 1, false, false),
            (None, true, 1, true, false),
            (Some(0), true, 1, true, false),
            (Some(0), false, 1, false, false),
            (Some(1), true, 1, true, true),
            (Some(1), false, 1, false, true),
            (Some(1), true, 2, true, false),
        ];
        for (since, waits, readings, is_due, is_so) in table {
            let mut unread = Unread { since, waits };
            assert_eq!(unread.was_read(readings), is_due, "{since:?} {waits} {readings}");
            assert_eq!(unread.is_so(), is_so, "{since:?} {waits} {readings}");
            assert!(!unread.was_read(9), "it is due once");
        }
    }
}
