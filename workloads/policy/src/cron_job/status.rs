//! Status of an AdvancedCronJob.

use berth_proto::crd::{AdvancedCronJobStatus, MissedRuns};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};

use super::{ChildState, ChildView, Input, MOST_COUNTED, Pass, Plan};
use crate::{action::Note, clone_set::condition, fault::Fault, time::whole_second};

/// Condition: the spec makes no sense.
const INVALID: &str = "InvalidSpec";
/// Condition: the schedule has no next time.
const ENDED: &str = "NoNextTime";
/// The most runs that a status lists.
const MOST_LISTED: usize = 1000;
/// How often runs were missed that a status tells of, besides the last time. With `Forbid` each long run may
/// be one, and an Event of it is gone after an hour.
const MOST_BEFORE: usize = 15;

/// Runs that were missed one after the other.
#[derive(Clone, Debug)]
pub(super) struct Missed {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// One more than are counted: more than that.
    pub(super) count: i32,
    pub(super) why: &'static str,
}

impl Pass<'_> {
    pub(super) fn status(&self) -> AdvancedCronJobStatus {
        let before = self.input.job.status.as_ref();
        let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
        let going = self.input.children.iter().filter(|child| child.state == ChildState::Active);
        let mut active: Vec<ObjectReference> = going.map(|child| reference(child)).collect();
        active.sort_by(|one, other| one.name.cmp(&other.name));
        active.truncate(MOST_LISTED);
        let ends = self.ends.unwrap_or_else(|| known.iter().any(|one| one.type_ == ENDED));
        let text = "the schedule has no time in the next years: correct spec.schedule";
        let ended = ends.then(|| condition(known, ENDED, text, self.now));
        let missed = self.missed.as_ref().map(|missed| MissedRuns {
            first: Some(seconds(missed.first)),
            last: Some(seconds(missed.last)),
            count: missed.count.min(MOST_COUNTED + 1),
            message: Some(missed.why.to_owned()),
        });
        let (missed, missed_before) = with_earlier(before, missed);
        // What was made says itself up to where it is decided.
        let before_decided = before.and_then(|before| before.decided_until.clone());
        let decided = self.missed.as_ref().map(|missed| seconds(missed.last));
        AdvancedCronJobStatus {
            observed_generation: self.input.job.metadata.generation,
            type_: Some(self.rules.kind.name().to_owned()),
            active,
            last_schedule_time: self.last.map(seconds),
            decided_until: before_decided.max(decided),
            starting: self.starting.clone(),
            missed,
            missed_before,
            conditions: ended.into_iter().collect(),
        }
    }
}

/// Runs that were missed last, and those before them.
fn with_earlier(
    before: Option<&AdvancedCronJobStatus>,
    missed: Option<MissedRuns>,
) -> (Option<MissedRuns>, Vec<MissedRuns>) {
    let last = before.and_then(|before| before.missed.clone());
    let earlier = before.map(|before| before.missed_before.clone()).unwrap_or_default();
    match missed {
        None => (last, earlier),
        Some(missed) => (Some(missed), last.into_iter().chain(earlier).take(MOST_BEFORE).collect()),
    }
}

/// A time as the API keeps it.
pub(super) fn seconds(time: Timestamp) -> Time {
    Time(whole_second(time))
}

fn reference(child: &ChildView) -> ObjectReference {
    ObjectReference {
        api_version: Some(child.kind.api_version().to_owned()),
        kind: Some(child.kind.name().to_owned()),
        name: Some(child.name.clone()),
        namespace: Some(child.namespace.clone()),
        uid: Some(child.uid.clone()),
        ..ObjectReference::default()
    }
}

/// Plan for a job whose spec has a fault: to say so, and nothing else.
pub(super) fn faulty(input: &Input<'_>, fault: &Fault, now: Timestamp) -> Plan {
    let before = input.job.status.as_ref();
    let known = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    let text = fault.to_string();
    let mut status = before.cloned().unwrap_or_default();
    status.observed_generation = input.job.metadata.generation;
    status.conditions = vec![condition(known, INVALID, &text, now)];
    let is_new = before != Some(&status);
    let notes = is_new.then_some(Note { warning: true, reason: INVALID, text });
    Plan { status: is_new.then_some(status), notes: notes.into_iter().collect(), ..Plan::default() }
}
