//! Picture of the cluster: jobs, what they have made, and the nodes; and their plans.

mod holding;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::{
    broadcast_job::{self, NodeView, PodView},
    cron_job::{self, ChildView},
    jobs::Action,
    store::{Store, Stored},
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::{
    Settings,
    object::{AnyJob, Filed, Kind, any},
    read::{self, Found},
    watches::Input,
    write::Wrote,
};
use crate::{
    event_loop::Listed,
    object::Object,
    owned::{self, Concerned, Ownable, Owned},
    planner::{End, Memory, Picture, Plan, Work},
    reading::Ended,
    room::{Room, uids},
    watch::Shown,
    write::{Failure, Writer},
};

impl Ownable for PodView {
    fn owner(&self) -> &str {
        &self.owner
    }

    /// Most versions of a pod say something that no job looks at.
    fn decides_as(&self, earlier: &Self) -> bool {
        Self { version: earlier.version.clone(), ..self.clone() } == *earlier
    }
}

impl Ownable for ChildView {
    fn owner(&self) -> &str {
        &self.owner
    }

    /// A Job counts its pods, and is looked at when it has ended.
    fn decides_as(&self, earlier: &Self) -> bool {
        Self { version: earlier.version.clone(), ..self.clone() } == *earlier
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct Jobs {
    settings: Settings,
    room: Room,
    broadcast_jobs: Store<Filed>,
    cron_jobs: Store<Filed>,
    pods: Owned<PodView>,
    /// Jobs and BroadcastJobs of AdvancedCronJobs.
    jobs: Owned<ChildView>,
    broadcasts: Owned<ChildView>,
    /// Nodes, by UID.
    nodes: BTreeMap<String, NodeView>,
    /// Nodes of a list that comes in.
    listed_nodes: Option<BTreeSet<String>>,
    broadcast_jobs_listed: bool,
    cron_jobs_listed: bool,
    nodes_listed: bool,
}

impl Jobs {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            room: Room::new(holding::MOST_HELD),
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
        let shown = self.room.take(Kind::Broadcast.plural(), shown);
        both(of_child, owned::take(&mut self.broadcast_jobs, shown))
    }

    /// Takes in an object that a write was answered with; UIDs of those that it is news for. A BroadcastJob
    /// that its AdvancedCronJob has just made is to begin, and one that has just ended lets the next one go.
    fn wrote_object(&mut self, filed: Filed) -> Vec<String> {
        let mut concerned = Vec::new();
        match filed.object.kind() {
            Kind::Broadcast => {
                if let Some(child) = child(&filed) {
                    let is_news =
                        |known: &ChildView| known.version() < child.version() && !child.decides_as(known);
                    if self.broadcasts.get(&child.uid).is_none_or(is_news) {
                        concerned.push(child.owner.clone());
                    }
                    self.broadcasts.wrote(child);
                }
                let filed = self.room.fit(Kind::Broadcast.plural(), filed);
                let uid = filed.uid().to_owned();
                let known = self.broadcast_jobs.get(&uid);
                if known.is_none_or(|known| known.version() < filed.version()) {
                    concerned.push(filed.uid().to_owned());
                }
                self.broadcast_jobs.wrote(filed);
                self.room.answered(&[uid], |uid| self.broadcast_jobs.get(uid).is_some());
            }
            Kind::Cron => {
                let uid = filed.uid().to_owned();
                self.cron_jobs.wrote(self.room.fit(Kind::Cron.plural(), filed));
                self.room.answered(&[uid], |uid| self.cron_jobs.get(uid).is_some());
            }
        }
        concerned
    }

    /// Takes in that an object is gone.
    fn ended(&mut self, uid: &str) {
        self.broadcast_jobs.ended(uid);
        self.cron_jobs.ended(uid);
        self.broadcasts.ended(uid);
    }
}

impl Picture for Jobs {
    type Input = Input;
    type Object = AnyJob;
    type Action = Action;
    type Wrote = Wrote;
    type Found = Found;

    fn listed(&self) -> Listed {
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

    fn sizes(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("broadcastjobs", self.broadcast_jobs.count()),
            ("advancedcronjobs", self.cron_jobs.count()),
            ("jobs", self.jobs.len()),
        ]
    }

    fn ends_list(input: &Input) -> bool {
        input.is_end()
    }

    fn take(&mut self, input: Input) -> Concerned {
        let concerned = match input {
            Input::Object(Kind::Broadcast, shown) => self.take_broadcast(shown),
            Input::Object(Kind::Cron, shown) => {
                self.cron_jobs_listed |= matches!(shown, Shown::ListEnds);
                owned::take(&mut self.cron_jobs, self.room.take(Kind::Cron.plural(), shown))
            }
            Input::Pod(shown) => self.pods.take(shown),
            Input::Job(shown) => self.jobs.take(shown),
            Input::Node(shown) => self.take_node(shown),
        };
        let more = self.make_room();
        if more.is_empty() { concerned } else { both(concerned, Concerned::Some(more)) }
    }

    fn objects(&self) -> impl Iterator<Item = &AnyJob> {
        let broadcast = self.broadcast_jobs.iter().filter(|_| self.settings.broadcast_jobs);
        let cron = self.cron_jobs.iter().filter(|_| self.settings.cron_jobs);
        broadcast.chain(cron).map(|filed| &filed.object).filter(|object| !self.room.is_aside(*object))
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.broadcast_jobs.iter().chain(self.cron_jobs.iter());
        all.map(|filed| (filed.object.namespace(), filed.uid()))
    }

