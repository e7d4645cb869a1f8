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
    pub(crate) fn seen(&mut self, entry: StoredRequest) {
        let outdated = |known: &StoredRequest| known.version > entry.version;
        if !self.entries.get(&entry.request.id).is_some_and(outdated) {
            self.entries.insert(entry.request.id.clone(), entry);
        }
    }

    pub(crate) fn gone(&mut self, id: &RequestId) {
        self.entries.remove(id);
    }

    pub(crate) fn listed(&mut self, source: UpdateSource, entries: Vec<StoredRequest>) {
        let mut entries: BTreeMap<RequestId, StoredRequest> =
            entries.into_iter().map(|entry| (entry.request.id.clone(), entry)).collect();
        self.entries.retain(|id, known| match entries.get(id) {
            // A list can be older than the answer to a write.
            Some(shown) if known.version > shown.version => entries.remove(id).is_some(),
            _ => known.request.source != source,
        });
        self.entries.extend(entries);
        self.listed.insert(source);
    }

    /// This was written down for the request.
    pub(crate) fn reported(&mut self, id: &RequestId, report: UpdateReport, now: Instant) {
        if let Some(entry) = self.entries.get_mut(id) {
            if report.phase == Some(UpdatePhase::Ended) {
                entry.request.ended.get_or_insert(now);
            }
            entry.request.reported = report;
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &StoredRequest> {
        self.entries.values()
    }

    pub(crate) fn get(&self, id: &RequestId) -> Option<&StoredRequest> {
        self.entries.get(id)
    }

    /// Requests that have not ended: of each pod the first [`LOOKED_AT`], and of the others some that were
    /// not told yet that they wait.
    pub(crate) fn open(&self) -> Open {
        let mut by_pod: BTreeMap<&PodUid, Vec<&StoredRequest>> = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| entry.request.ended.is_none()) {
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

    /// Whether somebody waits for something to be done to this pod.
    pub(crate) fn wants(&self, pod: &PodUid) -> bool {
        self.entries.values().any(|entry| entry.request.ended.is_none() && entry.request.pod.uid == *pod)
    }

    /// Whether these have all told what they have.
    pub(crate) fn has_heard(&self, sources: &[UpdateSource]) -> bool {
        sources.iter().all(|source| self.listed.contains(source))
    }
}
