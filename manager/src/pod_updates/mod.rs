//! In-place updates on behalf of workloads: what pods are to be, laid down in the NodePodUpdate of their
//! node. The entrance for workloads, as [`crate::images::predownload`] is for their images.
//!
//! It has no caller yet: no workload is there to want anything, so nothing watches NodePodUpdates, nothing
//! writes them, and the manager runs without this. What is missing besides a workload is wiring alone: a
//! watch ([`crate::wire`]), an order for the writer, and a place in [`crate::controller`].
//!
//! ```text
//!  workload ── want / forget ─────────────────────────▶
//!  watches ─── apply / delete / pod_gone / pods_listed ▶ PodUpdates ── owed ──▶ Vec<PodUpdateWrite>
//!  lease ───── leads ─────────────────────────────────▶     └─────── progress ──▶ workload
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients. It remembers nothing that the
//! objects don't say, but for what workloads want, and they say that again after a restart.
//!
//! Invariants:
//! - a write has the whole list of one node and names the version of the object it was decided on; it is
//!   asked for once for each version, and again only if it was lost or the lease came anew;
//! - an entry stays as it is until its workload wants something else or forgets it, or its pod is gone. So
//!   one that a manager before this wrote, and whose workload has not spoken yet, stays;
//! - a revision has the time at which it was first asked for, whoever asks again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use berth_proto::crd::{DesiredPod, UpdatedPod};

/// A NodePodUpdate as it is now.
#[derive(Clone, Debug, Default)]
pub struct NodePodUpdateSeen {
    /// The name of its node.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that a write is based on.
    pub resource_version: String,
    /// Its deletion has begun.
    pub deleting: bool,
    /// `status.desiredPods`.
    pub desired: Vec<DesiredPod>,
    /// `status.pods`.
    pub pods: Vec<UpdatedPod>,
}

/// A write of `status.desiredPods`, all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUpdateWrite {
    /// The name of the node and of its NodePodUpdate.
    pub node: Arc<str>,
    /// Which object of that name.
    pub uid: Box<str>,
    /// The version it was decided on; the write must fail on any other.
    pub resource_version: Box<str>,
    /// The entries, in the order of their UIDs.
    pub pods: Vec<DesiredPod>,
}

/// Wishes of workloads for pods, and the NodePodUpdates as shown.
#[derive(Debug, Default)]
pub struct PodUpdates {
    /// By the pod's UID, with its node.
    wanted: HashMap<String, (DesiredPod, Arc<str>)>,
    nodes: HashMap<Arc<str>, Node>,
    /// Nodes to look at when it is asked what is owed.
    dirty: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Node {
    /// Without one, the agent has not been there, and nothing can be written.
    shown: Option<Shown>,
    /// UIDs.
    wanted: BTreeSet<String>,
    /// UIDs of entries to take back. A write that has one of them may still be on its way: it is remembered
    /// until another version of the object comes without it.
    let_go: BTreeSet<String>,
}

#[derive(Debug)]
struct Shown {
    uid: Box<str>,
    resource_version: Box<str>,
    deleting: bool,
    desired: BTreeMap<String, DesiredPod>,
    pods: HashMap<String, UpdatedPod>,
    /// Entries that were last asked to be written on this version.
    asked: Option<Vec<DesiredPod>>,
    /// UIDs of entries that are there, or in anything that was asked to be written on this version.
    possible: BTreeSet<String>,
}

impl PodUpdates {
    /// A workload wants a pod to be so, which is on this node. Said again with another revision, it is the
    /// new one; `since` counts only for a revision that the node has not been given yet.
    pub fn want(&mut self, pod: DesiredPod, node: &str) {
        let name: Arc<str> =
            self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| name.clone());
        let before = self.wanted.insert(pod.uid.clone(), (pod.clone(), name.clone()));
        if let Some((_, before)) = before.filter(|(_, before)| *before != name) {
            self.let_go(&pod.uid, &before);
        }
        let known = self.nodes.entry(name.clone()).or_default();
        known.let_go.remove(&pod.uid);
        known.wanted.insert(pod.uid);
        self.dirty.insert(name);
    }

    /// Nobody wants anything of this pod any more: its entry is taken back.
    pub fn forget(&mut self, uid: &str) {
        if let Some((_, node)) = self.wanted.remove(uid) {
            self.let_go(uid, &node);
        }
    }

