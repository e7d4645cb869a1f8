//! In-place updates on behalf of owners of one kind: what pods are to be, laid down in the NodePodUpdate of
//! their node. Of each object only the entries of that kind of owner are looked at and written: others have
//! writers of their own, with a field manager of their own.
//!
//! ```text
//!  an owner ── want / forget ─────────────────────────▶
//!  watches ─── apply / delete / gone / pods_listed ────▶ PodUpdates ── owed ──▶ Vec<PodUpdateWrite>
//!  lease ───── leads ─────────────────────────────────▶     └─────── progress ──▶ owner
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients. It remembers nothing that the
//! objects don't say, but for what owners want, and they say that again after a restart. An entry is kept
//! once: what is wanted, what was asked to be written and what is shown share it while they are the same.
//!
//! Invariants:
//! - a write has the whole list of one node and names the version of the object it was decided on; it is
//!   asked for once for each version, and again only if it was lost or the lease came anew;
//! - an entry stays as it is until its owner wants something else or forgets it, or its pod is gone. So
//!   one that a manager before this wrote, and whose owner has not spoken yet, stays;
//! - a revision has the time at which it was first asked for, whoever asks again;
//! - what has no room in the object of its node waits, and is asked for when others are done.

mod pace;
mod said;
mod shown;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
    time::Instant,
};

use berth_base::entry_room::{fitting, is_at_work};
use berth_proto::crd::{DesiredPod, UpdatedPod};
use serde_json::Value;

pub use self::said::Progress;
use self::{pace::Pace, said::Said, shown::Shown};
use crate::store::{NodePodUpdateSeen, Now};

/// A write of `status.desiredPods`, all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUpdateWrite {
    /// The name of the node and of its NodePodUpdate.
    pub node: Arc<str>,
    /// Which object of that name.
    pub uid: Box<str>,
    /// The version it was decided on; the write must fail on any other.
    pub resource_version: Box<str>,
    /// The entries of that kind of owner, in the order of their UIDs.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Entries of them that a newer program has written, as they stand there and are written again: of these
    /// `pods` has the identities alone.
    pub unreadable: BTreeMap<EntryId, Arc<Value>>,
}

/// Entry of a pod and an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    /// UID of the pod.
    pub uid: String,
    /// The owner, as in the entry; empty for a workload.
    pub owner: String,
}

impl EntryId {
    /// Returns the one of this entry.
    pub fn of(pod: &DesiredPod) -> Self {
        Self { uid: pod.uid.clone(), owner: pod.owner.clone() }
    }
}

/// Wishes of owners for pods, and the NodePodUpdates as shown.
#[derive(Debug, Default)]
pub struct PodUpdates {
    /// Kind of the owners; empty for workloads.
    kind: &'static str,
    /// With the node of the pod.
    wanted: HashMap<EntryId, (Arc<DesiredPod>, Arc<str>)>,
    nodes: HashMap<Arc<str>, Node>,
    /// Nodes to look at when it is asked what is owed.
    dirty: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Node {
    /// Without one, the agent has not been there, and nothing can be written.
    shown: Option<Shown>,
    wanted: BTreeSet<EntryId>,
    /// Entries to take back. A write that has one of them may still be on its way: it is remembered
    /// until another version of the object comes without it.
    let_go: BTreeSet<EntryId>,
    pace: Pace,
}

impl PodUpdates {
    /// Returns one for owners of a kind.
    pub fn of(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    /// An owner wants a pod to be so, which is on this node. Said again with another revision, it is the
    /// new one; `since` counts only for a revision that the node has not been given yet.
    pub fn want(&mut self, pod: DesiredPod, node: &str) {
        let id = EntryId::of(&pod);
        let name: Arc<str> =
            self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| name.clone());
        let before = self.wanted.insert(id.clone(), (Arc::new(pod), name.clone()));
        if let Some((_, before)) = before.filter(|(_, before)| *before != name) {
            self.let_go(&id, &before);
        }
        let known = self.nodes.entry(name.clone()).or_default();
        known.let_go.remove(&id);
        known.wanted.insert(id);
        self.dirty.insert(name);
    }

