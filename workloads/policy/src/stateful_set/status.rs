//! Status of a StatefulSet.

use berth_proto::crd::AdvancedStatefulSetStatus;
use jiff::Timestamp;

use super::{Input, Member, Pass, Plan};
use crate::{
    action::Note,
    claim_change::CLAIMS_DIFFER,
    clone_set::{condition, unsettled_conditions},
    fault::Fault,
    in_place,
    names::REVISION_LABEL,
    revision::Revision,
};

/// Condition: a pod cannot be made.
const FAILED_CREATE: &str = "FailedCreatePod";
/// Condition: a pod cannot be updated.
pub(super) const FAILED_UPDATE: &str = "FailedUpdatePod";

impl Pass<'_> {
    pub(super) fn status(&self) -> AdvancedStatefulSetStatus {
        let before = self.input.set.status.as_ref();
        let of = |takes: &dyn Fn(&Member<'_>) -> bool| {
            i32::try_from(self.members.values().filter(|member| takes(member)).count()).unwrap_or(i32::MAX)
        };
        let (replicas, ready_anew) = (of(&|_| true), of(&|one| one.ready_anew));
        // One that is being brought to it has it when its node says so by the label.
        let is_of = |one: &Member<'_>, revision: &Revision| {
            one.pod.label(REVISION_LABEL) == revision.name
                && !one.pod.terminating
                && !one.pod.is_in_grace(one.in_place)
        };
        let updated = of(&|one| one.updated && is_of(one, self.live.update));
        let all_updated =
            updated == replicas && replicas == ready_anew && i64::from(replicas) == self.rules.replicas;
        let promoted = all_updated && !self.rules.on_delete;
        let current = if promoted { self.live.update } else { self.live.current };
        let conditions = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let failures = self.input.failures;
        let not_up = in_place::not_up(self.members.values().map(|one| (one.pod, one.in_place)));
        let waits = self.update_waits.as_ref().or(not_up.as_ref());
        let failed = [
            (FAILED_CREATE, failures.scale.as_ref().or(self.create_waits.as_ref())),
            (FAILED_UPDATE, failures.update.as_ref().or(waits)),
            (CLAIMS_DIFFER, self.claims_differ.as_ref()),
        ];
        let collisions = before.and_then(|before| before.collision_count).unwrap_or(0);
        let collisions = collisions.max(self.input.collisions);
        AdvancedStatefulSetStatus {
            observed_generation: self.input.set.metadata.generation,
            replicas,
            ready_replicas: of(&|one| one.pod.is_ready()),
            available_replicas: of(&|one| one.available),
            current_replicas: of(&|one| is_of(one, current)),
            updated_replicas: updated,
            updated_ready_replicas: ready_anew,
            updated_available_replicas: of(&|one| one.available && one.ready_anew),
            current_revision: Some(current.name.clone()),
            update_revision: Some(self.live.update.name.clone()),
            collision_count: Some(collisions),
            label_selector: Some(self.rules.selector.text()),
            conditions: failed
                .into_iter()
                .filter_map(|(type_, message)| Some(condition(conditions, type_, message?, self.now)))
                .collect(),
        }
    }
}

/// Status of a set whose newest revision could not be made: the one of before, and why. `None`: it says so.
pub(super) fn unsettled(input: &Input<'_>, now: Timestamp) -> Option<AdvancedStatefulSetStatus> {
    let (before, failures) = (input.set.status.as_ref(), input.failures);
    // To make a revision is part of the update.
    failures.update.as_ref()?;
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.set.metadata.generation;
    // Nobody is to take it for the end of the rollout.
    (status.updated_replicas, status.updated_ready_replicas, status.updated_available_replicas) = (0, 0, 0);
    let failed = [(FAILED_CREATE, failures.scale.as_ref()), (FAILED_UPDATE, failures.update.as_ref())];
    status.conditions = unsettled_conditions(&status.conditions, failed, now);
    (before != Some(&status)).then_some(status)
}

/// Plan for a set whose spec has a fault: to say so, and nothing else.
pub(super) fn faulty(input: &Input<'_>, fault: &Fault, now: Timestamp) -> Plan {
    let before = input.set.status.as_ref();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    let text = fault.to_string();
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.set.metadata.generation;
    status.conditions =
        [FAILED_CREATE, FAILED_UPDATE].map(|type_| condition(known, type_, &text, now)).into();
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason: "InvalidSpec", text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}
