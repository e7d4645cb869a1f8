//! Work queue of pods that need a fix-up beside their updates: keeps the newest version of each, until it is
//! done or the watch shows that it is not needed any more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_policy::PodUid;
use tokio::sync::watch;

use crate::cluster::{node_pods::identity, v1 as core};

/// Queue of the pods of this node that need one kind of fix-up.
#[derive(Debug)]
pub(super) struct WorkQueue {
    needs: fn(&core::Pod) -> bool,
    pods: Mutex<BTreeMap<PodUid, Arc<core::Pod>>>,
    changes: watch::Sender<u64>,
}

/// Pod that was taken out. Dropped before it is done, it is put back, so that whoever is stopped between the
/// two loses none.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    queue: &'a WorkQueue,
    pub(super) uid: PodUid,
    pub(super) pod: Arc<core::Pod>,
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
        pods.insert(uid, Arc::new(pod));
        drop(pods);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// It is not there any more.
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
            if let Some((uid, pod)) = self.take(after, &may) {
                return Some(Taken { queue: self, uid, pod, is_done: false });
            }
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                changed = others.changed() => changed,
            };
            changed.ok()?;
        }
    }

    fn take(&self, after: &PodUid, may: impl Fn(&PodUid) -> bool) -> Option<(PodUid, Arc<core::Pod>)> {
        let mut pods = self.pods();
        let later = pods.keys().find(|uid| *uid > after && may(uid));
        let uid = later.or_else(|| pods.keys().find(|uid| may(uid))).cloned()?;
        pods.remove_entry(&uid)
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, Arc<core::Pod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    /// Nothing is left to do for it.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // Newer news of it stands.
            self.queue.pods().entry(self.uid.clone()).or_insert_with(|| self.pod.clone());
            self.queue.changes.send_modify(|changes| *changes += 1);
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
}
