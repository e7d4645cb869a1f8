//! Reports on requests, and when requests are deleted.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    Updates, action::UpdateAction, event::StoredRequest, requests::LOOKED_AT, retries::Attempts,
    writes::About,
};
use crate::{
    event::StepOutcome,
    in_place_update::{
        ContainerUpdatePhase, Failure, UpdateOutcome, UpdatePhase, UpdateReport, UpdateRequest,
    },
    model::{PodUid, RequestId},
    time::later,
};

/// Time between two reports on an entry of a NodePodUpdate that say nothing new but to people.
const MESSAGES_APART: Duration = Duration::from_secs(5);
/// The message of requests that are left alone.
const SET_ASIDE: &str = "berthd has failed to evaluate it and leaves it alone for a while; this is a bug of berthd, whose log has the place";

/// Tells whether a report has more than words for people, which wait where many entries stand in one object.
pub fn is_news(request: &UpdateRequest, report: &UpdateReport) -> bool {
    let old = &request.reported;
    let failed = |report: &UpdateReport| {
        let states = report.containers.iter();
        states.filter(|state| state.phase == ContainerUpdatePhase::Failed).count()
    };
    !request.is_entry()
        || !begins(request, report) && (report.phase, report.outcome) != (old.phase, old.outcome)
        || report.rolling_back != old.rolling_back
        || report.previous != old.previous
        || failed(report) != failed(old)
}

/// Tells whether this says only that it has begun. Nobody waits for that word; one that takes long says how
/// far it is.
fn begins(request: &UpdateRequest, report: &UpdateReport) -> bool {
    request.is_one_way() && request.reported.phase.is_none() && report.outcome.is_none()
}

impl Updates {
    /// The open requests to look at, by pod. Those that make no sense fail, and those that wait for their
    /// turn are told so.
    pub(super) fn looked_at(
        &mut self,
        now: Instant,
        actions: &mut Vec<UpdateAction>,
    ) -> BTreeMap<PodUid, Vec<UpdateRequest>> {
        let open = self.requests.open();
        for request in open.untold {
            let message = format!("waits for its turn: more than {LOOKED_AT} updates for this pod are open");
            let report =
                UpdateReport { phase: Some(UpdatePhase::Pending), message, ..request.reported.clone() };
            self.report(request, report, About::Rest, now, actions);
        }
        let mut by_pod: BTreeMap<PodUid, Vec<UpdateRequest>> = BTreeMap::new();
        for entry in open.entries {
            match &entry.flaw {
                Some(flaw) => self.refuse(&entry, flaw, now, actions),
                None => by_pod.entry(entry.request.pod.uid.clone()).or_default().push(entry.request),
            }
        }
        let requests = &self.requests;
        self.unwritten.retain(|id, _| requests.get(id).is_some());
        let is_open = |id: &RequestId| requests.get(id).is_some_and(|entry| entry.request.ended.is_none());
        self.told_at.retain(|id, _| is_open(id));
        self.untold.retain(|id, _| is_open(id));
        for until in self.unwritten.values().filter_map(|attempts| attempts.pause(now)) {
            self.wake.at(until);
        }
        by_pod
    }

    /// Writes what a request is to say, unless a write of it goes on or failed a moment ago, or too many go
    /// on.
    pub(super) fn report(
        &mut self,
        request: UpdateRequest,
        report: UpdateReport,
        about: About,
        now: Instant,
        actions: &mut Vec<UpdateAction>,
    ) {
        let paused = self.unwritten.get(&request.id).is_some_and(|attempts| attempts.pause(now).is_some());
        if !paused && self.writing.begin(&request, about) {
            actions.push(UpdateAction::Report(Box::new(request), Box::new(report)));
        }
    }

    /// Tells whether this is to be reported now. All entries of a node stand in one object, so what is only
    /// for people waits, if the entry was reported on a moment ago; a phase, an end or a failure never does.
    pub(super) fn is_time_to_tell(
        &mut self,
        request: &UpdateRequest,
        report: &UpdateReport,
        now: Instant,
    ) -> bool {
        if begins(request, report) {
            self.told_at.entry(request.id.clone()).or_insert(now);
        }
        let is_news = is_news(request, report);
        let Some(told) = self.told_at.get(&request.id).filter(|_| !is_news) else { return true };
        let then = later(*told, MESSAGES_APART);
        self.wake.at(then);
        then <= now
    }

