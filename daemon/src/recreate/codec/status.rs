//! Reports of the policy as the `status` of a ContainerRecreateRequest, and back.

use berth_policy::{ContainerPhase, ContainerProgress, FailureReason, Outcome, RecreateReport, RequestPhase};
use berth_proto::crd::{ContainerRecreateRequestStatus, RecreatePhase, RecreateState};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use crate::base::status::{COMPLETE, FAILED, SUCCEEDED, bounded, next_whole_second, said, whole_second};

/// Condition, and its reason: since when its pod is held not Ready.
const UNREADY: &str = "PreRecreateGrace";
/// Conditions of the agent.
const OWN: [&str; 3] = [COMPLETE, FAILED, UNREADY];

/// The fields of the status that say what the report says, and no others. Times stay as they were while what
/// they are about does.
pub(crate) fn status(
    report: &RecreateReport,
    previous: &ContainerRecreateRequestStatus,
    now: Timestamp,
) -> ContainerRecreateRequestStatus {
    let ended = report.phase == Some(RequestPhase::Completed);
    ContainerRecreateRequestStatus {
        phase: report.phase.map(phase),
        completion_time: ended
            .then(|| previous.completion_time.clone().unwrap_or_else(|| Time(whole_second(now)))),
        message: said(&report.message),
        container_recreate_states: report.containers.iter().map(state).collect(),
        conditions: conditions(report, previous, now),
        ..ContainerRecreateRequestStatus::default()
    }
}

fn conditions(
    report: &RecreateReport,
    previous: &ContainerRecreateRequestStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let condition = |condition_type: &str, reason: &str, message: &str, since: Timestamp| Condition {
        type_: condition_type.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: bounded(message),
        last_transition_time: holds(previous, condition_type)
            .map_or(Time(since), |old| old.last_transition_time.clone()),
        observed_generation: None,
    };
    let outcome = report.outcome.map(|outcome| match outcome {
        Outcome::Complete => condition(COMPLETE, SUCCEEDED, &report.message, whole_second(now)),
        Outcome::Failed(reason) => condition(FAILED, reason.name(), &report.message, whole_second(now)),
    });
    // Rounded up: after a restart the grace is counted from here, and must not be shorter than asked for.
    let unready = report.unready.then(|| condition(UNREADY, UNREADY, "", next_whole_second(now)));
    outcome.into_iter().chain(unready).collect()
}

/// The whole status after `previous` where nobody else merges it: with the assignment, and the conditions of
/// others.
pub(crate) fn merged(
    report: &RecreateReport,
    previous: &ContainerRecreateRequestStatus,
    now: Timestamp,
) -> ContainerRecreateRequestStatus {
    let mut whole = status(report, previous, now);
    whole.node_name.clone_from(&previous.node_name);
    whole.pod_uid.clone_from(&previous.pod_uid);
    whole.container_status_contexts.clone_from(&previous.container_status_contexts);
    whole.conditions.extend(previous.conditions.iter().filter(|condition| !is_own(condition)).cloned());
    whole
}

/// Keeps the part of a status that the agent may have written.
pub(crate) fn own(status: &ContainerRecreateRequestStatus) -> ContainerRecreateRequestStatus {
    let mut own = status.clone();
    own.conditions.retain(is_own);
    own.conditions.iter_mut().for_each(|condition| condition.observed_generation = None);
    own.node_name = None;
    own.pod_uid = None;
    own.container_status_contexts.clear();
    own
}

fn is_own(condition: &Condition) -> bool {
    OWN.contains(&condition.type_.as_str())
}

/// Reads a status as a report of the policy, whoever wrote it.
pub(crate) fn read(status: &ContainerRecreateRequestStatus) -> RecreateReport {
    RecreateReport {
        phase: status.phase.and_then(request_phase),
        message: status.message.clone().unwrap_or_default(),
        containers: status.container_recreate_states.iter().map(progress).collect(),
        outcome: outcome(status),
        unready: holds(status, UNREADY).is_some(),
    }
}

/// Returns how the request ended; `None` before its end.
pub(crate) fn outcome(status: &ContainerRecreateRequestStatus) -> Option<Outcome> {
    let failed = holds(status, FAILED).map(|failed| Outcome::Failed(FailureReason::named(&failed.reason)));
    failed.or_else(|| holds(status, COMPLETE).map(|_| Outcome::Complete))
}

/// Returns whether the request is over, whoever wrote that.
pub(crate) fn has_ended(status: &ContainerRecreateRequestStatus) -> bool {
    status.completion_time.is_some() || status.phase == Some(RecreatePhase::Completed)
}

/// Time since which the pod is held not Ready: the grace goes on after a restart, it does not begin anew.
pub(super) fn unready_since(status: &ContainerRecreateRequestStatus) -> Option<Timestamp> {
    holds(status, UNREADY).map(|condition| condition.last_transition_time.0)
}

/// The condition of this type, if it is True.
fn holds<'a>(status: &'a ContainerRecreateRequestStatus, condition_type: &str) -> Option<&'a Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == condition_type && condition.status == "True")
}

/// The phase of a request, as it is written.
pub(super) fn phase(phase: RequestPhase) -> RecreatePhase {
    match phase {
        RequestPhase::Pending => RecreatePhase::Pending,
        RequestPhase::Recreating => RecreatePhase::Recreating,
        RequestPhase::Completed => RecreatePhase::Completed,
    }
}

fn request_phase(phase: RecreatePhase) -> Option<RequestPhase> {
    match phase {
        RecreatePhase::Pending => Some(RequestPhase::Pending),
        RecreatePhase::Recreating => Some(RequestPhase::Recreating),
        RecreatePhase::Completed => Some(RequestPhase::Completed),
        // Only containers have these.
        RecreatePhase::Succeeded | RecreatePhase::Failed => None,
    }
}

/// The phase of a container, as it is written.
pub(super) fn container_phase(phase: ContainerPhase) -> RecreatePhase {
    match phase {
        ContainerPhase::Pending => RecreatePhase::Pending,
        ContainerPhase::Recreating => RecreatePhase::Recreating,
        ContainerPhase::Succeeded => RecreatePhase::Succeeded,
        ContainerPhase::Failed => RecreatePhase::Failed,
    }
}

fn state(progress: &ContainerProgress) -> RecreateState {
    RecreateState {
        name: progress.name.as_str().to_owned(),
        phase: container_phase(progress.phase),
        message: said(&progress.message),
        is_killed: progress.killed,
    }
}

fn progress(state: &RecreateState) -> ContainerProgress {
    ContainerProgress {
        name: state.name.as_str().into(),
        phase: match state.phase {
            RecreatePhase::Pending => ContainerPhase::Pending,
            RecreatePhase::Recreating => ContainerPhase::Recreating,
            // Completed is not for containers.
            RecreatePhase::Succeeded | RecreatePhase::Completed => ContainerPhase::Succeeded,
            RecreatePhase::Failed => ContainerPhase::Failed,
        },
        message: state.message.clone().unwrap_or_default(),
        killed: state.is_killed,
    }
}
