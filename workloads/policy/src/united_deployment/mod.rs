//! UnitedDeployment: the next writes that give each subset of the cluster its workload.
//!
//! ```text
//!   revision ▶ pods of each subset ▶ workloads ▶ pods that are stuck ▶ old revisions ▶ status
//! ```
//!
//! A workload is one of it if it is its owner; OpenKruise takes in all that the selector selects, in other
//! namespaces too, and deletes it with itself. Where something is wrong with one subset, the others go on.
//! Whether a workload is as it is to be, a hash says that stands on it: of the revision, the subset and its
//! numbers. A workload of another kind goes when the one of the new kind is there.

mod allocation;
mod build;
mod child;
mod kind;
mod patch;
mod rules;
mod status;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::crd::{Subset, UnitedDeployment, UnitedDeploymentStatus};
use jiff::Timestamp;
use serde_json::Value;

use self::{
    allocation::{Claim, Replicas, allocate},
    build::Numbers,
    rules::Rules,
};
pub use self::{
    build::update,
    child::{ChildView, PodView},
    kind::{KINDS, Kind, SUBSET_REVISION_LABEL},
};
use crate::{
    action::{self, Note, Target},
    fault::Fault,
    hash::Suffixes,
    plan::weight,
    revision::{Live, Owner, Revision, settle, surplus},
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "UnitedDeployment";
/// Label of a workload and its pods: their subset.
pub const SUBSET_LABEL: &str = "apps.kruise.io/subset-name";
/// Label of a revision: UID of the UnitedDeployment that it is of.
pub const UID_LABEL: &str = "berth.dev/united-deployment-uid";
/// Annotation of a workload: hash of what it was made of.
pub const HASH_ANNOTATION: &str = "berth.dev/subset-hash";
/// The most bytes that the workloads of one pass have together; the next pass goes on.
const MOST_BYTES: usize = 4 << 20;

/// Revisions that are looked at before a new one is made: as many as its workloads have at the most, but for
/// those whose labels somebody has written.
const MOST_NAMED: usize = 8;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes a revision, unless one with these names has its template: its workloads have them, and it has no
    /// label by which it would be on file.
    CreateRevision(Value, Vec<String>),
    /// Makes an old revision the newest one.
    RaiseRevision(Target, i64),
    /// Deletes a revision that nothing needs.
    DeleteRevision(Target),
    /// Makes the workload of a subset.
    Create(Kind, Value),
    /// Changes a workload to this, as [`update`] does.
    Update(Kind, Target, Value),
    /// Deletes a workload, and its pods in the background.
    Delete(Kind, Target),
    /// Deletes a pod that holds an update up.
    DeletePod(Target),
}

/// Writes that are due. One that is refused holds none of the others up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Writes, in their order.
    pub actions: Vec<Action>,
    /// Status, when it differs from the one on file.
    pub status: Option<UnitedDeploymentStatus>,
    /// Time after which something else is due, though nothing changes.
    pub again: Option<Duration>,
    /// Things to tell.
    pub notes: Vec<Note>,
}

/// A UnitedDeployment, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The object.
    pub united: &'a UnitedDeployment,
    /// Revisions that it owns.
    pub revisions: &'a [&'a Revision],
    /// Workloads that it owns.
    pub children: &'a [&'a ChildView],
    /// Pods that have a revision of its name.
    pub pods: &'a [&'a PodView],
    /// Failure of the last writes.
    pub failure: Option<&'a str>,
    /// How often the name of a new revision was taken, as far as the status does not say so yet.
    pub collisions: i32,
    /// Seed of new names.
    pub seed: u64,
}

