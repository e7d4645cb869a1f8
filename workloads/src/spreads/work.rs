//! One plan for a WorkloadSpread, carried out.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use berth_spread::{COST, MATCHED, Matched, Move, Room, SpreadPlan, adopt, metadata, plan};
use berth_workloads_policy::{action::Note, plan::NodeView};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, Preconditions},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use tracing::warn;

use super::{
    fit::fits,
    view::{PodView, SpreadView},
};
use crate::{
    planner::MOST_ERRORS,
    put_off::PutOff,
    write::{CHANGED_BY_CLUSTER, Failure, Writer, params},
};

/// Writes of one plan; the rest is decided anew.
const MOST_WRITES: usize = 64;
/// Failures of one plan after which the rest is decided anew.
const MOST_FAILED: usize = 64;
/// Seconds until a pod that has changed since it was decided on is looked at again.
const LOOK_AGAIN: i64 = 1;
/// Seconds until a pod that does not keep what is written is written to again.
const UNKEPT_AGAIN: i64 = 600;
/// Reason of the Event of a refused write.
const REFUSED: &str = "PatchPodDeletionCostFailed";
/// Reason of the Event of a pod that is left as it is.
const SET_ASIDE: &str = "SetAside";

/// Facts of one spread that were read once; lost with the program. They are about pods that are there, and
/// no more.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// Deployments of ReplicaSets, by UID of the ReplicaSet.
    parents: HashMap<String, Option<String>>,
    /// UIDs of pods that fit no subset, or that nobody can tell it of, by this generation of the spread.
    nobody: HashSet<String>,
    generation: i64,
    /// UIDs of pods that have not kept what was written, as a webhook changes it, and when: each plan would
    /// write it again.
    unkept: HashMap<String, Instant>,
    /// UIDs of pods that could not be written to: they come last.
    put_off: PutOff,
}

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) uid: String,
    /// Whether all that was to be done is done; else it is decided anew after a pause.
    pub(super) done: bool,
    /// Reason for which a write is held back for a while.
    pub(super) held: Option<String>,
    /// When to look again, in seconds.
    pub(super) again: Option<i64>,
}

/// Failures of one pod each, which hold none of the others up.
#[derive(Debug, Default)]
struct Failed {
    refused: Option<String>,
    held: Option<String>,
    /// UIDs of the pods.
    pods: Vec<String>,
    /// Errors of the API server, or of a webhook that does not answer, among them.
    errors: usize,
}

/// One plan that is carried out.
pub(super) struct Work {
    pub(super) writer: Writer,
    pub(super) spread: SpreadView,
    /// Pods that may be of its workload.
    pub(super) pods: Vec<Arc<PodView>>,
    pub(super) memory: Memory,
    /// Names of WorkloadSpreads of its namespace, of all those that these pods name.
    pub(super) names: BTreeSet<String>,
}

impl Work {
    /// Decides on the pods of the workload, and writes what follows.
    pub(super) async fn carry_out(mut self) -> Report {
        let uid = self.spread.uid.clone();
        let again = match self.run().await {
            Ok(again) => again,
            Err(failure) => {
                let held = match failure {
                    Failure::Held(text) => Some(text),
                    Failure::Refused(text) | Failure::ServerError(text) => {
                        self.tell(REFUSED, text);
                        None
                    }
                    Failure::Changed
                    | Failure::Gone
                    | Failure::Taken
                    | Failure::Busy(_)
                    | Failure::Unknown(_) => None,
                };
                return Report { uid, done: false, held, again: None };
            }
        };
        Report { uid, done: true, held: None, again }
    }

