//! Updates in place: entries of workloads in the objects of nodes, and what the nodes say of them.
//!
//! An object of a node has many writers. Each change of the entries is made on a version that is known, by
//! the watch or as it was read, and fails if there is a newer one: so two sets with pods on one node take
//! nothing from each other. What has no room in the object waits until others are done.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_base::entry_room::{fitting, is_at_work};
use berth_proto::crd::{
    DesiredPod, FailureReason, NodePodUpdate, NodePodUpdateStatus, Partly, PodEnd, PodPull, PodService,
    UpdateContainer, UpdatePhase, UpdatedPod,
};
use berth_workloads_policy::{
    action::InPlaceUpdate,
    in_place::{InPlacePhase, InPlaceState},
    pod::PodView,
    store::{Stored, version},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::kinds::{KINDS, Workload, is_entry};

/// Ability of an agent: it sets the label `pod-template-hash` of a CloneSet's pod.
const TEMPLATE_HASH_FEATURE: &str = "pod-template-hash/v1";
/// Ability of an agent: it takes what earlier templates of a CloneSet had, where it is noted on the set.
const TEMPLATE_HISTORY_FEATURE: &str = "template-history/v1";

/// Ability of an agent: it says on a pod that it has done its part, and its report may wait.
const SHOWN_ENDS_FEATURE: &str = "shown-ends/v1";

/// Object of a node, as far as it is about workloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeUpdates {
    pub(crate) uid: String,
    version: String,
    pub(crate) node: String,
    /// Kinds whose entries its agent checks.
    pub(crate) checks: Vec<&'static str>,
    /// Its agent sets `pod-template-hash` along with an update.
    pub(crate) labels_hash: bool,
    /// Its agent takes what earlier templates of a CloneSet had.
    pub(crate) recalls: bool,
    /// Its agent says on pods how far it is.
    shows_ends: bool,
    /// It has an agent that has said what it is able to.
    pub(crate) has_agent: bool,
    /// Last sign of life of the agent.
    pub(crate) sign: Option<Timestamp>,
    /// Shared: each plan has the objects of its nodes as they are known. Of one that cannot be read there is
    /// its identity.
    entries: Arc<[DesiredPod]>,
    /// Entries that cannot be read, as they stand there: they are written so, as long as nobody asks for
    /// something else in their place.
    unreadable: Arc<BTreeMap<Key, Value>>,
    /// How far they are.
    pods: Arc<[UpdatedPod]>,
    /// Entries that go with the next write.
    leaving: BTreeSet<Key>,
}

impl Stored for NodeUpdates {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        version(&self.version)
    }
}

impl NodeUpdates {
    /// Reads the object of a node.
    pub(crate) fn of(object: Partly<NodePodUpdate>) -> Self {
        let Partly { object, unreadable } = object;
        let NodePodUpdateStatus { desired_pods, pods, features, renew_time, .. } =
            object.status.unwrap_or_default();
        // A newer program wrote them. Nobody has taken them away.
        let unreadable = unreadable.into_iter().filter(|one| one.list == "desiredPods");
        let known = unreadable.filter_map(|one| Some((DesiredPod::identity(&one.entry)?, one.entry)));
        let (identities, unreadable): (Vec<_>, BTreeMap<_, _>) = known
            .filter(|(entry, _)| is_entry(&entry.owner))
            .map(|(entry, value)| (entry.clone(), (key(&entry), value)))
            .unzip();
        let entries = desired_pods.into_iter().filter(|entry| is_entry(&entry.owner));
        let checked = KINDS.iter().filter(|kind| features.iter().any(|feature| feature == kind.feature));
        Self {
            uid: object.metadata.uid.unwrap_or_default(),
            version: object.metadata.resource_version.unwrap_or_default(),
            node: object.metadata.name.unwrap_or_default(),
            checks: checked.map(|kind| kind.name).collect(),
            labels_hash: features.iter().any(|feature| feature == TEMPLATE_HASH_FEATURE),
            recalls: features.iter().any(|feature| feature == TEMPLATE_HISTORY_FEATURE),
            shows_ends: features.iter().any(|feature| feature == SHOWN_ENDS_FEATURE),
            has_agent: !features.is_empty(),
            sign: renew_time.map(|time| time.0),
            entries: entries.chain(identities).collect(),
            unreadable: Arc::new(unreadable),
            pods: pods.into_iter().filter(|pod| is_entry(&pod.owner)).collect(),
            leaving: BTreeSet::new(),
        }
    }

    /// Returns it without the entries that nobody else takes away: a workload that is gone cannot, and its
    /// pods are, too. They go with the next write, and make room for it; for them alone none is made.
    pub(crate) fn without_those(self, is_gone: impl Fn(&DesiredPod) -> bool) -> Self {
        let leaving = self.entries.iter().filter(|entry| is_gone(entry)).map(key).collect();
        Self { leaving, ..self }
    }

