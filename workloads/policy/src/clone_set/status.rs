//! Status of a CloneSet.

use berth_proto::crd::{CloneSetStatus, WorkloadCondition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Input, Pass, Plan};
use crate::{action::Note, claim_change::CLAIMS_DIFFER, fault::Fault, in_place, time::whole_second};

/// Condition: pods cannot be made or deleted.
const FAILED_SCALE: &str = "FailedScale";
/// Condition: pods cannot be updated.
const FAILED_UPDATE: &str = "FailedUpdate";
/// The longest message of a condition.
const LONGEST_MESSAGE: usize = 1024;

impl Pass<'_> {
    pub(super) fn status(&self) -> CloneSetStatus {
        let before = self.input.set.status.as_ref();
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let of = |takes: fn(&super::Member<'_>) -> bool| {
            number(self.members.iter().filter(|member| takes(member)).count())
        };
        let (replicas, updated) = (of(|_| true), of(|one| one.updated && one.labelled && !one.lost));
        // Before all pods are there, that all of them are new says nothing.
        let all_updated = updated == replicas && i64::from(replicas) == self.rules.replicas;
        let current = if all_updated { self.live.update } else { self.live.current };
        let failures = self.input.failures;
        let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let not_up = in_place::not_up(self.members.iter().map(|one| (one.pod, one.in_place)));
        let waits = self.waits.as_ref().or(not_up.as_ref());
        let failed = [
            (FAILED_SCALE, failures.scale.as_ref().or(self.short_lived.why.as_ref())),
            (FAILED_UPDATE, failures.update.as_ref().or(waits)),
            (CLAIMS_DIFFER, self.claims_differ.as_ref()),
        ];
        let collisions = before.and_then(|before| before.collision_count).unwrap_or(0);
        let collisions = collisions.max(self.input.collisions);
        CloneSetStatus {
            observed_generation: self.input.set.metadata.generation,
            replicas,
            ready_replicas: of(|one| one.ready),
            available_replicas: of(|one| one.available),
            updated_replicas: updated,
            updated_ready_replicas: of(|one| one.ready_anew),
            updated_available_replicas: of(|one| one.available && one.ready_anew),
            expected_updated_replicas: i32::try_from(self.rules.replicas - self.rules.partition).unwrap_or(0),
            update_revision: Some(self.live.update.name.clone()),
            current_revision: Some(current.name.clone()),
            collision_count: Some(collisions),
            label_selector: Some(self.rules.selector.text()),
            conditions: failed
                .into_iter()
                .filter_map(|(type_, message)| Some(condition(known, type_, message?, self.now)))
                .collect(),
        }
    }
}

/// A condition that is True, since it is so.
pub(crate) fn condition(
    before: &[WorkloadCondition],
    type_: &str,
    message: &str,
    now: Timestamp,
) -> WorkloadCondition {
    let message: String = message.chars().take(LONGEST_MESSAGE).collect();
    let known = before.iter().find(|known| known.type_ == type_ && known.status == "True");
    let now = Some(Time(whole_second(now)));
    let is_same = known.is_some_and(|known| known.message.as_deref() == Some(&message));
    WorkloadCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: known.map_or_else(|| now.clone(), |known| known.last_transition_time.clone()),
        last_update_time: known.filter(|_| is_same).map_or(now, |known| known.last_update_time.clone()),
        reason: None,
        message: Some(message),
    }
}

/// Conditions while the newest revision is still to be made: failures, and what was said of claims.
pub(crate) fn unsettled_conditions(
    before: &[WorkloadCondition],
    failed: [(&str, Option<&String>); 2],
    now: Timestamp,
) -> Vec<WorkloadCondition> {
    let failed =
        failed.into_iter().filter_map(|(type_, message)| Some(condition(before, type_, message?, now)));
    failed.chain(before.iter().filter(|one| one.type_ == CLAIMS_DIFFER).cloned()).collect()
}

/// Status of a set whose newest revision could not be made: the one of before, and why. `None`: it says so.
pub(super) fn unsettled(input: &Input<'_>, now: Timestamp) -> Option<CloneSetStatus> {
    let (before, failures) = (input.set.status.as_ref(), input.failures);
    // To make a revision is part of the update.
    failures.update.as_ref()?;
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.set.metadata.generation;
    // Nobody is to take it for the end of the rollout.
    (status.updated_replicas, status.updated_ready_replicas, status.updated_available_replicas) = (0, 0, 0);
    let failed = [(FAILED_SCALE, failures.scale.as_ref()), (FAILED_UPDATE, failures.update.as_ref())];
    status.conditions = unsettled_conditions(&status.conditions, failed, now);
    (before != Some(&status)).then_some(status)
}

/// Plan for a set whose spec has a fault: to say so, and nothing else.
pub(super) fn faulty(input: &Input<'_>, fault: &Fault, now: Timestamp) -> Plan {
    let before = input.set.status.as_ref();
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.set.metadata.generation;
    let text = fault.to_string();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    status.conditions = [FAILED_SCALE, FAILED_UPDATE].map(|type_| condition(known, type_, &text, now)).into();
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason: "InvalidSpec", text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}
