//! BroadcastJob: the next writes that run a pod of it to its end on each node that it fits.
//!
//! ```text
//!   nodes, pods ▶ which nodes fit, how each pod ended ▶ paused? failed? ▶ make, delete ▶ completed? ▶ status
//! ```
//!
//! A decision is on file before it is carried out: that the job failed, that it rests because a pod failed,
//! how many failures it was let go on with. A replica that begins later decides the same. OpenKruise looks at
//! a node when it is made and then at few changes of it; here each change of a node counts.
//!
//! A pod that runs is not deleted for a cordon or a taint: those keep new pods away, and who is to leave a
//! tainted node Kubernetes itself decides. One that waits for a node which it no longer fits is deleted, and
//! so is each whose node has lost the labels that it asks for.
//!
//! A job is complete when each node that fits is done. A pod on another one, which may be dead, is not waited
//! for; one that runs there goes on when the job has ended.

mod build;
mod pod;
mod resources;
mod rules;
mod status;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::crd::{BroadcastJob, BroadcastJobStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

pub use self::{
    pod::{PodState, PodView},
    rules::Rules,
};
use self::{resources::Resources, rules::OnFailure, status::Phase};
use crate::{
    action::{Note, Target},
    daemon_set::fit::Fit,
    jobs::{Action, Kind, Plan as JobPlan},
    plan,
    time::until,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "BroadcastJob";
/// Label of a pod: name of its job.
pub const NAME_LABEL: &str = "broadcastjob-name";
/// Label of a pod: UID of its job.
pub const UID_LABEL: &str = "broadcastjob-controller-uid";

/// Nodes with several pods that one pass tells of.
const MOST_TOLD: usize = 16;

/// Writes that are due.
pub type Plan = JobPlan<BroadcastJobStatus>;

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    node: plan::NodeView,
    unschedulable: bool,
    allocatable: Resources,
}

/// A BroadcastJob, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The job.
    pub job: &'a BroadcastJob,
    /// Pods that it owns.
    pub pods: &'a [&'a PodView],
    /// All nodes.
    pub nodes: &'a [&'a NodeView],
    /// Pods are tied to their nodes by affinity, and the scheduler places them; otherwise they name them.
    pub by_scheduler: bool,
    /// Names of pods whose making has failed, and UIDs of those whose deletion has: they come after all
    /// others, which are not to wait for them.
    pub put_off: &'a BTreeSet<String>,
}

/// Pods of a job, and the nodes it fits.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    now: Timestamp,
    /// Nodes that fit.
    desired: BTreeSet<&'a str>,
    /// Pods by node.
    pods: BTreeMap<&'a str, Vec<&'a PodView>>,
    plan: Plan,
}

impl NodeView {
    /// Reads a node.
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let allocatable = allocatable.into_iter().flatten();
        Self {
            node: plan::NodeView {
                name: node.metadata.name.clone().unwrap_or_default(),
                labels: node.metadata.labels.clone().unwrap_or_default(),
                taints: taints.map(|taint| serde_json::json!(taint)).collect(),
            },
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: Resources::read(
                allocatable.map(|(name, amount)| (name.as_str(), amount.0.as_str())),
            ),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.node.name
    }
}

/// Needs of a job's pods of their nodes; read once for all nodes.
struct Needs<'a> {
    fit: Fit<'a>,
    resources: Resources,
}

impl<'a> Needs<'a> {
    fn of(rules: &Rules<'a>) -> Self {
        Self { fit: Fit::plain(rules.template), resources: Resources::of_pod(rules.template) }
    }

    /// Tells whether a new pod may run on the node.
    fn fit(&self, view: &NodeView) -> bool {
        let schedulable = !view.unschedulable || self.fit.tolerates(&unschedulable());
        schedulable && self.fit.on(&view.node).0 && self.resources.are_within(&view.allocatable)
    }

    /// Tells whether the node has lost what they ask for, whatever its taints.
    fn are_lost_on(&self, view: &NodeView) -> bool {
        !self.fit.places(&view.node)
    }
}

