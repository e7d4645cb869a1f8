//! The pods of this node as the API server shows them: one watch with a field selector, as the kubelet has
//! it.
//!
//! Authors of pods can write one that takes too much memory to be read. Nothing is known of it but
//! its name: it is told of as one that cannot be read, and holds no other one up. They can also write that a
//! pod mirrors a static pod, which the node knows by another UID. Where the runtime has a pod of that UID
//! with another name, the object is taken for what it is: a pod of its own UID.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use berth_policy::{Event, Pod, PodRef, PodUid};
use berth_shim::Gate;
use futures::FutureExt;
use kube::runtime::watcher;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{convert, read};
use crate::{
    agent::Agent,
    cluster::{
        client::Connection,
        follow::{Shown, Watch, follow},
        node_pods::{MIRROR_ANNOTATION, identity},
        raw::{self, Raw, Untyped},
        v1 as core,
    },
};

/// Onlooker that sees the pods as they are, and not only the fields that the policy needs. Nothing of it may
/// block.
pub(crate) trait Onlooker: std::fmt::Debug + Send + Sync {
    /// The watch shows this, new or changed.
    fn seen(&self, pod: &core::Pod);
    /// It is not there any more.
    fn gone(&self, _pod: &PodUid) {}
    /// The watch is complete, with these pods and no others.
    fn listed(&self, _is_there: &dyn Fn(&PodUid) -> bool) {}
    /// The watch was lost.
    fn lost(&self) {}
}

/// A pod as the watch brings it.
#[derive(Debug)]
enum Sent {
    Read(Box<core::Pod>),
    /// It cannot be read. Its identity, and why.
    Unread(PodRef, Untyped),
}

/// Pods of the watch that cannot be read.
type Unread = BTreeMap<PodUid, PodRef>;

/// The watch and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct ApiView {
    agent: Arc<Agent>,
    connection: Connection,
    node: String,
    onlookers: Vec<Arc<dyn Onlooker>>,
    health: watch::Sender<Health>,
}

/// How the watch is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// It was complete at least once.
    pub synced: bool,
    /// Why it does not follow.
    pub error: Option<String>,
}

impl ApiView {
    /// A view that does nothing before [`ApiView::run`].
    pub(crate) fn new(
        agent: Arc<Agent>,
        connection: Connection,
        node: String,
        onlookers: Vec<Arc<dyn Onlooker>>,
    ) -> Self {
        Self { agent, connection, node, onlookers, health: watch::Sender::default() }
    }

