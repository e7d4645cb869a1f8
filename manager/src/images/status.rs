//! The status of a job, in OpenKruise's words where it has some.

use std::time::Duration;

use berth_proto::{
    crd::{ImagePullJobStatus, LONGEST_MESSAGE},
    text,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    WRITTEN_EVERY,
    job::Job,
    memory,
    queue::{FEW, MOST},
    rollout::Rollout,
    room::{OF_ALL, OF_ONE},
};
use crate::condition::seconds;

/// More names than that help nobody.
const MOST_NAMES: usize = 100;

/// Nodes of a job whose status is written as often as that of any.
const FEW_NODES: usize = 1000;
/// Longer pauses of larger ones, for each node more: the names of all that have ended are compressed for each
/// status, on the thread that everything shares.
const WRITTEN_FOR_NODE: Duration = Duration::from_micros(400);
/// The status of the largest jobs is written that often.
const WRITTEN_AT_LEAST: Duration = Duration::from_secs(5);

/// Reason of the condition `Accepted` of a job that waits for a Secret, or goes on without it.
pub(super) const SECRET_UNAVAILABLE: &str = "SecretUnavailable";

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All its nodes have ended.
    Ended,
    /// Its own deadline is over.
    DeadlineExceeded,
}

/// Time between two writes of the status of a running job with so many nodes.
pub(super) fn written_every(nodes: usize) -> Duration {
    let more = u32::try_from(nodes.saturating_sub(FEW_NODES)).unwrap_or(u32::MAX);
    WRITTEN_EVERY.saturating_add(WRITTEN_FOR_NODE.saturating_mul(more)).min(WRITTEN_AT_LEAST)
}

/// The status of a job that is carried out.
pub(super) fn running(job: &Job, rollout: &Rollout, now: Timestamp) -> ImagePullJobStatus {
    let mut status = counts(job, rollout, now);
    let progress = match rollout.desired() {
        0 => "no progress".to_owned(),
        desired => {
            let share = 100.0 * f64::from(number(rollout.ended())) / f64::from(number(desired));
            format!("progress {share:.1}%")
        }
    };
    let state = if rollout.plan.parallelism.is_pause() { "paused (parallelism 0)" } else { "running" };
    let keyless = match rollout.keyless() {
        0 => String::new(),
        count => format!("; {count} nodes wait until they have published a sealingKey for the pullSecrets"),
    };
    let crowded = match rollout.crowded().len() {
        0 => String::new(),
        count => format!(
            "; {count} nodes wait for room: in the NodeImage of a node the wishes of a namespace have {} KiB (this one {} KiB), and all \
             together {} KiB; the oldest job is next when others there are over, so delete jobs, or make sandboxConfig smaller",
            OF_ONE >> 10,
            rollout.plan.weight.div_ceil(1 << 10),
            OF_ALL >> 10,
        ),
    };
    let lacks = job.lacks.as_ref().map_or_else(String::new, |(text, _)| format!("; without {text}"));
    let message = format!("job is {state}, {progress}{keyless}{crowded}{lacks}");
    status.message = Some(cut(&message).to_owned());
    status
}

/// The last status of a job.
pub(super) fn ended(job: &Job, rollout: &Rollout, verdict: Verdict, now: Timestamp) -> ImagePullJobStatus {
    let mut status = counts(job, rollout, now);
    status.completion_time = Some(seconds(now));
    let (condition, reason, message, detail) = match verdict {
        Verdict::DeadlineExceeded => {
            // Whoever has not ended has failed, as far as this job goes.
            let unfinished = rollout.desired() - rollout.ended();
            status.active = Some(0);
            status.failed = Some(number(rollout.failed() + unfinished));
            let room = MOST_NAMES.saturating_sub(status.failed_nodes.len());
            status.failed_nodes.extend(rollout.unfinished().take(room).map(ToString::to_string));
            let message = "job exceeds activeDeadlineSeconds";
            ("Failed", "DeadlineExceeded", message, format!("{unfinished} nodes had not ended"))
        }
        Verdict::Ended if rollout.failed() > 0 => {
            let silent = match rollout.silent() {
                0 => String::new(),
                count => format!("; {count} of them: node has not responded"),
            };
            let detail = format!("{} of {} nodes failed{silent}", rollout.failed(), rollout.desired());
            ("Failed", "NodesFailed", "job has completed", detail)
        }
        Verdict::Ended => {
            let detail = format!("{} nodes have the image", rollout.desired());
            ("Complete", "Succeeded", "job has completed", detail)
        }
    };
    status.message = Some(message.to_owned());
    status.conditions.push(condition_of(job, condition, true, reason, &detail, now));
    status
}

