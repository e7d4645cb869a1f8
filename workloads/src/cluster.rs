//! Picture of the cluster: workloads of all kinds, what they own, and the nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use berth_workloads_policy::{
    plan::{NodeView, Nodes},
    pod::PodView,
    predownload::PullJobView,
    revision::Revision,
    store::{Store, Stored, version},
};
use jiff::Timestamp;

use crate::{
    claims::{Claims, Named, sets_of},
    kinds::{Given, KINDS, Kind, Known, Plan, Set, Workload},
    mailboxes::Mailboxes,
    owned::{Concerned, Owned},
    reading::Found,
    watch::{Input, Shown},
};

/// A workload in the store.
#[derive(Clone, Debug)]
pub(crate) struct Filed {
    uid: String,
    version: u64,
    set: Set,
}

impl Filed {
    pub(crate) fn new(set: Set) -> Self {
        let meta = set.meta();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version(meta.resource_version.as_deref().unwrap_or_default()),
            set,
        }
    }
}

impl Stored for Filed {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// Workloads of a kind.
#[derive(Debug)]
struct Shelf {
    kind: &'static Kind,
    sets: Store<Filed>,
    listed: bool,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Cluster {
    shelves: Vec<Shelf>,
    /// UIDs of workloads that claims belong to by name, by namespace and name.
    named: BTreeMap<Named, String>,
    pub(crate) pods: Owned<PodView>,
    pub(crate) claims: Claims,
    pub(crate) revisions: Owned<Revision>,
    pub(crate) pull_jobs: Owned<PullJobView>,
    nodes: Nodes,
    /// Names of the nodes, by UID.
    node_names: BTreeMap<String, String>,
    /// Nodes of a list that comes in.
    listed_nodes: Option<BTreeSet<String>>,
    nodes_listed: bool,
    mailboxes: Mailboxes,
}

impl Default for Cluster {
    fn default() -> Self {
        let shelf = |kind| Shelf { kind, sets: Store::default(), listed: false };
        Self {
            shelves: KINDS.into_iter().map(shelf).collect(),
            named: BTreeMap::new(),
            pods: Owned::default(),
            claims: Claims::default(),
            revisions: Owned::default(),
            pull_jobs: Owned::default(),
            nodes: Nodes::new(),
            node_names: BTreeMap::new(),
            listed_nodes: None,
            nodes_listed: false,
            mailboxes: Mailboxes::default(),
        }
    }
}

impl Cluster {
    /// Takes in what a watch shows.
    pub(crate) fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::Set(kind, shown) => self.take_set(kind, shown),
            Input::Pod(shown) => self.pods.take(shown),
            Input::Claim(shown) => {
                let (concerned, named) = self.claims.take(shown);
                match (concerned, named) {
                    (Concerned::Some(mut sets), Some(named)) => {
                        sets.extend(self.set_of(&named));
                        Concerned::Some(sets)
                    }
                    (concerned, _) => concerned,
                }
            }
            Input::Revision(shown) => self.revisions.take(shown),
            Input::PullJob(shown) => self.pull_jobs.take(shown),
            Input::Node(shown) => self.take_node(shown),
            Input::Mailbox(shown) => self.mailboxes.take(shown),
            Input::MailboxesLost => {
                self.mailboxes.is_deaf();
                Concerned::None
            }
        }
    }

    /// Workload that a claim belongs to by its name.
    fn set_of(&self, (namespace, claim): &Named) -> Option<String> {
        let named = |set: &str| self.named.get(&(namespace.clone(), set.to_owned()));
        sets_of(claim).into_iter().find_map(named).cloned()
    }

    fn take_set(&mut self, kind: &'static Kind, shown: Shown<Filed>) -> Concerned {
        let Some(shelf) = self.shelves.iter_mut().find(|shelf| shelf.kind.plural == kind.plural) else {
            return Concerned::None;
        };
        match shown {
            Shown::ListBegins => shelf.sets.list_begins(),
            Shown::ListEnds => {
                shelf.sets.list_ends();
                shelf.listed = true;
                self.index();
                return Concerned::All;
            }
            Shown::Applied(filed) => {
                let (uid, set) = (filed.uid.clone(), filed.set.clone());
                if shelf.sets.applied(filed) {
                    if !set.named_claims().is_empty() {
                        self.named.insert((set.namespace().to_owned(), set.name().to_owned()), uid.clone());
                    }
                    return Concerned::Some(vec![uid]);
                }
            }
            Shown::Gone(uid) => {
                if let Some(filed) = shelf.sets.gone(&uid) {
                    let name = (filed.set.namespace().to_owned(), filed.set.name().to_owned());
                    if self.named.get(&name) == Some(&uid) {
                        self.named.remove(&name);
                    }
                }
            }
        }
        Concerned::None
    }