    /// Tells whether there is no news in it for a workload but a sign of life.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.has_agent == other.has_agent
            && self.checks == other.checks
            && self.labels_hash == other.labels_hash
            && self.recalls == other.recalls
            && self.entries == other.entries
            && self.pods == other.pods
    }

    /// UIDs of the sets that it is about.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.owner_uid.as_str())
    }

    /// Updates of the pods of a set, by UID.
    pub(crate) fn states(&self, set: &str) -> impl Iterator<Item = (String, InPlaceState)> {
        let entries = self.entries.iter().filter(move |entry| entry.owner_uid == set);
        entries.map(|entry| (entry.uid.clone(), self.state(entry)))
    }

    /// Update of a pod of this set that an earlier one of its name has asked for, and has left behind. The
    /// agent takes no word of that one any more: what is not done is to be asked for anew.
    pub(crate) fn left_behind(&self, owner: &str, set: &str, pod: &PodView) -> Option<InPlaceState> {
        let is_left =
            |entry: &&DesiredPod| entry.uid == pod.uid && entry.owner == owner && entry.owner_uid != set;
        let entry = self.entries.iter().find(is_left)?;
        let state = self.state(entry).seen_on(pod);
        if state.phase == InPlacePhase::Done {
            return Some(state);
        }
        let why = "an earlier object of that name has asked for it".to_owned();
        Some(InPlaceState { phase: InPlacePhase::NotAskedFor { why, since: None }, ..state })
    }

    /// UIDs of the sets for which an earlier version says anything else of their pods.
    pub(crate) fn news_since(&self, earlier: Option<&Self>) -> BTreeSet<String> {
        let states = |one: &Self| -> BTreeMap<(String, String), InPlaceState> {
            let of = |entry: &DesiredPod| ((entry.owner_uid.clone(), entry.uid.clone()), one.state(entry));
            one.entries.iter().map(of).collect()
        };
        let (before, after) = (earlier.map(states).unwrap_or_default(), states(self));
        let is_news = |key: &&(String, String)| before.get(*key) != after.get(*key);
        before.keys().chain(after.keys()).filter(is_news).map(|(set, _)| set.clone()).collect()
    }

    fn state(&self, entry: &DesiredPod) -> InPlaceState {
        let phase = match self.answer(entry).map(|answer| (&answer.phase, answer)) {
            Some((UpdatePhase::Succeeded, _)) => InPlacePhase::Done,
            Some((UpdatePhase::Failed, answer)) => {
                let why = answer.message.clone().or_else(|| answer.reason.clone());
                let why = why.unwrap_or_else(|| "its node does not say why".to_owned());
                let reason = answer.reason.as_deref().map(FailureReason::named);
                match reason {
                    _ if is_not_asked_for(reason, &why) => {
                        InPlacePhase::NotAskedFor { why, since: entry.since.as_ref().map(|since| since.0) }
                    }
                    Some(
                        FailureReason::ImageNotPulled
                        | FailureReason::CrashLoop
                        | FailureReason::DeadlineExceeded,
                    ) => InPlacePhase::GivenUp(why),
                    _ => InPlacePhase::Failed(why),
                }
            }
            _ => InPlacePhase::Pending,
        };
        InPlaceState {
            node: self.node.clone(),
            revision: entry.revision.clone(),
            attempt: entry.attempt,
            generation: entry.owner_generation,
            phase,
        }
    }

    /// The node's word on this try of an entry.
    fn answer(&self, entry: &DesiredPod) -> Option<&UpdatedPod> {
        self.pods.iter().find(|pod| {
            pod.uid == entry.uid
                && pod.owner == entry.owner
                && pod.revision == entry.revision
                && pod.attempt == entry.attempt
        })
    }

    /// Returns these changes as the agent understands them.
    fn understood<'a>(&self, changes: &'a [Change]) -> Cow<'a, [Change]> {
        if self.shows_ends {
            return Cow::Borrowed(changes);
        }
        let plain = changes.iter().cloned().map(|change| match change {
            Change::Put(mut entry) => {
                entry.end = PodEnd::Reported;
                Change::Put(entry)
            }
            take @ Change::Take { .. } => take,
        });
        Cow::Owned(plain.collect())
    }

    /// Returns what is to be written for these changes, made one after the other.
    pub(crate) fn changed(&self, changes: &[Change]) -> Changed {
        let changes = self.understood(changes);
        let shown: BTreeMap<Key, &DesiredPod> =
            self.entries.iter().map(|entry| (key(entry), entry)).collect();
        let mut wanted = shown.clone();
        wanted.retain(|key, _| !self.leaving.contains(key));
        for change in &*changes {
            match change {
                Change::Put(entry) => {
                    let key = key(entry);
                    if !wanted.get(&key).is_some_and(|known| asks_the_same(known, entry)) {
                        wanted.insert(key, entry);
                    }
                }
                Change::Take { uid, owner } => drop(wanted.remove(&(uid.clone(), owner.clone()))),
            }
        }
        let of_now = |key: &Key| shown.get(key).and_then(|entry| self.answer(entry));
        let stands = |_: &Key, entry: &DesiredPod| self.standing(entry);
        let is_at_work = |key: &Key| of_now(key).is_some_and(|one| is_at_work(one.phase));
        let kept = fitting(wanted.clone(), &shown, stands, is_at_work);
        let has_room =
            |key: &Key, entry: &DesiredPod| kept.get(key).is_some_and(|kept| asks_the_same(kept, entry));
        let waiting = wanted.iter().filter(|(key, entry)| !has_room(key, entry));
        let waiting = waiting.map(|(_, entry)| entry.name.clone()).collect();
        let entries: Vec<&DesiredPod> = kept.into_values().collect();
        let is_other = !entries.iter().copied().eq(shown.into_values());
        Changed { body: is_other.then(|| self.body(&entries)), waiting }
    }

    fn body(&self, entries: &[&DesiredPod]) -> Value {
        json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "NodePodUpdate",
            "metadata": { "name": self.node, "uid": self.uid, "resourceVersion": self.version },
            "status": { "desiredPods": entries.iter().map(|entry| self.written(entry)).collect::<Vec<_>>() },
        })
    }

    /// An entry as it is written: one that cannot be read as it stands there.
    fn written(&self, entry: &DesiredPod) -> Value {
        self.standing(entry).map_or_else(|| json!(entry), Value::clone)
    }

    /// An entry that cannot be read, as it stands there.
    fn standing(&self, entry: &DesiredPod) -> Option<&Value> {
        self.unreadable.get(&key(entry)).filter(|value| {
            DesiredPod::identity(value).is_some_and(|identity| asks_the_same(&identity, entry))
        })
    }
}

