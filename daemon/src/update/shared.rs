//! Owner of the state of updates: the policy's core behind a lock that is never held over an await. The
//! sources of requests and the pod watch put in what they see; the reconciler takes out what is owed.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub(super) use berth_policy::in_place_update::StoredRequest;
use berth_policy::{
    Path, PodUid, RequestId,
    in_place_update::{UpdateAction, UpdateEvent, UpdateRequest, UpdateSource, Updates},
};
use tokio::sync::watch;

use crate::agent::{metrics::AgentMetrics, now};

/// All that is known of updates on this node.
#[derive(Debug)]
pub(super) struct SharedUpdates {
    updates: Mutex<Updates>,
    /// Grows with every fact about a request.
    changes: watch::Sender<u64>,
    /// Grows with every fact about a pod that is followed.
    pod_changes: watch::Sender<u64>,
}

/// Actions that are owed, and facts about them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<UpdateAction>,
    /// Ask again then.
    pub(super) deadline: Option<Instant>,
    /// Nothing but a request makes a difference.
    pub(super) idle: bool,
}

impl Default for SharedUpdates {
    fn default() -> Self {
        Self::new(Path::Inline)
    }
}

impl SharedUpdates {
    /// Knows nothing yet.
    pub(super) fn new(path: Path) -> Self {
        let (changes, pod_changes) = (watch::Sender::default(), watch::Sender::default());
        Self { updates: Mutex::new(Updates::new(path)), changes, pod_changes }
    }

    /// A number that grows with every fact about a request.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A number that grows whenever something of a followed pod is new.
    pub(super) fn pod_changes(&self) -> watch::Receiver<u64> {
        self.pod_changes.subscribe()
    }

    /// Takes a fact.
    pub(super) fn apply(&self, event: UpdateEvent) {
        let changed = match &event {
            UpdateEvent::RequestSeen(_)
            | UpdateEvent::RequestGone(_)
            | UpdateEvent::RequestsListed(..)
            | UpdateEvent::Reported(..)
            | UpdateEvent::Deleted(..) => Some(&self.changes),
            UpdateEvent::PodShown(_) | UpdateEvent::PodGone(_) | UpdateEvent::PodsListed(_) => {
                Some(&self.pod_changes)
            }
            // Of the reconciler itself, which plans afterwards; or nothing follows from it.
            UpdateEvent::PermissionKnown(_)
            | UpdateEvent::WatchLost
            | UpdateEvent::NodeSeen(..)
            | UpdateEvent::Fetched(..)
            | UpdateEvent::Inspected(..)
            | UpdateEvent::Cleared { .. }
            | UpdateEvent::Stopped(..)
            | UpdateEvent::Written(..)
            | UpdateEvent::Told
            | UpdateEvent::ExecutorLost => None,
        };
        self.updates().apply(event, now());
        if let Some(changed) = changed {
            changed.send_modify(|changes| *changes += 1);
        }
    }

    /// The actions owed now, and when to ask again.
    pub(super) fn plan(&self, now: Instant, wall: Duration, metrics: &AgentMetrics) -> Plan {
        let mut updates = self.updates();
        let actions = updates.plan(now, wall);
        let named = |(pod, again): (PodUid, Instant)| {
            let request =
                updates.requests().map(|entry| &entry.request).find(|request| request.pod.uid == pod);
            let name = request.map_or_else(
                || format!("updates of pod {pod}"),
                |request| format!("updates of pod {}/{}", request.pod.namespace, request.pod.name),
            );
            (name, again)
        };
        metrics.set_aside("updates", updates.panics(), || {
            updates.set_aside(now).into_iter().map(named).collect()
        });
        Plan { actions, deadline: updates.next_deadline(), idle: updates.is_idle() }
    }

    /// The pods whose snapshot is to be taken before the next plan, with the images wished for.
    pub(super) fn followed(&self) -> Vec<(PodUid, BTreeSet<Arc<str>>)> {
        self.updates().followed().map(|(pod, images)| (pod.clone(), images.clone())).collect()
    }

    /// The UID of these under which a pod is followed.
    pub(super) fn followed_as(&self, uids: &[PodUid]) -> Option<PodUid> {
        self.updates().followed_as(uids).cloned()
    }

    /// A source shows this one, new or changed.
    pub(super) fn seen(&self, entry: StoredRequest) {
        self.apply(UpdateEvent::RequestSeen(Box::new(entry)));
    }

    /// The source does not show this request any more.
    pub(super) fn gone(&self, id: &RequestId) {
        self.apply(UpdateEvent::RequestGone(id.clone()));
    }

    /// Takes in a new list: these and no others.
    pub(super) fn listed(&self, source: UpdateSource, entries: Vec<StoredRequest>) {
        self.apply(UpdateEvent::RequestsListed(source, entries));
    }

    /// All requests as they stand, for people.
    pub(super) fn standing(&self) -> Vec<UpdateRequest> {
        self.updates().standing().collect()
    }

    /// One of them.
    pub(super) fn entry(&self, id: &RequestId) -> Option<StoredRequest> {
        self.updates().request(id).cloned()
    }

    /// Tells whether this is the rest of a request that nobody makes any more.
    pub(super) fn is_rest(&self, id: &RequestId) -> bool {
        self.updates().is_rest(id)
    }

    /// Tells whether somebody waits for something to be done to this pod.
    pub(super) fn wants(&self, pod: &PodUid) -> bool {
        self.updates().wants(pod)
    }

    /// Tells whether an update goes on that decides on the readiness gate of this pod.
    pub(super) fn minds_gate(&self, pod: &PodUid) -> bool {
        self.updates().minds_gate(pod)
    }

    /// Tells whether these have all told what they have.
    pub(super) fn has_heard(&self, sources: &[UpdateSource]) -> bool {
        self.updates().has_heard(sources)
    }

    fn updates(&self) -> MutexGuard<'_, Updates> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
