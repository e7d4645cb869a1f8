//! This node's `NodePodUpdate`: what workloads want of its pods, and how far that is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
    time::Instant,
};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{UpdateReport, UpdateRequest, UpdateSource},
};
use berth_proto::crd::{DesiredPod, NodePodUpdate, NodePodUpdateStatus, UpdatedPod};
use futures::FutureExt;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{Api, Client, runtime::watcher};
use serde_json::json;
use tokio::sync::{Mutex, Notify};
use tracing::warn;

use super::{
    convert, report,
    shared::{SharedUpdates, StoredRequest},
};
use crate::{
    agent::now,
    base::{causes::chain, clock::Clock, status::whole_second},
    cluster::{
        FIELD_MANAGER,
        client::Connection,
        follow::{Shown, Watch, follow},
        node_object, pause,
        target::version,
    },
};

/// Condition: every entry can be carried out.
const UNDERSTOOD: &str = "Understood";

/// The `NodePodUpdate` of this node.
#[derive(Debug)]
pub(super) struct NodeUpdates {
    connection: Connection,
    node: String,
    /// As it was seen or written last. Held over a write: the entries are written together.
    object: Mutex<Option<Object>>,
}

/// Key of the lists of the object: the pod's UID and the owner.
type Key = (String, String);

#[derive(Debug)]
struct Object {
    uid: String,
    version: u64,
    status: NodePodUpdateStatus,
    /// Answers of the agent. They run ahead of the written ones.
    pods: BTreeMap<Key, UpdatedPod>,
}

/// The object that the watch showed last: one object, so nothing before it counts, however fast it changes
/// and however long a write takes.
#[derive(Debug, Default)]
struct Newest {
    untaken: std::sync::Mutex<Option<Shown<NodePodUpdate>>>,
    put: Notify,
}

impl Newest {
    fn put(&self, event: Shown<NodePodUpdate>) {
        let mut untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        // That nobody shows it any more takes back nothing of what was shown.
        let is_less = match event {
            Shown::Lost(_) => true,
            Shown::Refused(_) => untaken.is_some(),
            Shown::Listed(_) | Shown::Applied(_) | Shown::Deleted(_) | Shown::NotInstalled(_) => false,
        };
        if !is_less {
            *untaken = Some(event);
        }
        drop(untaken);
        self.put.notify_one();
    }

    /// Cancel-safe: what is not taken stays.
    async fn take(&self) -> Shown<NodePodUpdate> {
        loop {
            let untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner).take();
            match untaken {
                Some(event) => return event,
                None => self.put.notified().await,
            }
        }
    }
}

impl NodeUpdates {
    /// Nothing is asked before it is followed.
    pub(super) fn new(connection: Connection, node: String) -> Self {
        Self { connection, node, object: Mutex::new(None) }
    }

    /// Tells the updates what is asked for; for ever.
    pub(super) async fn follow(&self, updates: &SharedUpdates) {
        let watch = Watch {
            what: "NodePodUpdate",
            single: true,
            insists: false,
            selected: watcher::Config::default().fields(&format!("metadata.name={}", self.node)),
        };
        let news = Newest::default();
        let each = |event| news.put(event);
        let ensure = |client: Client| {
            let node = self.node.clone();
            let make = |metadata| NodePodUpdate { metadata, ..NodePodUpdate::new("", Default::default()) };
            async move { node_object::ensure(&client, &node, make).await }.boxed()
        };
        let watching = follow(&self.connection, &watch, Api::<NodePodUpdate>::all, ensure, each);
        let taking = async {
            let mut clock = Clock::read();
            loop {
                let event = news.take().await;
                clock = clock.kept(Clock::read());
                match event {
                    Shown::Listed(objects) => self.take(objects.into_iter().next(), updates, &clock).await,
                    Shown::Applied(object) => self.take(Some(object), updates, &clock).await,
                    // What was shown stays; before anything was, there is nothing.
                    Shown::Lost(_) => {}
                    Shown::Refused(_) if updates.has_heard(&[UpdateSource::NodePodUpdate]) => {}
                    Shown::Deleted(_) | Shown::Refused(_) | Shown::NotInstalled(_) => {
                        self.take(None, updates, &clock).await;
                    }
                }
                self.tidy().await;
            }
        };
        tokio::join!(watching, taking);
    }

    async fn take(&self, shown: Option<NodePodUpdate>, updates: &SharedUpdates, clock: &Clock) {
        let mut object = self.object.lock().await;
        let Some(shown) = shown else {
            *object = None;
            return updates.listed(UpdateSource::NodePodUpdate, Vec::new());
        };
        let version = version(&shown.metadata);
        let uid = shown.metadata.uid.unwrap_or_default();
        let status = shown.status.unwrap_or_default();
        let ahead = object.take().filter(|known| known.uid == uid);
        // What was written since is in it already, or comes.
        let mut pods: BTreeMap<Key, UpdatedPod> =
            status.pods.iter().map(|pod| ((pod.uid.clone(), pod.owner.clone()), pod.clone())).collect();
        match ahead {
            Some(ahead) if ahead.version > version => return *object = Some(ahead),
            Some(ahead) => pods.extend(ahead.pods),
            None => {}
        }
        let desired: BTreeSet<Key> = status.desired_pods.iter().map(desired_key).collect();
        pods.retain(|key, _| desired.contains(key));
        let now = now();
        let entries = status.desired_pods.iter().map(|desired| {
            let first_seen = updates.entry(&id(desired)).map_or(now, |entry| entry.request.created);
            entry(desired, pods.get(&desired_key(desired)), version, first_seen, clock)
        });
        let entries = entries.collect();
        updates.listed(UpdateSource::NodePodUpdate, entries);
        *object = Some(Object { uid, version, status, pods });
    }