    /// The owner wants nothing of this pod any more: its entry is taken back.
    pub fn forget(&mut self, id: &EntryId) {
        if let Some((_, node)) = self.wanted.remove(id) {
            self.let_go(id, &node);
        }
    }

    /// The pod is gone, or the owner.
    pub fn gone(&mut self, id: &EntryId, node: &str) {
        self.wanted.remove(id);
        self.let_go(id, node);
    }

    /// Pods and NodePodUpdates have been listed, at the start or after an outage: entries of pods that do not
    /// live are taken back. To be said after each such list, when those of both kinds have been complete
    /// once.
    pub fn pods_listed(&mut self, lives: impl Fn(&DesiredPod) -> bool) {
        let wanted = self.wanted.values().map(|(pod, node)| (pod, node));
        let shown = self.nodes.iter().flat_map(|(name, node)| {
            node.shown.iter().flat_map(|shown| shown.desired.values()).map(move |pod| (pod, name))
        });
        let gone = wanted.chain(shown).filter(|(pod, _)| !lives(pod));
        let gone: Vec<_> = gone.map(|(pod, node)| (EntryId::of(pod), node.clone())).collect();
        for (id, node) in gone {
            self.gone(&id, &node);
        }
    }

    /// Entries of a node that are there although nobody has asked for them: a manager before this one did.
    pub fn unclaimed(&self, node: &str) -> Vec<DesiredPod> {
        let Some(Node { shown: Some(shown), wanted, let_go, .. }) = self.nodes.get(node) else {
            return Vec::new();
        };
        let unclaimed = shown.desired.iter().filter(|(id, _)| !wanted.contains(id) && !let_go.contains(id));
        unclaimed.map(|(_, pod)| DesiredPod::clone(pod)).collect()
    }

    /// A NodePodUpdate is as given. True: it says something else than before of entries of this kind, or of
    /// what the agent can do.
    pub fn apply(&mut self, seen: &NodePodUpdateSeen, now: Now) -> bool {
        let name: Arc<str> = seen.name.as_str().into();
        let node = self.nodes.entry(name.clone()).or_default();
        let owned = |owner: &str| {
            let kind = owner.split_once('/').map_or("", |(kind, _)| kind);
            kind == self.kind
        };
        let wanted = &self.wanted;
        let before = node.shown.as_ref();
        // Nearly always it is the one that was asked for, or that stood there before.
        let shared = |id: &EntryId, pod: &DesiredPod| {
            let asked = before.and_then(|shown| shown.asked_of(id));
            let stood = before.and_then(|shown| shown.desired.get(id));
            let known = [asked, stood, wanted.get(id).map(|(pod, _)| pod)];
            known.into_iter().flatten().find(|known| ***known == *pod).cloned()
        };
        let aside: Vec<_> = seen.unreadable.iter().filter(|(pod, _)| owned(&pod.owner)).collect();
        let desired: BTreeMap<_, _> = seen
            .desired
            .iter()
            .chain(aside.iter().map(|(pod, _)| pod))
            .filter(|pod| owned(&pod.owner))
            .map(|pod| {
                let id = EntryId::of(pod);
                let pod = shared(&id, pod).unwrap_or_else(|| Arc::new(pod.clone()));
                (id, pod)
            })
            .collect();
        let id = |pod: &UpdatedPod| EntryId { uid: pod.uid.clone(), owner: pod.owner.clone() };
        let said = |pod: &UpdatedPod| {
            let id = id(pod);
            let said = Said::of(pod, before.map(|shown| shown.pods.get(&id)), now);
            (id, said)
        };
        let pods = seen.pods.iter().filter(|pod| owned(&pod.owner)).map(said).collect();
        let unreadable = aside.iter().map(|(pod, value)| (EntryId::of(pod), Arc::new(value.clone())));
        let mut shown = Shown {
            unreadable: unreadable.collect(),
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            deleting: seen.deleting,
            possible: desired.keys().cloned().collect(),
            desired,
            pods,
            features: seen.features.clone(),
            asked: None,
            asked_at: None,
        };
        let changed = node.shown.as_ref().is_none_or(|before| !before.says_the_same(&shown));
        match &mut node.shown {
            Some(before) if before.uid == shown.uid && before.resource_version == shown.resource_version => {
                (shown.asked, shown.possible) = (before.asked.take(), mem::take(&mut before.possible));
                shown.asked_at = before.asked_at;
            }
            before => {
                if let Some(before) = before {
                    node.pace.follow(before, &shown, now.instant);
                }
                node.let_go.retain(|id| shown.desired.contains_key(id));
            }
        }
        node.shown = Some(shown);
        self.dirty.insert(name);
        changed
    }

