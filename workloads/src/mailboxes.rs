//! Objects of nodes, and which workload has entries in which of them.

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::{
    in_place::InPlaceState,
    store::{Store, Stored},
};

use crate::{kinds::Kind, mailbox::Mailbox, owned::Concerned, watch::Shown};

/// The objects of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    store: Store<Mailbox>,
    pub(crate) listed: bool,
    /// UIDs of the objects that have something of a workload, by the workload's.
    of: BTreeMap<String, BTreeSet<String>>,
    /// Nodes whose agents check entries of a kind, by the kind's name.
    checking: BTreeMap<&'static str, BTreeSet<String>>,
    nobody: BTreeSet<String>,
}

impl Mailboxes {
    /// Takes in what the watch shows.
    pub(crate) fn take(&mut self, shown: Shown<Mailbox>) -> Concerned {
        match shown {
            Shown::ListBegins => self.store.list_begins(),
            Shown::ListEnds => {
                self.store.list_ends();
                self.listed = true;
                self.of.clear();
                self.checking.clear();
                let all: Vec<Mailbox> = self.store.iter().cloned().collect();
                all.iter().for_each(|mailbox| self.link(mailbox));
                return Concerned::All;
            }
            Shown::Applied(mailbox) => {
                let before = self.store.get(mailbox.uid()).cloned();
                if self.store.applied(mailbox.clone()) {
                    return self.relink(before.as_ref(), Some(&mailbox));
                }
            }
            Shown::Gone(uid) => {
                let before = self.store.gone(&uid);
                return self.relink(before.as_ref(), None);
            }
        }
        Concerned::None
    }

    /// A write was answered with this.
    pub(crate) fn wrote(&mut self, mailbox: Mailbox) {
        let before = self.store.get(mailbox.uid()).cloned();
        self.store.wrote(mailbox.clone());
        self.relink(before.as_ref(), Some(&mailbox));
    }

    /// Updates in place of the pods of a workload, by UID.
    pub(crate) fn states(&self, set: &str) -> BTreeMap<String, InPlaceState> {
        let mailboxes = self.of.get(set).into_iter().flatten().filter_map(|uid| self.store.get(uid));
        mailboxes.flat_map(|mailbox| mailbox.states(set)).collect()
    }

    /// Nodes whose agents check entries of the kind.
    pub(crate) fn checking(&self, kind: &Kind) -> &BTreeSet<String> {
        self.checking.get(kind.name).unwrap_or(&self.nobody)
    }

    /// Workloads that a change of the object of a node concerns.
    fn relink(&mut self, before: Option<&Mailbox>, after: Option<&Mailbox>) -> Concerned {
        let checked = before.map(|mailbox| mailbox.checks.clone()).unwrap_or_default();
        if let Some(before) = before {
            for set in before.sets() {
                if let Some(known) = self.of.get_mut(set) {
                    known.remove(&before.uid);
                    if known.is_empty() {
                        self.of.remove(set);
                    }
                }
            }
            for nodes in self.checking.values_mut() {
                nodes.remove(&before.node);
            }
        }
        if let Some(after) = after {
            self.link(after);
        }
        // Workloads may wait for an agent that is able to.
        if checked != after.map(|mailbox| mailbox.checks.clone()).unwrap_or_default() {
            return Concerned::All;
        }
        let sets = before.into_iter().chain(after).flat_map(Mailbox::sets);
        Concerned::Some(sets.map(str::to_owned).collect())
    }

    fn link(&mut self, mailbox: &Mailbox) {
        for set in mailbox.sets() {
            self.of.entry(set.to_owned()).or_default().insert(mailbox.uid.clone());
        }
        for kind in &mailbox.checks {
            self.checking.entry(kind).or_default().insert(mailbox.node.clone());
        }
    }
}