/// Tells whether the set of an entry asked for something else when its node looked. Agents of before have no
/// reason of its own for that, and say it in these words.
fn is_not_asked_for(reason: Option<FailureReason>, why: &str) -> bool {
    let is_said = || {
        why.starts_with("the template of ")
            || why.starts_with("there is no ")
            || why.ends_with("is not the one of this entry: it was made anew")
    };
    match reason {
        Some(FailureReason::NotAskedFor) => true,
        Some(FailureReason::InvalidRequest) => is_said(),
        _ => false,
    }
}

/// Change of the entries of a node.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// This is the entry of its pod.
    Put(Box<DesiredPod>),
    /// The pod has none of this owner.
    Take { uid: String, owner: String },
}

/// Result of changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changed {
    /// Body of the write. `None`: nothing is to be written.
    pub(crate) body: Option<Value>,
    /// Names of the pods whose entries have no room yet.
    pub(crate) waiting: Vec<String>,
}

/// UID of a pod, and the owner of an entry.
type Key = (String, String);

fn key(entry: &DesiredPod) -> Key {
    (entry.uid.clone(), entry.owner.clone())
}

/// Tells whether two entries of a pod and owner are the same try of the same revision. What an earlier object
/// of that name has asked for is another one.
fn asks_the_same(one: &DesiredPod, other: &DesiredPod) -> bool {
    (&one.revision, one.attempt, &one.owner_uid) == (&other.revision, other.attempt, &other.owner_uid)
}

/// Entry for an update of a pod of a set.
pub(crate) fn entry(update: &InPlaceUpdate, set: &dyn Workload, now: Timestamp) -> DesiredPod {
    let images: &BTreeMap<String, String> = &update.images;
    let container =
        |(name, image): (&String, &String)| UpdateContainer { name: name.clone(), image: image.clone() };
    DesiredPod {
        uid: update.uid.clone(),
        owner: set.entry_owner(),
        owner_uid: set.uid().to_owned(),
        owner_generation: update.generation,
        namespace: set.namespace().to_owned(),
        name: update.name.clone(),
        revision: update.revision.clone(),
        attempt: update.attempt,
        service: PodService::Drain,
        // The agent has none of the pod's secrets; and a bad image, or one that falls over, shows in the pod,
        // as OpenKruise's users know it.
        pull: PodPull::BestEffort,
        end: PodEnd::Shown,
        containers: images.iter().map(container).collect(),
        labels: update.labels.clone(),
        annotations: update.annotations.clone(),
        since: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        grace_period_seconds: update.grace_seconds.filter(|seconds| *seconds > 0),
        ..DesiredPod::default()
    }
}

#[cfg(test)]
mod tests;
