//! Objects of nodes, and which workload has entries in which of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use berth_base::silence::{SILENT_AFTER, Silence};
use berth_workloads_policy::{
    agents::{Agents, SILENT_AFTER_MINUTES},
    in_place::InPlaceState,
    store::{Store, Stored},
};

use jiff::Timestamp;

use crate::{kinds::Kind, node_updates::NodeUpdates, owned::Concerned, watch::Shown};

/// Conditions say it in minutes.
const _: () = assert!(SILENT_AFTER.as_secs() == SILENT_AFTER_MINUTES * 60);

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
    pub(crate) fn take(&mut self, shown: Shown<NodeUpdates>) -> Concerned {
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
                return Concerned::All;
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
        Concerned::None
    }

    /// A write was answered with this. An answer that comes late says nothing: a newer version is known, or
    /// that the object is gone.
    pub(crate) fn wrote(&mut self, node_updates: NodeUpdates) {
        let uid = node_updates.uid().to_owned();
        let before = self.store.get(&uid).cloned();
        self.store.wrote(node_updates);
        let after = self.store.get(&uid).cloned();
        self.relink(before.as_ref(), after.as_ref());
    }

    /// Updates in place of the pods of a workload, by UID.
    pub(crate) fn states(&self, set: &str) -> BTreeMap<String, InPlaceState> {
        let update_store = self.of.get(set).into_iter().flatten().filter_map(|uid| self.store.get(uid));
        update_store.flat_map(|node_updates| node_updates.states(set)).collect()
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

    /// Takes in who has given a sign of life, and who has not for too long. True: another agent is silent, or
    /// is not any more.
    pub(crate) fn listen(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.deaf) {
            self.silence.was_deaf(now);
        }
        let mut changed = false;
        for (node, sign) in std::mem::take(&mut self.heard) {
            changed |= self.silence.hear(&node, sign, now);
        }
        changed | self.silence.pass(now)
    }

    /// Time at which the next agent becomes silent.
    pub(crate) fn next_silence(&self) -> Option<Instant> {
        self.silence.next()
    }

    /// Workloads that a change of the object of a node concerns. The object may have been made anew, and an
    /// answer may tell of the new one before the watch shows that the earlier one is gone: of a node's agent
    /// the newest object alone says something.
    fn relink(&mut self, before: Option<&NodeUpdates>, after: Option<&NodeUpdates>) -> Concerned {
        let last = before.filter(|one| self.named.get(&one.node) == Some(&one.uid));
        let newest = after.filter(|one| self.is_newest(one));
        self.heard.extend(last.map(|node_updates| (node_updates.node.clone(), None)));
        self.heard.extend(newest.cloned().map(heard));
        if let (Some(before), Some(after)) = (before, after)
            && before.says_the_same(after)
        {
            return Concerned::None;
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
        // Workloads may wait for an agent that is able to.
        if able_before != able_after {
            return Concerned::All;
        }
        let sets = before.into_iter().chain(after).flat_map(NodeUpdates::sets);
        Concerned::Some(sets.map(str::to_owned).collect())
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
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::kinds::KINDS;

    fn node_updates(version: u64, sign: u64, entries: &[&str]) -> Shown<NodeUpdates> {
        let entries: Vec<_> = entries.iter().map(|uid| ("set", *uid)).collect();
        Shown::Applied(of_sets(version, sign, &entries))
    }

    /// Entries with the UIDs of their workloads.
    fn of_sets(version: u64, sign: u64, entries: &[(&str, &str)]) -> NodeUpdates {
        let entry = |(set, uid): &(&str, &str)| json!({ "uid": uid, "owner": "CloneSet/shop", "ownerUid": set, "namespace": "ns", "name": uid, "revision": "r" });
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": "n", "uid": "u", "resourceVersion": version.to_string() }, "spec": {},
            "status": {
                "features": KINDS.map(|kind| kind.feature).into_iter()
                    .chain(["pod-template-hash/v1", "template-history/v1"]).collect::<Vec<_>>(),
                "renewTime": format!("2026-01-01T00:00:{sign:02}Z"),
                "desiredPods": entries.iter().map(entry).collect::<Vec<_>>(),
            },
        });
        NodeUpdates::of(serde_json::from_value(object).unwrap())
    }

    /// Another workload has its first entry there by then.
    #[test]
    fn a_late_answer_takes_no_entry_of_another_workload_away() {
        let mut update_store = UpdateStore::default();
        let pods = |store: &UpdateStore, set| store.states(set).into_keys().collect::<Vec<_>>();
        update_store.take(Shown::Applied(of_sets(6, 1, &[("one", "a"), ("two", "b")])));
        update_store.wrote(of_sets(5, 1, &[("one", "a")]));
        assert_eq!(
            (pods(&update_store, "one"), pods(&update_store, "two")),
            (vec!["a".into()], vec!["b".into()])
        );
        update_store.wrote(of_sets(7, 1, &[("one", "a"), ("two", "c")]));
        assert_eq!(pods(&update_store, "two"), ["c"]);
        // The node is gone by then.
        update_store.take(Shown::Gone("u".to_owned()));
        update_store.wrote(of_sets(8, 1, &[("one", "a")]));
        update_store.listen(Instant::now());
        assert!(update_store.agents(KINDS[0]).present.is_empty() && update_store.next_silence().is_none());
        assert!(pods(&update_store, "one").is_empty());
    }

    /// Writes are made on what is known of the object of a node, so it is the newest that was shown or
    /// answered, of the object that there is now.
    #[test]
    fn the_object_of_a_node_is_known_as_it_was_seen_last() {
        let mut update_store = UpdateStore::default();
        let another = |version| {
            let mut another = of_sets(version, 1, &[]);
            another.uid = "v".to_owned();
            another
        };
        let known = |store: &UpdateStore| {
            let known = store.of_nodes(["n", "unknown", "n"].into_iter());
            known.into_values().map(|one| (one.uid.clone(), one.version())).collect::<Vec<_>>()
        };
        let is = |uid: &str, version: u64| vec![(uid.to_owned(), version)];
        assert_eq!(known(&update_store), []);
        update_store.take(node_updates(2, 1, &["p"]));
        assert_eq!(known(&update_store), is("u", 2));
        // A sign of life alone.
        update_store.take(node_updates(3, 2, &["p"]));
        assert_eq!(known(&update_store), is("u", 3));
        update_store.wrote(of_sets(5, 2, &[]));
        update_store.take(node_updates(4, 2, &["p"]));
        assert_eq!(known(&update_store), is("u", 5));
        // The object was made anew, as a write was told; that the earlier one is gone is heard of later.
        update_store.wrote(another(7));
        // Nor does a late answer of the earlier one take its place.
        update_store.wrote(of_sets(6, 2, &[("set", "p")]));
        assert_eq!(known(&update_store), is("v", 7));
        update_store.take(Shown::Gone("u".to_owned()));
        update_store.listen(Instant::now());
        assert_eq!(known(&update_store), is("v", 7));
        assert!(update_store.agents(KINDS[0]).present.contains("n") && update_store.next_silence().is_some());
        update_store.take(Shown::ListBegins);
        update_store.take(Shown::Applied(another(8)));
        update_store.take(Shown::ListEnds);
        assert_eq!(known(&update_store), is("v", 8));
        update_store.take(Shown::Gone("v".to_owned()));
        assert_eq!(known(&update_store), []);
    }

    /// The object of a node was made anew, and no agent has written to it: a pod that waited for one would
    /// wait for ever.
    #[test]
    fn a_new_object_has_no_agent_before_one_says_so() {
        for shown_in_a_list in [false, true] {
            let mut update_store = UpdateStore::default();
            update_store.take(node_updates(2, 1, &["p"]));
            update_store.listen(Instant::now());
            let mut bare = of_sets(7, 1, &[]);
            (bare.uid, bare.has_agent, bare.labels_hash, bare.recalls) =
                ("a".to_owned(), false, false, false);
            bare.checks.clear();
            if shown_in_a_list {
                update_store.take(Shown::ListBegins);
                update_store.take(node_updates(2, 1, &["p"]));
            }
            update_store.wrote(bare);
            if shown_in_a_list {
                update_store.take(Shown::ListEnds);
            }
            let known = update_store.of_nodes(["n"].into_iter());
            assert_eq!(known.get("n").map(|one| one.uid.as_str()), Some("a"));
            update_store.take(Shown::Gone("u".to_owned()));
            update_store.listen(Instant::now());
            let agents = update_store.agents(KINDS[0]);
            assert!(agents.present.is_empty() && agents.updating.is_empty(), "{shown_in_a_list}");
            assert!(agents.labelling.is_empty() && agents.recalling.is_empty(), "{shown_in_a_list}");
            assert!(update_store.next_silence().is_none(), "{shown_in_a_list}");
        }
    }

    #[test]
    fn a_sign_of_life_concerns_no_workload_and_silence_all() {
        let (mut update_store, start) = (UpdateStore::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(update_store.take(node_updates(1, 1, &[])), Concerned::All, "an agent has come");
        assert!(!update_store.listen(start));
        assert_eq!(update_store.take(node_updates(2, 1, &["p"])), Concerned::Some(vec!["set".to_owned()]));
        assert_eq!(update_store.take(node_updates(3, 2, &["p"])), Concerned::None);
        assert!(!update_store.listen(at(300)));
        assert_eq!(update_store.next_silence(), Some(at(900)));
        // The watch is broken for a while.
        update_store.is_deaf();
        assert!(!update_store.listen(at(899)) && !update_store.listen(at(1498)));
        assert!(update_store.listen(at(1499)), "silent");
        let agents = update_store.agents(KINDS[0]);
        assert!(agents.silent.contains("n") && agents.present.contains("n") && agents.updating.contains("n"));
        assert!(agents.labelling.contains("n") && agents.recalling.contains("n"));
        update_store.take(node_updates(4, 3, &["p"]));
        assert!(
            update_store.listen(at(1500)) && update_store.agents(KINDS[0]).silent.is_empty(),
            "it is back"
        );
        // Its node is gone, and a list says so.
        update_store.take(Shown::ListBegins);
        update_store.take(Shown::ListEnds);
        update_store.listen(at(1600));
        let agents = update_store.agents(KINDS[0]);
        assert!(agents.present.is_empty() && agents.recalling.is_empty());
        assert!(update_store.next_silence().is_none());
    }
}
