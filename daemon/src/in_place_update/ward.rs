//! Pods that need something beside their updates: each in its newest version, until that is done or the watch shows that
//! it is not needed any more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_policy::PodUid;
use k8s_openapi::api::core::v1 as core;
use tokio::sync::watch;

use crate::pod_view::convert::identity;

/// The pods of this node that somebody has to look after.
#[derive(Debug)]
pub(super) struct Ward {
    needs: fn(&core::Pod) -> bool,
    pods: Mutex<BTreeMap<PodUid, Arc<core::Pod>>>,
    changes: watch::Sender<u64>,
}

impl Ward {
    /// Those for which this holds.
    pub(super) fn of(needs: fn(&core::Pod) -> bool) -> Self {
        Self { needs, pods: Mutex::default(), changes: watch::Sender::default() }
    }

    /// A number that grows with every pod that comes in.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
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

    /// The next one after this one, round and round.
    pub(super) fn next(
        &self,
        after: &PodUid,
        may: impl Fn(&PodUid) -> bool,
    ) -> Option<(PodUid, Arc<core::Pod>)> {
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
