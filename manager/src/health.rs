//! Is this replica ready? When every kind has been listed once, or is known not to be installed: then it
//! could lead at once.

use crate::seen::Kind;

/// The kinds that have been listed, or that there are none of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed([bool; Kind::ALL.len()]);

impl Listed {
    /// This kind has been.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] = true;
    }

    /// Each kind, and whether it has been.
    pub fn checks(self) -> impl Iterator<Item = (&'static str, bool)> {
        Kind::ALL.into_iter().map(move |kind| (kind.name(), self.0[kind as usize]))
    }
}
