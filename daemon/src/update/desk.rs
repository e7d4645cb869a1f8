//! What is asked for, wherever it comes from, and what was answered.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use berth_policy::{
    PodUid, RequestId,
    in_place_update::{UpdateOutcome, UpdatePhase, UpdateReport, UpdateRequest, UpdateSource},
    time::later,
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
    /// Flaw of the request: it only fails.
    pub(super) flaw: Option<String>,
    /// Which state of its object this is; grows.
    pub(super) version: u64,
}

/// How many open requests for one pod are looked at, first come first; the others wait. All that are looked
/// at are one update, and nobody needs as many.
pub(super) const LOOKED_AT: usize = 64;
/// How many of those that wait are told so at once.
const TOLD_AT_ONCE: usize = 8;

/// The open requests that somebody has to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    /// Requests whose turn it is.
    pub(super) entries: Vec<Entry>,
    /// Some of those that wait and were not told so yet.
    pub(super) untold: Vec<UpdateRequest>,
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

    /// Requests that have not ended: of each pod the first [`LOOKED_AT`], and of the others some that were
    /// not told yet that they wait.
    pub(super) fn open(&self) -> Open {
        let inner = self.inner();
        let mut by_pod: BTreeMap<&PodUid, Vec<&Entry>> = BTreeMap::new();
        for entry in inner.entries.values().filter(|entry| entry.request.ended.is_none()) {
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

    /// Requests that have brought about what they asked for while open ones of the same pod were there; of each pod the newest
    /// [`LOOKED_AT`]: what the earlier ones left was written down meanwhile.
    pub(super) fn complete(&self) -> BTreeMap<PodUid, Vec<UpdateRequest>> {
        let inner = self.inner();
        let mut since: BTreeMap<&PodUid, Instant> = BTreeMap::new();
        for request in inner.entries.values().map(|entry| &entry.request) {
            if request.ended.is_none() {
                let first = since.entry(&request.pod.uid).or_insert(request.created);
                *first = request.created.min(*first);
            }
        }
        let mut by_pod: BTreeMap<PodUid, Vec<&UpdateRequest>> = BTreeMap::new();
        for request in inner.entries.values().map(|entry| &entry.request) {
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
    pub(super) fn over(&self) -> Vec<(RequestId, Instant)> {
        let inner = self.inner();
        let requests = inner.entries.values().map(|entry| &entry.request);
        requests
            .filter_map(|request| Some((request.id.clone(), later(request.ended?, request.delete_after?))))
            .collect()
    }

    /// Returns whether the request is on the desk.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_policy::PodRef;

    use super::*;

    fn entry(number: usize, pod: &str, now: Instant) -> Entry {
        let pod = PodRef { uid: pod.into(), namespace: "shop".to_owned(), name: pod.to_owned() };
        let request = UpdateRequest {
            id: format!("r{number:05}").as_str().into(),
            source: UpdateSource::Api,
            key: format!("shop/r{number:05}"),
            created: now,
            pod,
            revision: format!("r{number:05}"),
            images: BTreeMap::from([("a".into(), Arc::from("image"))]),
            metadata: BTreeMap::new(),
            grace: std::time::Duration::ZERO,
            ignore_failures: false,
            rollback_on_failure: false,
            deadline: None,
            rollback_limit: std::time::Duration::ZERO,
            delete_after: None,
            reported: UpdateReport::default(),
            ended: None,
        };
        Entry { request, flaw: None, version: 1 }
    }

    #[test]
    fn of_ten_thousand_for_one_pod_a_few_are_looked_at_and_others_do_not_wait() {
        let (desk, now) = (Desk::default(), Instant::now());
        let crowd = (0..10_000).map(|number| entry(number, "crowded", now));
        desk.listed(UpdateSource::Api, crowd.chain([entry(20_000, "other", now)]).collect());
        let open = desk.open();
        assert_eq!(open.entries.len(), LOOKED_AT + 1);
        assert_eq!(open.entries[0].request.id.as_str(), "r00000");
        assert_eq!(open.entries.last().unwrap().request.id.as_str(), "r20000");
        assert_eq!(open.untold.len(), TOLD_AT_ONCE);

        assert!(desk.complete().is_empty());

        // One that was told so is not told again, and one that has ended makes room.
        let waits = UpdateReport { phase: Some(UpdatePhase::Pending), ..UpdateReport::default() };
        desk.reported(&open.untold[0].id, &waits, now);
        assert_ne!(desk.open().untold[0].id, open.untold[0].id);
        let ended = UpdateReport { phase: Some(UpdatePhase::Ended), ..UpdateReport::default() };
        desk.reported(&open.entries[0].request.id, &ended, now);
        assert_eq!(desk.open().entries[LOOKED_AT - 1].request.id.as_str(), "r00064");
    }

    #[test]
    fn what_became_complete_beside_an_open_one_is_remembered() {
        let (desk, now) = (Desk::default(), Instant::now());
        let late = now + std::time::Duration::from_secs(1);
        let complete = UpdateReport {
            phase: Some(UpdatePhase::Ended),
            outcome: Some(UpdateOutcome::Complete),
            ..UpdateReport::default()
        };
        // Of one pod: ended before the open one came, ended since, failed since. Of another: nothing is open.
        let all = [(1, "a", now), (2, "a", now), (3, "a", now), (4, "a", late), (5, "b", now)];
        desk.listed(UpdateSource::Api, all.map(|(number, pod, created)| entry(number, pod, created)).into());
        let failed = UpdateReport { outcome: None, ..complete.clone() };
        for (number, report, at) in
            [(1, &complete, now), (2, &complete, late), (3, &failed, late), (5, &complete, late)]
        {
            desk.reported(&format!("r{number:05}").as_str().into(), report, at);
        }
        let found: Vec<(String, Vec<String>)> = desk
            .complete()
            .into_iter()
            .map(|(pod, all)| (pod.to_string(), all.iter().map(|request| request.revision.clone()).collect()))
            .collect();
        assert_eq!(found, [("a".to_owned(), vec!["r00002".to_owned()])]);
    }
}
