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

use crate::{kinds::Kind, mailbox::Mailbox, owned::Concerned, watch::Shown};

/// Conditions say it in minutes.
const _: () = assert!(SILENT_AFTER.as_secs() == SILENT_AFTER_MINUTES * 60);

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
    /// Nodes with an agent.
    present: BTreeSet<String>,
    /// Nodes whose agents set `pod-template-hash`.
    labelling: BTreeSet<String>,
    silence: Silence,
    /// Signs of life that are to be taken in, by node.
    heard: BTreeMap<String, Option<Timestamp>>,
    /// The watch was broken.
    deaf: bool,
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
                self.labelling.clear();
                let known = std::mem::take(&mut self.present);
                let all: Vec<Mailbox> = self.store.iter().cloned().collect();
                all.iter().for_each(|mailbox| self.link(mailbox));
                self.heard.extend(known.into_iter().map(|node| (node, None)));
                self.heard.extend(all.into_iter().map(heard));
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

    /// Agents, as they are for a kind.
    pub(crate) fn agents(&self, kind: &Kind) -> Agents<'_> {
        Agents {
            updating: self.checking.get(kind.name).unwrap_or(&self.nobody),
            present: &self.present,
            labelling: &self.labelling,
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

    /// Workloads that a change of the object of a node concerns.
    fn relink(&mut self, before: Option<&Mailbox>, after: Option<&Mailbox>) -> Concerned {
        self.heard.extend(before.map(|mailbox| (mailbox.node.clone(), None)));
        self.heard.extend(after.cloned().map(heard));
        if let (Some(before), Some(after)) = (before, after)
            && before.says_the_same(after)
        {
            return Concerned::None;
        }
        let able = |mailbox: Option<&Mailbox>| mailbox.map(|one| (one.has_agent, one.checks.clone()));
        let (able_before, able_after) = (able(before), able(after));
        if let Some(before) = before {
            self.present.remove(&before.node);
            self.labelling.remove(&before.node);
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
        if able_before != able_after {
            return Concerned::All;
        }
        let sets = before.into_iter().chain(after).flat_map(Mailbox::sets);
        Concerned::Some(sets.map(str::to_owned).collect())
    }

    fn link(&mut self, mailbox: &Mailbox) {
        for set in mailbox.sets() {
            self.of.entry(set.to_owned()).or_default().insert(mailbox.uid.clone());
        }
        if mailbox.has_agent {
            self.present.insert(mailbox.node.clone());
        }
        if mailbox.labels_hash {
            self.labelling.insert(mailbox.node.clone());
        }
        for kind in &mailbox.checks {
            self.checking.entry(kind).or_default().insert(mailbox.node.clone());
        }
    }
}

/// Node of an object, and the last sign of life of its agent.
fn heard(mailbox: Mailbox) -> (String, Option<Timestamp>) {
    (mailbox.node, mailbox.sign.filter(|_| mailbox.has_agent))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::kinds::KINDS;

    fn mailbox(version: u64, sign: u64, entries: &[&str]) -> Shown<Mailbox> {
        let entry = |uid: &&str| json!({ "uid": uid, "owner": "CloneSet/shop", "ownerUid": "set", "namespace": "ns", "name": uid, "revision": "r" });
        let object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "NodePodUpdate",
            "metadata": { "name": "n", "uid": "u", "resourceVersion": version.to_string() }, "spec": {},
            "status": {
                "features": KINDS.map(|kind| kind.feature).into_iter().chain(["pod-template-hash/v1"]).collect::<Vec<_>>(),
                "renewTime": format!("2026-01-01T00:00:{sign:02}Z"),
                "desiredPods": entries.iter().map(entry).collect::<Vec<_>>(),
            },
        });
        Shown::Applied(Mailbox::of(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn a_sign_of_life_concerns_no_workload_and_silence_all() {
        let (mut mailboxes, start) = (Mailboxes::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(mailboxes.take(mailbox(1, 1, &[])), Concerned::All, "an agent has come");
        assert!(!mailboxes.listen(start));
        assert_eq!(mailboxes.take(mailbox(2, 1, &["p"])), Concerned::Some(vec!["set".to_owned()]));
        assert_eq!(mailboxes.take(mailbox(3, 2, &["p"])), Concerned::None);
        assert!(!mailboxes.listen(at(300)));
        assert_eq!(mailboxes.next_silence(), Some(at(900)));
        // The watch is broken for a while.
        mailboxes.is_deaf();
        assert!(!mailboxes.listen(at(899)) && !mailboxes.listen(at(1498)));
        assert!(mailboxes.listen(at(1499)), "silent");
        let agents = mailboxes.agents(KINDS[0]);
        assert!(agents.silent.contains("n") && agents.present.contains("n") && agents.updating.contains("n"));
        assert!(agents.labelling.contains("n"));
        mailboxes.take(mailbox(4, 3, &["p"]));
        assert!(mailboxes.listen(at(1500)) && mailboxes.agents(KINDS[0]).silent.is_empty(), "it is back");
        // Its node is gone, and a list says so.
        mailboxes.take(Shown::ListBegins);
        mailboxes.take(Shown::ListEnds);
        mailboxes.listen(at(1600));
        assert!(mailboxes.agents(KINDS[0]).present.is_empty() && mailboxes.next_silence().is_none());
    }
}
