//! Objects of nodes, and which workload has entries in which of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use berth_base::silence::{SILENT_AFTER, Silence};
use berth_workloads_policy::{
    agents::{Agents, SILENT_AFTER_MINUTES},
    in_place::InPlaceState,
    pod::PodView,
    store::{Store, Stored},
};

use jiff::Timestamp;

use crate::{kinds::Kind, node_updates::NodeUpdates, watch::Shown};

/// Conditions say it in minutes.
const _: () = assert!(SILENT_AFTER.as_secs() == SILENT_AFTER_MINUTES * 60);

/// Workloads that news of the objects of nodes concern.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// All workloads.
    pub(crate) all: bool,
    /// These, by UID.
    pub(crate) sets: Vec<String>,
    /// Nodes whose sets it concerns, too: their agents are able to something else, or are silent, or were.
    pub(crate) nodes: BTreeSet<String>,
}

/// The objects of all nodes.
#[derive(Debug, Default)]
pub(crate) struct UpdateStore {
    store: Store<NodeUpdates>,
    pub(crate) listed: bool,
    /// UID of the object of each node.
    named: BTreeMap<String, String>,
    /// UIDs of the objects that have something of a workload, by the workload's.
    of: BTreeMap<String, BTreeSet<String>>,
    /// Nodes whose agents check entries of a kind, by the kind's name.
    checking: BTreeMap<&'static str, BTreeSet<String>>,
    nobody: BTreeSet<String>,
    /// Nodes with an agent.
    present: BTreeSet<String>,
    /// Nodes whose agents set `pod-template-hash`.
    labelling: BTreeSet<String>,
    /// Nodes whose agents take what earlier templates had.
    recalling: BTreeSet<String>,
    silence: Silence,
    /// Signs of life that are to be taken in, by node.
    heard: BTreeMap<String, Option<Timestamp>>,
    /// The watch was broken.
    deaf: bool,
}

impl UpdateStore {
    /// Takes in what the watch shows.
    pub(crate) fn take(&mut self, shown: Shown<NodeUpdates>) -> News {
        match shown {
            Shown::ListBegins => self.store.list_begins(),
            Shown::ListEnds => {
                self.store.list_ends();
                self.listed = true;
                self.named.clear();
                self.of.clear();
                self.checking.clear();
                self.labelling.clear();
                self.recalling.clear();
                let known = std::mem::take(&mut self.present);
                let all: Vec<NodeUpdates> = self.store.iter().cloned().collect();
                all.iter().for_each(|node_updates| self.link(node_updates));
                self.heard.extend(known.into_iter().map(|node| (node, None)));
                let is_last = |one: &NodeUpdates| self.named.get(&one.node) == Some(&one.uid);
                self.heard.extend(all.into_iter().filter(is_last).map(heard));
                return News { all: true, ..News::default() };
            }
            Shown::Applied(node_updates) => {
                let before = self.store.get(node_updates.uid()).cloned();
                if self.store.applied(node_updates.clone()) {
                    return self.relink(before.as_ref(), Some(&node_updates));
                }
            }
            Shown::Gone(uid) => {
                let before = self.store.gone(&uid);
                return self.relink(before.as_ref(), None);
            }
        }
        News::default()
    }

    /// A write was answered with this. An answer that comes late says nothing: a newer version is known, or
    /// that the object is gone. Others than the workload that has written may learn something by it: where
    /// the object was read for the write, it has what the watch shows later, as no news.
    pub(crate) fn wrote(&mut self, node_updates: NodeUpdates) -> News {
        let uid = node_updates.uid().to_owned();
        let before = self.store.get(&uid).cloned();
        self.store.wrote(node_updates);
        let after = self.store.get(&uid).cloned();
        let news = self.relink(before.as_ref(), after.as_ref());
        let sets = after.map(|after| after.news_since(before.as_ref())).unwrap_or_default();
        News { sets: sets.into_iter().collect(), ..news }
    }

    /// Updates in place of the pods of a workload, by UID.
    pub(crate) fn states(&self, set: &str) -> BTreeMap<String, InPlaceState> {
        let update_store = self.of.get(set).into_iter().flatten().filter_map(|uid| self.store.get(uid));
        update_store.flat_map(|node_updates| node_updates.states(set)).collect()
    }

    /// The same of these pods of a workload that an earlier one of its name has left behind.
    pub(crate) fn left_behind(
        &self,
        owner: &str,
        set: &str,
        pods: &[&PodView],
    ) -> BTreeMap<String, InPlaceState> {
        let of = |pod: &&PodView| {
            let node_updates = self.store.get(self.named.get(&pod.node)?)?;
            Some((pod.uid.clone(), node_updates.left_behind(owner, set, pod)?))
        };
        pods.iter().filter_map(of).collect()
    }