    /// The NodePodUpdate of this node is gone. What is wanted is written when there is another one.
    pub fn delete(&mut self, node: &str) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.shown = None;
            known.let_go.clear();
        }
        self.sweep(node);
    }

    /// Names of the nodes that have a NodePodUpdate.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.iter().filter(|(_, node)| node.shown.is_some()).map(|(name, _)| name)
    }

    /// Tells whether the agent of the node says that it can do this.
    pub fn can(&self, node: &str, feature: &str) -> bool {
        let shown = self.nodes.get(node).and_then(|node| node.shown.as_ref());
        shown.is_some_and(|shown| !shown.deleting && shown.features.iter().any(|one| one == feature))
    }

    /// The entry that is wanted.
    pub fn wanted(&self, id: &EntryId) -> Option<&DesiredPod> {
        self.wanted.get(id).map(|(pod, _)| &**pod)
    }

    /// Tells whether the agent has been given the entry that is wanted: it stands in the object of the node,
    /// or in a write that may have come there.
    pub fn is_given(&self, id: &EntryId) -> bool {
        let Some((pod, node)) = self.wanted.get(id) else { return false };
        let Some(shown) = self.nodes.get(node).and_then(|node| node.shown.as_ref()) else { return false };
        let mut given = [shown.desired.get(id), shown.asked_of(id)].into_iter().flatten();
        given.any(|given| given.revision == pod.revision && given.attempt == pod.attempt)
    }

    /// Tells whether something is to be asked of [`PodUpdates::owed`].
    pub fn owes(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Gives the orders that are owed since this was asked last, and when to ask again for those of nodes
    /// that are written too often.
    pub fn owed(&mut self, now: Instant) -> (Vec<PodUpdateWrite>, Option<Instant>) {
        let (mut orders, mut again) = (Vec::new(), None);
        for name in mem::take(&mut self.dirty) {
            match self.nodes.get(&name).and_then(|node| node.pace.waits(now)) {
                Some(until) => {
                    again = Some(again.map_or(until, |again| until.min(again)));
                    self.dirty.insert(name);
                }
                None => orders.extend(self.order(name, now)),
            }
        }
        (orders, again)
    }

    /// Takes in that this replica leads from now on: everything is owed, whatever was asked for before.
    pub fn leads(&mut self) {
        for (name, node) in &mut self.nodes {
            if let Some(shown) = &mut node.shown {
                shown.asked = None;
            }
            self.dirty.insert(name.clone());
        }
    }

    /// Rests: this replica does not lead any more, and nothing is wanted but what the objects have, by
    /// whoever leads.
    pub fn rest(&mut self) {
        self.wanted.clear();
        self.dirty.clear();
        for node in self.nodes.values_mut() {
            (node.wanted, node.let_go) = (BTreeSet::new(), BTreeSet::new());
            if let Some(shown) = &mut node.shown {
                shown.asked = None;
                shown.possible = shown.desired.keys().cloned().collect();
            }
        }
        self.nodes.retain(|_, node| node.shown.is_some());
    }

    /// A write could not even be queued; it is owed again. Its caller asks after a pause.
    pub fn lost(&mut self, node: &str) {
        if let Some(shown) = self.nodes.get_mut(node).and_then(|known| known.shown.as_mut()) {
            shown.asked = None;
            self.dirty.insert(node.into());
        }
    }

    /// Returns how far the agent is with what is wanted of this pod; `None` before it has said something
    /// about that revision.
    pub fn progress(&self, id: &EntryId) -> Option<Progress> {
        let (pod, node) = self.wanted.get(id)?;
        let said = self.nodes.get(node)?.shown.as_ref()?.pods.get(id)?;
        said.is_of(pod).then_some(said.progress)
    }

    fn let_go(&mut self, id: &EntryId, node: &str) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        known.wanted.remove(id);
        if known.shown.as_ref().is_some_and(|shown| shown.possible.contains(id)) {
            known.let_go.insert(id.clone());
            self.dirty.insert(node.into());
        }
        self.sweep(node);
    }

    /// The entries that a node is to have, as one write; `None`: it has them, or the write was asked for.
    fn order(&mut self, name: Arc<str>, now: Instant) -> Option<PodUpdateWrite> {
        let node = self.nodes.get_mut(&name)?;
        let shown = node.shown.as_mut().filter(|shown| !shown.deleting)?;
        let mut pods = shown.desired.clone();
        pods.retain(|id, _| !node.let_go.contains(id));
        for (id, (pod, _)) in node.wanted.iter().filter_map(|id| Some((id, self.wanted.get(id)?))) {
            let same =
                |before: &&Arc<DesiredPod>| before.revision == pod.revision && before.attempt == pod.attempt;
            // What it has to say of this try was said by a newer program.
            let is_newer = |before: &Arc<DesiredPod>| same(&before) && before.owner_uid == pod.owner_uid;
            if shown.unreadable.contains_key(id) && shown.desired.get(id).is_some_and(is_newer) {
                continue;
            }
            let since = shown.desired.get(id).filter(same).and_then(|before| before.since.clone());
            let pod = match since.filter(|since| pod.since.as_ref() != Some(since)) {
                Some(since) => Arc::new(DesiredPod { since: Some(since), ..DesiredPod::clone(pod) }),
                None => pod.clone(),
            };
            // Shown as it is wanted, it is kept once.
            let pod = shown.desired.get(id).filter(|shown| **shown == pod).cloned().unwrap_or(pod);
            pods.insert(id.clone(), pod);
        }
        let Shown { desired, unreadable, pods: said, .. } = &*shown;
        let stands = |id: &EntryId, pod: &DesiredPod| {
            let is_shown = desired.get(id).is_some_and(|shown| **shown == *pod);
            unreadable.get(id).filter(|_| is_shown).map(|value| &**value)
        };
        let pods = fitting(pods, desired, stands, |id| {
            let asked = desired.get(id).zip(said.get(id));
            asked.is_some_and(|(pod, said)| said.is_of(pod) && is_at_work(said.progress.phase))
        });
        // An earlier order that says something else may still be waiting, so even what is shown may be owed.
        if shown.asked.is_none() && (pods == shown.desired || shown.can_wait(&pods)) {
            return None;
        }
        let stands = |id: &EntryId| pods.get(id).is_some_and(|pod| shown.desired.get(id) == Some(pod));
        let unreadable = shown.unreadable.iter().filter(|(id, _)| stands(id));
        let unreadable = unreadable.map(|(id, value)| (id.clone(), value.clone())).collect();
        let pods: Vec<_> = pods.into_values().collect();
        if shown.asked.as_ref() == Some(&pods) {
            return None;
        }
        shown.possible.extend(pods.iter().map(|pod| EntryId::of(pod)));
        (shown.asked, shown.asked_at) = (Some(pods.clone()), Some(now));
        let (uid, resource_version) = (shown.uid.clone(), shown.resource_version.clone());
        Some(PodUpdateWrite { node: name, uid, resource_version, pods, unreadable })
    }

    fn sweep(&mut self, node: &str) {
        if self.nodes.get(node).is_some_and(|known| known.shown.is_none() && known.wanted.is_empty()) {
            self.nodes.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
