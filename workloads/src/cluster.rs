//! Picture of the cluster: workloads of all kinds, what they own, and the nodes.

mod found;
mod nodes;
mod of_set;
mod room;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use berth_proto::crd::DesiredPod;
use berth_workloads_policy::{
    action::Action,
    holdings::Holdings,
    in_place::InPlaceState,
    plan::Nodes,
    pod::PodView,
    predownload::PullJobView,
    revision::Revision,
    selector::Selector,
    store::{Store, Stored},
};
use jiff::Timestamp;

pub(crate) use self::room::Lack;
#[cfg(test)]
pub(crate) use self::room::MOST_HELD;
use crate::{
    absent::Absent,
    claims::{Claims, Named, sets_of},
    kinds::{Given, KINDS, Kind, Known, Plan, Set, Workload},
    node_updates::NodeUpdates,
    object::Filed,
    owned::{Concerned, Ownable, Owned},
    reading::uids_in,
    update_store::{News, UpdateStore},
    watch::{Input, Shown},
};

/// Workloads of a kind.
#[derive(Debug)]
struct Shelf {
    kind: &'static Kind,
    sets: Store<Filed<Set>>,
    listed: bool,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Cluster {
    shelves: Vec<Shelf>,
    /// UIDs of workloads that claims, pods and revisions belong to by name, by namespace and name: two kinds
    /// may have the same.
    named: BTreeMap<Named, BTreeSet<String>>,
    /// Memory that workloads and their revisions take.
    holdings: Holdings,
    /// Workloads for which there is no room, by UID.
    absent: BTreeMap<String, Absent>,
    /// Workloads that were set aside since somebody asked.
    left_out: Vec<Absent>,
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
    update_store: UpdateStore,
}

impl Default for Cluster {
    fn default() -> Self {
        let shelf = |kind| Shelf { kind, sets: Store::default(), listed: false };
        Self {
            shelves: KINDS.into_iter().map(shelf).collect(),
            named: BTreeMap::new(),
            holdings: Holdings::new(room::MOST_HELD),
            absent: BTreeMap::new(),
            left_out: Vec::new(),
            pods: Owned::default(),
            claims: Claims::default(),
            revisions: Owned::default(),
            pull_jobs: Owned::default(),
            nodes: Nodes::new(),
            node_names: BTreeMap::new(),
            listed_nodes: None,
            nodes_listed: false,
            update_store: UpdateStore::default(),
        }
    }
}

impl Cluster {
    /// Takes in what a watch shows.
    pub(crate) fn take(&mut self, input: Input) -> Concerned {
        let concerned = self.take_input(input);
        match (concerned, self.make_room()) {
            (concerned, more) if more.is_empty() => concerned,
            (Concerned::All, _) => Concerned::All,
            (Concerned::None, more) => Concerned::Some(more),
            (Concerned::Some(sets), more) => Concerned::Some([sets, more].concat()),
        }
    }

    fn take_input(&mut self, input: Input) -> Concerned {
        match input {
            Input::Set(kind, shown) => match self.set_with_room(kind, shown) {
                Some(shown) => self.take_set(kind, shown),
                None => Concerned::None,
            },
            Input::Pod(shown) => {
                if let Shown::Applied(pod) = &shown {
                    let (shelves, set) = (&self.shelves, pod.owner());
                    self.pods.was_unselected(&pod.uid, || is_selected(shelves, set, pod));
                }
                let concerned = self.pods.take(shown);
                self.of_keys(concerned)
            }
            Input::Claim(shown) => {
                let (concerned, named) = self.claims.take(shown);
                match (concerned, named) {
                    (Concerned::Some(mut sets), Some(named)) => {
                        sets.extend(self.sets_of(&named));
                        Concerned::Some(sets)
                    }
                    (concerned, _) => concerned,
                }
            }
            Input::Revision(shown) => {
                let concerned = self.take_revision(shown);
                self.of_keys(concerned)
            }
            Input::PullJob(shown) => self.pull_jobs.take(shown),
            Input::Node(shown) => self.take_node(shown),
            Input::NodeUpdates(shown) => {
                let news = self.update_store.take(shown);
                self.of_news(news)
            }
            Input::NodeUpdatesLost => {
                self.update_store.is_deaf();
                Concerned::None
            }
        }
    }

