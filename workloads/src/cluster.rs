//! Picture of the cluster: CloneSets, what they own, and the labels of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_proto::crd::CloneSet;
use berth_workloads_policy::{
    clone_set::{ClaimView, Failures, Input as PlanInput, Nodes, Plan, Settings, plan},
    pod::PodView,
    revision::Revision,
    store::{Store, Stored, version},
};
use jiff::Timestamp;

use crate::{
    mailbox::Mailbox,
    owned::{Concerned, Owned},
    watch::{Input, NodeView, Shown},
};

/// A CloneSet.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    uid: String,
    version: u64,
    pub(crate) object: Arc<CloneSet>,
}

impl Set {
    pub(crate) fn new(object: CloneSet) -> Self {
        let meta = &object.metadata;
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version(meta.resource_version.as_deref().unwrap_or_default()),
            object: Arc::new(object),
        }
    }
}

impl Stored for Set {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// Rest that a set's plan depends on, beside the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) settings: Settings,
    pub(crate) failures: &'a Failures,
    pub(crate) collisions: i32,
    pub(crate) seed: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    sets: Store<Set>,
    sets_listed: bool,
    pub(crate) pods: Owned<PodView>,
    pub(crate) claims: Owned<ClaimView>,
    pub(crate) revisions: Owned<Revision>,
    nodes: Nodes,
    /// Names of the nodes, by UID.
    node_names: BTreeMap<String, String>,
    /// Nodes of a list that comes in.
    listed_nodes: Option<BTreeSet<String>>,
    nodes_listed: bool,
    mailboxes: Store<Mailbox>,
    mailboxes_listed: bool,
    /// UIDs of the objects of nodes that have something of a set, by the set's.
    mailboxes_of: BTreeMap<String, BTreeSet<String>>,
    /// Nodes whose agents update pods of CloneSets.
    updating_nodes: BTreeSet<String>,
}

