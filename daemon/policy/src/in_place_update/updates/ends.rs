//! Good ends of a node's entries: all of them stand in one object, and pods that were restarted together end
//! within a moment of each other. The first of them waits that moment, so that one write tells
//! of all. For updates that began at another time it hardly waits: these end at another time, or never, as
//! where an image cannot be pulled. A failure waits for nobody.
//!
//! Where the pod itself shows the end, nobody waits for its report, so that waits for long. Mostly the entry
//! is taken away before, along with the next one of the node, and nothing is left to report.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::{Updates, action::UpdateAction, writes::About};
use crate::{
    in_place_update::{UpdateOutcome, UpdateOwner, UpdateReport, UpdateRequest},
    model::{PodUid, RequestId},
    time::later,
};

/// How long the first end waits at most for others. Its owner goes on with other pods so much later.
const GATHERED: Duration = Duration::from_millis(500);
/// Time between the beginnings of two updates that count as begun together. Entries say theirs in whole
/// seconds.
const TOGETHER: Duration = Duration::from_millis(1500);
/// How long an end waits at least while another update goes on.
const LEAST: Duration = Duration::from_millis(50);
/// How many times as long as a write takes an end waits that has no other one to come with it: where the API
/// server has little to do its owner is told at once, and where many nodes write, each writes seldom.
const TIMES_A_WRITE: u32 = 10;
/// How long an end waits that the pod shows.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Ends that are owed and not told.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Ends of the plan that is being made.
    owed: Vec<(UpdateRequest, UpdateReport)>,
    /// Since when each of them is owed.
    since: BTreeMap<RequestId, Instant>,
    /// Since when each end is written.
    written_since: BTreeMap<RequestId, Instant>,
    /// How long the last write of an end took.
    took: Duration,
    /// Ends that the pods show.
    shown: BTreeMap<RequestId, Shown>,
}

/// End that the pod shows. It may show something else in the next moment, so the first report counts.
#[derive(Debug)]
struct Shown {
    request: UpdateRequest,
    report: UpdateReport,
    /// Nobody else asks for anything of the pod: it may wait.
    is_alone: bool,
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

    /// Takes an end that the plan owes, and that the pod shows.
    pub(crate) fn push_shown(&mut self, request: &UpdateRequest, report: UpdateReport) {
        let shown = Shown { request: request.clone(), report: report.clone(), is_alone: true };
        self.shown.insert(request.id.clone(), shown);
        self.push(request, report);
    }

    /// Owes once more an end that the pod has shown of one of these requests, which are all that are open of
    /// it. False: it has shown none. Beside a request of somebody else it is told at once, and that one comes
    /// after it: else this one would count as replaced.
    pub(crate) fn repeats(&mut self, requests: &[UpdateRequest]) -> bool {
        for request in requests {
            if let Some(shown) = self.shown.get_mut(&request.id) {
                shown.is_alone &= requests.len() == 1;
                self.owed.push((request.clone(), shown.report.clone()));
                return true;
            }
        }
        false
    }

    /// Settles the ends of a plan: they are told once no other one of `open` goes on, or the first has waited
    /// long enough.
    pub(crate) fn settle<'a>(&mut self, open: impl Iterator<Item = &'a UpdateRequest>, now: Instant) -> Told {
        let owed = std::mem::take(&mut self.owed);
        let mut before = std::mem::take(&mut self.since);
        let since = |(request, _): &(UpdateRequest, UpdateReport)| {
            (request.id.clone(), before.remove(&request.id).unwrap_or(now))
        };
        self.since = owed.iter().map(since).collect();
        if owed.is_empty() {
            return Told::Now(owed);
        }
        let goes_on = |request: &&UpdateRequest| request.is_entry() && !self.since.contains_key(&request.id);
        let begun: BTreeSet<Instant> = open.filter(goes_on).map(|request| request.created).collect();
        let until = owed.iter().filter_map(|(request, _)| {
            let since = self.since.get(&request.id)?;
            Some(later(*since, self.waits(request, &begun)))
        });
        let until = until.min();
        match until.filter(|until| *until > now) {
            Some(until) => Told::Later(until),
            None => {
                self.written_since.extend(owed.iter().map(|(request, _)| (request.id.clone(), now)));
                Told::Now(owed)
            }
        }
    }

    /// Returns how long this end waits for updates that go on and have `begun` at these times.
    fn waits(&self, request: &UpdateRequest, begun: &BTreeSet<Instant>) -> Duration {
        if let Some(shown) = self.shown.get(&request.id) {
            return if shown.is_alone { SHOWN_FOR } else { Duration::ZERO };
        }
        if begun.is_empty() {
            return Duration::ZERO;
        }
        let first = request.created.checked_sub(TOGETHER).unwrap_or(request.created);
        let mut together = begun.range(first..=later(request.created, TOGETHER));
        match request.owner {
            UpdateOwner::Workload if together.next().is_some() => GATHERED,
            UpdateOwner::Workload | UpdateOwner::SidecarSet(_) => {
                self.took.saturating_mul(TIMES_A_WRITE).clamp(LEAST, GATHERED)
            }
        }
    }

    /// Takes note that the end of this request is told, if it has one.
    pub(super) fn told(&mut self, id: &RequestId) {
        self.shown.remove(id);
    }

    /// Takes note that a write of this request ended, if it was that of an end.
    pub(crate) fn written(&mut self, id: &RequestId, now: Instant) {
        if let Some(since) = self.written_since.remove(id) {
            self.took = now.saturating_duration_since(since);
        }
    }
}

/// Tells whether the report may wait for those of other pods.
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
        self.ends.written_since.retain(|id, _| writing.contains(id));
        let open = by_pod.values().flatten().filter(|request| !writing.contains(&request.id));
        match self.ends.settle(open, now) {
            Told::Now(ends) => {
                let tell = |(request, report)| self.report(request, report, About::Pod, now, actions);
                ends.into_iter().for_each(tell);
            }
            Told::Later(until) => self.wake.at(until),
        }
        // One whose write fails is told again.
        let Ends { shown, since, .. } = &mut self.ends;
        let is_owed = |id: &RequestId| since.contains_key(id) || self.writing.contains(id);
        let (owed, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(shown).into_iter().partition(|(id, _)| is_owed(id));
        *shown = owed;
        let untold = over.into_values().filter(|shown| self.requests.get(&shown.request.id).is_none());
        actions.extend(untold.map(|shown| UpdateAction::Ended(Box::new(shown.request))));
    }
}
