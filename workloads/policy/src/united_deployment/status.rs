//! Status of a UnitedDeployment.

use std::collections::BTreeMap;

use berth_proto::crd::{UnitedDeploymentStatus, UnitedDeploymentUpdateStatus, WorkloadCondition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Input, Pass, Plan};
use crate::{action::Note, fault::Fault, time::whole_second};

/// Condition: each subset has its workload, and there are no others.
const PROVISIONED: &str = "SubsetProvisioned";
/// Condition: each workload has the newest template and its numbers.
const UPDATED: &str = "SubsetUpdated";
/// Condition: something stands in the way.
const FAILURE: &str = "SubsetFailure";
/// The longest message of a condition.
const LONGEST_MESSAGE: usize = 1024;

impl Pass<'_> {
    pub(super) fn status(&mut self) -> UnitedDeploymentStatus {
        let before = self.input.united.status.as_ref();
        let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let sum = |of: fn(&super::ChildView) -> i64| {
            small(self.members.values().fold(0, |sum: i64, child| sum.saturating_add(of(child))))
        };
        let update = &self.live.update.name;
        let updated = self.input.pods.iter().filter(|pod| {
            !pod.terminating && pod.revision == *update && self.members.values().any(|child| child.has(pod))
        });
        let (all, ready) = updated.fold((0_i64, 0_i64), |(all, ready), pod| {
            (all.saturating_add(1), ready.saturating_add(i64::from(pod.ready)))
        });
        let current = if ready >= self.rules.replicas { update } else { &self.live.current.name };
        let by_subset = |of: fn(&super::Numbers) -> i64| -> BTreeMap<String, i32> {
            self.numbers.iter().map(|(name, numbers)| ((*name).to_owned(), small(of(numbers)))).collect()
        };
        let pending = !self.plan.actions.is_empty() || !self.faults.is_empty();
        // Nothing is left to be done of what could not be done.
        let failure = self.input.failure.filter(|_| pending);
        let faults: Vec<&str> = self.faults.iter().map(String::as_str).chain(failure).collect();
        let faults = faults.join("; ");
        let mut waiting = self.unprovisioned.clone();
        let provisioned = standing(&waiting, "have no workload yet, or have one too many");
        waiting.extend(self.outdated.iter().cloned());
        let up_to_date = standing(&waiting, "have not the newest template and numbers yet");
        let mut conditions = vec![
            condition(known, PROVISIONED, provisioned.is_none(), None, provisioned.as_deref(), self.now),
            condition(known, UPDATED, up_to_date.is_none(), None, up_to_date.as_deref(), self.now),
        ];
        if !faults.is_empty() {
            conditions.push(condition(known, FAILURE, true, Some("Failed"), Some(&faults), self.now));
        }
        let is_told =
            known.iter().any(|one| one.type_ == FAILURE && one.message.as_deref() == Some(&cut(&faults)));
        if !self.faults.is_empty() && !is_told {
            self.plan.notes.push(Note { warning: true, reason: "FailedUpdateSubset", text: faults });
        }
        let collisions = before.and_then(|before| before.collision_count).unwrap_or(0);
        let collisions = collisions.max(self.input.collisions);
        UnitedDeploymentStatus {
            observed_generation: self.input.united.metadata.generation,
            replicas: sum(|child| child.replicas),
            ready_replicas: sum(|child| child.ready),
            updated_replicas: small(all),
            updated_ready_replicas: small(ready),
            collision_count: Some(collisions),
            current_revision: current.clone(),
            subset_replicas: by_subset(|numbers| numbers.replicas),
            update_status: Some(UnitedDeploymentUpdateStatus {
                updated_revision: Some(update.clone()),
                current_partitions: by_subset(|numbers| numbers.partition),
            }),
            label_selector: Some(self.rules.selector.text()),
            conditions,
        }
    }
}

/// Sentence about these; `None`: there are none.
fn standing(names: &[String], what: &str) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")))
}

fn small(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}

fn condition(
    before: &[WorkloadCondition],
    type_: &str,
    holds: bool,
    reason: Option<&str>,
    message: Option<&str>,
    now: Timestamp,
) -> WorkloadCondition {
    let status = if holds { "True" } else { "False" };
    let known = before.iter().find(|known| known.type_ == type_ && known.status == status);
    let now = Some(Time(whole_second(now)));
    WorkloadCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: known.map_or(now, |known| known.last_transition_time.clone()),
        last_update_time: None,
        reason: reason.map(str::to_owned),
        message: message.map(cut),
    }
}

/// Plan where nothing can be decided: to say so, and nothing else.
pub(super) fn faulty(input: &Input<'_>, reason: &'static str, fault: &Fault, now: Timestamp) -> Plan {
    let before = input.united.status.as_ref();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    let text = fault.to_string();
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.united.metadata.generation;
    status.conditions.retain(|known| known.type_ != FAILURE);
    let word = reason.rsplit(' ').next();
    status.conditions.push(condition(known, FAILURE, true, word, Some(&text), now));
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason, text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}

/// Status of one whose newest revision could not be made: the one of before, and why. `None`: it says so.
pub(super) fn unsettled(input: &Input<'_>, now: Timestamp) -> Option<UnitedDeploymentStatus> {
    let text = input.failure?;
    let before = input.united.status.as_ref();
    let mut status = before.cloned().unwrap_or_default();
    // Nobody is to take it for the end of the rollout.
    (status.updated_replicas, status.updated_ready_replicas) = (0, 0);
    let known = std::mem::take(&mut status.conditions);
    let waits = Some("the revision of the newest template could not be made");
    status.conditions = known.iter().filter(|one| one.type_ == PROVISIONED).cloned().collect();
    status.conditions.push(condition(&known, UPDATED, false, None, waits, now));
    status.conditions.push(condition(&known, FAILURE, true, Some("Failed"), Some(text), now));
    status.observed_generation = input.united.metadata.generation;
    (before != Some(&status)).then_some(status)
}