/// Tells whether a change of a node changes anything for the job, which may have a pod there.
///
/// A pod that waits on a node that it does not fit is deleted whether the node is there or not, and one that
/// runs on a node which is gone is left alone.
pub fn minds(
    job: &BroadcastJob,
    before: Option<&NodeView>,
    after: Option<&NodeView>,
    has_pod: impl FnOnce() -> bool,
) -> bool {
    let Ok(rules) = Rules::of(job) else { return false };
    let needs = Needs::of(&rules);
    let fits = |view: Option<&NodeView>| view.is_some_and(|view| needs.fit(view));
    let (fitted, fits) = (fits(before), fits(after));
    if fitted || fits {
        return fitted != fits;
    }
    let is_lost = |view: Option<&NodeView>| view.is_some_and(|view| needs.are_lost_on(view));
    is_lost(after) && !is_lost(before) && has_pod()
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    // One that is going is left to the garbage collector, with its pods.
    if input.job.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let rules = match Rules::of(input.job) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, &fault, now),
    };
    let mut pods: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    for pod in input.pods {
        pods.entry(pod.node.as_str()).or_default().push(pod);
    }
    let mut pass = Pass { input, rules: &rules, now, desired: BTreeSet::new(), pods, plan: Plan::default() };
    let before = input.job.status.clone().unwrap_or_default();
    if let Some(ended) = status::ended(&before) {
        pass.after_end(ended, status::has_failed(&before));
        pass.delete_last();
        return pass.plan;
    }
    pass.fit();
    let status = pass.go_on(&before);
    pass.delete_last();
    let mut plan = pass.plan;
    if input.job.status.as_ref() != Some(&status) {
        // A new phase is a decision, and so is what it was let go on with.
        plan.status_first =
            before.phase != status.phase || before.accepted_failures != status.accepted_failures;
        plan.status = Some(status);
    }
    plan
}

impl<'a> Pass<'a> {
    /// Finds the nodes that fit; deletes pods that have no node to run on.
    fn fit(&mut self) {
        let needs = Needs::of(self.rules);
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for view in self.input.nodes {
            let name = view.node.name.as_str();
            known.insert(name);
            if needs.fit(view) {
                self.desired.insert(name);
                continue;
            }
            let pods = self.pods.get(name).into_iter().flatten();
            let lost = pods.clone().any(|pod| pod.is_alive()) && needs.are_lost_on(view);
            let out = pods.filter(|pod| pod.is_alive() && (lost || !pod.bound));
            self.plan.actions.extend(out.map(|pod| Action::Delete(Kind::Pod, pod.target())));
        }
        // A pod that was on a node which is gone is Kubernetes' to delete; one that waits for it is nobody's.
        let waits = |pod: &&&PodView| pod.is_alive() && !pod.bound && !pod.node.is_empty();
        let gone = self.input.pods.iter().filter(waits).filter(|pod| !known.contains(pod.node.as_str()));
        self.plan.actions.extend(gone.map(|pod| Action::Delete(Kind::Pod, pod.target())));
    }

    /// Brings the job forward.
    fn go_on(&mut self, before: &BroadcastJobStatus) -> BroadcastJobStatus {
        let counts = self.counts();
        let mut status = status::running(self.input.job, before, &counts, self.desired.len(), self.now);
        let several = self.pods.iter().filter(|(node, pods)| pods.len() > 1 && self.desired.contains(*node));
        for (node, pods) in several.take(MOST_TOLD) {
            let text = format!("node {node} has {} pods of this job", pods.len());
            self.plan.notes.push(Note { warning: true, reason: "DuplicatePodCreatedOnSameNode", text });
        }
        let was_paused = before.phase.as_deref() == Some(Phase::Paused.name());
        if self.rules.paused {
            // Whoever lets it go has seen these failures.
            status.accepted_failures = (counts.failed > 0).then_some(status.failed);
            status.phase = Some(Phase::Paused.name().to_owned());
            return status;
        }
        let accepted = before.accepted_failures.unwrap_or(0).min(status.failed);
        status.accepted_failures = (accepted > 0).then_some(accepted);
        match self.rules.on_failure {
            OnFailure::Pause if status.failed > accepted => {
                if !was_paused {
                    let text =
                        "a pod failed: the job rests; correct it, set spec.paused, and take it back to go on";
                    self.warn("Paused", text);
                }
                status.phase = Some(Phase::Paused.name().to_owned());
                return status;
            }
            OnFailure::FailFast if counts.failed > 0 => {
                let text = "failure policy is FailurePolicyTypeFailFast and failed pod is found";
                return self.fail(status, "failed pod is found", text);
            }
            OnFailure::Pause | OnFailure::FailFast | OnFailure::Continue => {}
        }
        if was_paused {
            self.tell("Continue", "the job goes on");
        }
        if let (Some(seconds), Some(start)) = (self.rules.deadline, &status.start_time) {
            let left = until(start.0, seconds, self.now);
            if left.is_zero() {
                let text = format!("Job {} was active longer than specified deadline", self.title());
                return self.fail(status, "DeadlineExceeded", &text);
            }
            self.again(left);
        }
        self.make(counts.active);
        self.complete(status)
    }

