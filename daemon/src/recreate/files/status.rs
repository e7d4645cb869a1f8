//! What the policy says of a request, as the `status` of a `ContainerRecreateRequest`, and back.

use berth_policy::{ContainerPhase, ContainerProgress, Outcome, RecreateReport, RequestPhase};
use berth_proto::crd::{ContainerRecreateRequestStatus, RecreatePhase, RecreateState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub(super) use crate::recreate::status::unready_since;
use crate::{
    base::status::{bounded, said, whole_second},
    recreate::status::{COMPLETE, FAILED, SUCCEEDED, UNREADY, holds, phase, request_phase, state},
};

/// The file cannot be followed as it is now.
const ACCEPTED: &str = "Accepted";
/// The reasons of [`FAILED`] that the policy has; one that is none of them was written by another version.
const REASONS: [&str; 3] = ["DeadlineExceeded", "PodGone", "ContainerFailed"];

/// The status after `previous` that says what the report says. The assignment stays as it is, and so does the time of what
/// did not change.
pub(super) fn written(
    previous: &ContainerRecreateRequestStatus,
    report: &RecreateReport,
    now: Timestamp,
) -> ContainerRecreateRequestStatus {
    let mut status = previous.clone();
    status.phase = report.phase.map(phase);
    status.completion_time = match report.phase {
        Some(RequestPhase::Completed) => previous.completion_time.clone().or_else(|| Some(time(now))),
        Some(RequestPhase::Pending | RequestPhase::Recreating) | None => None,
    };
    status.message = said(&report.message);
    status.container_recreate_states = report.containers.iter().map(state).collect();
    let (complete, failed) = match report.outcome {
        Some(Outcome::Complete) => (Some(SUCCEEDED), None),
        Some(Outcome::Failed(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let grace = report.unready.then_some(UNREADY);
    for (kind, reason) in [(COMPLETE, complete), (FAILED, failed), (UNREADY, grace)] {
        // The grace is counted from here after a restart, and must not be shorter than asked for: rounded up.
        let (message, now) = match kind {
            UNREADY => ("", whole_second(now, true)),
            _ => (report.message.as_str(), now),
        };
        put(&mut status.conditions, kind, reason.map(|reason| ("True", reason, message)), now);
    }
    status
}

/// Reads the status as a report of the policy.
pub(super) fn read(status: &ContainerRecreateRequestStatus) -> RecreateReport {
    RecreateReport {
        phase: status.phase.and_then(request_phase),
        message: status.message.clone().unwrap_or_default(),
        containers: status.container_recreate_states.iter().map(progress).collect(),
        outcome: outcome(status).map(|(outcome, _)| outcome),
        unready: unready_since(status).is_some(),
    }
}

/// How the request ended, with the reason as it is written; `None` before its end.
pub(super) fn outcome(status: &ContainerRecreateRequestStatus) -> Option<(Outcome, &str)> {
    match (holds(status, COMPLETE), holds(status, FAILED)) {
        (_, Some(failed)) => {
            let known = REASONS.into_iter().find(|reason| *reason == failed.reason);
            Some((Outcome::Failed(known.unwrap_or(FAILED)), &failed.reason))
        }
        (Some(complete), None) => Some((Outcome::Complete, &complete.reason)),
        (None, None) => None,
    }
}

/// Says why the file is not followed as it is now, or takes that back.
pub(super) fn objection(
    status: &mut ContainerRecreateRequestStatus,
    reason: Option<(&str, &str)>,
    now: Timestamp,
) {
    put(&mut status.conditions, ACCEPTED, reason.map(|(reason, message)| ("False", reason, message)), now);
}

/// Why the file is not followed as it is now.
pub(super) fn objected(status: &ContainerRecreateRequestStatus) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == ACCEPTED && condition.status == "False")
}

fn put(conditions: &mut Vec<Condition>, kind: &str, value: Option<(&str, &str, &str)>, now: Timestamp) {
    let Some((status, reason, message)) = value else {
        conditions.retain(|condition| condition.type_ != kind);
        return;
    };
    let place = conditions.iter().position(|condition| condition.type_ == kind);
    let since = place.map(|place| &conditions[place]).filter(|before| before.status == status);
    let condition = Condition {
        last_transition_time: since.map_or_else(|| time(now), |before| before.last_transition_time.clone()),
        message: bounded(message),
        observed_generation: None,
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: kind.to_owned(),
    };
    match place {
        Some(place) => conditions[place] = condition,
        None => conditions.push(condition),
    }
}

/// Whole seconds, as the API writes them: so what is remembered is what is on the disk.
fn time(now: Timestamp) -> Time {
    Time(whole_second(now, false))
}

fn progress(state: &RecreateState) -> ContainerProgress {
    ContainerProgress {
        name: state.name.as_str().into(),
        phase: match state.phase {
            RecreatePhase::Pending => ContainerPhase::Pending,
            // Containers do not have `Completed`.
            RecreatePhase::Recreating | RecreatePhase::Completed => ContainerPhase::Recreating,
            RecreatePhase::Succeeded => ContainerPhase::Succeeded,
            RecreatePhase::Failed => ContainerPhase::Failed,
        },
        message: state.message.clone().unwrap_or_default(),
        killed: state.is_killed,
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::StatusContext;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn container(name: &str, phase: ContainerPhase, message: &str, killed: bool) -> ContainerProgress {
        ContainerProgress { name: name.into(), phase, message: message.to_owned(), killed }
    }

    fn reports() -> Vec<RecreateReport> {
        let begun = RecreateReport {
            phase: Some(RequestPhase::Recreating),
            containers: vec![
                container("app", ContainerPhase::Recreating, "stopping", true),
                container("log", ContainerPhase::Pending, "", false),
            ],
            unready: true,
            ..RecreateReport::default()
        };
        let complete = RecreateReport {
            phase: Some(RequestPhase::Completed),
            containers: vec![container("app", ContainerPhase::Succeeded, "", true)],
            outcome: Some(Outcome::Complete),
            ..RecreateReport::default()
        };
        let failed = RecreateReport {
            phase: Some(RequestPhase::Completed),
            message: "pod has gone".to_owned(),
            containers: vec![container("app", ContainerPhase::Failed, "pod has gone", false)],
            outcome: Some(Outcome::Failed("PodGone")),
            unready: false,
        };
        let queued = RecreateReport {
            phase: Some(RequestPhase::Pending),
            message: "waits for request shop/other".to_owned(),
            ..RecreateReport::default()
        };
        vec![RecreateReport::default(), queued, begun, complete, failed]
    }

    #[test]
    fn a_report_that_was_written_reads_the_same_whatever_was_there() {
        for before in reports() {
            let previous = written(&ContainerRecreateRequestStatus::default(), &before, at(0));
            for report in reports() {
                assert_eq!(read(&written(&previous, &report, at(9))), report, "after {before:?}");
            }
        }
    }

    #[test]
    fn what_did_not_change_keeps_its_time_and_the_assignment_stays() {
        let assigned = ContainerRecreateRequestStatus {
            pod_uid: Some("u-1".to_owned()),
            container_status_contexts: vec![StatusContext { name: "app".to_owned(), ..Default::default() }],
            ..ContainerRecreateRequestStatus::default()
        };
        let [_, _, begun, complete, failed] = <[RecreateReport; 5]>::try_from(reports()).unwrap();
        let first = written(&assigned, &begun, at(0));
        let second = written(&first, &begun, at(5));
        assert_eq!(first, second, "the same again is no change");
        assert_eq!(unready_since(&second), Some(at(0)));
        let done = written(&second, &complete, at(7));
        assert_eq!(done.completion_time, Some(Time(at(7))));
        assert_eq!((unready_since(&done), outcome(&done)), (None, Some((Outcome::Complete, "Succeeded"))));
        assert_eq!(written(&done, &complete, at(8)), done);
        assert_eq!(done.pod_uid.as_deref(), Some("u-1"));
        assert_eq!(done.container_status_contexts, assigned.container_status_contexts);
        let mut failed = written(&first, &failed, at(9));
        assert_eq!(outcome(&failed), Some((Outcome::Failed("PodGone"), "PodGone")));
        assert_eq!(failed.conditions[0].message, "pod has gone");
        failed.conditions[0].reason = "OfTomorrow".to_owned();
        assert_eq!(outcome(&failed), Some((Outcome::Failed(FAILED), "OfTomorrow")));
    }

    #[test]
    fn an_objection_comes_and_goes_beside_the_rest() {
        let mut status = written(&ContainerRecreateRequestStatus::default(), &reports()[2], at(0));
        let plain = status.clone();
        objection(&mut status, Some(("SpecChanged", "no")), at(1));
        objection(&mut status, Some(("SpecChanged", "no, really")), at(2));
        let said = objected(&status).unwrap();
        assert_eq!((said.message.as_str(), &said.last_transition_time), ("no, really", &Time(at(1))));
        let reported = written(&status, &reports()[3], at(3));
        assert!(objected(&reported).is_some(), "a report leaves it");
        objection(&mut status, None, at(4));
        assert_eq!(status, plain);
    }
}
