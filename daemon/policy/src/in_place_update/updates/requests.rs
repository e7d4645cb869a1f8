//! The requests of this node, wherever they come from: what is shown of them, and whose turn it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::event::StoredRequest;
use crate::{
    in_place_update::{UpdateOutcome, UpdatePhase, UpdateReport, UpdateRequest, UpdateSource},
    model::{PodUid, RequestId},
    time::later,
};

/// How many open requests for one pod are looked at, first come first; the others wait. All that are looked
/// at are one update, and nobody needs as many.
pub(crate) const LOOKED_AT: usize = 64;
/// How many of those that wait are told so at once.
pub(crate) const TOLD_AT_ONCE: usize = 8;

/// The store of the requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    entries: BTreeMap<RequestId, StoredRequest>,
    /// Rests of requests that nobody makes any more.
    rests: BTreeMap<RequestId, StoredRequest>,
    listed: BTreeSet<UpdateSource>,
}

/// The open requests that somebody has to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    /// Requests whose turn it is.
    pub(crate) entries: Vec<StoredRequest>,
    /// Some of those that wait and were not told so yet.
    pub(crate) untold: Vec<UpdateRequest>,
}

impl Requests {
    /// The watch and the answer to a write can overtake each other.
    pub(crate) fn seen(&mut self, mut entry: StoredRequest) {
        let known = self.entries.get(&entry.request.id);
        if known.is_none_or(|known| known.version <= entry.version) {
            if let Some(known) = known {
                entry.request.keep_time(&known.request);
            }
            self.entries.insert(entry.request.id.clone(), entry);
        }
        self.replace_rests();
    }

    pub(crate) fn gone(&mut self, id: &RequestId) {
        if let Some(entry) = self.entries.remove(id) {
            self.leave(&entry);
            self.replace_rests();
        }
    }

