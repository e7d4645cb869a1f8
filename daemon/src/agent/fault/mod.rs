//! Named points at which a test kills the agent, or has it stand still. Compiled in only with the feature
//! `fault-points`, which no release has.
//!
//! The file named by `BERTH_FAULT_FILE` holds the name of a point, and what is to be done there: `marked`,
//! `marked die` or `marked pause`. The first time it is reached the file is removed, and the file
//! `FAULT_FILE.reached` says the process's id. Then the process kills itself, as hard as `kill -9`: nothing
//! is flushed, nothing unwinds. Or it stops itself, all of it, and whoever waits for that file may do to it,
//! or to the rest of the node, what he likes before he lets it go on (`SIGCONT`).

#[cfg(feature = "fault-points")]
mod act;
mod point;

pub use self::point::{Point, Way};

impl Point {
    /// Dies or stops here if a test says so.
    #[cfg(feature = "fault-points")]
    pub fn reached(self) {
        act::at(self);
    }

    /// Nothing, in every release.
    #[cfg(not(feature = "fault-points"))]
    pub fn reached(self) {}
}