/// State of a pass.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    owner: Owner<'a>,
    live: Live<'a>,
    now: Timestamp,
    /// Numbers of each subset.
    numbers: BTreeMap<&'a str, Numbers>,
    /// The workload of each subset that has one.
    members: BTreeMap<&'a str, &'a ChildView>,
    suffixes: Suffixes,
    /// Bytes that are left for new and changed workloads.
    room: usize,
    /// Subsets without a workload, and workloads that have no subset any more.
    unprovisioned: Vec<String>,
    /// Subsets whose workload is not as it is to be.
    outdated: Vec<String>,
    faults: Vec<String>,
    plan: Plan,
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    let meta = &input.united.metadata;
    // One that is going is left to the garbage collector, with its workloads.
    if meta.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let rules = match Rules::of(input.united) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, "InvalidSpec", &fault, now),
    };
    let owner = Owner::of(meta, API_VERSION, KIND);
    let status = input.united.status.as_ref();
    let counted = status.and_then(|status| status.collision_count).unwrap_or(0);
    let current = status.map(|status| status.current_revision.as_str());
    let live = match settle(owner, &rules.whole, input.revisions, current, counted.max(input.collisions)) {
        Ok(live) => live,
        Err(action) => {
            let mut actions: Vec<Action> = revision(*action, owner.uid).into_iter().collect();
            actions.iter_mut().for_each(|action| complete(action, input, &rules));
            return Plan { actions, status: status::unsettled(input, now), ..Plan::default() };
        }
    };
    let members = members(input, &rules);
    let numbers = match numbers(&rules, &members) {
        Ok(numbers) => numbers,
        Err(fault) => return status::faulty(input, "Failed SpecifySubsetReplicas", &fault, now),
    };
    let mut pass = Pass {
        input,
        rules: &rules,
        owner,
        live,
        now,
        numbers,
        members,
        suffixes: Suffixes::new(input.seed),
        room: MOST_BYTES,
        unprovisioned: Vec::new(),
        outdated: Vec::new(),
        faults: Vec::new(),
        plan: Plan::default(),
    };
    pass.provision();
    pass.delete();
    pass.unstick();
    pass.shorten_history();
    let status = pass.status();
    let mut plan = pass.plan;
    plan.status = (input.united.status.as_ref() != Some(&status)).then_some(status);
    plan
}

/// Gives a new revision the labels that the workloads have, by which clients list revisions, and names those
/// that the workloads have and that are not on file.
fn complete(action: &mut Action, input: &Input<'_>, rules: &Rules<'_>) {
    let labels = rules.template.get("metadata").and_then(|metadata| metadata.get("labels"));
    let Action::CreateRevision(object, named) = action else { return };
    if let Some(own) = object["metadata"]["labels"].as_object_mut() {
        let given = labels.and_then(Value::as_object).into_iter().flatten();
        let selected = rules.match_labels.iter().map(|(key, value)| (key, Value::from(value.as_str())));
        for (key, value) in given.map(|(key, value)| (key, value.clone())).chain(selected) {
            own.entry(key.as_str()).or_insert(value);
        }
    }
    let is_on_file = |name: &str| input.revisions.iter().any(|one| one.name == name);
    let names = input.children.iter().map(|child| child.revision.as_str());
    let unknown: BTreeSet<&str> = names.filter(|name| !name.is_empty() && !is_on_file(name)).collect();
    named.extend(unknown.into_iter().take(MOST_NAMED).map(str::to_owned));
}

/// Write of a revision, which is found by its label.
fn revision(action: action::Action, uid: &str) -> Option<Action> {
    match action {
        action::Action::CreateRevision(mut object) => {
            object["metadata"]["labels"][UID_LABEL] = uid.into();
            Some(Action::CreateRevision(object, Vec::new()))
        }
        action::Action::RaiseRevision(target, number) => Some(Action::RaiseRevision(target, number)),
        action::Action::DeleteRevision(target) => Some(Action::DeleteRevision(target)),
        _ => None,
    }
}

/// The workload of each subset: of several the oldest one.
fn members<'a>(input: &Input<'a>, rules: &Rules<'a>) -> BTreeMap<&'a str, &'a ChildView> {
    let mut ours: Vec<&ChildView> =
        input.children.iter().copied().filter(|child| child.kind == rules.kind).collect();
    ours.sort_by_key(|child| (child.terminating, child.created, child.name.as_str()));
    let mut members = BTreeMap::new();
    for (subset, _) in &rules.subsets {
        if let Some(child) = ours.iter().find(|child| child.subset == subset.name) {
            members.insert(subset.name.as_str(), *child);
        }
    }
    members
}

