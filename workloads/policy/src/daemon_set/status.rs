//! Status of a DaemonSet, over the nodes that should have a pod.

use berth_proto::crd::AdvancedDaemonSetStatus;
use jiff::Timestamp;

use super::{Input, Member, Pass, Place, Plan};
use crate::{
    action::Note,
    clone_set::{condition, unsettled_conditions},
    fault::Fault,
    in_place,
    names::REVISION_LABEL,
};

/// Condition: the spec makes no sense.
const INVALID: &str = "InvalidSpec";
/// Condition: a pod cannot be made or deleted.
const FAILED_CREATE: &str = "FailedCreatePod";
/// Condition: a pod cannot be updated.
const FAILED_UPDATE: &str = "FailedUpdatePod";

impl Pass<'_> {
    pub(super) fn status(&self) -> AdvancedDaemonSetStatus {
        let before = self.input.set.status.as_ref();
        let of = |takes: &dyn Fn(&Place<'_>) -> bool| {
            i32::try_from(self.places.values().filter(|place| takes(place)).count()).unwrap_or(i32::MAX)
        };
        // As in Kubernetes the oldest pod of a node speaks for it: one that is made beside it by a surge is
        // not the node's before that one is gone.
        let with = |takes: &dyn Fn(&Member<'_>) -> bool| {
            of(&|place| place.should_run && place.active().next().is_some_and(takes))
        };
        let (desired, available) = (of(&|place| place.should_run), with(&|one| one.available));
        // One that is being brought to it has it when its node says so by the label.
        let has_newest = |one: &Member<'_>| {
            one.updated
                && self.live.update.is_of(one.pod.label(REVISION_LABEL))
                && !one.pod.is_in_grace(one.in_place)
        };
        let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let failures = self.input.failures;
        let members = self.places.values().flat_map(Place::active);
        let not_up = in_place::not_up(members.map(|one| (one.pod, one.in_place)));
        let waits = self.update_waits.as_ref().or(not_up.as_ref());
        let failed =
            [(FAILED_CREATE, failures.scale.as_ref()), (FAILED_UPDATE, failures.update.as_ref().or(waits))];
        let collisions = before.and_then(|before| before.collision_count).unwrap_or(0);
        let collisions = collisions.max(self.input.collisions);
        AdvancedDaemonSetStatus {
            observed_generation: self.input.set.metadata.generation,
            desired_number_scheduled: desired,
            current_number_scheduled: with(&|_| true),
            number_misscheduled: of(&|place| {
                place.node.is_some() && !place.should_run && place.active().next().is_some()
            }),
            number_ready: with(&|one| one.pod.is_ready()),
            updated_number_scheduled: with(&has_newest),
            number_available: available,
            number_unavailable: desired.saturating_sub(available),
            collision_count: Some(collisions),
            daemon_set_hash: Some(self.live.update.hash().to_owned()),
            conditions: failed
                .into_iter()
                .filter_map(|(type_, message)| Some(condition(known, type_, message?, self.now)))
                .collect(),
        }
    }
}

/// Status of a set whose newest revision could not be made: the one of before, and why. `None`: it says so.
pub(super) fn unsettled(input: &Input<'_>, now: Timestamp) -> Option<AdvancedDaemonSetStatus> {
    let (before, failures) = (input.set.status.as_ref(), input.failures);
    // To make a revision is part of the update.
    failures.update.as_ref()?;
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.set.metadata.generation;
    // Nobody is to take it for the end of the rollout.
    status.updated_number_scheduled = 0;
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
    status.conditions = vec![condition(known, INVALID, &text, now)];
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason: INVALID, text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}
