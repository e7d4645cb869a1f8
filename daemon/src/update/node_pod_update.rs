//! This node's `NodePodUpdate`: what workloads want of its pods, and how far that is.

mod aside;
mod begun;
mod newest;
mod object;
mod pace;
mod reports;
mod room;
mod understood;
mod withdrawal;
mod words;

use std::time::{Duration, Instant};

use berth_policy::{
    PodUid, RequestId, StepOutcome,
    in_place_update::{Failure, UpdateSource},
};
use berth_proto::crd::{DesiredPod, NodePodUpdate, Partly, UpdatedPod};
use futures::FutureExt;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{Client, runtime::watcher};
use serde_json::json;
use tokio::sync::{Mutex, Notify};
use tracing::warn;

pub(super) use self::begun::Sighting;
use self::{
    begun::Sight,
    newest::Newest,
    object::{Aside, Object, RENEW_EVERY, desired_key},
    pace::Pace,
    reports::Waiting,
    understood::{Standing, understood},
};
use super::{
    convert,
    owners::Owners,
    report,
    shared::{SharedUpdates, StoredRequest},
};
use crate::{
    agent::now,
    base::{causes::chain, clock::Clock, status::whole_second},
    cluster::{
        FIELD_MANAGER,
        client::Connection,
        follow::{Shown, Watch, follow},
        node_object,
        raw::{self, Raw},
    },
};

/// Abilities of this agent, for the manager: it gives no entry to one that would not understand it.
const FEATURES: [&str; 9] = [
    "owners/v1",
    "swaps/v1",
    "upgradable/v1",
    "clonesets/v1",
    "daemonsets/v1",
    "statefulsets/v1",
    "pod-template-hash/v1",
    "template-history/v1",
    "shown-ends/v1",
];
/// How long owners are read at most before the others go on.
const JUDGE_FOR: Duration = Duration::from_secs(10);
/// Pause before owners that could not be read are read again.
const JUDGE_AGAIN: Duration = Duration::from_secs(2);
/// Time between two looks whether twins have come to rest whose entry is not there any more.
const RESTED_EVERY: Duration = Duration::from_secs(1);

/// The `NodePodUpdate` of this node.
#[derive(Debug)]
pub(super) struct NodeUpdates {
    connection: Connection,
    node: String,
    /// As it was seen or written last. Held over a write: the entries are written together.
    object: Mutex<Option<Object>>,
    /// Reports that wait for the next write.
    waiting: std::sync::Mutex<Vec<Waiting>>,
    /// Entries that cannot be read, as they were told of.
    aside: std::sync::Mutex<Aside>,
    /// The owners of entries.
    sets: Owners,
    /// There may be words for pods that nobody has said yet.
    words: Notify,
}

impl NodeUpdates {
    /// Nothing is asked before it is followed.
    pub(super) fn new(connection: Connection, node: String) -> Self {
        Self {
            connection,
            node,
            object: Mutex::new(None),
            waiting: std::sync::Mutex::default(),
            aside: std::sync::Mutex::default(),
            sets: Owners::default(),
            words: Notify::new(),
        }
    }

    /// Tells the updates what is asked for; for ever. `sight` is asked for the pods of answers whose entries
    /// are not there any more.
    pub(super) async fn follow(&self, updates: &SharedUpdates, sight: &Sight<'_>) {
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
        let watching = follow(&self.connection, &watch, raw::all::<NodePodUpdate>, Raw::typed, ensure, each);
        let taking = async {
            let (mut clock, mut unjudged, mut pace) = (Clock::read(), false, Pace::default());
            loop {
                let now = Instant::now();
                let patience = if unjudged { JUDGE_AGAIN } else { RENEW_EVERY };
                let left = self.object.lock().await.as_ref().and_then(|known| {
                    known.left_for(now).or_else(|| known.has_rests().then_some(RESTED_EVERY))
                });
                let patience = pace.left(now).into_iter().chain(left).fold(patience, Duration::min);
                let event = tokio::time::timeout(patience, news.take()).await.ok();
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
                self.make_way().await;
                unjudged = self.tell(updates, sight, &clock).await;
                let waits = self.object.lock().await.as_ref().is_some_and(Object::has_one_that_waits);
                if let Some(known) = self.object.lock().await.as_mut() {
                    known.forget_rested(|id| updates.is_rest(id));
                }
                self.tidy(&mut pace).await;
                if waits {
                    self.list(updates, sight, &clock).await;
                }
            }
        };
        tokio::join!(watching, taking);
    }

    async fn take(&self, shown: Option<Partly<NodePodUpdate>>) {
        let mut object = self.object.lock().await;
        *object = shown.map(|shown| Object::shown(object.take(), shown));
        self.note_aside(object.as_ref());
    }

    /// Tells the updates what is asked for. True: owners of some entries could not be read yet, and those
    /// entries are not told of.
    async fn tell(&self, updates: &SharedUpdates, sight: &Sight<'_>, clock: &Clock) -> bool {
        let unjudged = self.unjudged().await;
        // Between an entry and one that takes its place nobody would seem to want anything of the pod.
        let replaces = unjudged.iter().any(|entry| updates.wants(&PodUid::from(entry.uid.as_str())));
        // The others need not wait; but at first it must not look as if nobody wanted anything.
        let waits = replaces || !updates.has_heard(&[UpdateSource::NodePodUpdate]);
        if unjudged.is_empty() || !waits {
            self.list(updates, sight, clock).await;
        }
        if unjudged.is_empty() {
            return false;
        }
        // Cancel-safe: what is without a word is asked for again.
        let judged = self.sets.judge(&self.connection, &unjudged);
        if tokio::time::timeout(JUDGE_FOR, judged).await.is_err() {
            warn!(node = self.node, "Owners of updates are read slowly, trying again");
        }
        self.list(updates, sight, clock).await;
        let unread = self.unjudged().await;
        if let Some(known) = self.object.lock().await.as_mut() {
            // Others that came meanwhile are asked for next.
            let tried = |entry: &&DesiredPod| unjudged.contains(entry);
            known.unread = unread.iter().filter(tried).map(id).collect();
        }
        !unread.is_empty()
    }

