//! Backlog: is the node behind with its probes? Said only of what lasts, and unsaid only after a while
//! without it, so that whoever writes it down does not write all the time.

use std::time::{Duration, Instant};

use crate::time::later;

use super::{Probes, watch::period};

/// How long somebody has to be behind all the time before it is said. The probes that begin with the agent,
/// or with a marker, may take a while to have their first turns.
const LASTS: Duration = Duration::from_secs(20);
/// How long somebody who has begun late still counts: not all who are behind wait at the same instant.
const COUNTS: Duration = Duration::from_secs(5);
/// How long nobody has to be before it is unsaid.
const CALM: Duration = Duration::from_secs(30);
/// The figures change at most so often.
const REFRESH: Duration = Duration::from_secs(60);
/// Nobody is behind who is not later than this, or than a tenth of the period where that is more.
const SLACK: Duration = Duration::from_secs(1);

/// Backlog of probes that run later than they should. The figures are the worst since the last ones, and
/// change at most once a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many probes begin more than 1 s, or a tenth of their period where that is more, after they should.
    pub behind: usize,
    /// How much later than it should the latest of them begins.
    pub late: Duration,
}

/// Backlog that was reported, and the times that decide about the next report.
#[derive(Debug, Default)]
pub(super) struct BacklogReport {
    behind_since: Option<Instant>,
    calm_since: Option<Instant>,
    told: Option<Told>,
}

#[derive(Debug)]
struct Told {
    figures: Backlog,
    at: Instant,
    worst: Backlog,
}

impl BacklogReport {
    pub(super) fn told(&self) -> Option<Backlog> {
        self.told.as_ref().map(|told| told.figures)
    }

    /// Takes what is so now, and says when it is to be looked at again.
    fn see(&mut self, seen: Backlog, now: Instant) -> Option<Instant> {
        if seen.behind == 0 {
            self.behind_since = None;
            self.told.as_ref()?;
            let calm = later(*self.calm_since.get_or_insert(now), CALM);
            if calm <= now {
                *self = Self::default();
            }
            return Some(calm);
        }
        self.calm_since = None;
        let since = *self.behind_since.get_or_insert(now);
        let Some(told) = &mut self.told else {
            if later(since, LASTS) <= now {
                self.told = Some(Told { figures: seen, at: now, worst: Backlog::default() });
            }
            return Some(later(since, LASTS));
        };
        told.worst =
            Backlog { behind: told.worst.behind.max(seen.behind), late: told.worst.late.max(seen.late) };
        if later(told.at, REFRESH) <= now {
            *told = Told { figures: told.worst, at: now, worst: Backlog::default() };
        }
        Some(later(told.at, REFRESH))
    }
}

impl Probes {
    pub(super) fn measure_backlog(&mut self, now: Instant) {
        let mut seen = Backlog::default();
        for watch in self.pods.values().flat_map(|pod| pod.probes.values()) {
            let Some(slack) = watch.probe().map(|probe| SLACK.max(period(probe) / 10)) else { continue };
            let waiting = watch.due.filter(|due| watch.run.is_none() && *due <= now);
            let waits = waiting.map_or(Duration::ZERO, |due| now.saturating_duration_since(due));
            let counted = watch.began.map(|began| later(began, COUNTS)).filter(|until| *until > now);
            let waited = counted.map_or(Duration::ZERO, |_| watch.late);
            let late = waits.max(waited);
            if late > slack {
                seen = Backlog { behind: seen.behind + 1, late: seen.late.max(late) };
                counted.into_iter().for_each(|until| self.wake.at(until));
            } else if let Some(due) = waiting {
                self.wake.at(later(due, slack.saturating_add(Duration::from_millis(1))));
            }
        }
        if let Some(again) = self.backlog.see(seen, now) {
            self.wake.at(again);
        }
    }
}
