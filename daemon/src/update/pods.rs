//! The pods that are to be updated, in their newest version as the API server has it: a write is made from
//! that. What is seen of them goes on to the policy in its own words.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_policy::{
    PodUid,
    in_place_update::{PodView, UpdateEvent},
};

use super::{readiness_gate, runtime_meta, shared::SharedUpdates, snapshot, work_queue::WorkQueue};
use crate::{
    cluster::{target::version, v1 as core},
    config::ContainersMeta,
    pods::api::Onlooker,
};

/// Cache of the pods under update. Nothing awaits while the lock is held.
#[derive(Debug)]
pub(crate) struct Pods {
    updates: Arc<SharedUpdates>,
    newest: Mutex<BTreeMap<PodUid, Arc<core::Pod>>>,
    /// Pods whose annotation of the running version is not true any more.
    pub(super) outdated: WorkQueue,
    /// Pods whose gate the agent has to open.
    pub(super) shut: WorkQueue,
}

impl Pods {
    pub(super) fn new(updates: Arc<SharedUpdates>, kept: ContainersMeta) -> Self {
        Self {
            updates,
            newest: Mutex::default(),
            outdated: WorkQueue::of(runtime_meta::rule(kept)),
            shut: WorkQueue::of(readiness_gate::is_left_shut),
        }
    }

    /// The newest version of a pod under update.
    pub(super) fn newest(&self, pod: &PodUid) -> Option<Arc<core::Pod>> {
        self.pods().get(pod).cloned()
    }

    /// Keeps a version, unless a newer one is known or nobody wants the pod any more. Returns what the policy
    /// is to see of it.
    pub(super) fn keep(&self, pod: &core::Pod) -> PodView {
        if let Some(uid) = self.updates.followed_as(&snapshot::uids(pod)) {
            let mut pods = self.pods();
            let number = version(&pod.metadata);
            if pods.get(&uid).is_none_or(|known| version(&known.metadata) <= number) {
                let mut pod = pod.clone();
                // Often the larger half of an object, and nothing is decided by it.
                pod.metadata.managed_fields = None;
                pods.insert(uid, Arc::new(pod));
            }
        }
        snapshot::pod(pod)
    }

    /// Forgets the pods that nobody wants to be updated any more.
    pub(super) fn prune(&self) {
        let is_followed = |pod: &PodUid| self.updates.followed_as(std::slice::from_ref(pod)).is_some();
        self.pods().retain(|pod, _| is_followed(pod));
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, Arc<core::Pod>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Onlooker for Pods {
    fn seen(&self, pod: &core::Pod) {
        self.outdated.seen(pod);
        self.shut.seen(pod);
        if self.updates.followed_as(&snapshot::uids(pod)).is_some() {
            self.updates.apply(UpdateEvent::PodShown(Box::new(self.keep(pod))));
        }
    }

    fn gone(&self, pod: &PodUid) {
        self.outdated.gone(pod);
        self.shut.gone(pod);
        if self.updates.followed_as(std::slice::from_ref(pod)).is_some() {
            self.updates.apply(UpdateEvent::PodGone(pod.clone()));
        }
    }

    fn listed(&self, is_there: &dyn Fn(&PodUid) -> bool) {
        let followed = self.updates.followed().into_iter().map(|(pod, _)| pod);
        let lacking = followed.filter(|pod| !is_there(pod)).collect();
        self.updates.apply(UpdateEvent::PodsListed(lacking));
    }

    fn lost(&self) {
        self.updates.apply(UpdateEvent::WatchLost);
    }
}