    /// The entries whose owners were not read yet, but for those that are done.
    async fn unjudged(&self) -> Vec<DesiredPod> {
        let object = self.object.lock().await;
        let Some(known) = &*object else { return Vec::new() };
        self.sets.keep(&known.status.desired_pods);
        let entries = known.status.desired_pods.iter();
        entries.filter(|entry| !known.is_done(entry) && self.sets.word(entry).is_none()).cloned().collect()
    }

    async fn list(&self, updates: &SharedUpdates, sight: &Sight<'_>, clock: &Clock) {
        let mut object = self.object.lock().await;
        let Some(known) = object.as_mut() else {
            return updates.listed(UpdateSource::NodePodUpdate, Vec::new());
        };
        let rests = known.take_begun(sight, clock);
        let now = now();
        if known.status.desired_pods.iter().any(|desired| desired.upgradable.is_some()) {
            self.words.notify_one();
        }
        let entries = known.entries().filter(|desired| desired.upgradable.is_none()).filter_map(|desired| {
            let first_seen = updates.entry(&id(desired)).map_or(now, |entry| entry.request.created);
            let answered = known.pods.get(&desired_key(desired));
            let entry = entry(desired, answered, known.version, first_seen, clock);
            match (entry.request.ended, self.sets.word(desired)) {
                (Some(_), _) | (None, Some(Ok(()))) => Some(entry),
                (None, Some(Err(why))) => Some(StoredRequest { flaw: entry.flaw.or(Some(why)), ..entry }),
                (None, None) => None,
            }
        });
        updates.listed(UpdateSource::NodePodUpdate, entries.chain(rests).collect());
    }

    /// Says all there is to say, unless the object says so.
    async fn answer(&self, known: &mut Object) -> StepOutcome {
        let clock = Clock::read();
        let entries = known.status.desired_pods.iter();
        let unreadable = known.aside.iter().map(|(key, why)| (aside::named(key), aside::standing(why)));
        let named: Vec<(String, Standing)> = entries
            .map(|entry| (named(entry), self.standing(known, entry, &clock)))
            .chain(unreadable)
            .collect();
        let entries = named.iter().map(|(name, standing)| (&**name, standing.clone()));
        let conditions = understood(&known.status.conditions, entries, Timestamp::now());
        let (now, renew_time) = (Instant::now(), whole_second(Timestamp::now()));
        let is_said = known.has_said(now)
            && conditions == known.status.conditions
            && FEATURES.iter().eq(&known.status.features);
        if is_said {
            return StepOutcome::Done;
        }
        let pods: Vec<&UpdatedPod> = known.pods.values().collect();
        let status = json!({
            "pods": pods, "conditions": conditions, "features": FEATURES, "renewTime": Time(renew_time),
        });
        let written = node_object::apply_status::<NodePodUpdate>(
            &self.connection,
            &self.node,
            &known.uid,
            FIELD_MANAGER,
            status,
        );
        match written.await {
            Ok(written) => {
                known.wrote(written, now);
                self.note_aside(Some(known));
                StepOutcome::Done
            }
            Err(error) if error.is_gone() => StepOutcome::Gone,
            Err(error) => {
                warn!(node = self.node, error = %chain(&error), "NodePodUpdate not answered, trying again");
                StepOutcome::Failed
            }
        }
    }

    fn standing(&self, known: &Object, desired: &DesiredPod, clock: &Clock) -> Standing {
        let flaw = entry(desired, None, 0, Instant::now(), clock).flaw;
        match (flaw, self.sets.word(desired)) {
            (Some(why), _) | (None, Some(Err(why))) => Standing::Faulty(why.message),
            (None, Some(Ok(()))) => Standing::Sound,
            (None, None) if known.is_done(desired) => Standing::Sound,
            (None, None) if known.unread.contains(&id(desired)) => Standing::Unread,
            (None, None) => Standing::Unjudged,
        }
    }

    /// Withdraws answers to entries that others stand in the place of: what stood there is told of until
    /// then. Tried once, so that news need not wait for an API server that does not answer.
    async fn make_way(&self) {
        if let Some(known) = self.object.lock().await.as_mut().filter(|known| known.has_one_that_waits()) {
            self.answer(known).await;
        }
    }

    /// Answers the object, whether an update goes on or not: leaves out the entries that are not desired any
    /// more, and reports those that make no sense. Tried once: an answer that is not taken waits beside the
    /// news, for they may show that it is another object by now, or that less is to be said.
    async fn tidy(&self, pace: &mut Pace) {
        let mut object = self.object.lock().await;
        let Some(known) = object.as_mut() else {
            *pace = Pace::default();
            return;
        };
        if !pace.may(&known.uid, Instant::now()) {
            return;
        }
        match self.answer(known).await {
            StepOutcome::Failed => pace.failed(&known.uid, Instant::now()),
            StepOutcome::Done | StepOutcome::Gone => *pace = Pace::default(),
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
    StoredRequest { request, flaw: sound.err().map(Failure::from), version }
}

fn id(desired: &DesiredPod) -> RequestId {
    convert::desired_id(desired)
}

/// Name of an entry for people.
fn named(desired: &DesiredPod) -> String {
    aside::named(&desired_key(desired))
}

#[cfg(test)]
mod tests;
