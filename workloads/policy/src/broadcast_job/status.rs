//! Status of a BroadcastJob.

use berth_proto::crd::{BroadcastJob, BroadcastJobCondition, BroadcastJobStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Input, Pass, Plan, PodState};
use crate::{action::Note, fault::Fault, time::whole_second};

/// Condition: the spec makes no sense.
const INVALID: &str = "InvalidSpec";

/// Phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Paused,
    Completed,
    Failed,
}

/// Pods by what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Pods that run or wait, and were not restarted too often.
    pub(super) active: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
}

impl Phase {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl Pass<'_> {
    /// Counts the pods. One that was restarted too often has failed, and takes its place all the same.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for pod in self.input.pods {
            match pod.state {
                PodState::Succeeded => counts.succeeded += 1,
                PodState::Failed => counts.failed += 1,
                PodState::Active if pod.is_over(self.rules.restart_limit) => {
                    counts.failed += 1;
                }
                PodState::Active if pod.terminating => {}
                PodState::Active => counts.active += 1,
            }
        }
        counts
    }
}

/// End of a job, where its status says that it has ended.
pub(super) fn ended(status: &BroadcastJobStatus) -> Option<Timestamp> {
    let by_phase = [Phase::Completed, Phase::Failed].map(|phase| Some(phase.name()));
    let mut conditions = status.conditions.iter();
    let by_condition = |one: &BroadcastJobCondition| {
        matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True"
    };
    let has_ended = by_phase.contains(&status.phase.as_deref()) || conditions.any(by_condition);
    let at = status.completion_time.as_ref().or(status.start_time.as_ref());
    has_ended.then(|| at.map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

/// Tells whether a job that has ended has failed.
pub(super) fn has_failed(status: &BroadcastJobStatus) -> bool {
    let by_condition = |one: &BroadcastJobCondition| one.type_ == "Failed" && one.status == "True";
    status.phase.as_deref() == Some(Phase::Failed.name()) || status.conditions.iter().any(by_condition)
}

/// Status of a job that runs.
pub(super) fn running(
    job: &BroadcastJob,
    before: &BroadcastJobStatus,
    counts: &Counts,
    desired: usize,
    now: Timestamp,
) -> BroadcastJobStatus {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    BroadcastJobStatus {
        observed_generation: job.metadata.generation,
        conditions: Vec::new(),
        start_time: before.start_time.clone().or_else(|| Some(time(now))),
        completion_time: None,
        active: number(counts.active),
        succeeded: number(counts.succeeded),
        failed: number(counts.failed),
        desired: number(desired),
        phase: Some(Phase::Running.name().to_owned()),
        accepted_failures: None,
    }
}

/// Says what became of the pods of a job, in OpenKruise's words.
pub(super) fn pods(status: &BroadcastJobStatus) -> String {
    format!("{} pods succeeded, {} pods failed", status.succeeded, status.failed)
}

/// Ends a job. The condition's reason is its type, as in OpenKruise.
pub(super) fn end(
    status: &mut BroadcastJobStatus,
    phase: Phase,
    condition: &str,
    text: &str,
    now: Timestamp,
) {
    status.phase = Some(phase.name().to_owned());
    status.completion_time = Some(time(now));
    status.conditions = vec![BroadcastJobCondition {
        type_: condition.to_owned(),
        status: "True".to_owned(),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
        reason: Some(condition.to_owned()),
        message: Some(text.to_owned()),
    }];
}

/// A time as the API keeps it.
fn time(time: Timestamp) -> Time {
    Time(whole_second(time))
}

/// Plan for a job whose spec has a fault: to say so, and nothing else.
pub(super) fn faulty(input: &Input<'_>, fault: &Fault, now: Timestamp) -> Plan {
    let before = input.job.status.as_ref();
    let mut status = before.cloned().unwrap_or_default();
    let text = fault.to_string();
    let known = status.conditions.iter().find(|one| one.type_ == INVALID).cloned();
    let known = known.filter(|known| known.message.as_deref() == Some(&text));
    status.observed_generation = input.job.metadata.generation;
    status.conditions.retain(|one| one.type_ != INVALID);
    status.conditions.push(known.unwrap_or_else(|| BroadcastJobCondition {
        type_: INVALID.to_owned(),
        status: "True".to_owned(),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
        reason: Some(INVALID.to_owned()),
        message: Some(text.clone()),
    }));
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason: INVALID, text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}
