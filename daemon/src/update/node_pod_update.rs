//! This node's `NodePodUpdate`: what workloads want of its pods, and how far that is.

mod newest;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, OnceLock, PoisonError},
    time::{Duration, Instant},
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
use tokio::sync::Mutex;
use tracing::warn;

use self::newest::Newest;
use super::{
    convert,
    owners::Owners,
    report,
    shared::{SharedUpdates, StoredRequest},
};
use crate::{
    agent::now,
    base::{
        causes::chain,
        clock::Clock,
        status::{bounded, whole_second},
    },
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
/// Abilities of this agent, for the manager: it gives no entry to one that would not understand it.
const FEATURES: [&str; 5] = ["owners/v1", "swaps/v1", "clonesets/v1", "daemonsets/v1", "statefulsets/v1"];
/// How long owners are read at most before the others go on.
const JUDGE_FOR: Duration = Duration::from_secs(10);
/// Before owners that could not be read are read again.
const JUDGE_AGAIN: Duration = Duration::from_secs(2);
/// How many entries that make no sense are said.
const MOST_FAULTS: usize = 32;

/// The `NodePodUpdate` of this node.
#[derive(Debug)]
pub(super) struct NodeUpdates {
    connection: Connection,
    node: String,
    /// As it was seen or written last. Held over a write: the entries are written together.
    object: Mutex<Option<Object>>,
    /// Reports that wait for the next write.
    waiting: std::sync::Mutex<Vec<Waiting>>,
    /// The owners of entries.
    sets: Owners,
}

/// A report that waits for a write. All that wait are written together.
#[derive(Clone, Debug)]
struct Waiting {
    id: RequestId,
    report: UpdateReport,
    outcome: Arc<OnceLock<StepOutcome>>,
}

/// Key of the lists of the object: the pod's UID and the owner.
type Key = (String, String);

/// The object, and what is to be said in it.
#[derive(Debug)]
struct Object {
    uid: String,
    version: u64,
    status: NodePodUpdateStatus,
    /// Answers of the agent. They run ahead of the written ones.
    pods: BTreeMap<Key, UpdatedPod>,
}

impl Object {
    /// The agent has answered that this entry has ended.
    fn has_ended(&self, entry: &DesiredPod) -> bool {
        let answered = self.pods.get(&desired_key(entry)).filter(|answered| report::answers(answered, entry));
        answered.is_some_and(report::is_end)
    }
}

impl NodeUpdates {
    /// Nothing is asked before it is followed.
    pub(super) fn new(connection: Connection, node: String) -> Self {
        Self {
            connection,
            node,
            object: Mutex::new(None),
            waiting: std::sync::Mutex::default(),
            sets: Owners::default(),
        }
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
            let (mut clock, mut unjudged) = (Clock::read(), false);
            loop {
                let event = match unjudged {
                    true => tokio::time::timeout(JUDGE_AGAIN, news.take()).await.ok(),
                    false => Some(news.take().await),
                };
                clock = clock.kept(Clock::read());
                match event {
                    Some(Shown::Listed(objects)) => self.take(objects.into_iter().next()).await,
                    Some(Shown::Applied(object)) => self.take(Some(object)).await,
                    // What was shown stays; before anything was, there is nothing.
                    Some(Shown::Lost(_)) | None => {}
                    Some(Shown::Refused(_)) if updates.has_heard(&[UpdateSource::NodePodUpdate]) => {}
                    Some(Shown::Deleted(_) | Shown::Refused(_) | Shown::NotInstalled(_)) => {
                        self.take(None).await;
                    }
                }
                unjudged = self.tell(updates, &clock).await;
                self.tidy().await;
            }
        };
        tokio::join!(watching, taking);
    }

    async fn take(&self, shown: Option<NodePodUpdate>) {
        let mut object = self.object.lock().await;
        let Some(shown) = shown else {
            *object = None;
            return;
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
        *object = Some(Object { uid, version, status, pods });
    }

    /// Tells the updates what is asked for. True: owners of some entries could not be read yet, and those
    /// entries are not told of.
    async fn tell(&self, updates: &SharedUpdates, clock: &Clock) -> bool {
        let unjudged = self.unjudged().await;
        // The others need not wait; but at first it must not look as if nobody wanted anything.
        if unjudged.is_empty() || updates.has_heard(&[UpdateSource::NodePodUpdate]) {
            self.list(updates, clock).await;
        }
        if unjudged.is_empty() {
            return false;
        }
        // Cancel-safe: what is without a word is asked for again.
        let judged = self.sets.judge(&self.connection, &unjudged);
        if tokio::time::timeout(JUDGE_FOR, judged).await.is_err() {
            warn!(node = self.node, "Owners of updates are read slowly, trying again");
        }
        self.list(updates, clock).await;
        !self.unjudged().await.is_empty()
    }

    /// The entries that go on, and whose owners were not read yet.
    async fn unjudged(&self) -> Vec<DesiredPod> {
        let object = self.object.lock().await;
        let Some(known) = &*object else { return Vec::new() };
        self.sets.keep(&known.status.desired_pods);
        let entries = known.status.desired_pods.iter();
        entries.filter(|entry| !known.has_ended(entry) && self.sets.word(entry).is_none()).cloned().collect()
    }

    async fn list(&self, updates: &SharedUpdates, clock: &Clock) {
        let object = self.object.lock().await;
        let Some(known) = &*object else {
            return updates.listed(UpdateSource::NodePodUpdate, Vec::new());
        };
        let now = now();
        let entries = known.status.desired_pods.iter().filter_map(|desired| {
            let first_seen = updates.entry(&id(desired)).map_or(now, |entry| entry.request.created);
            let answered = known.pods.get(&desired_key(desired));
            let entry = entry(desired, answered, known.version, first_seen, clock);
            match (entry.request.ended, self.sets.word(desired)) {
                (Some(_), _) | (None, Some(Ok(()))) => Some(entry),
                (None, Some(Err(why))) => Some(StoredRequest { flaw: entry.flaw.or(Some(why)), ..entry }),
                (None, None) => None,
            }
        });
        updates.listed(UpdateSource::NodePodUpdate, entries.collect());
    }

    /// Says how far the update of one pod is. Reports that come while another one is written are written
    /// together after it.
    pub(super) async fn report(&self, request: &UpdateRequest, report: &UpdateReport) -> StepOutcome {
        let outcome = Arc::new(OnceLock::new());
        let own = Waiting { id: request.id.clone(), report: report.clone(), outcome: outcome.clone() };
        self.waiting().push(own);
        let mut object = self.object.lock().await;
        if outcome.get().is_none() {
            let all = mem::take(&mut *self.waiting());
            self.report_all(object.as_mut(), all).await;
        }
        // Whoever was to write it was stopped: it is reported again.
        outcome.get().copied().unwrap_or(StepOutcome::Failed)
    }

    async fn report_all(&self, object: Option<&mut Object>, all: Vec<Waiting>) {
        let said = |waiting: &Waiting, outcome| {
            waiting.outcome.get_or_init(|| outcome);
        };
        let Some(known) = object else {
            return all.iter().for_each(|waiting| said(waiting, StepOutcome::Gone));
        };
        let ids: BTreeSet<&RequestId> = all.iter().map(|waiting| &waiting.id).collect();
        let entries = known.status.desired_pods.iter().map(|desired| (id(desired), desired));
        let entries: BTreeMap<RequestId, DesiredPod> =
            entries.filter(|(id, _)| ids.contains(id)).map(|(id, desired)| (id, desired.clone())).collect();
        let mut written = Vec::new();
        for waiting in &all {
            let Some(desired) = entries.get(&waiting.id) else {
                said(waiting, StepOutcome::Gone);
                continue;
            };
            let key = desired_key(desired);
            let entry = report::pod(desired, &waiting.report, known.pods.get(&key), Timestamp::now());
            let before = known.pods.insert(key.clone(), entry);
            written.push((waiting, key, before));
        }
        if written.is_empty() {
            return;
        }
        let outcome = self.answer(known).await;
        for (waiting, key, before) in written.into_iter().rev() {
            if outcome != StepOutcome::Done {
                // Not said, so it is not known to whoever takes over.
                match before {
                    Some(before) => known.pods.insert(key, before),
                    None => known.pods.remove(&key),
                };
            }
            said(waiting, outcome);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says all there is to say, unless the object says so.
    async fn answer(&self, known: &mut Object) -> StepOutcome {
        let wanted: Vec<UpdatedPod> = known.pods.values().cloned().collect();
        let conditions = understood(&known.status, &self.sets);
        let is_said = wanted == known.status.pods
            && conditions == known.status.conditions
            && FEATURES.iter().eq(&known.status.features);
        if is_said {
            return StepOutcome::Done;
        }
        let status = json!({ "pods": wanted, "conditions": conditions, "features": FEATURES });
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
fn understood(status: &NodePodUpdateStatus, sets: &Owners) -> Vec<Condition> {
    let clock = Clock::read();
    let faults: Vec<String> = status
        .desired_pods
        .iter()
        .filter_map(|desired| {
            let unasked = || sets.word(desired)?.err();
            let flaw = entry(desired, None, 0, Instant::now(), &clock).flaw.or_else(unasked)?;
            let owner = if desired.owner.is_empty() { "" } else { "," };
            Some(format!("desiredPods[{}{owner}{}]: {flaw}", desired.uid, desired.owner))
        })
        .take(MOST_FAULTS)
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
        message: bounded(&faults.join("; ")),
        last_transition_time: old.map_or_else(
            || Time(whole_second(Timestamp::now(), false)),
            |old| old.last_transition_time.clone(),
        ),
        observed_generation: None,
    }]
}