    /// The pod is gone, whoever wanted something of it.
    pub fn pod_gone(&mut self, uid: &str, node: &str) {
        self.wanted.remove(uid);
        self.let_go(uid, node);
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
        let gone: Vec<_> = gone.map(|(pod, node)| (pod.uid.clone(), node.clone())).collect();
        for (uid, node) in gone {
            self.pod_gone(&uid, &node);
        }
    }

    /// A NodePodUpdate is as given.
    pub fn apply(&mut self, seen: NodePodUpdateSeen) {
        let name: Arc<str> = seen.name.into();
        let node = self.nodes.entry(name.clone()).or_default();
        let desired: BTreeMap<_, _> = seen.desired.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        let mut shown = Shown {
            uid: seen.uid.into(),
            resource_version: seen.resource_version.into(),
            deleting: seen.deleting,
            possible: desired.keys().cloned().collect(),
            desired,
            pods: seen.pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect(),
            asked: None,
        };
        match &mut node.shown {
            Some(before) if before.uid == shown.uid && before.resource_version == shown.resource_version => {
                (shown.asked, shown.possible) = (before.asked.take(), mem::take(&mut before.possible));
            }
            _ => node.let_go.retain(|uid| shown.desired.contains_key(uid)),
        }
        node.shown = Some(shown);
        self.dirty.insert(name);
    }

    /// The NodePodUpdate of this node is gone. What is wanted is written when there is another one.
    pub fn delete(&mut self, node: &str) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.shown = None;
            known.let_go.clear();
        }
        self.sweep(node);
    }

    /// Gives the orders that are owed since this was asked last.
    pub fn owed(&mut self) -> Vec<PodUpdateWrite> {
        mem::take(&mut self.dirty).into_iter().filter_map(|name| self.order(name)).collect()
    }

    /// From now on this replica leads: everything is owed, whatever was asked for before.
    pub fn leads(&mut self) {
        for (name, node) in &mut self.nodes {
            if let Some(shown) = &mut node.shown {
                shown.asked = None;
            }
            self.dirty.insert(name.clone());
        }
    }

    /// A write could not even be queued; it is owed again. Its caller asks after a pause.
    pub fn lost(&mut self, node: &str) {
        if let Some(shown) = self.nodes.get_mut(node).and_then(|known| known.shown.as_mut()) {
            shown.asked = None;
            self.dirty.insert(node.into());
        }
    }

    /// How far the agent is with what is wanted of this pod; `None` before it has said something about that
    /// revision.
    pub fn progress(&self, uid: &str) -> Option<&UpdatedPod> {
        let (pod, node) = self.wanted.get(uid)?;
        let said = self.nodes.get(node)?.shown.as_ref()?.pods.get(uid)?;
        (said.revision == pod.revision).then_some(said)
    }

    fn let_go(&mut self, uid: &str, node: &str) {
        let Some(known) = self.nodes.get_mut(node) else { return };
        known.wanted.remove(uid);
        if known.shown.as_ref().is_some_and(|shown| shown.possible.contains(uid)) {
            known.let_go.insert(uid.to_owned());
            self.dirty.insert(node.into());
        }
        self.sweep(node);
    }

    fn order(&mut self, name: Arc<str>) -> Option<PodUpdateWrite> {
        let node = self.nodes.get_mut(&name)?;
        let shown = node.shown.as_mut().filter(|shown| !shown.deleting)?;
        let mut pods = shown.desired.clone();
        pods.retain(|uid, _| !node.let_go.contains(uid));
        for (uid, (pod, _)) in node.wanted.iter().filter_map(|uid| Some((uid, self.wanted.get(uid)?))) {
            let mut pod = pod.clone();
            if let Some(before) = shown.desired.get(uid).filter(|before| before.revision == pod.revision) {
                pod.since = before.since.clone().or(pod.since);
            }
            pods.insert(uid.clone(), pod);
        }
        // An earlier order that says something else may still be waiting, so even what is shown may be owed.
        if pods == shown.desired && shown.asked.is_none() {
            return None;
        }
        let pods: Vec<_> = pods.into_values().collect();
        if shown.asked.as_ref() == Some(&pods) {
            return None;
        }
        shown.possible.extend(pods.iter().map(|pod| pod.uid.clone()));
        shown.asked = Some(pods.clone());
        let (uid, resource_version) = (shown.uid.clone(), shown.resource_version.clone());
        Some(PodUpdateWrite { node: name, uid, resource_version, pods })
    }

    fn sweep(&mut self, node: &str) {
        if self.nodes.get(node).is_some_and(|known| known.shown.is_none() && known.wanted.is_empty()) {
            self.nodes.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
