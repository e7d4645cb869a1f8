//! The pods that are to be updated, in their newest version, and since when the kubelet must have seen it.
//!
//! They come by the pod watch of the agent. The kubelet has a watch of its own on the same objects, and both hear of a
//! change at once. After the watch broke that is not so: the kubelet comes back by its own clock, up to half a minute later.
//! And a pod worker of the kubelet that waits for the next list of containers goes on with the pod as it was before.
//!
//! Between kubelet and runtime the agent sees to it that what is started then is not too old all the same
//! ([`crate::agent::Agent::set_env`]). Beside them it can only wait.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use berth_policy::{PodUid, time::later};
use k8s_openapi::api::core::v1 as core;
use tokio::sync::watch;

use super::{gates, meta, ward::Ward};
use crate::{
    agent::now,
    cluster::{node_pods::identity, target::version},
    pods::api::Onlooker,
};

/// After the watch has shown a version the kubelet has it, too, and its pod worker has been told.
const SETTLED: Duration = Duration::from_millis(100);
/// A watch that is well shows a write within this.
const SHOWN: Duration = Duration::from_secs(2);
/// After that no pod worker has an older one: two lists of the kubelet, and what it makes of them.
const WORKED_OFF: Duration = Duration::from_millis(2500);
/// The kubelet's longest pause before it lists anew (client-go's reflector).
const RELIST: Duration = Duration::from_secs(30);

/// The pods somebody wants to be updated. Nothing awaits while the lock is held.
#[derive(Debug)]
pub struct Pods {
    inner: Mutex<Inner>,
    /// Pods whose annotation of the running version is not true any more.
    pub(super) outdated: Ward,
    /// Pods whose gate the agent has to open.
    pub(super) shut: Ward,
    changes: watch::Sender<u64>,
    beside: bool,
}

#[derive(Debug, Default)]
struct Inner {
    wanted: BTreeMap<PodUid, Known>,
    /// The watch was complete since it was last lost.
    follows: bool,
    /// It was lost at least once.
    was_lost: bool,
}

/// State of one pod.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    /// Nothing yet.
    #[default]
    Nothing,
    /// It is not there any more.
    Gone,
    /// This.
    There(Arc<Version>),
}

impl Default for Pods {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Known {
    /// The version, if it is there.
    pub(super) fn there(self) -> Option<Arc<Version>> {
        match self {
            Self::There(version) => Some(version),
            Self::Nothing | Self::Gone => None,
        }
    }
}

/// A version of a pod.
#[derive(Debug)]
pub(super) struct Version {
    /// The pod.
    pub(super) pod: core::Pod,
    /// `metadata.resourceVersion`, as a number that grows.
    pub(super) number: u64,
    /// From then on the kubelet knows it.
    pub(super) settled: Instant,
}

impl Pods {
    /// For an agent that stands beside kubelet and runtime, or between them.
    pub fn new(beside: bool) -> Self {
        Self {
            inner: Mutex::default(),
            outdated: Ward::of(meta::is_outdated),
            shut: Ward::of(gates::is_left_shut),
            changes: watch::Sender::default(),
            beside,
        }
    }

    /// A number that grows whenever something of a wanted pod is new.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// From now on, what is new of this pod counts.
    pub(super) fn want(&self, pod: &PodUid) {
        self.inner().wanted.entry(pod.clone()).or_default();
    }

    /// Nobody wants anything of the others any more.
    pub(super) fn keep_only(&self, is_wanted: impl Fn(&PodUid) -> bool) {
        self.inner().wanted.retain(|pod, _| is_wanted(pod));
    }

    pub(super) fn known(&self, pod: &PodUid) -> Known {
        self.inner().wanted.get(pod).cloned().unwrap_or_default()
    }

    /// It was asked for: whoever watches has it, too.
    pub(super) fn looked(&self, pod: &core::Pod) {
        let mut inner = self.inner();
        let settled = later(now(), self.wait(&inner));
        self.take(&mut inner, pod, settled);
    }