    /// Makes pods on nodes that have had none.
    fn make(&mut self, active: usize) {
        let desired = i64::try_from(self.desired.len()).unwrap_or(i64::MAX);
        let most = usize::try_from(self.rules.parallelism.up(desired)).unwrap_or(0);
        if active > most {
            let text = format!("{active} pods are active, {most} may be");
            self.warn("TooManyActivePods", &text);
        }
        let (job, put_off) = (self.input.job, self.input.put_off);
        let to_do = self.desired.iter().filter(|node| !self.pods.contains_key(*node));
        let is_put_off = |node: &&&str| !put_off.is_empty() && put_off.contains(&build::name(job, node));
        let (last, first): (Vec<&&str>, Vec<&&str>) = to_do.partition(is_put_off);
        // The next pass goes on: pods that were made come with it.
        let at_once = usize::try_from(plan::most_created(self.rules.template, &[])).unwrap_or(1);
        let most = most.saturating_sub(active).min(at_once);
        let new = first.into_iter().chain(last).take(most).map(|node| {
            let pod = build::pod(self.rules, job, node, self.input.by_scheduler);
            Action::Create(Kind::Pod, pod)
        });
        self.plan.actions.extend(new);
    }

    /// Completes the job, if every node that fits is done. A pod that has failed for its restarts alone is as
    /// good as over, and ends with the job.
    fn complete(&mut self, mut status: BroadcastJobStatus) -> BroadcastJobStatus {
        let is_done = |pod: &&PodView| pod.state != PodState::Active || pod.is_over(self.rules.restart_limit);
        let node_is_done = |node: &&str| self.pods.get(*node).is_some_and(|pods| pods.iter().all(is_done));
        let all = !self.desired.is_empty() && self.desired.iter().all(node_is_done);
        if self.rules.never || !all || !self.plan.actions.is_empty() {
            return status;
        }
        let ended = status::pods(&status);
        self.tell("JobComplete", &format!("Job {} is completed, {ended}", self.title()));
        status::end(&mut status, Phase::Completed, "Complete", &format!("Job completed, {ended}"), self.now);
        status
    }

    /// Fails the job: its pods count as failed now, and are deleted when that is on file. `event` is the
    /// reason of the Event that says why.
    fn fail(
        &mut self,
        mut status: BroadcastJobStatus,
        event: &'static str,
        text: &str,
    ) -> BroadcastJobStatus {
        self.plan.actions.clear();
        self.plan.again = None;
        status.failed = status.failed.saturating_add(status.active);
        status.active = 0;
        self.warn(event, &format!("{text}: {}", status::pods(&status)));
        status::end(&mut status, Phase::Failed, "Failed", text, self.now);
        status
    }

    /// Deletes what is left of a job that has ended, and then the job. Its status stays as it is. A pod of
    /// one that is complete may run on, on a node that fits no more: a cordon ends nothing.
    fn after_end(&mut self, ended: Timestamp, has_failed: bool) {
        let limit = self.rules.restart_limit;
        let ends = |pod: &&&PodView| pod.is_alive() && (has_failed || !pod.bound || pod.is_over(limit));
        let left = self.input.pods.iter().filter(ends);
        self.plan.actions.extend(left.map(|pod| Action::Delete(Kind::Pod, pod.target())));
        let Some(seconds) = self.rules.ttl else { return };
        let left = until(ended, seconds, self.now);
        if !left.is_zero() {
            self.again(left);
        } else if self.plan.actions.is_empty() {
            let meta = &self.input.job.metadata;
            let target = Target {
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
                version: meta.resource_version.clone().unwrap_or_default(),
            };
            self.plan.actions.push(Action::Delete(Kind::BroadcastJob, target));
        }
    }

    /// Puts pods behind all others whose deletion has failed.
    fn delete_last(&mut self) {
        let put_off = self.input.put_off;
        let is_off = |action: &Action| match action {
            Action::Delete(_, target) | Action::Forget(_, target) => put_off.contains(&target.uid),
            Action::Create(..) => false,
        };
        self.plan.actions.sort_by_key(is_off);
    }

    /// Tells of how the job goes.
    fn tell(&mut self, reason: &'static str, text: &str) {
        self.plan.notes.push(Note { warning: false, reason, text: text.to_owned() });
    }

    /// Namespace and name of the job.
    fn title(&self) -> String {
        let meta = &self.input.job.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// Tells of what is wrong with it.
    fn warn(&mut self, reason: &'static str, text: &str) {
        self.plan.notes.push(Note { warning: true, reason, text: text.to_owned() });
    }

    /// Has the job looked at again after so long at the latest.
    fn again(&mut self, after: Duration) {
        let after = after.saturating_add(Duration::from_millis(1));
        self.plan.again = Some(self.plan.again.map_or(after, |again| again.min(after)));
    }
}

/// Taint that a cordon stands for, before it is there.
fn unschedulable() -> Value {
    serde_json::json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" })
}