    /// The same. Returns the seconds until it is looked at again, where nothing else makes it due.
    async fn run(&mut self) -> Result<Option<i64>, Failure> {
        self.memory.begins(self.spread.generation, &self.pods);
        let mut own: Vec<Arc<PodView>> = Vec::new();
        for pod in std::mem::take(&mut self.pods) {
            if self.is_own(&pod).await? {
                own.push(pod);
            }
        }
        self.writer.metrics.passed();
        let SpreadView { name, spread, status, .. } = self.spread.clone();
        let seen: Vec<_> = own.iter().map(|pod| pod.seen.clone()).collect();
        let plan = plan(&name, &spread, &status, &seen, status.observed_replicas, Timestamp::now());
        let mut failed = Failed::default();
        let written = self.write(plan, &own, &mut failed).await;
        self.memory.of(|facts| match written {
            Ok(_) if failed.pods.is_empty() => facts.put_off.clear(),
            _ => facts.put_off.add(failed.pods),
        });
        written
    }

    /// Writes what follows, to those last that could not be written to before. Returns those seconds.
    async fn write(
        &self,
        plan: SpreadPlan,
        own: &[Arc<PodView>],
        failed: &mut Failed,
    ) -> Result<Option<i64>, Failure> {
        let SpreadPlan { mut moves, mut strangers, mut room, mut again } = plan;
        let put_off = self.memory.of(|facts| facts.put_off.names().clone());
        let is_off = |at: usize| own.get(at).is_some_and(|pod| put_off.contains(&pod.seen.uid));
        strangers.sort_by_key(|at| is_off(*at));
        moves.sort_by_key(|(Move::Cost(at, _) | Move::Delete(at))| is_off(*at));
        let mut left = MOST_WRITES;
        let unkept: HashSet<String> = self.memory.of(|facts| facts.unkept.keys().cloned().collect());
        let is_kept = |pod: &&Arc<PodView>| !unkept.contains(&pod.seen.uid);
        for at in strangers {
            let Some(pod) = own.get(at).filter(|_| left > 0).filter(is_kept) else { continue };
            match self.adopt(pod, &mut room).await {
                Ok(true) => left = left.saturating_sub(1),
                Ok(false) => {}
                Err(failure) => failed.of_one(pod, failure)?,
            }
        }
        for one in moves {
            if left == 0 {
                break;
            }
            let (Move::Cost(at, _) | Move::Delete(at)) = one;
            let is_cost = matches!(one, Move::Cost(..));
            let Some(pod) = own.get(at).filter(|pod| !is_cost || is_kept(pod)) else { continue };
            let written = match one {
                Move::Cost(_, cost) => self.annotate(pod, json!({ COST: cost.to_string() })).await,
                Move::Delete(_) => self.delete(pod).await,
            };
            match written {
                Ok(()) => left = left.saturating_sub(1),
                // It has changed since, and nothing that is decided by may have: nobody would look again.
                Err(Failure::Changed) => again = Some(again.map_or(LOOK_AGAIN, |at| at.min(LOOK_AGAIN))),
                Err(failure) => failed.of_one(pod, failure)?,
            }
        }
        if self.memory.of(|facts| !facts.unkept.is_empty()) {
            again = Some(again.map_or(UNKEPT_AGAIN, |at| at.min(UNKEPT_AGAIN)));
        }
        match failed.first() {
            // The rest goes on at once.
            Some(failure) if left == 0 => {
                if let Failure::Refused(text) = failure {
                    self.tell(REFUSED, text);
                }
                Ok(Some(0))
            }
            Some(failure) => Err(failure),
            None => Ok(if left == 0 { Some(0) } else { again }),
        }
    }

    /// Tells whether it is a pod of the workload, by way of its ReplicaSet too.
    async fn is_own(&self, pod: &PodView) -> Result<bool, Failure> {
        let [api_version, kind, name, uid] = &pod.owner;
        let target = &self.spread.spread.target;
        if target.is(api_version, kind, name) {
            return Ok(true);
        }
        if !target.may_have(api_version, kind, name) {
            return Ok(false);
        }
        let known = self.memory.of(|facts| facts.parents.get(uid).cloned());
        let parent = match known {
            Some(parent) => parent,
            None => {
                let api: Api<PartialObjectMeta<ReplicaSet>> =
                    Api::namespaced(self.writer.client.clone(), &self.spread.namespace);
                let found = self.writer.fetch("read", api.get_opt(name)).await?;
                let found = found.filter(|found| found.uid().as_deref() == Some(uid));
                let parent = found.and_then(|found| {
                    let mut owners = found.metadata.owner_references.into_iter().flatten();
                    owners.find(|one| one.controller == Some(true) && one.kind == "Deployment")
                });
                let parent = parent.map(|owner| owner.name);
                self.memory.of(|facts| facts.parents.insert(uid.clone(), parent.clone()));
                parent
            }
        };
        Ok(parent.as_deref() == Some(target.name.as_str()))
    }