fn numbers<'a>(
    rules: &Rules<'a>,
    members: &BTreeMap<&'a str, &'a ChildView>,
) -> Result<BTreeMap<&'a str, Numbers>, Fault> {
    let claim = |(subset, asked): &(&'a Subset, Replicas)| Claim {
        name: subset.name.as_str(),
        asked: *asked,
        current: members.get(subset.name.as_str()).map_or(0, |child| child.wanted),
    };
    let claims: Vec<Claim<'a>> = rules.subsets.iter().map(claim).collect();
    let replicas = allocate(rules.replicas, &claims)?;
    let of = |claim: Claim<'a>| {
        let replicas = replicas.get(claim.name).copied().unwrap_or(0);
        (claim.name, Numbers { replicas, partition: rules.partition(claim.name, replicas) })
    };
    Ok(claims.into_iter().map(of).collect())
}

impl Pass<'_> {
    /// Makes workloads that are missing, and changes those that are not as they are to be.
    fn provision(&mut self) {
        let rules = self.rules;
        let has_partition = self.has_partition();
        for (subset, _) in &rules.subsets {
            let Some(numbers) = self.numbers.get(subset.name.as_str()).copied() else { continue };
            let known = self.members.get(subset.name.as_str()).copied();
            if let Some(child) = known {
                let is_current = child.revision == self.live.update.name
                    && child.hash == self.hash(subset, numbers)
                    && child.wanted == numbers.replicas
                    && (!has_partition || child.partition == Some(numbers.partition));
                if is_current {
                    continue;
                }
            }
            match known {
                Some(_) => self.outdated.push(subset.name.clone()),
                None => self.unprovisioned.push(subset.name.clone()),
            }
            // One that goes is waited for: the pods of two would be too many.
            if known.is_some_and(|child| child.terminating) {
                continue;
            }
            if self.room == 0 {
                self.plan.again = Some(Duration::ZERO);
                continue;
            }
            let mut workload = match self.workload(subset, numbers) {
                Ok(workload) => workload,
                Err(fault) => {
                    self.faults.push(fault.to_string());
                    continue;
                }
            };
            self.room = self.room.saturating_sub(weight(&workload));
            let action = match known {
                Some(child) => Action::Update(rules.kind, child.target(), workload),
                None => {
                    workload["metadata"]["name"] = self.name(&subset.name).into();
                    Action::Create(rules.kind, workload)
                }
            };
            self.plan.actions.push(action);
        }
    }

    /// Deletes workloads whose subset is gone, has another one, or has one of another kind.
    fn delete(&mut self) {
        for child in self.input.children {
            let member = self.members.get(child.subset.as_str());
            if member.is_some_and(|member| member.uid == child.uid) {
                continue;
            }
            let is_subset = self.numbers.contains_key(child.subset.as_str());
            self.unprovisioned.push(child.name.clone());
            if !child.terminating && (!is_subset || member.is_some()) {
                self.plan.actions.push(Action::Delete(child.kind, child.target()));
            }
        }
    }

    /// Deletes pods of StatefulSets of Kubernetes that would wait for ever: with an old revision that never
    /// gets ready, and nobody who replaces them.
    fn unstick(&mut self) {
        if self.rules.kind != Kind::StatefulSet || !self.has_partition() {
            return;
        }
        let current = |(subset, child): (&&str, &&ChildView)| {
            let is_current = child.is_observed && !self.outdated.iter().any(|name| name == *subset);
            let numbers = self.numbers.get(*subset)?;
            is_current.then_some((child.uid.clone(), numbers.partition))
        };
        let partitions: BTreeMap<String, i64> = self.members.iter().filter_map(current).collect();
        for pod in self.input.pods {
            let is_stuck = !pod.ready
                && !pod.terminating
                && pod.revision != self.live.update.name
                && pod.replica_set.is_none()
                && partitions
                    .get(&pod.owner)
                    .is_some_and(|partition| pod.ordinal().is_some_and(|ordinal| ordinal >= *partition));
            if is_stuck {
                self.plan.actions.push(Action::DeletePod(pod.target()));
            }
        }
    }

    fn shorten_history(&mut self) {
        let children = self.input.children.iter().map(|child| child.revision.as_str());
        let used: BTreeSet<&str> =
            children.chain(self.input.pods.iter().map(|pod| pod.revision.as_str())).collect();
        let live = [self.live.update.name.as_str(), self.live.current.name.as_str()];
        let is_live = |one: &Revision| live.contains(&one.name.as_str()) || used.contains(one.name.as_str());
        let surplus = surplus(self.input.revisions, self.rules.history_limit, is_live);
        self.plan.actions.extend(surplus.into_iter().filter_map(|action| revision(action, self.owner.uid)));
    }
}