    /// Objects of these nodes, as far as they are known.
    pub(crate) fn of_nodes<'a>(&self, nodes: impl Iterator<Item = &'a str>) -> BTreeMap<String, NodeUpdates> {
        let nodes: BTreeSet<&str> = nodes.collect();
        let known = nodes.into_iter().filter_map(|node| {
            let node_updates = self.store.get(self.named.get(node)?)?;
            Some((node.to_owned(), node_updates.clone()))
        });
        known.collect()
    }

    /// Agents, as they are for a kind.
    pub(crate) fn agents(&self, kind: &Kind) -> Agents<'_> {
        Agents {
            updating: self.checking.get(kind.name).unwrap_or(&self.nobody),
            present: &self.present,
            labelling: &self.labelling,
            recalling: &self.recalling,
            silent: self.silence.silent(),
        }
    }

    /// The watch is broken: nobody is heard.
    pub(crate) fn is_deaf(&mut self) {
        self.deaf = true;
    }

    /// Takes in who has given a sign of life, and who has not for too long. It is news where an agent is
    /// silent now, or is not any more.
    pub(crate) fn listen(&mut self, now: Instant) -> News {
        if std::mem::take(&mut self.deaf) {
            self.silence.was_deaf(now);
        }
        let mut changed = BTreeSet::new();
        for (node, sign) in std::mem::take(&mut self.heard) {
            if self.silence.hear(&node, sign, now) {
                changed.insert(node);
            }
        }
        // Mostly nobody's time has come.
        if self.silence.next().is_some_and(|next| next <= now) {
            let before = self.silence.silent().clone();
            self.silence.pass(now);
            changed.extend(self.silence.silent().difference(&before).cloned());
        }
        let objects = changed.iter().filter_map(|node| self.store.get(self.named.get(node)?));
        let sets = objects.flat_map(NodeUpdates::sets).map(str::to_owned).collect();
        News { all: false, sets, nodes: changed }
    }

    /// Time at which the next agent becomes silent.
    pub(crate) fn next_silence(&self) -> Option<Instant> {
        self.silence.next()
    }

    /// Workloads that a change of the object of a node concerns. The object may have been made anew, and an
    /// answer may tell of the new one before the watch shows that the earlier one is gone: of a node's agent
    /// the newest object alone says something.
    fn relink(&mut self, before: Option<&NodeUpdates>, after: Option<&NodeUpdates>) -> News {
        let last = before.filter(|one| self.named.get(&one.node) == Some(&one.uid));
        let newest = after.filter(|one| self.is_newest(one));
        self.heard.extend(last.map(|node_updates| (node_updates.node.clone(), None)));
        self.heard.extend(newest.cloned().map(heard));
        if let (Some(before), Some(after)) = (before, after)
            && before.says_the_same(after)
        {
            return News::default();
        }
        let able = |node_updates: Option<&NodeUpdates>| {
            node_updates.map(|one| (one.has_agent, one.recalls, one.checks.clone()))
        };
        let (able_before, able_after) = (able(last), able(newest));
        if let Some(last) = last {
            self.forget(&last.node);
        }
        if let Some(before) = before {
            for set in before.sets() {
                if let Some(known) = self.of.get_mut(set) {
                    known.remove(&before.uid);
                    if known.is_empty() {
                        self.of.remove(set);
                    }
                }
            }
        }
        if let Some(after) = after {
            self.link(after);
        }
        let both = before.into_iter().chain(after);
        let sets = both.clone().flat_map(NodeUpdates::sets).map(str::to_owned).collect();
        // Workloads may wait for an agent that is able to.
        let nodes = both.filter(|_| able_before != able_after).map(|one| one.node.clone()).collect();
        News { all: false, sets, nodes }
    }

    /// Tells whether no newer object of its node is known.
    fn is_newest(&self, node_updates: &NodeUpdates) -> bool {
        let known = self.named.get(&node_updates.node).and_then(|uid| self.store.get(uid));
        known.is_none_or(|known| known.version() <= node_updates.version())
    }

    /// Forgets what the agent of a node is able to.
    fn forget(&mut self, node: &str) {
        self.named.remove(node);
        self.present.remove(node);
        self.labelling.remove(node);
        self.recalling.remove(node);
        for nodes in self.checking.values_mut() {
            nodes.remove(node);
        }
    }

    fn link(&mut self, node_updates: &NodeUpdates) {
        for set in node_updates.sets() {
            self.of.entry(set.to_owned()).or_default().insert(node_updates.uid.clone());
        }
        if !self.is_newest(node_updates) {
            return;
        }
        self.forget(&node_updates.node);
        self.named.insert(node_updates.node.clone(), node_updates.uid.clone());
        if node_updates.has_agent {
            self.present.insert(node_updates.node.clone());
        }
        if node_updates.labels_hash {
            self.labelling.insert(node_updates.node.clone());
        }
        if node_updates.recalls {
            self.recalling.insert(node_updates.node.clone());
        }
        for kind in &node_updates.checks {
            self.checking.entry(kind).or_default().insert(node_updates.node.clone());
        }
    }
}

/// Node of an object, and the last sign of life of its agent.
fn heard(node_updates: NodeUpdates) -> (String, Option<Timestamp>) {
    (node_updates.node, node_updates.sign.filter(|_| node_updates.has_agent))
}

#[cfg(test)]
mod tests;