    /// Gives a pod that was there before its subset; tells whether anything was written.
    async fn adopt(&self, pod: &PodView, room: &mut Room) -> Result<bool, Failure> {
        let SpreadView { name, spread, .. } = &self.spread;
        // It is in a subset of another WorkloadSpread, which is there.
        if pod.seen.matched.as_ref().is_some_and(|matched| self.names.contains(&matched.name)) {
            return Ok(false);
        }
        if self.memory.of(|facts| facts.nobody.contains(&pod.seen.uid)) {
            return Ok(false);
        }
        let nodes: Api<Node> = Api::all(self.writer.client.clone());
        let pods: Api<Pod> = Api::namespaced(self.writer.client.clone(), &self.spread.namespace);
        let Some(node) = self.writer.fetch("read", nodes.get_opt(&pod.node)).await? else { return Ok(false) };
        let Some(whole) = self.writer.fetch("read", pods.get_opt(&pod.name)).await? else { return Ok(false) };
        let (node, whole) = (view(&node), json!(whole));
        // An earlier plan gave it one, which the watch has not shown.
        let matched = whole["metadata"]["annotations"][MATCHED].as_str().and_then(Matched::read);
        if let Some(matched) = matched.filter(|matched| matched.name == *name) {
            spread.position(&matched.subset).into_iter().for_each(|at| room.take(at));
            return Ok(false);
        }
        let fits = match fits(&whole, &spread.subsets, &node, room).await {
            Ok(fits) => fits,
            Err(why) => {
                warn!(spread = name, pod = pod.name, why, "Pod is left without a subset");
                self.tell(SET_ASIDE, format!("pod {} is left without a subset: {why}", pod.name));
                self.memory.of(|facts| facts.nobody.insert(pod.seen.uid.clone()));
                return Ok(false);
            }
        };
        let found = adopt(&fits).and_then(|at| Some((at, spread.subsets.get(at)?)));
        if let Some((at, subset)) = found {
            let matched = Matched { name: name.clone(), subset: subset.name.clone(), uid: None };
            let patch = subset.patch.as_ref().filter(|_| self.spread.gives_metadata);
            let mut given = Value::Object(patch.map(|patch| metadata(&whole, patch)).unwrap_or_default());
            given["annotations"][MATCHED] = matched.text().into();
            // Who sees it in the status may scale in at once.
            let cost = spread.cost_of(at, room.has(at)).map(|cost| cost.to_string());
            if let Some(cost) = cost.filter(|cost| pod.seen.cost.as_ref() != Some(cost)) {
                given["annotations"][COST] = cost.into();
            }
            self.patch(pod, given).await?;
            room.take(at);
            return Ok(true);
        }
        let cost = spread.cost_of_nobody().map(|cost| cost.to_string());
        let is_news = cost.is_some() && pod.seen.cost != cost;
        if is_news {
            self.annotate(pod, json!({ COST: cost })).await?;
        }
        self.memory.of(|facts| facts.nobody.insert(pod.seen.uid.clone()));
        Ok(is_news)
    }

    async fn annotate(&self, pod: &PodView, annotations: Value) -> Result<(), Failure> {
        self.patch(pod, json!({ "annotations": annotations })).await
    }

