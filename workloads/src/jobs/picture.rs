//! Picture of the cluster: jobs, what they have made, and the nodes; and their plans.

use std::collections::{BTreeMap, BTreeSet};

use berth_workloads_policy::{
    broadcast_job::{self, NodeView, PodView},
    cron_job::{self, ChildView},
    jobs::Action,
    store::{Store, Stored},
};
use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{
    Settings,
    object::{AnyJob, Filed, Kind, any},
    read::{self, Found},
    watches::Input,
    write::Wrote,
};
use crate::{
    object::Object,
    owned::{self, Concerned, Ownable, Owned},
    planner::{End, Memory, Picture, Plan, Work},
    reading::{self, Ended},
    turns::Listed,
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
        both(of_child, owned::take(&mut self.broadcast_jobs, shown))
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
    fn wrote_object(&mut self, filed: Filed) {
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
            ("broadcastjobs", self.broadcast_jobs.iter().count()),
            ("advancedcronjobs", self.cron_jobs.iter().count()),
            ("jobs", self.jobs.len()),
        ]
    }

    fn ends_list(input: &Input) -> bool {
        input.is_end()
    }

    fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::Object(Kind::Broadcast, shown) => self.take_broadcast(shown),
            Input::Object(Kind::Cron, shown) => {
                self.cron_jobs_listed |= matches!(shown, Shown::ListEnds);
                owned::take(&mut self.cron_jobs, shown)
            }
            Input::Pod(shown) => self.pods.take(shown),
            Input::Job(shown) => self.jobs.take(shown),
            Input::Node(shown) => self.take_node(shown),
        }
    }

    fn objects(&self) -> impl Iterator<Item = &AnyJob> {
        let broadcast = self.broadcast_jobs.iter().filter(|_| self.settings.broadcast_jobs);
        let cron = self.cron_jobs.iter().filter(|_| self.settings.cron_jobs);
        broadcast.chain(cron).map(|filed| &filed.object)
    }

    fn object(&self, uid: &str) -> Option<&AnyJob> {
        let broadcast = self.broadcast_jobs.get(uid).filter(|_| self.settings.broadcast_jobs);
        let cron = || self.cron_jobs.get(uid).filter(|_| self.settings.cron_jobs);
        broadcast.or_else(cron).map(|filed| &filed.object)
    }

    fn read_all(
        &self,
        writer: Writer,
        term: u64,
        namespaces: BTreeSet<String>,
    ) -> BoxFuture<'static, Ended<Found>> {
        Box::pin(read::all(writer, self.settings.clone(), term, namespaces))
    }

    fn found(&mut self, namespace: &str, found: Found) {
        let Found { broadcast_jobs, pods, cron } = found;
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

    fn plan(&self, object: &AnyJob, memory: &Memory, now: Timestamp) -> Plan<Action> {
        match object {
            AnyJob::Broadcast(job) => {
                let pods: Vec<&PodView> = self.pods.of(object.uid()).collect();
                let nodes: Vec<&NodeView> = self.nodes.values().collect();
                let (by_scheduler, put_off) = (self.settings.by_scheduler, &memory.put_off);
                let input = broadcast_job::Input { job, pods: &pods, nodes: &nodes, by_scheduler, put_off };
                any(broadcast_job::plan(&input, now))
            }
            AnyJob::Cron(job) => {
                let children = self.jobs.of(object.uid()).chain(self.broadcasts.of(object.uid()));
                let children: Vec<&ChildView> = children.collect();
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

    fn wrote(&mut self, uid: &str, wrote: Wrote) {
        match wrote {
            Wrote::Pod(pod) => self.pods.wrote(pod),
            Wrote::PodGone(uid) => self.pods.ended(&uid),
            Wrote::Job(job) => self.jobs.wrote(job),
            Wrote::JobGone(uid) => self.jobs.ended(&uid),
            Wrote::Object(filed) => self.wrote_object(*filed),
            Wrote::ObjectGone(uid) => self.ended(&uid),
            Wrote::Pods(pods) => self.pods.read(uid, pods, |_| true),
            Wrote::Jobs(jobs, broadcasts) => {
                self.jobs.read(uid, jobs, |_| true);
                let there = |uid: &str| broadcasts.iter().any(|filed| filed.uid() == uid);
                let known: Vec<String> = self.broadcasts.of(uid).map(|child| child.uid.clone()).collect();
                known.iter().filter(|uid| !there(uid)).for_each(|uid| self.ended(uid));
                broadcasts.into_iter().for_each(|filed| self.wrote_object(filed));
            }
        }
    }
}

/// A BroadcastJob, as the run of an AdvancedCronJob.
fn child(filed: &Filed) -> Option<ChildView> {
    let AnyJob::Broadcast(job) = &filed.object else { return None };
    let owners = job.metadata.owner_references.iter().flatten();
    let mut of_cron = owners.filter(|owner| owner.controller == Some(true) && owner.kind == cron_job::KIND);
    of_cron.next().map(|_| ChildView::of_broadcast_job(job))
}

/// Tells whether nodes still matter for it.
fn is_open(object: &AnyJob) -> bool {
    let AnyJob::Broadcast(job) = object else { return false };
    let phase = job.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("completed" | "failed"))
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
mod tests {
    use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{super::watches, *};

    fn meta(version: u32, kind: &str) -> Value {
        json!({
            "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": version.to_string(),
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "name": "x", "uid": "x", "controller": true,
            }],
        })
    }

    #[rstest]
    #[case::another_version(|_: &mut Value| {}, false)]
    #[case::an_address(|pod: &mut Value| pod["status"]["podIP"] = "10.0.0.1".into(), false)]
    #[case::ended(|pod: &mut Value| pod["status"]["phase"] = "Succeeded".into(), true)]
    #[case::bound(|pod: &mut Value| pod["spec"]["nodeName"] = "n".into(), true)]
    #[case::it_goes(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(), true)]
    fn a_pod_that_changes_nothing_is_no_plan(#[case] change: fn(&mut Value), #[case] planned: bool) {
        let pod = |version, change: fn(&mut Value)| {
            let mut pod = json!({
                "metadata": meta(version, "BroadcastJob"), "spec": { "containers": [] },
                "status": { "phase": "Running" },
            });
            change(&mut pod);
            watches::pod(serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
        };
        let mut pods = Owned::default();
        pods.take(Shown::Applied(pod(1, |_| {})));
        assert_eq!(pods.take(Shown::Applied(pod(2, change))) != Concerned::None, planned);
    }

    #[rstest]
    #[case::a_pod_begins(json!({ "active": 1, "ready": 1 }), false)]
    #[case::ended(json!({ "conditions": [{ "type": "Complete", "status": "True" }] }), true)]
    fn a_job_that_goes_on_is_no_plan(#[case] status: Value, #[case] planned: bool) {
        let job = |version, status: &Value| {
            let job = json!({ "metadata": meta(version, "AdvancedCronJob"), "status": status });
            watches::job(serde_json::from_value::<Job>(job).unwrap()).unwrap()
        };
        let mut jobs = Owned::default();
        jobs.take(Shown::Applied(job(1, &json!({}))));
        assert_eq!(jobs.take(Shown::Applied(job(2, &status))) != Concerned::None, planned);
    }
}
