//! Good ends of a node's entries: all of them stand in one object, and pods that were restarted together end
//! within a moment of each other. The first of them waits that moment, so that one write tells
//! of all. A failure waits for nobody.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{Updates, action::UpdateAction, writes::About};
use crate::{
    in_place_update::{UpdateOutcome, UpdateReport, UpdateRequest},
    model::{PodUid, RequestId},
    time::later,
};

/// How long the first end waits at most for others. Its owner goes on with other pods so much later.
const GATHERED: Duration = Duration::from_millis(500);

/// Ends that are owed and not told.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Ends of the plan that is being made.
    owed: Vec<(UpdateRequest, UpdateReport)>,
    /// Since when each of them is owed.
    since: BTreeMap<RequestId, Instant>,
}

/// Moment for the ends that are owed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// These are told now.
    Now(Vec<(UpdateRequest, UpdateReport)>),
    /// They wait until then, if nothing else ends.
    Later(Instant),
}

impl Ends {
    /// Takes an end that the plan owes.
    pub(crate) fn push(&mut self, request: &UpdateRequest, report: UpdateReport) {
        self.owed.push((request.clone(), report));
    }

    /// Settles the ends of a plan: they are told once no other one of `open` goes on, or the first has waited
    /// long enough.
    pub(crate) fn settle<'a>(
        &mut self,
        mut open: impl Iterator<Item = &'a UpdateRequest>,
        now: Instant,
    ) -> Told {
        let owed = std::mem::take(&mut self.owed);
        let mut before = std::mem::take(&mut self.since);
        let since = |(request, _): &(UpdateRequest, UpdateReport)| {
            (request.id.clone(), before.remove(&request.id).unwrap_or(now))
        };
        self.since = owed.iter().map(since).collect();
        let until = self.since.values().min().map(|first| later(*first, GATHERED));
        let goes_on = |request: &UpdateRequest| request.is_entry() && !self.since.contains_key(&request.id);
        match until.filter(|until| *until > now) {
            Some(until) if open.any(goes_on) => Told::Later(until),
            _ => Told::Now(owed),
        }
    }
}

/// Whether the report may wait for those of other pods.
pub(super) fn can_wait(request: &UpdateRequest, report: &UpdateReport) -> bool {
    request.is_entry() && report.outcome == Some(UpdateOutcome::Complete)
}

impl Updates {
    /// Tells the ends that this plan owes, now or together with others.
    pub(super) fn tell_ends(
        &mut self,
        by_pod: &BTreeMap<PodUid, Vec<UpdateRequest>>,
        now: Instant,
        actions: &mut Vec<UpdateAction>,
    ) {
        // One that is being written waits for nobody any more, and nobody for it.
        let writing = &self.writing;
        self.ends.owed.retain(|(request, _)| !writing.contains(&request.id));
        let open = by_pod.values().flatten().filter(|request| !writing.contains(&request.id));
        match self.ends.settle(open, now) {
            Told::Now(ends) => {
                let tell = |(request, report)| self.report(request, report, About::Pod, now, actions);
                ends.into_iter().for_each(tell);
            }
            Told::Later(until) => self.wake.at(until),
        }
    }
}