    /// Returns how the watch is, now and later.
    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Watches until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let watch = Watch {
            what: "pods",
            single: false,
            // Nothing works without them, and rights may come after the agent.
            insists: true,
            selected: watcher::Config::default().fields(&format!("spec.nodeName={}", self.node)),
        };
        let mut unread = Unread::new();
        let each = |shown| self.take(shown, &mut unread);
        let api = raw::all::<core::Pod>;
        let followed = follow(&self.connection, &watch, api, Sent::of, |_| ready(Ok(true)).boxed(), each);
        // Cancel-safe: dropping the watch loses nothing that was applied.
        shutdown.run_until_cancelled(followed).await;
    }

    fn take(&self, shown: Shown<Sent>, unread: &mut Unread) {
        match shown {
            Shown::Listed(sent) => {
                let (before, mut pods) = (std::mem::take(unread), Vec::new());
                for sent in sent {
                    match sent {
                        Sent::Read(pod) => {
                            let pod = self.unmasked(*pod);
                            self.seen(&pod);
                            pods.extend(convert::pod(pod));
                        }
                        Sent::Unread(pod, why) => {
                            if !before.contains_key(&pod.uid) {
                                tell(&pod, &why);
                            }
                            unread.insert(pod.uid.clone(), pod);
                        }
                    }
                }
                if !(before.is_empty() && unread.is_empty()) {
                    self.unread(unread);
                }
                self.listed(pods);
            }
            Shown::Applied(Sent::Read(pod)) => {
                let pod = self.unmasked(*pod);
                self.seen(&pod);
                if let Some(pod) = convert::pod(pod) {
                    self.read(&pod.pod.uid, unread);
                    self.agent.observe(Event::PodSeen(Box::new(pod)));
                }
            }
            Shown::Applied(Sent::Unread(pod, why)) => {
                if !unread.contains_key(&pod.uid) {
                    tell(&pod, &why);
                }
                unread.insert(pod.uid.clone(), pod);
                // Each time: the kubelet may have shown it whole, as it was before.
                self.unread(unread);
            }
            Shown::Deleted(sent) => {
                let own = match sent {
                    Sent::Read(pod) => pod.metadata.uid.map(PodUid::from),
                    Sent::Unread(pod, _) => Some(pod.uid),
                };
                if let Some(own) = own {
                    self.read(&own, unread);
                    self.gone(own.clone());
                    // And as the mirror that it was taken for, whatever the runtime has by now: what it says
                    // to mirror may be somebody else's.
                    let mirrored = self.agent.read(|node, _| node.local_uid(&own));
                    if mirrored != own {
                        self.gone(mirrored);
                    }
                }
            }
            Shown::NotInstalled(why) => self.broke(why),
            Shown::Refused(error) | Shown::Lost(error) => self.broke(&error),
        }
    }

    fn broke(&self, error: &str) {
        // Read in a statement of its own: a borrow that lives on while the value is replaced is a deadlock.
        let synced = self.health.borrow().synced;
        let error = Some(format!("watch of the pods of node {}: {error}", self.node));
        self.health.send_replace(Health { synced, error });
        self.agent.metrics().view_failed();
        self.agent.metrics().view_fresh(false);
        self.agent.observe(Event::ViewFresh(false));
        self.onlookers.iter().for_each(|onlooker| onlooker.lost());
    }

    fn listed(&self, pods: Vec<Pod>) {
        let is_there = |uid: &PodUid| pods.iter().any(|pod| pod.pod.uid == *uid);
        self.onlookers.iter().for_each(|onlooker| onlooker.listed(&is_there));
        self.agent.observe(Event::PodsListed(pods));
        self.agent.observe(Event::ViewFresh(true));
        self.agent.metrics().view_fresh(true);
        self.health.send_replace(Health { synced: true, error: None });
    }

    /// The pod, without the annotation of a mirror where the runtime knows better.
    fn unmasked(&self, mut pod: core::Pod) -> core::Pod {
        let meta = &pod.metadata;
        let claimed = identity(meta).filter(|uid| Some(*uid) != meta.uid.as_deref());
        let claimed = claimed.map(|uid| {
            let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            PodRef { uid: uid.into(), namespace, name }
        });
        let is_false = |claimed: &PodRef| self.agent.read(|node, _| node.is_of_another_name(claimed));
        if let Some(PodRef { uid, namespace, name }) = claimed.filter(is_false) {
            debug!(namespace, name, pod.uid = %uid, "Pod says to mirror a pod of another name");
            pod.metadata.annotations.get_or_insert_default().remove(MIRROR_ANNOTATION);
        }
        pod
    }

    fn seen(&self, pod: &core::Pod) {
        self.onlookers.iter().for_each(|onlooker| onlooker.seen(pod));
    }

    fn unread(&self, pods: &Unread) {
        self.agent.metrics().pods_unread(pods.len());
        self.agent.observe(Event::PodsUnread(pods.values().cloned().collect()));
    }

    /// Notes that this one can be read again, or is gone.
    fn read(&self, pod: &PodUid, unread: &mut Unread) {
        if unread.remove(pod).is_some() {
            self.unread(unread);
        }
    }

    fn gone(&self, uid: PodUid) {
        self.onlookers.iter().for_each(|onlooker| onlooker.gone(&uid));
        self.agent.observe(Event::PodGone(uid));
    }
}

impl Sent {
    /// Reads it, or what says which pod it is: never fails. That it mirrors a static pod counts for nothing
    /// then: anybody may write that of any pod.
    fn of(object: Raw) -> Result<Self, Untyped> {
        Ok(match read::pod(object) {
            Ok(read) => Self::Read(Box::new(read)),
            Err((pod, why)) => Self::Unread(pod, why),
        })
    }
}

/// Said once for each pod.
fn tell(pod: &PodRef, why: &Untyped) {
    let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
    warn!(namespace, name, pod.uid = %uid, error = %why, "Pod cannot be read, its order is not known");
}

#[cfg(test)]
mod tests;