    fn object(&self, uid: &str) -> Option<&AnyJob> {
        self.filed(uid).map(|filed| &filed.object).filter(|object| !self.room.is_aside(*object))
    }

    fn lacks(&self, uid: &str) -> bool {
        self.filed(uid).is_some_and(|filed| filed.is_bare)
    }

    fn left_out(&mut self) -> Vec<ObjectReference> {
        self.room.left_out()
    }

    fn all_left_out(&self) -> Vec<ObjectReference> {
        self.room.all_left_out(self.broadcast_jobs.iter().chain(self.cron_jobs.iter()))
    }

    fn kind(object: &AnyJob) -> &'static str {
        match object.kind() {
            Kind::Broadcast => "BroadcastJob",
            Kind::Cron => "AdvancedCronJob",
        }
    }

    fn read_all(
        &self,
        writer: Writer,
        term: u64,
        namespaces: BTreeSet<String>,
    ) -> BoxFuture<'static, Ended<Found>> {
        Box::pin(read::all(writer, self.settings.clone(), self.room.aside().clone(), term, namespaces))
    }

    fn found(&mut self, known: &[String], found: Found) -> Vec<String> {
        let Found { broadcast_jobs, pods, cron } = found;
        // Nothing is of an object of the other kind.
        let owners: Vec<&str> = known.iter().map(String::as_str).collect();
        let mut concerned = Vec::new();
        if let Some(pods) = pods {
            concerned.extend(self.pods.found(&owners, pods));
        }
        if let Some((jobs, made)) = cron {
            let objects = broadcast_jobs.objects.iter().filter_map(child).collect();
            let listed = owned::Listed { version: broadcast_jobs.version, objects };
            concerned.extend(self.broadcasts.found(&owners, listed));
            concerned.extend(self.jobs.found(&owners, made));
            let (uids, jobs) = (uids(&jobs), self.room.fit_all(Kind::Cron.plural(), jobs));
            concerned.extend(owned::found(&mut self.cron_jobs, known, jobs));
            self.room.answered(&uids, |uid| self.cron_jobs.get(uid).is_some());
        }
        let uids = uids(&broadcast_jobs);
        let broadcast_jobs = self.room.fit_all(Kind::Broadcast.plural(), broadcast_jobs);
        concerned.extend(owned::found(&mut self.broadcast_jobs, known, broadcast_jobs));
        self.room.answered(&uids, |uid| self.broadcast_jobs.get(uid).is_some());
        concerned.extend(self.make_room());
        concerned
    }

    fn plan(&self, object: &AnyJob, memory: &Memory, now: Timestamp) -> Plan<Action> {
        match object {
            AnyJob::Broadcast(job) => {
                let pods = self.pods_of(object);
                let nodes: Vec<&NodeView> = self.nodes.values().collect();
                let (by_scheduler, put_off) = (self.settings.by_scheduler, memory.put_off.names());
                let input = broadcast_job::Input { job, pods: &pods, nodes: &nodes, by_scheduler, put_off };
                any(broadcast_job::plan(&input, now))
            }
            AnyJob::Cron(job) => {
                let children = self.children_of(object);
                let (zone, refused) = (&self.settings.zone, memory.refused.as_deref());
                any(cron_job::plan(&cron_job::Input { job, children: &children, zone, refused }, now))
            }
        }
    }

    async fn carry_out(work: &mut Work<Self>, plan: Plan<Action>) -> End {
        work.run(plan).await
    }

    async fn read(work: &mut Work<Self>) -> Result<(), Failure> {
        work.read().await
    }

    fn wrote(&mut self, uid: &str, wrote: Wrote) -> Vec<String> {
        let mut concerned = self.take_answer(uid, wrote);
        concerned.extend(self.make_room());
        concerned
    }
}

impl Jobs {
    fn take_answer(&mut self, uid: &str, wrote: Wrote) -> Vec<String> {
        match wrote {
            Wrote::Pod(pod) => self.pods.wrote(pod),
            Wrote::PodGone(uid) => self.pods.ended(&uid),
            Wrote::Job(job) => self.jobs.wrote(job),
            Wrote::JobGone(uid) => self.jobs.ended(&uid),
            Wrote::Object(filed) => return self.wrote_object(*filed),
            Wrote::ObjectGone(uid) => self.ended(&uid),
            Wrote::Pods(pods) => self.pods.read(uid, pods),
            Wrote::Jobs(jobs, broadcasts) => {
                self.jobs.read(uid, jobs);
                let there = |uid: &str| broadcasts.iter().any(|filed| filed.uid() == uid);
                let known: Vec<String> = self.broadcasts.of(uid).map(|child| child.uid.clone()).collect();
                known.iter().filter(|uid| !there(uid)).for_each(|uid| self.ended(uid));
                return broadcasts.into_iter().flat_map(|filed| self.wrote_object(filed)).collect();
            }
        }
        Vec::new()
    }
}

/// A BroadcastJob, as the run of an AdvancedCronJob.
fn child(filed: &Filed) -> Option<ChildView> {
    let AnyJob::Broadcast(job) = &filed.object else { return None };
    let owners = job.metadata.owner_references.iter().flatten();
    let mut of_cron = owners.filter(|owner| owner.controller == Some(true) && owner.kind == cron_job::KIND);
    of_cron.next().map(|_| ChildView::of_broadcast_job(job))
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

#[cfg(test)]
mod tests;
