//! Status of an update as the policy's report, and back.

use std::{collections::BTreeMap, time::Instant};

use berth_policy::{
    ContainerName,
    in_place_update::{
        Before, ContainerUpdate, ContainerUpdatePhase, Failure, FailureReason, MetadataKey, SwapPhase,
        SwapReport, UpdateOutcome, UpdatePhase, UpdateReport,
    },
};
use berth_proto::crd::{
    ContainerUpdateRequestStatus, DesiredPod, PreviousState, TwinSwapState, TwinSwapStep, UpdateContainer,
    UpdatePhase as Phase, UpdateState, UpdatedPod,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use crate::base::{
    clock::Clock,
    status::{COMPLETE, FAILED, SUCCEEDED, bounded, said, whole_second},
};

/// Condition: since when the pod returns to what it was, with the reason of the failure.
const ROLLING_BACK: &str = "RollingBack";
/// The longest value of an annotation that was there before, in an answer to an entry that does not go back.
/// Nobody needs it, and all answers of a node are in one object.
const LONGEST_UNNEEDED: usize = 1024;

/// Reads the status of a request.
pub(super) fn read(status: &ContainerUpdateRequestStatus, clock: &Clock) -> UpdateReport {
    let holds = |condition_type: &str| {
        let mut conditions = status.conditions.iter();
        conditions.find(|condition| condition.type_ == condition_type && condition.status == "True")
    };
    let reason = |condition: &Condition| FailureReason::named(&condition.reason);
    let failed = holds(FAILED).map(|condition| UpdateOutcome::Failed(reason(condition)));
    UpdateReport {
        phase: status.phase.and_then(request_phase),
        message: status.message.clone().unwrap_or_default(),
        containers: status.container_update_states.iter().map(container).collect(),
        swaps: status.swaps.iter().map(swap).collect(),
        outcome: failed.or_else(|| holds(COMPLETE).map(|_| UpdateOutcome::Complete)),
        rolling_back: holds(ROLLING_BACK).map(|condition| {
            let failure = Failure { reason: reason(condition), message: condition.message.clone() };
            (failure, clock.instant(condition.last_transition_time.0))
        }),
        previous: status.previous.as_ref().map(before),
    }
}

/// The fields of a request's status that are the agent's. Times stay as they were while what they are about
/// does.
pub(super) fn status(
    report: &UpdateReport,
    old: &ContainerUpdateRequestStatus,
    now: Timestamp,
) -> ContainerUpdateRequestStatus {
    let now = whole_second(now);
    let ended = report.phase == Some(UpdatePhase::Ended);
    let condition = |condition_type: &str, reason: &str, message: &str| {
        let same = |old: &&Condition| old.type_ == condition_type && old.status == "True";
        Condition {
            type_: condition_type.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: bounded(message),
            last_transition_time: old
                .conditions
                .iter()
                .find(same)
                .map_or(Time(now), |old| old.last_transition_time.clone()),
            observed_generation: None,
        }
    };
    let outcome = report.outcome.map(|outcome| match outcome {
        UpdateOutcome::Complete => condition(COMPLETE, SUCCEEDED, &report.message),
        UpdateOutcome::Failed(reason) => condition(FAILED, reason.name(), &report.message),
    });
    let back = report.rolling_back.as_ref();
    let back = back.map(|(failure, _)| condition(ROLLING_BACK, failure.reason.name(), &failure.message));
    ContainerUpdateRequestStatus {
        phase: report.phase.map(|phase| match phase {
            UpdatePhase::Pending => Phase::Pending,
            UpdatePhase::Updating => Phase::Updating,
            UpdatePhase::RollingBack => Phase::RollingBack,
            UpdatePhase::Ended => Phase::Completed,
        }),
        completion_time: ended.then(|| old.completion_time.clone().unwrap_or(Time(now))),
        message: said(&report.message),
        container_update_states: report.containers.iter().map(state).collect(),
        swaps: swap_states(report, &old.swaps, now),
        previous: report.previous.as_ref().map(previous),
        conditions: outcome.into_iter().chain(back).collect(),
        ..ContainerUpdateRequestStatus::default()
    }
}

/// Keeps the part of a status that the agent may have written.
pub(super) fn own(status: &ContainerUpdateRequestStatus) -> ContainerUpdateRequestStatus {
    let mut own = status.clone();
    own.conditions.retain(|condition| [COMPLETE, FAILED, ROLLING_BACK].contains(&condition.type_.as_str()));
    own.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
    (own.node_name, own.pod_uid) = (None, None);
    own
}

/// Reads an entry of `NodePodUpdate.status.pods`.
pub(super) fn read_pod(pod: &UpdatedPod, clock: &Clock) -> UpdateReport {
    let reason = pod.reason.as_deref().map(FailureReason::named);
    let message = pod.message.clone().unwrap_or_default();
    let since = pod.since.as_ref().map(|since| clock.instant(since.0));
    UpdateReport {
        phase: match pod.phase {
            Phase::Succeeded | Phase::Failed | Phase::Completed => Some(UpdatePhase::Ended),
            other => request_phase(other),
        },
        containers: pod.containers.iter().map(container).collect(),
        swaps: pod.swaps.iter().map(swap).collect(),
        outcome: match pod.phase {
            Phase::Succeeded | Phase::Completed => Some(UpdateOutcome::Complete),
            Phase::Failed => Some(UpdateOutcome::Failed(reason.unwrap_or(FailureReason::Unknown))),
            Phase::Pending | Phase::Updating | Phase::RollingBack => None,
        },
        rolling_back: match (pod.phase, reason, since) {
            (Phase::RollingBack, Some(reason), Some(since)) => {
                Some((Failure { reason, message: message.clone() }, since))
            }
            _ => None,
        },
        previous: pod.previous.as_ref().map(before),
        message,
    }
}

/// The entry that answers `desired`.
pub(super) fn pod(
    desired: &DesiredPod,
    report: &UpdateReport,
    old: Option<&UpdatedPod>,
    now: Timestamp,
) -> UpdatedPod {
    let phase = match (report.phase, report.outcome) {
        (_, Some(UpdateOutcome::Complete)) => Phase::Succeeded,
        (_, Some(UpdateOutcome::Failed(_))) => Phase::Failed,
        (Some(UpdatePhase::RollingBack), None) => Phase::RollingBack,
        (Some(UpdatePhase::Updating), None) => Phase::Updating,
        (_, None) => Phase::Pending,
    };
    let reason = match (report.outcome, &report.rolling_back) {
        (Some(UpdateOutcome::Failed(reason)), _) => Some(reason),
        (None, Some((failure, _))) => Some(failure.reason),
        (Some(UpdateOutcome::Complete), _) | (None, None) => None,
    };
    let reason = reason.map(|reason| reason.name().to_owned());
    // On the way back the message is why: whoever reads it after a crash goes on with it.
    let message = match (&report.rolling_back, report.outcome) {
        (Some((failure, _)), None) => said(&failure.message),
        _ => said(&report.message),
    };
    let same = old.filter(|old| answers(old, desired) && old.phase == phase);
    UpdatedPod {
        uid: desired.uid.clone(),
        owner: desired.owner.clone(),
        owner_uid: desired.owner_uid.clone(),
        revision: desired.revision.clone(),
        attempt: desired.attempt,
        phase,
        reason,
        message,
        since: Some(same.and_then(|old| old.since.clone()).unwrap_or(Time(whole_second(now)))),
        containers: report.containers.iter().map(state).collect(),
        swaps: swap_states(report, same.map_or(&[], |old| &old.swaps[..]), whole_second(now)),
        previous: report.previous.as_ref().map(|before| {
            let mut previous = previous(before);
            // A swap always goes back.
            let goes_back = desired.rollback_on_failure || !desired.swaps.is_empty();
            let may_go_back = goes_back && report.outcome.is_none();
            previous.annotations.retain(|_, value| may_go_back || value.len() <= LONGEST_UNNEEDED);
            previous
        }),
    }
}

/// Tells whether an entry is about this desired state and no other one.
pub(super) fn answers(pod: &UpdatedPod, desired: &DesiredPod) -> bool {
    pod.uid == desired.uid
        && pod.owner == desired.owner
        && pod.owner_uid == desired.owner_uid
        && pod.revision == desired.revision
        && pod.attempt == desired.attempt
}

/// Tells whether an entry says that the update has ended.
pub(super) fn is_end(pod: &UpdatedPod) -> bool {
    matches!(pod.phase, Phase::Succeeded | Phase::Failed | Phase::Completed)
}

/// Returns when an entry ended.
pub(super) fn ended(pod: &UpdatedPod, clock: &Clock, seen: Instant) -> Option<Instant> {
    is_end(pod).then(|| pod.since.as_ref().map_or(seen, |since| clock.instant(since.0)))
}

fn request_phase(phase: Phase) -> Option<UpdatePhase> {
    match phase {
        Phase::Pending => Some(UpdatePhase::Pending),
        Phase::Updating => Some(UpdatePhase::Updating),
        Phase::RollingBack => Some(UpdatePhase::RollingBack),
        Phase::Completed => Some(UpdatePhase::Ended),
        // Only containers and pods have these.
        Phase::Succeeded | Phase::Failed => None,
    }
}

fn container(state: &UpdateState) -> ContainerUpdate {
    ContainerUpdate {
        name: state.name.as_str().into(),
        phase: match state.phase {
            Phase::Pending => ContainerUpdatePhase::Pending,
            // Neither of the others is for containers.
            Phase::Updating | Phase::RollingBack => ContainerUpdatePhase::Updating,
            Phase::Succeeded | Phase::Completed => ContainerUpdatePhase::Succeeded,
            Phase::Failed => ContainerUpdatePhase::Failed,
        },
        message: state.message.clone().unwrap_or_default(),
    }
}

fn state(update: &ContainerUpdate) -> UpdateState {
    UpdateState {
        name: update.name.as_str().to_owned(),
        phase: match update.phase {
            ContainerUpdatePhase::Pending => Phase::Pending,
            ContainerUpdatePhase::Updating => Phase::Updating,
            ContainerUpdatePhase::Succeeded => Phase::Succeeded,
            ContainerUpdatePhase::Failed => Phase::Failed,
        },
        message: said(&update.message),
    }
}

fn swap(state: &TwinSwapState) -> SwapReport {
    SwapReport {
        name: state.name.clone(),
        working: state.working.as_deref().map(ContainerName::from),
        step: match state.step {
            TwinSwapStep::Pending => SwapPhase::Pending,
            TwinSwapStep::Migrating => SwapPhase::Migrating,
            TwinSwapStep::Emptying => SwapPhase::Emptying,
            TwinSwapStep::Returning => SwapPhase::Returning,
            TwinSwapStep::Done => SwapPhase::Done,
        },
    }
}

/// Times stay as they were while the step does.
fn swap_states(report: &UpdateReport, old: &[TwinSwapState], now: Timestamp) -> Vec<TwinSwapState> {
    let state = |swap: &SwapReport| {
        let step = match swap.step {
            SwapPhase::Pending => TwinSwapStep::Pending,
            SwapPhase::Migrating => TwinSwapStep::Migrating,
            SwapPhase::Emptying => TwinSwapStep::Emptying,
            SwapPhase::Returning => TwinSwapStep::Returning,
            SwapPhase::Done => TwinSwapStep::Done,
        };
        let same = old.iter().find(|old| old.name == swap.name && old.step == step);
        TwinSwapState {
            name: swap.name.clone(),
            working: swap.working.as_ref().map(|twin| twin.as_str().to_owned()),
            step,
            since: same.and_then(|old| old.since.clone()).or(Some(Time(now))),
        }
    };
    report.swaps.iter().map(state).collect()
}

/// The state before an update, as the status of its request has it.
fn before(previous: &PreviousState) -> Before {
    let image = |container: &UpdateContainer| {
        (ContainerName::from(container.name.as_str()), container.image.as_str().into())
    };
    let mut metadata = BTreeMap::new();
    for (key, value) in &previous.labels {
        metadata.insert(MetadataKey::Label(key.clone()), Some(value.clone()));
    }
    for (key, value) in &previous.annotations {
        metadata.insert(MetadataKey::Annotation(key.clone()), Some(value.clone()));
    }
    metadata.extend(previous.missing_labels.iter().map(|key| (MetadataKey::Label(key.clone()), None)));
    metadata
        .extend(previous.missing_annotations.iter().map(|key| (MetadataKey::Annotation(key.clone()), None)));
    Before {
        revision: previous.revision.clone(),
        images: previous.containers.iter().map(image).collect(),
        metadata,
    }
}

/// The same for the status of a request.
fn previous(before: &Before) -> PreviousState {
    let mut previous = PreviousState {
        revision: before.revision.clone(),
        containers: before
            .images
            .iter()
            .map(|(name, image)| UpdateContainer { name: name.as_str().to_owned(), image: image.to_string() })
            .collect(),
        ..PreviousState::default()
    };
    for (key, value) in &before.metadata {
        match (key, value) {
            (MetadataKey::Label(key), Some(value)) => {
                previous.labels.insert(key.clone(), value.clone());
            }
            (MetadataKey::Annotation(key), Some(value)) => {
                previous.annotations.insert(key.clone(), value.clone());
            }
            (MetadataKey::Label(key), None) => previous.missing_labels.push(key.clone()),
            (MetadataKey::Annotation(key), None) => previous.missing_annotations.push(key.clone()),
        }
    }
    previous
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::TwinSwap;

    use super::*;

    /// Names are the same in a status and on the command line.
    #[test]
    fn phases_have_one_name() {
        let name = |phase: Option<Phase>| serde_json::to_value(phase).unwrap();
        for phase in
            [UpdatePhase::Pending, UpdatePhase::Updating, UpdatePhase::RollingBack, UpdatePhase::Ended]
        {
            let report = UpdateReport { phase: Some(phase), ..UpdateReport::default() };
            let status = status(&report, &ContainerUpdateRequestStatus::default(), Timestamp::UNIX_EPOCH);
            assert_eq!(name(status.phase), phase.name());
        }
        use ContainerUpdatePhase::{Failed, Pending, Succeeded, Updating};
        for phase in [Pending, Updating, Succeeded, Failed] {
            let update = ContainerUpdate { name: "main".into(), phase, message: String::new() };
            assert_eq!(name(Some(state(&update).phase)), phase.name());
        }
        let steps = [
            SwapPhase::Pending,
            SwapPhase::Migrating,
            SwapPhase::Emptying,
            SwapPhase::Returning,
            SwapPhase::Done,
        ];
        for step in steps {
            let swaps = vec![SwapReport { name: "mesh".to_owned(), working: None, step }];
            let report = UpdateReport { swaps, ..UpdateReport::default() };
            let states = swap_states(&report, &[], Timestamp::UNIX_EPOCH);
            assert_eq!(serde_json::to_value(states[0].step).unwrap(), step.name());
        }
    }

    /// All answers of a node are in one object: long values of what was there before are in them only as long
    /// as the entry may return to them.
    #[test]
    fn long_values_are_kept_for_the_way_back_alone() {
        let annotation = |key: &str| MetadataKey::Annotation(key.to_owned());
        let long = "x".repeat(LONGEST_UNNEEDED + 1);
        let metadata = [(annotation("long"), Some(long)), (annotation("short"), Some("y".to_owned()))];
        let before = Before { metadata: metadata.into(), ..Before::default() };
        for (goes_back, swaps, outcome, kept) in [
            (true, false, None, 2),
            (true, false, Some(UpdateOutcome::Complete), 1),
            (true, false, Some(UpdateOutcome::Failed(FailureReason::Unknown)), 1),
            (false, false, None, 1),
            (false, true, None, 2),
            (false, true, Some(UpdateOutcome::Complete), 1),
        ] {
            let swaps = if swaps { vec![TwinSwap::default()] } else { Vec::new() };
            let desired = DesiredPod { rollback_on_failure: goes_back, swaps, ..DesiredPod::default() };
            let report = UpdateReport { outcome, previous: Some(before.clone()), ..UpdateReport::default() };
            let answer = pod(&desired, &report, None, Timestamp::UNIX_EPOCH);
            let previous = answer.previous.unwrap_or_default();
            assert_eq!(previous.annotations.len(), kept, "{desired:?} {outcome:?}");
            assert_eq!(previous.annotations["short"], "y");
        }
    }
}