/// The status of a job that is not carried out, or not yet: then its nodes are counted. If not, what was
/// counted before stays.
pub(super) fn refused(
    job: &Job,
    rollout: Option<&Rollout>,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> ImagePullJobStatus {
    let counted = rollout.map_or_else(|| job.shown.clone(), |rollout| counts(job, rollout, now));
    ImagePullJobStatus {
        message: Some(cut(message).to_owned()),
        conditions: vec![condition_of(job, "Accepted", false, reason, cut(message), now)],
        ..counted
    }
}

/// The status of a job that waits for its turn. Of one that had it under another manager, what was counted
/// stays.
pub(super) fn waiting(job: &Job, now: Timestamp) -> ImagePullJobStatus {
    let accepted = "the job waits for older jobs of its namespace";
    ImagePullJobStatus {
        message: Some(format!(
            "job waits for older jobs of its namespace: {MOST} are carried out at a time, {FEW} while the jobs of the \
             cluster have too many nodes together, and the oldest that waits begins when one of them is over; delete \
             jobs that are not needed",
        )),
        conditions: vec![condition_of(job, "Accepted", true, "Accepted", accepted, now)],
        ..job.shown.clone()
    }
}

/// A message cut to the length it may have.
pub(super) fn cut(text: &str) -> &str {
    text::cut(text, LONGEST_MESSAGE)
}

fn counts(job: &Job, rollout: &Rollout, now: Timestamp) -> ImagePullJobStatus {
    let ended_nodes = memory::write(rollout.memory());
    ImagePullJobStatus {
        start_time: job.start.map(seconds),
        completion_time: None,
        desired: Some(number(rollout.desired())),
        active: Some(number(rollout.active())),
        succeeded: Some(number(rollout.ended() - rollout.failed())),
        failed: Some(number(rollout.failed())),
        message: None,
        failed_nodes: rollout.failed_nodes().take(MOST_NAMES).map(ToString::to_string).collect(),
        ended_nodes_time: ended_nodes_time(job, ended_nodes.as_ref(), now),
        ended_nodes,
        conditions: vec![match &job.lacks {
            None => condition_of(job, "Accepted", true, "Accepted", "the job is carried out", now),
            Some((text, _)) => condition_of(job, "Accepted", true, SECRET_UNAVAILABLE, cut(text), now),
        }],
    }
}

/// The same nodes have the same time: writing a status once more changes nothing.
fn ended_nodes_time(job: &Job, ended_nodes: Option<&String>, now: Timestamp) -> Option<Time> {
    let shown = job.shown.ended_nodes_time.clone().filter(|_| job.shown.ended_nodes.as_ref() == ended_nodes);
    ended_nodes.map(|_| shown.unwrap_or_else(|| seconds(now)))
}

fn condition_of(
    job: &Job,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Condition {
    let status = if holds { "True" } else { "False" };
    let shown = job.shown.conditions.iter().find(|shown| shown.type_ == kind && shown.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: shown.map_or_else(|| seconds(now), |shown| shown.last_transition_time.clone()),
        observed_generation: None,
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_nodes(0, 500)]
    #[case::as_many_as_most_have(1_000, 500)]
    #[case::of_a_large_cluster(5_000, 2_100)]
    #[case::as_many_as_there_can_be(usize::MAX, 5_000)]
    fn a_status_of_many_nodes_is_written_less_often(#[case] nodes: usize, #[case] millis: u64) {
        assert_eq!(written_every(nodes), Duration::from_millis(millis));
    }
}
