//! Memory of a workload beside its objects: what failed, what was told, and whether it is set aside.

use std::time::{Duration, Instant};

use berth_base::time::later;
use berth_workloads_policy::{
    adopt::Unadopted,
    daemon_set::{Held, Rests},
    plan::Failures,
    predownload,
};

use crate::{
    put_off::PutOff,
    reading::Unread,
    timing::{Backoff, LeftStatus, SPACING, StatusPace, Told},
    unkept::Unkept,
    write::End,
};

/// An object that was set aside is looked at again after it.
const ASIDE_FOR: Duration = Duration::from_secs(600);

/// Memory of a workload.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) failures: Failures,
    pub(crate) rests: Rests,
    /// Revisions of its nodes that keep what they have: a pod that is gone tells nothing.
    pub(crate) held: Held,
    /// Term, and generation of the workload, of the last look.
    looked: Option<(Option<u64>, Option<i64>)>,
    /// They are tried again by themselves: the rest does not wait for them.
    pub(crate) unadopted: Unadopted,
    backoff: Backoff,
    pub(crate) status: StatusPace,
    pub(crate) left_status: LeftStatus,
    pub(crate) unkept: Unkept,
    pub(crate) collisions: i32,
    /// Nobody may know what was written for it last: its objects are read before it is planned.
    pub(crate) unread: Unread,
    /// Term in which its objects were read apart from all others.
    pub(crate) read_in: Option<u64>,
    pub(crate) told: Told,
    /// Pods and claims that could not be written to, and nodes and names of new pods that could not be made:
    /// they come last until a plan is done.
    pub(crate) put_off: PutOff,
    aside: Option<Aside>,
    /// When an ImagePullJob could not be made.
    pull_failed: Option<Instant>,
}

/// Rest after a failure of what was decided on a workload.
#[derive(Clone, Copy, Debug)]
struct Aside {
    generation: Option<i64>,
    until: Instant,
}

impl Memory {
    /// Takes in how a plan ended: the pause until the next one.
    pub(crate) fn ends(&mut self, end: &End) -> Duration {
        self.takes_in(end);
        match end {
            End::Held(_) => self.backoff.is_held(),
            // What failed before is still to be done.
            End::Read => SPACING,
            end => self.backoff.ends(*end == End::Done),
        }
    }

    fn takes_in(&mut self, end: &End) {
        match end {
            End::Done => {
                self.failures = Failures::default();
                self.put_off.clear();
            }
            End::Read | End::Changed => {}
            End::PullFailed(_) => self.pull_failed = Some(Instant::now()),
            End::NameTaken => self.collisions = self.collisions.saturating_add(1),
            End::ScaleFailed(error) => self.failures.scale = Some(error.clone()),
            End::UpdateFailed(error) => self.failures.update = Some(error.clone()),
            End::Held(what) => self.takes_in(what),
        }
    }

    /// The workload is looked at in this term. One that is another than it was in an earlier term was changed
    /// while somebody else may have led, and its nodes may have got what this replica has not seen.
    pub(crate) fn looks(&mut self, term: Option<u64>, generation: Option<i64>) {
        let before = self.looked.replace((term, generation));
        if before.is_some_and(|(of, seen)| of != term && seen != generation) {
            self.held.clear();
        }
    }

    /// Tells whether its plans fail one after the other.
    pub(crate) const fn fails(&self) -> bool {
        self.backoff.fails()
    }

    /// Tells whether there are pauses between its plans, some of them long.
    pub(crate) const fn pauses(&self) -> bool {
        self.backoff.fails() || self.backoff.holds()
    }

    /// Tells whether an ImagePullJob could not be made a moment ago: what it is for goes on without.
    pub(crate) fn predownload_rests(&self, now: Instant) -> bool {
        self.pull_failed.is_some_and(|failed| now.saturating_duration_since(failed) < predownload::AGAIN)
    }

    /// Sets it aside until its spec is another one, or until the given time.
    pub(crate) fn set_aside(&mut self, generation: Option<i64>, now: Instant) -> Instant {
        let until = later(now, ASIDE_FOR);
        self.aside = Some(Aside { generation, until });
        until
    }

