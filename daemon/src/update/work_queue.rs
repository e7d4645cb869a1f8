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
    ) -> Option<(PodUid, Arc<core::Pod>)> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            others.mark_unchanged();
            if let Some(next) = self.take(after, &may) {
                return Some(next);
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

    /// It is still to be done, unless there is newer news.
    pub(super) fn put_back(&self, uid: PodUid, pod: Arc<core::Pod>) {
        self.pods().entry(uid).or_insert(pod);
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, Arc<core::Pod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