    /// The answer to a write shows this; the watch will.
    pub(super) fn written(&self, pod: &core::Pod) {
        let mut inner = self.inner();
        let settled = later(now(), SHOWN.saturating_add(self.wait(&inner)));
        self.take(&mut inner, pod, settled);
    }

    /// From the watch to the kubelet's pod worker.
    fn wait(&self, inner: &Inner) -> Duration {
        match (self.beside, inner.was_lost && !inner.follows) {
            (false, _) => SETTLED,
            (true, false) => WORKED_OFF,
            (true, true) => RELIST.saturating_add(WORKED_OFF),
        }
    }

    fn take(&self, inner: &mut Inner, pod: &core::Pod, settled: Instant) {
        // A static pod is asked for by the identity of its mirror.
        let names = [identity(&pod.metadata), pod.metadata.uid.as_deref()];
        let wanted = names.into_iter().flatten().map(PodUid::from).find(|uid| inner.wanted.contains_key(uid));
        let Some(known) = wanted.and_then(|uid| inner.wanted.get_mut(&uid)) else { return };
        let number = version(&pod.metadata);
        let settled = match known {
            Known::There(old) if old.number > number => return,
            Known::There(old) if old.number == number => old.settled.min(settled),
            _ => settled,
        };
        let mut pod = pod.clone();
        // Often the larger half of an object, and nothing is decided by it.
        pod.metadata.managed_fields = None;
        *known = Known::There(Arc::new(Version { pod, number, settled }));
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Onlooker for Pods {
    fn seen(&self, pod: &core::Pod) {
        self.outdated.seen(pod);
        self.shut.seen(pod);
        self.looked(pod);
    }

    fn gone(&self, pod: &PodUid) {
        self.outdated.gone(pod);
        self.shut.gone(pod);
        let mut inner = self.inner();
        if let Some(known) = inner.wanted.get_mut(pod) {
            *known = Known::Gone;
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    fn listed(&self, is_there: &dyn Fn(&PodUid) -> bool) {
        let mut inner = self.inner();
        inner.follows = true;
        for (pod, known) in &mut inner.wanted {
            if matches!(known, Known::There(_)) && !is_there(pod) {
                // The list may be older than the answer to a question: it is asked again.
                *known = Known::Nothing;
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn lost(&self) {
        let mut inner = self.inner();
        (inner.follows, inner.was_lost) = (false, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, version: u64) -> core::Pod {
        let mut pod = core::Pod::default();
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    fn newest(pods: &Pods) -> (u64, Duration) {
        let Known::There(version) = pods.known(&"a".into()) else { panic!("not there") };
        (version.number, version.settled.saturating_duration_since(now()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_version_counts_and_settles_once() {
        let pods = Pods::default();
        pods.seen(&pod("a", 1));
        assert!(matches!(pods.known(&"a".into()), Known::Nothing), "nobody wants it");
        pods.want(&"a".into());
        pods.listed(&|_| true);
        pods.seen(&pod("a", 2));
        assert_eq!(newest(&pods), (2, SETTLED));
        pods.written(&pod("a", 3));
        assert_eq!(newest(&pods), (3, SHOWN + SETTLED));
        pods.seen(&pod("a", 2));
        assert_eq!(newest(&pods), (3, SHOWN + SETTLED), "an echo of what was before");
        pods.seen(&pod("a", 3));
        assert_eq!(newest(&pods), (3, SETTLED));
        pods.listed(&|_| false);
        assert!(matches!(pods.known(&"a".into()), Known::Nothing), "asked for again");
    }

    #[tokio::test(start_paused = true)]
    async fn beside_the_kubelet_it_takes_longer() {
        let pods = Pods::new(true);
        pods.want(&"a".into());
        pods.listed(&|_| true);
        pods.seen(&pod("a", 3));
        assert_eq!(newest(&pods), (3, WORKED_OFF));
        pods.lost();
        pods.seen(&pod("a", 3));
        assert_eq!(newest(&pods), (3, WORKED_OFF), "the kubelet had it before");
        pods.seen(&pod("a", 4));
        assert_eq!(newest(&pods), (4, RELIST.saturating_add(WORKED_OFF)), "it may not have heard of it");
    }
}