impl Cluster {
    /// Takes in what a watch shows.
    pub(crate) fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::Set(shown) => self.take_set(shown),
            Input::Pod(shown) => self.pods.take(shown),
            Input::Claim(shown) => self.claims.take(shown),
            Input::Revision(shown) => self.revisions.take(shown),
            Input::Node(shown) => {
                self.take_node(shown);
                Concerned::None
            }
            Input::Mailbox(shown) => self.take_mailbox(shown),
        }
    }

    fn take_mailbox(&mut self, shown: Shown<Mailbox>) -> Concerned {
        match shown {
            Shown::ListBegins => self.mailboxes.list_begins(),
            Shown::ListEnds => {
                self.mailboxes.list_ends();
                self.mailboxes_listed = true;
                self.mailboxes_of.clear();
                self.updating_nodes.clear();
                let all: Vec<Mailbox> = self.mailboxes.iter().cloned().collect();
                all.iter().for_each(|mailbox| self.link(mailbox));
                return Concerned::All;
            }
            Shown::Applied(mailbox) => {
                let before = self.mailboxes.get(mailbox.uid()).cloned();
                if self.mailboxes.applied(mailbox.clone()) {
                    return self.relink(before.as_ref(), Some(&mailbox));
                }
            }
            Shown::Gone(uid) => {
                let before = self.mailboxes.gone(&uid);
                return self.relink(before.as_ref(), None);
            }
        }
        Concerned::None
    }

    /// A write to the object of a node was answered with this.
    pub(crate) fn wrote_mailbox(&mut self, mailbox: Mailbox) {
        let before = self.mailboxes.get(mailbox.uid()).cloned();
        self.mailboxes.wrote(mailbox.clone());
        self.relink(before.as_ref(), Some(&mailbox));
    }

    /// Sets that a change of the object of a node concerns.
    fn relink(&mut self, before: Option<&Mailbox>, after: Option<&Mailbox>) -> Concerned {
        let updated = before.is_some_and(|mailbox| mailbox.updates);
        if let Some(before) = before {
            for set in before.sets() {
                if let Some(known) = self.mailboxes_of.get_mut(set) {
                    known.remove(&before.uid);
                }
            }
            self.mailboxes_of.retain(|_, known| !known.is_empty());
            self.updating_nodes.remove(&before.node);
        }
        if let Some(after) = after {
            self.link(after);
        }
        // Sets may wait for an agent that is able to.
        if updated != after.is_some_and(|mailbox| mailbox.updates) {
            return Concerned::All;
        }
        let sets = before.into_iter().chain(after).flat_map(Mailbox::sets);
        Concerned::Some(sets.map(str::to_owned).collect())
    }

    fn link(&mut self, mailbox: &Mailbox) {
        for set in mailbox.sets() {
            self.mailboxes_of.entry(set.to_owned()).or_default().insert(mailbox.uid.clone());
        }
        if mailbox.updates {
            self.updating_nodes.insert(mailbox.node.clone());
        }
    }

    fn take_set(&mut self, shown: Shown<Set>) -> Concerned {
        match shown {
            Shown::ListBegins => self.sets.list_begins(),
            Shown::ListEnds => {
                self.sets.list_ends();
                self.sets_listed = true;
                return Concerned::All;
            }
            Shown::Applied(set) => {
                let uid = set.uid.clone();
                if self.sets.applied(set) {
                    return Concerned::Some(vec![uid]);
                }
            }
            Shown::Gone(uid) => drop(self.sets.gone(&uid)),
        }
        Concerned::None
    }

    fn take_node(&mut self, shown: Shown<NodeView>) {
        match shown {
            Shown::ListBegins => self.listed_nodes = Some(BTreeSet::new()),
            Shown::ListEnds => {
                let listed = self.listed_nodes.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.node_names.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget_node(uid));
                self.nodes_listed = true;
            }
            Shown::Applied(NodeView { uid, name, labels }) => {
                if let Some(listed) = &mut self.listed_nodes {
                    listed.insert(uid.clone());
                }
                self.node_names.insert(uid, name.clone());
                self.nodes.insert(name, labels);
            }
            Shown::Gone(uid) => self.forget_node(&uid),
        }
    }

    fn forget_node(&mut self, uid: &str) {
        if let Some(name) = self.node_names.remove(uid)
            && !self.node_names.values().any(|other| *other == name)
        {
            self.nodes.remove(&name);
        }
    }

    /// A write to a set was answered with this.
    pub(crate) fn wrote_set(&mut self, set: CloneSet) {
        self.sets.wrote(Set::new(set));
    }

    /// Each kind, and whether it was listed once.
    pub(crate) fn listed(&self) -> [(&'static str, bool); 6] {
        [
            ("clonesets", self.sets_listed),
            ("pods", self.pods.listed),
            ("persistentvolumeclaims", self.claims.listed),
            ("controllerrevisions", self.revisions.listed),
            ("nodes", self.nodes_listed),
            ("nodepodupdates", self.mailboxes_listed),
        ]
    }

    /// Each kind, and how many objects of it there are.
    pub(crate) fn sizes(&self) -> [(&'static str, usize); 5] {
        [
            ("clonesets", self.sets.iter().count()),
            ("pods", self.pods.len()),
            ("persistentvolumeclaims", self.claims.len()),
            ("controllerrevisions", self.revisions.len()),
            ("nodes", self.nodes.len()),
        ]
    }

    /// UIDs of all sets.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &str> {
        self.sets.iter().map(|set| set.uid.as_str())
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Arc<CloneSet>> {
        self.sets.get(uid).map(|set| &set.object)
    }

    /// Plan of a set.
    pub(crate) fn plan(&self, uid: &str, given: Given<'_>, now: Timestamp) -> Option<Plan> {
        let set = self.set(uid)?;
        let pods: Vec<&PodView> = self.pods.of(uid).collect();
        let claims: Vec<&ClaimView> = self.claims.of(uid).collect();
        let revisions: Vec<Revision> = self.revisions.of(uid).cloned().collect();
        let mailboxes = self.mailboxes_of.get(uid).into_iter().flatten();
        let mailboxes = mailboxes.filter_map(|of| self.mailboxes.get(of));
        let in_place = mailboxes.flat_map(|mailbox| mailbox.states(uid)).collect();
        let input = PlanInput {
            set,
            revisions: &revisions,
            pods: &pods,
            claims: &claims,
            in_place: &in_place,
            nodes: &self.nodes,
            updating_nodes: &self.updating_nodes,
            settings: given.settings,
            failures: given.failures,
            collisions: given.collisions,
            seed: given.seed,
        };
        Some(plan(&input, now))
    }
}