    /// Workloads that a claim may belong to by its name.
    fn sets_of(&self, (namespace, claim): &Named) -> impl Iterator<Item = String> {
        let named = |set: &str| self.named.get(&(namespace.clone(), set.to_owned()));
        sets_of(claim).into_iter().find_map(named).into_iter().flatten().cloned()
    }

    /// Workloads of these keys.
    fn of_keys(&self, concerned: Concerned) -> Concerned {
        match concerned {
            Concerned::Some(keys) => {
                Concerned::Some(keys.into_iter().flat_map(|key| self.keyed(key)).collect())
            }
            concerned => concerned,
        }
    }

    /// Workloads of a key of pods or revisions: its UID, or namespace and name of those that may adopt them.
    fn keyed(&self, key: String) -> Vec<String> {
        match key.split_once('/') {
            Some((namespace, set)) => {
                let named = self.named.get(&(namespace.to_owned(), set.to_owned()));
                named.into_iter().flatten().cloned().collect()
            }
            None => vec![key],
        }
    }

    fn take_set(&mut self, kind: &'static Kind, shown: Shown<Filed<Set>>) -> Concerned {
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
                let (uid, set) = (filed.uid().to_owned(), filed.object.clone());
                if shelf.sets.applied(filed) {
                    if set.adopts() {
                        let name = (set.namespace().to_owned(), set.name().to_owned());
                        self.named.entry(name).or_default().insert(uid.clone());
                    }
                    return Concerned::Some(vec![uid]);
                }
            }
            Shown::Gone(uid) => {
                if let Some(filed) = shelf.sets.gone(&uid) {
                    self.unname(&filed.object, &uid);
                }
                // What is remembered of it goes when it is looked at.
                return Concerned::Some(vec![uid]);
            }
        }
        Concerned::None
    }

    /// Nothing belongs to a workload by its name any more.
    fn unname(&mut self, set: &Set, uid: &str) {
        let name = (set.namespace().to_owned(), set.name().to_owned());
        if let Some(named) = self.named.get_mut(&name) {
            named.remove(uid);
            if named.is_empty() {
                self.named.remove(&name);
            }
        }
    }

    fn index(&mut self) {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let named = all.filter(|filed| filed.object.adopts());
        let name = |filed: &Filed<Set>| (filed.object.namespace().to_owned(), filed.object.name().to_owned());
        let mut all: BTreeMap<Named, BTreeSet<String>> = BTreeMap::new();
        for filed in named {
            all.entry(name(filed)).or_default().insert(filed.uid().to_owned());
        }
        self.named = all;
    }

    /// Namespaces with workloads.
    pub(crate) fn namespaces(&self) -> BTreeSet<String> {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        all.map(|filed| filed.object.namespace().to_owned()).collect()
    }

    /// UIDs of the workloads in each of these namespaces. One for which there is no room may come back before
    /// the watch has shown what is gone of it.
    pub(crate) fn sets_in(&self, namespaces: &BTreeSet<String>) -> BTreeMap<String, Vec<String>> {
        let all = self.shelves.iter().flat_map(|shelf| shelf.sets.iter());
        let all = all.map(|filed| (filed.object.namespace(), filed.uid()));
        let absent = self.absent.values().map(|absent| (absent.namespace.as_str(), absent.uid.as_str()));
        uids_in(namespaces, all.chain(absent))
    }

    /// A write to a workload was answered with this.
    pub(crate) fn wrote_set(&mut self, set: Set) {
        let plural = set.kind().plural;
        if self.absent.contains_key(set.uid()) {
            return;
        }
        if let Some(shelf) = self.shelves.iter_mut().find(|shelf| shelf.kind.plural == plural) {
            shelf.sets.wrote(Filed::new(set));
        }
    }

    /// A write to the object of a node was answered with this. Workloads that it is news for.
    pub(crate) fn wrote_node_updates(&mut self, node_updates: NodeUpdates) -> Concerned {
        let news = self.update_store.wrote(node_updates);
        self.of_news(news)
    }

    /// Workloads that news of the objects of nodes concern.
    fn of_news(&self, News { all, mut sets, nodes }: News) -> Concerned {
        if all {
            return Concerned::All;
        }
        if !nodes.is_empty() {
            let here = self.pods.iter().filter(|pod| nodes.contains(&pod.node));
            let keys: BTreeSet<Cow<'_, str>> = here.map(Ownable::key).collect();
            sets.extend(keys.into_iter().flat_map(|key| self.keyed(key.into_owned())));
        }
        if sets.is_empty() { Concerned::None } else { Concerned::Some(sets) }
    }

    /// Objects of the nodes whose entries these writes change, as far as they are known, without the entries
    /// of pods that went with their workloads.
    pub(crate) fn node_updates_of(&self, actions: &[Action]) -> BTreeMap<String, NodeUpdates> {
        let known = self.update_store.of_nodes(actions.iter().filter_map(Action::entry_node));
        let is_gone = |entry: &DesiredPod| {
            let set = entry.owner_uid.as_str();
            self.pods.get(&entry.uid).is_none() && self.set(set).is_none() && self.absent(set).is_none()
        };
        known.into_iter().map(|(node, updates)| (node, updates.without_those(is_gone))).collect()
    }

    /// Takes in which agents are silent by now.
    pub(crate) fn listen(&mut self, now: Instant) -> Concerned {
        let news = self.update_store.listen(now);
        self.of_news(news)
    }

    /// Time at which the next agent becomes silent.
    pub(crate) fn next_silence(&self) -> Option<Instant> {
        self.update_store.next_silence()
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
            ("nodepodupdates", self.update_store.listed),
        ]);
        listed
    }

    /// Each kind, and how many objects of it there are.
    pub(crate) fn sizes(&self) -> Vec<(&'static str, usize)> {
        let mut sizes: Vec<_> =
            self.shelves.iter().map(|shelf| (shelf.kind.plural, shelf.sets.count())).collect();
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
        self.shelves.iter().flat_map(|shelf| shelf.sets.iter()).map(|filed| filed.uid())
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Set> {
        set(&self.shelves, uid)
    }

    /// Plan of a workload.
    pub(crate) fn plan(&self, set: &Set, given: Given<'_>, now: Timestamp) -> Plan {
        let (pods, revisions) = (self.pods_of(set), self.revisions_of(set));
        let pull_jobs = self.pull_jobs_of(set);
        let set: &dyn Workload = Arc::as_ref(set);
        let known = Known {
            revisions: &revisions,
            pods: &pods,
            claims: &self.claims.of(set),
            in_place: &self.in_place(set, &pods),
            nodes: &self.nodes,
            agents: self.update_store.agents(set.kind()),
            pull_jobs: &pull_jobs,
            given,
        };
        set.plan(&known, now)
    }

    /// Updates in place of these pods of a workload, as nodes tell them and the pods show them.
    fn in_place(&self, set: &dyn Workload, pods: &[&PodView]) -> BTreeMap<String, InPlaceState> {
        let mut states = self.update_store.states(set.uid());
        if set.adopts() {
            states.extend(self.update_store.left_behind(&set.entry_owner(), set.uid(), pods));
        }
        for pod in pods {
            if let Some((uid, state)) = states.remove_entry(&pod.uid) {
                states.insert(uid, state.seen_on(pod));
            }
        }
        states
    }
}

fn set<'a>(shelves: &'a [Shelf], uid: &str) -> Option<&'a Set> {
    shelves.iter().find_map(|shelf| shelf.sets.get(uid)).map(|filed| &filed.object)
}

/// Tells whether the workload that a pod belongs to selects it, where that is known.
fn is_selected(shelves: &[Shelf], uid: &str, pod: &PodView) -> bool {
    let Some(set) = set(shelves, uid) else { return true };
    Selector::parse("spec.selector", set.selector()).map_or(true, |selector| selector.takes(&pod.labels))
}

#[cfg(test)]
mod tests;
