//! Picture of the cluster: jobs, what they have made, and the nodes.

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::{
    broadcast_job::{self, NodeView, PodView},
    cron_job::{self, ChildView},
    jobs::Plan,
    store::{Store, Stored},
};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    Settings,
    object::{Filed, Kind, Object, any},
    read::Found,
    watches::Input,
};
use crate::{
    owned::{self, Concerned, Ownable, Owned},
    reading,
    watch::Shown,
};

/// Each kind, and whether all of it was listed.
pub(crate) type Listed = Vec<(&'static str, bool)>;

impl Ownable for PodView {
    fn owner(&self) -> &str {
        &self.owner
    }
}

impl Ownable for ChildView {
    fn owner(&self) -> &str {
        &self.owner
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct Picture {
    settings: Settings,
    broadcast_jobs: Store<Filed>,
    cron_jobs: Store<Filed>,
    pub(super) pods: Owned<PodView>,
    /// Jobs and BroadcastJobs of AdvancedCronJobs.
    pub(super) jobs: Owned<ChildView>,
    pub(super) broadcasts: Owned<ChildView>,
    /// Nodes, by UID.
    nodes: BTreeMap<String, NodeView>,
    /// Nodes of a list that comes in.
    listed_nodes: Option<BTreeSet<String>>,
    broadcast_jobs_listed: bool,
    cron_jobs_listed: bool,
    nodes_listed: bool,
}

impl Picture {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            broadcast_jobs: Store::default(),
            cron_jobs: Store::default(),
            pods: Owned::default(),
            jobs: Owned::default(),
            broadcasts: Owned::default(),
            nodes: BTreeMap::new(),
            listed_nodes: None,
            broadcast_jobs_listed: false,
            cron_jobs_listed: false,
            nodes_listed: false,
        }
    }

    /// Kinds that are watched, and whether all of each was listed.
    pub(super) fn listed(&self) -> Listed {
        let (broadcast, cron) = (self.settings.broadcast_jobs, self.settings.cron_jobs);
        let all = [
            (broadcast || cron, "broadcastjobs", self.broadcast_jobs_listed),
            (broadcast, "pods of broadcastjobs", self.pods.listed),
            (broadcast, "nodes of broadcastjobs", self.nodes_listed),
            (cron, "advancedcronjobs", self.cron_jobs_listed),
            (cron, "jobs", self.jobs.listed),
        ];
        all.into_iter().filter(|(is_on, ..)| *is_on).map(|(_, name, listed)| (name, listed)).collect()
    }

    /// Each kind, and how many objects of it there are.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 3] {
        [
            ("broadcastjobs", self.broadcast_jobs.iter().count()),
            ("advancedcronjobs", self.cron_jobs.iter().count()),
            ("jobs", self.jobs.len()),
        ]
    }

    /// Takes in what a watch shows.
    pub(super) fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::Object(Kind::Broadcast, shown) => self.take_broadcast(shown),
            Input::Object(Kind::Cron, shown) => {
                self.cron_jobs_listed |= matches!(shown, Shown::ListEnds);
                take(&mut self.cron_jobs, shown)
            }
            Input::Pod(shown) => self.pods.take(shown),
            Input::Job(shown) => self.jobs.take(shown),
            Input::Node(shown) => self.take_node(shown),
        }
    }

    /// A BroadcastJob is an object of its own, and the run of an AdvancedCronJob.
    fn take_broadcast(&mut self, shown: Shown<Filed>) -> Concerned {
        self.broadcast_jobs_listed |= matches!(shown, Shown::ListEnds);
        let child = match &shown {
            Shown::ListBegins => Shown::ListBegins,
            Shown::ListEnds => Shown::ListEnds,
            Shown::Applied(filed) => match child(filed) {
                Some(child) => Shown::Applied(child),
                None => Shown::Gone(filed.uid().to_owned()),
            },
            Shown::Gone(uid) => Shown::Gone(uid.clone()),
        };
        let of_child = self.broadcasts.take(child);
        both(of_child, take(&mut self.broadcast_jobs, shown))
    }

    fn take_node(&mut self, shown: Shown<(String, NodeView)>) -> Concerned {
        let is_new = match shown {
            Shown::ListBegins => {
                self.listed_nodes = Some(BTreeSet::new());
                false
            }
            Shown::ListEnds => {
                let listed = self.listed_nodes.take().unwrap_or_default();
                let before = self.nodes.len();
                self.nodes.retain(|uid, _| listed.contains(uid));
                let was = std::mem::replace(&mut self.nodes_listed, true);
                !was || before != self.nodes.len()
            }
            Shown::Applied((uid, node)) => {
                if let Some(listed) = &mut self.listed_nodes {
                    listed.insert(uid.clone());
                }
                let is_known = self.nodes.get(&uid).is_some_and(|known| *known == node);
                self.nodes.insert(uid, node);
                !is_known
            }
            Shown::Gone(uid) => self.nodes.remove(&uid).is_some(),
        };
        // Each BroadcastJob that has not ended may have a node more, or less.
        let all = self.broadcast_jobs.iter().filter(|filed| is_open(&filed.object));
        if is_new {
            Concerned::Some(all.map(|filed| filed.uid().to_owned()).collect())
        } else {
            Concerned::None
        }
    }

    /// Takes in an object that a write was answered with.
    pub(super) fn wrote(&mut self, filed: Filed) {
        match filed.object.kind() {
            Kind::Broadcast => {
                if let Some(child) = child(&filed) {
                    self.broadcasts.wrote(child);
                }
                self.broadcast_jobs.wrote(filed);
            }
            Kind::Cron => self.cron_jobs.wrote(filed),
        }
    }

    /// Takes in that an object is gone.
    pub(super) fn ended(&mut self, uid: &str) {
        self.broadcast_jobs.ended(uid);
        self.cron_jobs.ended(uid);
        self.broadcasts.ended(uid);
    }

    /// Namespaces of all objects that a controller decides on.
    pub(super) fn namespaces(&self) -> BTreeSet<String> {
        let all = self.all();
        all.iter().filter_map(|uid| Some(self.object(uid)?.namespace().to_owned())).collect()
    }

    /// Takes in all objects of a namespace, as they were read at once.
    pub(super) fn found(&mut self, found: Found) {
        let Found { namespace, broadcast_jobs, pods, cron } = found;
        let of = |store: &Store<Filed>| -> Vec<String> {
            let here = store.iter().filter(|filed| filed.object.namespace() == namespace);
            here.map(|filed| filed.uid().to_owned()).collect()
        };
        let (broadcasts, crons) = (of(&self.broadcast_jobs), of(&self.cron_jobs));
        if let Some(pods) = pods {
            let owners: Vec<&str> = broadcasts.iter().map(String::as_str).collect();
            self.pods.found(&owners, pods);
        }
        if let Some((jobs, made)) = cron {
            let owners: Vec<&str> = crons.iter().map(String::as_str).collect();
            let objects = broadcast_jobs.objects.iter().filter_map(child).collect();
            self.broadcasts.found(&owners, reading::Listed { version: broadcast_jobs.version, objects });
            self.jobs.found(&owners, made);
            owned::found(&mut self.cron_jobs, &crons, jobs);
        }
        owned::found(&mut self.broadcast_jobs, &broadcasts, broadcast_jobs);
    }

    /// UIDs of all objects that a controller decides on.
    pub(super) fn all(&self) -> Vec<String> {
        let broadcast = self.broadcast_jobs.iter().filter(|_| self.settings.broadcast_jobs);
        let cron = self.cron_jobs.iter().filter(|_| self.settings.cron_jobs);
        broadcast.chain(cron).map(|filed| filed.uid().to_owned()).collect()
    }

    /// The object of that UID, if a controller decides on it.
    pub(super) fn object(&self, uid: &str) -> Option<&Object> {
        let broadcast = self.broadcast_jobs.get(uid).filter(|_| self.settings.broadcast_jobs);
        let cron = || self.cron_jobs.get(uid).filter(|_| self.settings.cron_jobs);
        broadcast.or_else(cron).map(|filed| &filed.object)
    }

    /// Plan of an object.
    pub(super) fn plan(&self, object: &Object, refused: Option<&str>, now: Timestamp) -> Plan<Value> {
        match object {
            Object::Broadcast(job) => {
                let pods: Vec<&PodView> = self.pods.of(object.uid()).collect();
                let nodes: Vec<&NodeView> = self.nodes.values().collect();
                let by_scheduler = self.settings.by_scheduler;
                let input = broadcast_job::Input { job, pods: &pods, nodes: &nodes, by_scheduler };
                any(broadcast_job::plan(&input, now))
            }
            Object::Cron(job) => {
                let children = self.jobs.of(object.uid()).chain(self.broadcasts.of(object.uid()));
                let children: Vec<&ChildView> = children.collect();
                let zone = &self.settings.zone;
                any(cron_job::plan(&cron_job::Input { job, children: &children, zone, refused }, now))
            }
        }
    }
}