    /// Time until which it is set aside; `None`: it is not, or not any more.
    pub(crate) fn aside_until(&self, generation: Option<i64>, now: Instant) -> Option<Instant> {
        let aside = self.aside.filter(|aside| aside.generation == generation && now < aside.until);
        aside.map(|aside| aside.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_tried_less_and_less() {
        let mut memory = Memory::default();
        let failed = End::ScaleFailed("no quota".to_owned());
        // Where nobody knows what was written all is read between two tries.
        let mut fails = || {
            assert_eq!(memory.ends(&End::Read), SPACING);
            memory.ends(&failed)
        };
        let pauses: Vec<_> = (0..9).map(|_| fails()).collect();
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60));
        assert_eq!(memory.failures.scale.as_deref(), Some("no quota"));
        memory.ends(&End::NameTaken);
        assert_eq!(memory.ends(&End::Done), SPACING);
        assert_eq!((memory.failures.scale.as_deref(), memory.collisions), (None, 1));
    }

    /// Rows: ends in a row, the pause after the last one in milliseconds, and what the status says.
    #[test]
    fn what_is_held_back_is_tried_again_soon() {
        let held = || End::Held(Box::new(End::ScaleFailed("budget \"web\"".to_owned())));
        let failed = || End::UpdateFailed("no quota".to_owned());
        let table: [(Vec<End>, u64, Option<&str>); 6] = [
            (vec![held()], 500, Some("budget \"web\"")),
            (vec![held(), held()], 1000, Some("budget \"web\"")),
            ((0..50).map(|_| held()).collect(), 5000, Some("budget \"web\"")),
            // Failures of others do not make it wait, nor it those.
            ((0..9).map(|_| failed()).chain([held()]).collect(), 500, Some("budget \"web\"")),
            (vec![held(), held(), held(), failed()], 100, Some("budget \"web\"")),
            (vec![held(), held(), End::Done, held(), End::Done], 10, None),
        ];
        for (ends, pause, says) in table {
            let mut memory = Memory::default();
            let pauses: Vec<Duration> = ends.iter().map(|end| memory.ends(end)).collect();
            assert_eq!(pauses.last(), Some(&Duration::from_millis(pause)), "{ends:?}");
            assert_eq!(memory.failures.scale.as_deref(), says, "{ends:?}");
        }
    }

    /// Rows: term and generation of the next look, after one in term 1 at generation 1, and whether it is
    /// still known what the nodes had.
    #[test]
    fn what_nodes_had_is_forgotten_where_somebody_else_may_have_changed_it() {
        for (term, generation, is_known) in [(1, 1, true), (1, 2, true), (2, 1, true), (2, 2, false)] {
            let mut memory = Memory::default();
            memory.looks(Some(1), Some(1));
            memory.held = Held::from([("node".to_owned(), "7c9b".to_owned())]);
            memory.looks(Some(term), Some(generation));
            assert_eq!(!memory.held.is_empty(), is_known, "{term} {generation}");
        }
    }

    #[test]
    fn pods_are_put_off_until_a_plan_is_done() {
        let mut memory = Memory::default();
        let failed = End::UpdateFailed("a webhook".to_owned());
        for (end, left) in [(&failed, 1), (&End::Read, 1), (&End::Changed, 1), (&End::Done, 0)] {
            memory.put_off.add(vec!["a".to_owned()]);
            memory.ends(end);
            assert_eq!(memory.put_off.names().len(), left, "{end:?}");
        }
    }

    #[test]
    fn an_image_that_is_not_pulled_ahead_holds_nothing_up() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        assert!(!memory.predownload_rests(now));
        let pause = memory.ends(&End::PullFailed("no such kind".to_owned()));
        assert!(pause < Duration::from_secs(1) && memory.failures == Failures::default());
        let failed = Instant::now();
        assert!(memory.predownload_rests(failed + Duration::from_secs(59)));
        assert!(!memory.predownload_rests(failed + Duration::from_secs(60)));
    }
}