    async fn patch(&self, pod: &PodView, mut metadata: Value) -> Result<(), Failure> {
        metadata["uid"] = pod.seen.uid.as_str().into();
        let patch = json!({ "metadata": metadata });
        let api: Api<Pod> = Api::namespaced(self.writer.client.clone(), &self.spread.namespace);
        let (params, body) = (params::patch(), Patch::Merge(&patch));
        match self.writer.ask("annotate", api.patch_metadata(&pod.name, &params, &body)).await {
            Ok(written) => {
                let given = [MATCHED, COST].map(|key| (key, patch["metadata"]["annotations"][key].as_str()));
                let there = written.annotations();
                let is_there = |(key, given): &(&str, Option<&str>)| {
                    given.is_none_or(|given| there.get(*key).is_some_and(|there| there == given))
                };
                if !given.iter().all(is_there) {
                    self.memory.of(|facts| facts.unkept.insert(pod.seen.uid.clone(), Instant::now()));
                    self.tell(REFUSED, format!("annotations of pod {}: {CHANGED_BY_CLUSTER}", pod.name));
                }
                Ok(())
            }
            Err(Failure::Gone | Failure::Changed) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Deletes a pod in exactly the state that was decided on: it may have a node by now.
    async fn delete(&self, pod: &PodView) -> Result<(), Failure> {
        let preconditions =
            Preconditions { uid: Some(pod.seen.uid.clone()), resource_version: Some(pod.version.clone()) };
        let params = DeleteParams::default().preconditions(preconditions);
        let api: Api<Pod> = Api::namespaced(self.writer.client.clone(), &self.spread.namespace);
        match self.writer.ask("delete", api.delete(&pod.name, &params)).await {
            Ok(_) => {
                let text = format!("deleted pod {}: it found no node in its subset", pod.name);
                self.tell("RescheduledPod", text);
                Ok(())
            }
            Err(Failure::Gone) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn tell(&self, reason: &'static str, text: String) {
        let note = Note { warning: reason != "RescheduledPod", reason, text };
        self.writer.events.about(self.spread.reference(), note);
    }
}

impl Failed {
    /// Takes in a failure of one pod. One that is of more than that ends the plan, and so do many.
    fn of_one(&mut self, pod: &PodView, failure: Failure) -> Result<(), Failure> {
        let is_error = failure.is_error();
        match failure {
            Failure::Refused(text) | Failure::ServerError(text) | Failure::Unknown(text) => {
                self.refused.get_or_insert(text);
            }
            Failure::Held(text) => {
                self.held.get_or_insert(text);
            }
            failure => return Err(failure),
        }
        self.pods.push(pod.seen.uid.clone());
        self.errors = self.errors.saturating_add(usize::from(is_error));
        if self.pods.len() < MOST_FAILED && self.errors < MOST_ERRORS {
            return Ok(());
        }
        Err(self.first().unwrap_or(Failure::Changed))
    }

    /// The first one; a refusal is said rather than a pause.
    fn first(&mut self) -> Option<Failure> {
        let refused = self.refused.take().map(Failure::Refused);
        refused.or_else(|| self.held.take().map(Failure::Held))
    }
}

impl Memory {
    fn of<T>(&self, take: impl FnOnce(&mut Facts) -> T) -> T {
        take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets what is about none of these pods, or about another generation.
    fn begins(&self, generation: i64, pods: &[Arc<PodView>]) {
        let uids: HashSet<&str> = pods.iter().map(|pod| pod.seen.uid.as_str()).collect();
        let owner = |pod: &Arc<PodView>| {
            let [.., uid] = &pod.owner;
            uid.clone()
        };
        let owners: HashSet<String> = pods.iter().map(owner).collect();
        self.of(|facts| {
            // One that belongs to nobody may be adopted later.
            facts.parents.retain(|uid, parent| owners.contains(uid) && parent.is_some());
            let is_same = std::mem::replace(&mut facts.generation, generation) == generation;
            facts.nobody.retain(|uid| is_same && uids.contains(uid.as_str()));
            let again = Duration::from_secs(UNKEPT_AGAIN.unsigned_abs());
            let is_unkept = |uid: &str, at: Instant| uids.contains(uid) && at.elapsed() < again;
            facts.unkept.retain(|uid, at| is_same && is_unkept(uid, *at));
        });
    }
}

fn view(node: &Node) -> NodeView {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    NodeView {
        name: node.name_any(),
        labels: node.labels().clone(),
        taints: taints.map(|one| json!(one)).collect(),
    }
}