    /// Says how far the update of one pod is.
    pub(super) async fn report(&self, request: &UpdateRequest, report: &UpdateReport) -> StepOutcome {
        let mut object = self.object.lock().await;
        let Some(known) = object.as_mut() else { return StepOutcome::Gone };
        let Some(desired) = known.status.desired_pods.iter().find(|desired| id(desired) == request.id) else {
            return StepOutcome::Gone;
        };
        let key = desired_key(desired);
        let entry = report::pod(desired, report, known.pods.get(&key), Timestamp::now());
        let before = known.pods.insert(key.clone(), entry);
        let outcome = self.answer(known).await;
        if outcome != StepOutcome::Done {
            // Not said, so it is not known to whoever takes over.
            match before {
                Some(before) => known.pods.insert(key, before),
                None => known.pods.remove(&key),
            };
        }
        outcome
    }

    /// Says all there is to say, unless the object says so.
    async fn answer(&self, known: &mut Object) -> StepOutcome {
        let wanted: Vec<UpdatedPod> = known.pods.values().cloned().collect();
        let conditions = understood(&known.status);
        if wanted == known.status.pods && conditions == known.status.conditions {
            return StepOutcome::Done;
        }
        let status = json!({ "pods": wanted, "conditions": conditions });
        let written = node_object::apply_status::<NodePodUpdate>(
            &self.connection,
            &self.node,
            &known.uid,
            FIELD_MANAGER,
            status,
        );
        match written.await {
            Ok(written) => {
                known.version = version(&written.metadata).max(known.version);
                known.status = written.status.unwrap_or_default();
                StepOutcome::Done
            }
            Err(error) if error.is_gone() => StepOutcome::Gone,
            Err(error) => {
                warn!(node = self.node, error = %chain(&error), "NodePodUpdate not answered, trying again");
                StepOutcome::Failed
            }
        }
    }

    /// Answers the object, whether an update goes on or not: leaves out the entries that are not desired any
    /// more, and reports those that make no sense.
    async fn tidy(&self) {
        let mut attempt = 0;
        loop {
            if let Some(known) = self.object.lock().await.as_mut()
                && self.answer(known).await == StepOutcome::Failed
            {
                attempt += 1;
            } else {
                return;
            }
            tokio::time::sleep(pause::after(attempt)).await;
        }
    }
}

fn entry(
    desired: &DesiredPod,
    answered: Option<&UpdatedPod>,
    version: u64,
    seen: Instant,
    clock: &Clock,
) -> StoredRequest {
    let answered = answered.filter(|answered| report::answers(answered, desired));
    let reported = answered.map(|pod| report::read_pod(pod, clock)).unwrap_or_default();
    let ended = answered.and_then(|pod| report::ended(pod, clock, seen));
    let (request, sound) = convert::desired(desired, reported, ended, seen, clock);
    StoredRequest { request, flaw: sound.err().map(|flaw| flaw.to_string()), version }
}

fn id(desired: &DesiredPod) -> RequestId {
    convert::desired_id(desired)
}

fn desired_key(desired: &DesiredPod) -> Key {
    (desired.uid.clone(), desired.owner.clone())
}

/// Whether all of it makes sense.
fn understood(status: &NodePodUpdateStatus) -> Vec<Condition> {
    let clock = Clock::read();
    let faults: Vec<String> = status
        .desired_pods
        .iter()
        .filter_map(|desired| {
            let flaw = entry(desired, None, 0, Instant::now(), &clock).flaw?;
            Some(format!("desiredPods[{}]: {flaw}", desired.uid))
        })
        .collect();
    if status.desired_pods.is_empty() && status.conditions.is_empty() {
        return Vec::new();
    }
    let (holds, reason) = if faults.is_empty() { ("True", "Understood") } else { ("False", "InvalidEntry") };
    let old = status.conditions.iter().find(|old| old.type_ == UNDERSTOOD && old.status == holds);
    vec![Condition {
        type_: UNDERSTOOD.to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: faults.join("; "),
        last_transition_time: old.map_or_else(
            || Time(whole_second(Timestamp::now(), false)),
            |old| old.last_transition_time.clone(),
        ),
        observed_generation: None,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(revision: usize) -> NodePodUpdate {
        let mut object = NodePodUpdate::new("node-a", Default::default());
        object.metadata.resource_version = Some(revision.to_string());
        object
    }

    /// A watch that is faster than the writes keeps one object, the last one.
    #[tokio::test]
    async fn of_many_changes_the_last_one_is_taken() {
        let news = Newest::default();
        for revision in 0..10_000 {
            news.put(Shown::Applied(object(revision)));
        }
        news.put(Shown::Refused(String::new()));
        news.put(Shown::Lost(String::new()));
        let Shown::Applied(taken) = news.take().await else { panic!("not what was shown") };
        assert_eq!(taken.metadata.resource_version.as_deref(), Some("9999"));
        // What it woke for is taken already: nothing else comes.
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(10), news.take());
        assert!(nothing.await.is_err());
        news.put(Shown::Refused(String::new()));
        assert!(matches!(news.take().await, Shown::Refused(_)));
        news.put(Shown::Applied(object(1)));
        news.put(Shown::Deleted(object(1)));
        assert!(matches!(news.take().await, Shown::Deleted(_)));
    }
}
