//! Work queue of pods that need a fix-up beside their updates: keeps the newest version of each, until it is
//! done or the watch shows that it is not needed any more.
//!
//! One that failed pauses by itself, longer each time, and goes behind those that have not: somebody who
//! refuses every write about the pods of one namespace holds up no other one's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use berth_policy::{PodUid, time::later};
use tokio::sync::watch;

use crate::{
    agent::now,
    base::deadline,
    cluster::{node_pods::identity, v1 as core},
};

/// Pause after the first failure of a pod, and the longest one.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// Queue of the pods of this node that need one kind of fix-up.
#[derive(Debug)]
pub(super) struct WorkQueue {
    needs: fn(&core::Pod) -> bool,
    pods: Mutex<BTreeMap<PodUid, Queued>>,
    changes: watch::Sender<u64>,
}

/// Pod that waits.
#[derive(Clone, Debug)]
struct Queued {
    pod: Arc<core::Pod>,
    failures: u32,
    not_before: Option<Instant>,
}

/// Pod that was taken out. Dropped before it is done, it is put back, so that whoever is stopped between the
/// two loses none.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    queue: &'a WorkQueue,
    pub(super) uid: PodUid,
    pub(super) pod: Arc<core::Pod>,
    failures: u32,
    is_done: bool,
}

impl WorkQueue {
    /// Makes the queue of the pods for which this holds.
    pub(super) fn of(needs: fn(&core::Pod) -> bool) -> Self {
        Self { needs, pods: Mutex::default(), changes: watch::Sender::default() }
    }

    /// The pod watch shows this.
    pub(super) fn seen(&self, pod: &core::Pod) {
        let Some(uid) = identity(&pod.metadata).map(PodUid::from) else { return };
        let mut pods = self.pods();
        if !(self.needs)(pod) {
            pods.remove(&uid);
            return;
        }
        let mut pod = pod.clone();
        pod.metadata.managed_fields = None;
        let pod = Arc::new(pod);
        match pods.get_mut(&uid) {
            // News of it end no pause: whoever refuses it does so whatever is new.
            Some(known) => known.pod = pod,
            None => drop(pods.insert(uid, Queued { pod, failures: 0, not_before: None })),
        }
        drop(pods);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Forgets a pod that is not there any more.
    pub(super) fn gone(&self, pod: &PodUid) {
        self.pods().remove(pod);
    }

    /// Waits for the next one after this one, round and round. `may` is asked again when another pod comes
    /// in, and at every change of `others`; `None`: nothing changes any more. Cancel-safe: a pod is taken out
    /// at the very end.
    pub(super) async fn next(
        &self,
        after: &PodUid,
        others: &mut watch::Receiver<u64>,
        may: impl Fn(&PodUid) -> bool,
    ) -> Option<Taken<'_>> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            others.mark_unchanged();
            let again = match self.take(after, now(), &may) {
                Ok((uid, Queued { pod, failures, .. })) => {
                    return Some(Taken { queue: self, uid, pod, failures, is_done: false });
                }
                Err(again) => again,
            };
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = others.changed() => changed,
                () = deadline::reached(again) => Ok(()),
            };
            changed.ok()?;
        }
    }

    /// Takes out the next one after this one: of those that never failed, or else of those whose pause is
    /// over. Otherwise the end of the first pause.
    fn take(
        &self,
        after: &PodUid,
        now: Instant,
        may: impl Fn(&PodUid) -> bool,
    ) -> Result<(PodUid, Queued), Option<Instant>> {
        let mut pods = self.pods();
        let is_due = |queued: &Queued| queued.not_before.is_none_or(|not_before| not_before <= now);
        let due = pods.iter().filter(|(uid, queued)| is_due(queued) && may(uid));
        let next = due.min_by_key(|(uid, queued)| (queued.failures > 0, *uid <= after, *uid));
        let next = next.map(|(uid, _)| uid.clone());
        next.and_then(|uid| pods.remove_entry(&uid)).ok_or_else(|| {
            let pauses = pods.iter().filter(|(uid, _)| may(uid));
            pauses.filter_map(|(_, queued)| queued.not_before).min()
        })
    }

    fn put_back(&self, uid: &PodUid, pod: &Arc<core::Pod>, failures: u32, not_before: Option<Instant>) {
        let mut pods = self.pods();
        // Newer news of it stand.
        let queued = pods.entry(uid.clone()).or_insert_with(|| Queued {
            pod: pod.clone(),
            failures: 0,
            not_before: None,
        });
        (queued.failures, queued.not_before) = (failures, not_before);
        drop(pods);
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, Queued>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    /// Ends its turn: nothing is left to do for it.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }

    /// Ends its turn, as it did not work; it is tried again after a pause of its own.
    pub(super) fn failed(mut self) {
        self.is_done = true;
        let failures = self.failures.saturating_add(1);
        let pause = RETRY_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.queue.put_back(&self.uid, &self.pod, failures, Some(later(now(), pause)));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.queue.put_back(&self.uid, &self.pod, self.failures, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: &str) -> core::Pod {
        let mut pod = core::Pod::default();
        pod.metadata.uid = Some("u".to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        pod
    }

    #[tokio::test]
    async fn a_pod_that_is_not_done_is_put_back() {
        let queue = WorkQueue::of(|_| true);
        let others = watch::Sender::new(0);
        let next = async || queue.next(&PodUid::from(""), &mut others.subscribe(), |_| true).await.unwrap();
        queue.seen(&pod("1"));
        drop(next().await);
        let taken = next().await;
        queue.seen(&pod("2"));
        drop(taken);
        let taken = next().await;
        assert_eq!(taken.pod.metadata.resource_version.as_deref(), Some("2"), "the newer one stands");
        taken.done();
        assert!(queue.pods().is_empty());
    }

    fn named(uid: &str) -> core::Pod {
        let mut pod = pod("1");
        pod.metadata.uid = Some(uid.to_owned());
        pod
    }

    /// Twenty pods of one namespace are refused for ever; another one waits for none of their pauses.
    #[tokio::test(start_paused = true)]
    async fn a_pod_that_fails_pauses_by_itself() {
        let queue = WorkQueue::of(|_| true);
        let others = watch::Sender::new(0);
        let next = async |last: &PodUid| queue.next(last, &mut others.subscribe(), |_| true).await.unwrap();
        let refused = |uid: &PodUid| uid.as_str().starts_with("refused");
        for number in 10..30 {
            queue.seen(&named(&format!("refused-{number}")));
        }
        let (start, mut last, mut tried) = (now(), PodUid::from(""), 0);
        let mut waited = Vec::new();
        for round in 0..50 {
            // All have failed once by then.
            if round >= 20 && round % 10 == 9 {
                queue.seen(&named(&format!("z-{round}")));
                // News of one that pauses.
                queue.seen(&named("refused-10"));
                waited.push(tried);
            }
            let taken = next(&last).await;
            last = taken.uid.clone();
            if refused(&last) {
                tried += 1;
                taken.failed();
            } else {
                let at = waited.pop().unwrap();
                assert_eq!(tried, at, "it is the next one");
                taken.done();
            }
        }
        // Each failed twice or so: the pauses grow.
        assert!(now() - start >= RETRY_PAUSE && now() - start < RETRY_PAUSE * 8, "{:?}", now() - start);
    }
}