/// A BroadcastJob, as the run of an AdvancedCronJob.
fn child(filed: &Filed) -> Option<ChildView> {
    let Object::Broadcast(job) = &filed.object else { return None };
    let owners = job.metadata.owner_references.iter().flatten();
    let mut of_cron = owners.filter(|owner| owner.controller == Some(true) && owner.kind == cron_job::KIND);
    of_cron.next().map(|_| ChildView::of_broadcast_job(job))
}

/// Tells whether nodes still matter for it.
fn is_open(object: &Object) -> bool {
    let Object::Broadcast(job) = object else { return false };
    let phase = job.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("completed" | "failed"))
}

fn take(store: &mut Store<Filed>, shown: Shown<Filed>) -> Concerned {
    match shown {
        Shown::ListBegins => {
            store.list_begins();
            Concerned::None
        }
        Shown::ListEnds => {
            store.list_ends();
            Concerned::All
        }
        Shown::Applied(filed) => {
            let uid = filed.uid().to_owned();
            if store.applied(filed) { Concerned::Some(vec![uid]) } else { Concerned::None }
        }
        Shown::Gone(uid) => {
            store.gone(&uid);
            Concerned::Some(vec![uid])
        }
    }
}

fn both(one: Concerned, other: Concerned) -> Concerned {
    match (one, other) {
        (Concerned::All, _) | (_, Concerned::All) => Concerned::All,
        (Concerned::None, other) => other,
        (one, Concerned::None) => one,
        (Concerned::Some(mut one), Concerned::Some(other)) => {
            one.extend(other);
            Concerned::Some(one)
        }
    }
}
