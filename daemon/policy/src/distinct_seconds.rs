//! Levels in distinct seconds: a level begins in a later second of the wall clock than those above it.
//!
//! `startedAt` in a pod's status has whole seconds. Whoever compares two of them sees an order only if each
//! level waits until the second is over in which the last container above it was started. The agent learns of
//! a start after the runtime has written down its time, so the second in which it learned of it is that one
//! or a later one.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    call::Call,
    launch_order::patience,
    model::ContainerName,
    node::Node,
    sandbox::Instance,
    time::later,
    verdict::{HoldReason, Verdict, named},
};

/// The part of a time that a status has.
const SECOND: Duration = Duration::from_secs(1);

/// A reading of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    at: Instant,
    /// Since the epoch.
    wall: Duration,
}

impl WallClock {
    /// The end of the second of the wall clock that this instant is in.
    fn end_of_second(self, instant: Instant) -> Instant {
        let wall = match instant.checked_duration_since(self.at) {
            Some(after) => self.wall.saturating_add(after),
            None => self.wall.saturating_sub(self.at.saturating_duration_since(instant)),
        };
        later(instant, SECOND.saturating_sub(Duration::from_nanos(wall.subsec_nanos().into())))
    }
}

impl Node {
    /// Takes what the wall clock shows, since the epoch. It is read anew for each creation that is asked
    /// about: somebody may set it.
    pub fn clock_read(&mut self, wall: Duration, now: Instant) {
        self.wall_clock = Some(WallClock { at: now, wall });
    }

    /// The hold of a creation whose turn has come, but for the second in which a container above it was
    /// started. It ends a second after the call came at the latest, whatever the clock says.
    pub(crate) fn until_next_second(
        &self,
        call: &Call,
        newest: &BTreeMap<&ContainerName, &Instance>,
        above: &[&ContainerName],
        now: Instant,
    ) -> Option<Verdict> {
        if !self.config.distinct_seconds {
            return None;
        }
        let end = |since| match self.wall_clock {
            Some(clock) => clock.end_of_second(since),
            None => later(since, SECOND),
        };
        // One that has run to its end has a start in its status, too.
        let started = above.iter().filter_map(|name| Some((*name, newest.get(*name)?.began?)));
        let young: Vec<_> = started.filter(|(_, since)| now < end(*since)).collect();
        let over = young.iter().map(|(_, since)| end(*since)).max()?;
        let until = over.min(patience(call, SECOND.min(self.config.hold)));
        let names = named(young.into_iter().map(|(name, _)| name));
        (now < until).then_some(Verdict::Hold { until, why: HoldReason::SameSecond(names) })
    }
}