    pub(crate) fn listed(&mut self, source: UpdateSource, entries: Vec<StoredRequest>) {
        let (rests, entries): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.request.rests());
        let mut entries: BTreeMap<RequestId, StoredRequest> =
            entries.into_iter().map(|entry| (entry.request.id.clone(), entry)).collect();
        for (id, entry) in &mut entries {
            if let Some(known) = self.entries.get(id) {
                entry.request.keep_time(&known.request);
            }
        }
        let is_left_out = |known: &&StoredRequest| {
            known.request.source == source && !entries.contains_key(&known.request.id)
        };
        let left: Vec<StoredRequest> = self.entries.values().filter(is_left_out).cloned().collect();
        self.entries.retain(|id, known| match entries.get(id) {
            // A list can be older than the answer to a write.
            Some(shown) if known.version > shown.version => entries.remove(id).is_some(),
            _ => known.request.source != source,
        });
        self.entries.extend(entries);
        self.listed.insert(source);
        left.iter().chain(&rests).for_each(|entry| self.leave(entry));
        self.replace_rests();
    }

    /// Keeps the rest of a request that nobody makes any more, if there is one.
    fn leave(&mut self, entry: &StoredRequest) {
        if let Some(request) = entry.request.to_rest() {
            let rest = StoredRequest { request, flaw: None, version: entry.version };
            self.rests.insert(rest.request.id.clone(), rest);
        }
    }

    /// Leaves out of the rests what others swap, who have written down what the pod was; or who are the same
    /// request again. One that has not begun may be taken back before it does anything.
    fn replace_rests(&mut self) {
        let entries = &self.entries;
        let is_swapped = |rest: &UpdateRequest, name: &str| {
            let mut sound = entries.values().filter(|entry| entry.flaw.is_none());
            sound.any(|StoredRequest { request, .. }| {
                (request.reported.previous.is_some() || request.id == rest.id)
                    && request.ended.is_none()
                    && request.pod.uid == rest.pod.uid
                    && request.swaps.contains_key(name)
            })
        };
        self.rests.retain(|_, StoredRequest { request, .. }| {
            let rest: &UpdateRequest = request;
            let names = rest.swaps.keys().filter(|name| is_swapped(rest, name));
            let names: Vec<String> = names.cloned().collect();
            names.iter().for_each(|name| request.leave_out(name));
            !request.swaps.is_empty()
        });
    }

    /// Tells whether this is the rest of a request.
    pub(crate) fn is_rest(&self, id: &RequestId) -> bool {
        self.rests.contains_key(id)
    }

    /// This is to be said of the rest of a request: it is said to nobody.
    pub(crate) fn rested(&mut self, id: &RequestId, report: UpdateReport, now: Instant) {
        if let Some(rest) = self.rests.get_mut(id) {
            rest.request.ended = report.outcome.map(|_| now);
            rest.request.reported = report;
        }
    }

    /// Forgets the rests that have ended. True: there were some.
    pub(crate) fn forget_rested(&mut self) -> bool {
        let before = self.rests.len();
        self.rests.retain(|_, rest| rest.request.ended.is_none());
        self.rests.len() < before
    }

    /// This was written down for the request. Of one that was refused in the middle of a swap the rest is
    /// left to do.
    pub(crate) fn reported(&mut self, id: &RequestId, report: UpdateReport, now: Instant) {
        let ends = report.phase == Some(UpdatePhase::Ended);
        let refused = self.entries.get(id).filter(|entry| ends && entry.flaw.is_some()).cloned();
        if let Some(entry) = self.entries.get_mut(id) {
            if ends {
                entry.request.ended.get_or_insert(now);
            }
            entry.request.reported = report;
        }
        if let Some(entry) = refused {
            self.leave(&entry);
        }
        self.replace_rests();
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &StoredRequest> {
        self.entries.values()
    }

    /// Requests and rests of others, some of which may have ended.
    pub(crate) fn all_with_rests(&self) -> impl Iterator<Item = &StoredRequest> {
        self.entries.values().chain(self.rests.values())
    }

    pub(crate) fn get(&self, id: &RequestId) -> Option<&StoredRequest> {
        self.entries.get(id)
    }

    /// Requests that have not ended: of each pod the first [`LOOKED_AT`], and of the others some that were
    /// not told yet that they wait.
    pub(crate) fn open(&self) -> Open {
        let mut by_pod: BTreeMap<&PodUid, Vec<&StoredRequest>> = BTreeMap::new();
        for entry in self.all_with_rests().filter(|entry| entry.request.ended.is_none()) {
            by_pod.entry(&entry.request.pod.uid).or_default().push(entry);
        }
        let mut open = Open::default();
        for mut of_pod in by_pod.into_values() {
            if of_pod.len() > LOOKED_AT {
                of_pod.sort_by_key(|entry| (entry.request.created, &entry.request.id));
                let rest = of_pod.split_off(LOOKED_AT);
                let untold = rest.into_iter().filter(|entry| entry.request.reported.phase.is_none());
                open.untold.extend(untold.take(TOLD_AT_ONCE).map(|entry| entry.request.clone()));
            }
            open.entries.extend(of_pod.into_iter().cloned());
        }
        open
    }

    /// Requests that have brought about what they asked for while open ones of the same pod were there; of
    /// each pod the newest [`LOOKED_AT`]: what the earlier ones left was written down meanwhile.
    pub(crate) fn complete(&self) -> BTreeMap<PodUid, Vec<UpdateRequest>> {
        let mut since: BTreeMap<&PodUid, Instant> = BTreeMap::new();
        for request in self.entries.values().map(|entry| &entry.request) {
            if request.ended.is_none() {
                let first = since.entry(&request.pod.uid).or_insert(request.created);
                *first = request.created.min(*first);
            }
        }
        let mut by_pod: BTreeMap<PodUid, Vec<&UpdateRequest>> = BTreeMap::new();
        for request in self.entries.values().map(|entry| &entry.request) {
            let open_since = since.get(&request.pod.uid).copied();
            if request.reported.outcome == Some(UpdateOutcome::Complete)
                && request.ended.is_some_and(|ended| open_since.is_some_and(|since| ended >= since))
            {
                by_pod.entry(request.pod.uid.clone()).or_default().push(request);
            }
        }
        let newest = |mut of_pod: Vec<&UpdateRequest>| -> Vec<UpdateRequest> {
            of_pod.sort_by_key(|request| std::cmp::Reverse(request.ended));
            of_pod.into_iter().take(LOOKED_AT).cloned().collect()
        };
        by_pod.into_iter().map(|(pod, of_pod)| (pod, newest(of_pod))).collect()
    }

    /// Lists the requests that have ended, with the time from which on they are to be deleted.
    pub(crate) fn over(&self) -> Vec<(RequestId, Instant)> {
        let requests = self.entries.values().map(|entry| &entry.request);
        requests
            .filter_map(|request| Some((request.id.clone(), later(request.ended?, request.delete_after?))))
            .collect()
    }

    /// Tells whether somebody waits for something to be done to this pod.
    pub(crate) fn wants(&self, pod: &PodUid) -> bool {
        self.all_with_rests().any(|entry| entry.request.ended.is_none() && entry.request.pod.uid == *pod)
    }

    /// Tells whether one of these decides on the readiness gate of this pod. Who keeps it in service leaves
    /// the gate as it is, and be it shut by somebody who wants nothing any more.
    pub(crate) fn minds_gate(&self, pod: &PodUid) -> bool {
        let mut open = self.all_with_rests().map(|entry| &entry.request);
        open.any(|request| request.ended.is_none() && request.pod.uid == *pod && !request.keeps_service)
    }

    /// Tells whether these have all told what they have.
    pub(crate) fn has_heard(&self, sources: &[UpdateSource]) -> bool {
        sources.iter().all(|source| self.listed.contains(source))
    }
}