    fn index(&mut self) {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let named = all.filter(|filed| !filed.set.named_claims().is_empty());
        let name = |filed: &Filed| (filed.set.namespace().to_owned(), filed.set.name().to_owned());
        self.named = named.map(|filed| (name(filed), filed.uid.clone())).collect();
    }

    fn take_node(&mut self, shown: Shown<(String, NodeView)>) -> Concerned {
        match shown {
            Shown::ListBegins => self.listed_nodes = Some(BTreeSet::new()),
            Shown::ListEnds => {
                let listed = self.listed_nodes.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.node_names.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| drop(self.forget_node(uid)));
                self.nodes_listed = true;
                return Concerned::All;
            }
            Shown::Applied((uid, node)) => {
                if let Some(listed) = &mut self.listed_nodes {
                    listed.insert(uid.clone());
                }
                self.node_names.insert(uid, node.name.clone());
                let before = self.nodes.insert(node.name.clone(), node.clone());
                // Most changes of a node say how it is, not what it is.
                if before.as_ref() != Some(&node) {
                    return self.minding(before.as_ref(), Some(&node));
                }
            }
            Shown::Gone(uid) => {
                if let Some(before) = self.forget_node(&uid) {
                    return self.minding(Some(&before), None);
                }
            }
        }
        Concerned::None
    }

    /// Workloads for which a change of a node changes anything.
    fn minding(&self, before: Option<&NodeView>, after: Option<&NodeView>) -> Concerned {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let minding = all.filter(|filed| filed.set.minds(before, after));
        Concerned::Some(minding.map(|filed| filed.uid.clone()).collect())
    }

    fn forget_node(&mut self, uid: &str) -> Option<NodeView> {
        let name = self.node_names.remove(uid)?;
        let is_there = self.node_names.values().any(|other| *other == name);
        if is_there { None } else { self.nodes.remove(&name) }
    }

    /// Namespaces with workloads.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        all.map(|filed| filed.set.namespace().to_owned()).collect()
    }

    /// Takes in all objects of a namespace, as they were read at once.
    pub(crate) fn found(&mut self, found: Found) {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let here = all.filter(|filed| filed.set.namespace() == found.namespace);
        let sets: Vec<&str> = here.map(|filed| filed.uid.as_str()).collect();
        self.pods.found(&sets, found.pods);
        self.claims.found(&sets, found.claims);
        self.revisions.found(&sets, found.revisions);
    }

    /// A write to a workload was answered with this.
    pub(crate) fn wrote_set(&mut self, set: Set) {
        let plural = set.kind().plural;
        if let Some(shelf) = self.shelves.iter_mut().find(|shelf| shelf.kind.plural == plural) {
            shelf.sets.wrote(Filed::new(set));
        }
    }

    /// A write to the object of a node was answered with this.
    pub(crate) fn wrote_mailbox(&mut self, mailbox: crate::mailbox::Mailbox) {
        self.mailboxes.wrote(mailbox);
    }

    /// Takes in which agents are silent by now.
    pub(crate) fn listen(&mut self, now: Instant) -> Concerned {
        if self.mailboxes.listen(now) { Concerned::All } else { Concerned::None }
    }

    /// Time at which the next agent becomes silent.
    pub(crate) fn next_silence(&self) -> Option<Instant> {
        self.mailboxes.next_silence()
    }

    /// Each kind, and whether it was listed once.
    pub(crate) fn listed(&self) -> Vec<(&'static str, bool)> {
        let mut listed: Vec<_> = self.shelves.iter().map(|shelf| (shelf.kind.plural, shelf.listed)).collect();
        listed.extend([
            ("pods", self.pods.listed),
            ("persistentvolumeclaims", self.claims.is_listed()),
            ("controllerrevisions", self.revisions.listed),
            ("imagepulljobs", self.pull_jobs.listed),
            ("nodes", self.nodes_listed),
            ("nodepodupdates", self.mailboxes.listed),
        ]);
        listed
    }

    /// Each kind, and how many objects of it there are.
    pub(crate) fn sizes(&self) -> Vec<(&'static str, usize)> {
        let mut sizes: Vec<_> =
            self.shelves.iter().map(|shelf| (shelf.kind.plural, shelf.sets.iter().count())).collect();
        sizes.extend([
            ("pods", self.pods.len()),
            ("persistentvolumeclaims", self.claims.len()),
            ("controllerrevisions", self.revisions.len()),
            ("imagepulljobs", self.pull_jobs.len()),
            ("nodes", self.nodes.len()),
        ]);
        sizes
    }

    /// UIDs of all workloads.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &str> {
        self.shelves.iter().flat_map(|shelf| shelf.sets.iter()).map(|filed| filed.uid.as_str())
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Set> {
        self.shelves.iter().find_map(|shelf| shelf.sets.get(uid)).map(|filed| &filed.set)
    }

    /// Plan of a workload.
    pub(crate) fn plan(&self, set: &Set, given: Given<'_>, now: Timestamp) -> Plan {
        let set: &dyn Workload = Arc::as_ref(set);
        let uid = set.uid();
        let pods: Vec<&PodView> = self.pods.of(uid).collect();
        let pull_jobs: Vec<&PullJobView> = self.pull_jobs.of(uid).collect();
        let revisions: Vec<&Revision> = self.revisions.of(uid).collect();
        let known = Known {
            revisions: &revisions,
            pods: &pods,
            claims: &self.claims.of(set),
            in_place: &self.mailboxes.states(uid),
            nodes: &self.nodes,
            agents: self.mailboxes.agents(set.kind()),
            pull_jobs: &pull_jobs,
            given,
        };
        set.plan(&known, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(kind: &'static Kind, name: &str, spec: Value) -> Input {
        let object = serde_json::from_value(json!({
            "apiVersion": kind.api_version(), "kind": kind.name,
            "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" },
            "spec": spec,
        }));
        Input::Set(kind, Shown::Applied(Filed::new(kind.read(object.unwrap()).unwrap())))
    }

    fn spec(extra: Value) -> Value {
        let mut spec = json!({
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "nodeSelector": { "disk": "ssd" } } },
        });
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    }

    fn kind(name: &str) -> &'static Kind {
        KINDS.into_iter().find(|kind| kind.name == name).unwrap()
    }

    fn some(sets: &[&str]) -> Concerned {
        Concerned::Some(sets.iter().map(|set| (*set).to_owned()).collect())
    }

    #[test]
    fn a_node_concerns_those_whose_pods_it_places() {
        let mut cluster = Cluster::default();
        cluster.take(set(kind("DaemonSet"), "log", spec(json!({}))));
        cluster.take(set(kind("CloneSet"), "web", spec(json!({}))));
        let node = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let view = NodeView { name: "n".to_owned(), labels, taints: Vec::new() };
            Input::Node(Shown::Applied(("u".to_owned(), view)))
        };
        assert_eq!(cluster.take(node(&[])), some(&[]));
        assert_eq!(cluster.take(node(&[("disk", "ssd")])), some(&["log"]));
        assert_eq!(cluster.take(node(&[("disk", "ssd")])), Concerned::None, "as it was");
        assert_eq!(cluster.take(node(&[("disk", "ssd"), ("other", "1")])), some(&[]));
        assert_eq!(cluster.take(Input::Node(Shown::Gone("u".to_owned()))), some(&["log"]));
    }

    #[test]
    fn a_claim_concerns_the_set_that_it_is_named_after() {
        let mut cluster = Cluster::default();
        let claims = json!({ "volumeClaimTemplates": [{ "metadata": { "name": "data" } }] });
        cluster.take(set(kind("StatefulSet"), "db", spec(claims)));
        let claim = |name: &str| {
            let claim = json!({ "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" } });
            let claim = serde_json::from_value(claim).unwrap();
            Input::Claim(Shown::Applied(berth_workloads_policy::clone_set::ClaimView::of(&claim)))
        };
        assert_eq!(cluster.take(claim("data-db-0")), some(&["db"]));
        assert_eq!(cluster.take(claim("data-web-0")), some(&[]));
        assert_eq!(cluster.take(Input::Claim(Shown::Gone("data-db-0".to_owned()))), some(&["db"]));
        cluster.take(Input::Set(kind("StatefulSet"), Shown::Gone("db".to_owned())));
        assert_eq!(cluster.take(claim("data-db-1")), some(&[]), "the set is gone");
    }

    #[test]
    fn kinds_are_listed_apart() {
        let mut cluster = Cluster::default();
        cluster.take(set(kind("DaemonSet"), "log", spec(json!({}))));
        for shown in [Shown::ListBegins, Shown::ListEnds] {
            cluster.take(Input::Set(kind("CloneSet"), shown));
        }
        assert!(cluster.set("log").is_some(), "a list of another kind takes nothing away");
        let listed: Vec<_> = cluster.listed().into_iter().filter(|(_, listed)| *listed).collect();
        assert_eq!(listed, [("clonesets", true)]);
    }
}