    /// Keeps what a request is about to say, for who asks here. An end is one when it is written: one that
    /// waits for that still goes on, of which nothing else may ever have been written.
    pub(super) fn keep_untold(&mut self, request: &UpdateRequest, report: &UpdateReport) {
        let phase = match report.outcome {
            None => report.phase,
            Some(UpdateOutcome::Complete) if request.is_one_way() => Some(UpdatePhase::Updating),
            Some(_) => return,
        };
        let untold = UpdateReport {
            phase,
            message: report.message.clone(),
            containers: report.containers.clone(),
            swaps: report.swaps.clone(),
            rolling_back: report.rolling_back.clone(),
            ..UpdateReport::default()
        };
        self.untold.insert(request.id.clone(), untold);
    }

    /// A request that makes no sense fails.
    fn refuse(
        &mut self,
        entry: &StoredRequest,
        flaw: &Failure,
        now: Instant,
        actions: &mut Vec<UpdateAction>,
    ) {
        let report = UpdateReport {
            phase: Some(UpdatePhase::Ended),
            message: flaw.message.clone(),
            outcome: Some(UpdateOutcome::Failed(flaw.reason)),
            ..entry.request.reported.clone()
        };
        self.report(entry.request.clone(), report, About::Rest, now, actions);
    }

    /// Deletes requests that ended long enough ago.
    pub(super) fn expire(&mut self, now: Instant, actions: &mut Vec<UpdateAction>) {
        for (id, at) in self.requests.over() {
            let pause = self.unwritten.get(&id).and_then(|attempts| attempts.pause(now));
            let at = pause.map_or(at, |pause| pause.max(at));
            if at > now {
                self.wake.at(at);
            } else if let Some(entry) = self.requests.get(&id)
                && self.writing.begin(&entry.request, About::Rest)
            {
                actions.push(UpdateAction::Delete(Box::new(entry.request.clone())));
            }
        }
    }

    /// Says in the requests of a pod that its evaluation panicked.
    pub(super) fn tell_what_is_set_aside(
        &mut self,
        by_pod: &BTreeMap<PodUid, Vec<UpdateRequest>>,
        now: Instant,
        actions: &mut Vec<UpdateAction>,
    ) {
        self.set_aside.keep(|pod| by_pod.contains_key(pod));
        for pod in self.set_aside.news() {
            for request in by_pod.get(&pod).into_iter().flatten().filter(|request| !request.rests()) {
                let report = UpdateReport { message: SET_ASIDE.to_owned(), ..request.reported.clone() };
                self.report(request.clone(), report, About::Once, now, actions);
            }
        }
        if let Some(next) = self.set_aside.next(now) {
            self.wake.at(next);
        }
    }

    pub(super) fn reported(
        &mut self,
        id: &RequestId,
        report: UpdateReport,
        outcome: StepOutcome,
        now: Instant,
    ) {
        self.writing.end(id);
        self.ends.written(id, now);
        match outcome {
            StepOutcome::Done => {
                self.unwritten.remove(id);
                self.untold.remove(id);
                self.ends.told(id);
                if report.outcome.is_some() {
                    self.forget_word(id);
                }
                if self.requests.get(id).is_some_and(|entry| entry.request.is_entry()) {
                    self.told_at.insert(id.clone(), now);
                }
                self.requests.reported(id, report, now);
            }
            StepOutcome::Gone => self.requests.gone(id),
            StepOutcome::Failed => self.unwritten(id, now),
        }
    }

    pub(super) fn deleted(&mut self, id: &RequestId, outcome: StepOutcome, now: Instant) {
        self.writing.end(id);
        match outcome {
            StepOutcome::Done | StepOutcome::Gone => self.requests.gone(id),
            StepOutcome::Failed => self.unwritten(id, now),
        }
    }

    fn unwritten(&mut self, id: &RequestId, now: Instant) {
        let attempts: &mut Attempts = self.unwritten.entry(id.clone()).or_default();
        attempts.failed(now);
    }
}
