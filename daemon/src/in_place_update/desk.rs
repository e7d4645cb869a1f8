//! What is asked for, wherever it comes from, and what was answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use berth_policy::{
    PodUid, RequestId,
    in_place_update::{UpdatePhase, UpdateReport, UpdateRequest, UpdateSource},
};
use tokio::sync::watch;

/// All requests of this node. Nothing awaits while the lock is held.
#[derive(Debug, Default)]
pub(super) struct Desk {
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<RequestId, Entry>,
    listed: BTreeSet<UpdateSource>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As its source shows it.
    pub(super) request: UpdateRequest,
    /// What is wrong with it: it only fails.
    pub(super) flaw: Option<String>,
    /// Which state of its object this is; grows.
    pub(super) version: u64,
}

impl Desk {
    /// A number that grows with every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A source shows this one, new or changed. The watch and the answer to a write can overtake each other.
    pub(super) fn seen(&self, entry: Entry) {
        let mut inner = self.inner();
        let outdated = |known: &Entry| known.version > entry.version;
        if !inner.entries.get(&entry.request.id).is_some_and(outdated) {
            inner.entries.insert(entry.request.id.clone(), entry);
        }
        self.changed(inner);
    }

    /// It shows it no more.
    pub(super) fn gone(&self, id: &RequestId) {
        let mut inner = self.inner();
        inner.entries.remove(id);
        self.changed(inner);
    }

    /// It was listed anew: these and no others.
    pub(super) fn listed(&self, source: UpdateSource, entries: Vec<Entry>) {
        let mut inner = self.inner();
        let mut entries: BTreeMap<RequestId, Entry> =
            entries.into_iter().map(|entry| (entry.request.id.clone(), entry)).collect();
        inner.entries.retain(|id, known| match entries.get(id) {
            // A list can be older than the answer to a write.
            Some(shown) if known.version > shown.version => entries.remove(id).is_some(),
            _ => known.request.source != source,
        });
        inner.entries.extend(entries);
        inner.listed.insert(source);
        self.changed(inner);
    }

    /// This was written down for the request.
    pub(super) fn reported(&self, id: &RequestId, report: &UpdateReport, now: Instant) {
        let mut inner = self.inner();
        if let Some(entry) = inner.entries.get_mut(id) {
            if report.phase == Some(UpdatePhase::Ended) {
                entry.request.ended.get_or_insert(now);
            }
            entry.request.reported = report.clone();
        }
        self.changed(inner);
    }

    /// All of them.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.inner().entries.values().cloned().collect()
    }

    /// Those that have not ended.
    pub(super) fn open(&self) -> Vec<Entry> {
        let inner = self.inner();
        inner.entries.values().filter(|entry| entry.request.ended.is_none()).cloned().collect()
    }

    /// Those that have, with the time from which on they are to be deleted.
    pub(super) fn over(&self) -> Vec<(RequestId, Instant)> {
        let inner = self.inner();
        let requests = inner.entries.values().map(|entry| &entry.request);
        requests
            .filter_map(|request| {
                Some((request.id.clone(), request.ended?.checked_add(request.delete_after?)?))
            })
            .collect()
    }

    /// Whether it is on the desk.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.inner().entries.contains_key(id)
    }

    /// One of them.
    pub(super) fn entry(&self, id: &RequestId) -> Option<Entry> {
        self.inner().entries.get(id).cloned()
    }

    /// Whether somebody waits for something to be done to this pod.
    pub(super) fn wants(&self, pod: &PodUid) -> bool {
        let inner = self.inner();
        inner.entries.values().any(|entry| entry.request.ended.is_none() && entry.request.pod.uid == *pod)
    }

    /// Whether these have all told what they have.
    pub(super) fn has_heard(&self, sources: &[UpdateSource]) -> bool {
        let inner = self.inner();
        sources.iter().all(|source| inner.listed.contains(source))
    }

    fn changed(&self, inner: MutexGuard<'_, Inner>) {
        drop(inner);
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
