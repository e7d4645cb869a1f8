//! AdvancedCronJob: the next writes that make a job of it at each time of its schedule.
//!
//! ```text
//!   status on file ▶ what is decided ▶ history ▶ times that are due: make the newest, tell the rest ▶ status
//! ```
//!
//! OpenKruise takes the time of the last run from the jobs that are left: a job that is deleted is run again,
//! and none at all is run after a hundred missed ones. Here the status says up to which time all is decided,
//! and never goes back. A job's name has its time in it, so one time has one job; nothing is deleted before
//! the status has its time. A job that deletes itself could be gone before anybody has seen it: its time is
//! on file before it is made, and where nobody can know whether it was made, it counts as missed.

mod build;
mod child;
mod history;
mod rules;
mod status;

#[cfg(test)]
mod tests;

use std::time::Duration;

use berth_proto::crd::{AdvancedCronJob, AdvancedCronJobStatus, StartingRun};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

pub use self::{
    child::{ChildState, ChildView},
    rules::Rules,
};
use self::{rules::Concurrency, status::Missed};
use crate::{
    action::Note,
    jobs::{Action, Kind, Plan as JobPlan},
    time::until,
};

/// Group and version of the kind.
pub const API_VERSION: &str = "apps.kruise.io/v1alpha1";
/// The kind.
pub const KIND: &str = "AdvancedCronJob";
/// Annotation of a job: the time that it was made for.
pub const SCHEDULED_AT: &str = "apps.kruise.io/scheduled-at";
/// Missed times that are counted.
const MOST_COUNTED: i32 = 100;
/// Clocks of two replicas are this far apart at most.
const SKEW: Duration = Duration::from_secs(60);
/// A schedule without a next time is looked at again after it.
const NEVER: Duration = Duration::from_secs(86_400);

/// Writes that are due.
pub type Plan = JobPlan<AdvancedCronJobStatus>;

/// An AdvancedCronJob, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The job.
    pub job: &'a AdvancedCronJob,
    /// Jobs that it owns.
    pub children: &'a [&'a ChildView],
    /// Zone of schedules that name none.
    pub zone: &'a TimeZone,
    /// Name of a job that the API server has refused to make: it is not there.
    pub refused: Option<&'a str>,
}

/// State of a pass.
struct Pass<'a> {
    input: &'a Input<'a>,
    rules: &'a Rules<'a>,
    now: Timestamp,
    /// The last time that a run was made for.
    last: Option<Timestamp>,
    /// Time up to which all is decided.
    decided: Timestamp,
    starting: Option<StartingRun>,
    missed: Option<Missed>,
    /// The schedule has no next time, where that was asked.
    ends: Option<bool>,
    plan: Plan,
}

/// Decides on the next writes.
pub fn plan(input: &Input<'_>, now: Timestamp) -> Plan {
    // One that is going is left to the garbage collector, with its jobs.
    if input.job.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let rules = match Rules::of(input.job, input.zone) {
        Ok(rules) => rules,
        Err(fault) => return status::faulty(input, &fault, now),
    };
    let before = input.job.status.as_ref();
    let recorded = before.and_then(|status| status.last_schedule_time.as_ref()).map(|time| time.0);
    let horizon = now.checked_add(SKEW).unwrap_or(now);
    let made = input.children.iter().filter_map(|child| child.scheduled_at).filter(|time| *time <= horizon);
    let last = made.max().max(recorded);
    let created = input.job.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let decided = before.and_then(|status| status.decided_until.as_ref()).map(|time| time.0);
    let mut pass = Pass {
        input,
        rules: &rules,
        now,
        last,
        decided: decided.max(last).map_or(created, |decided| decided.max(created)),
        starting: before.and_then(|status| status.starting.clone()),
        missed: None,
        ends: None,
        plan: Plan::default(),
    };
    // What was made is on file before anything is deleted or made after it.
    if last > recorded {
        pass.starting = None;
        pass.plan.status_first = true;
        pass.plan.again = Some(Duration::ZERO);
    } else {
        pass.settle_starting();
        pass.shorten_history();
        if !rules.paused {
            pass.run();
        }
    }
    let status = pass.status();
    let mut plan = pass.plan;
    if before == Some(&status) {
        plan.status_first = false;
    } else {
        plan.status = Some(status);
    }
    plan
}

impl Pass<'_> {
    /// Decides on a run that was being made, and is not seen.
    fn settle_starting(&mut self) {
        let Some(starting) = &self.starting else { return };
        let (Some(time), Some(since)) = (&starting.schedule_time, &starting.since) else {
            self.starting = None;
            return;
        };
        let (time, since) = (time.0, since.0);
        if time <= self.decided {
            self.starting = None;
            return;
        }
        let refused = self.input.refused == Some(self.rules.child(time).as_str());
        // By whichever replica's clock: it cannot be gone yet, so it was not made.
        let lives = self.rules.ttl.is_none_or(|seconds| until(since, seconds, self.now) > SKEW);
        if !refused && !lives {
            let why = "whether it was made cannot be known: it may be gone already";
            self.miss(Missed { first: time, last: time, count: 1, why });
            self.starting = None;
        }
    }

    /// Makes the newest run that is due, and tells of those before it.
    fn run(&mut self) {
        let schedule = &self.rules.schedule;
        // A clock that went back, or another replica's: nothing is due.
        let due = schedule.last(self.decided, self.now);
        if self.decided > self.now.checked_add(SKEW).unwrap_or(self.now) {
            self.plan.notes.push(ahead(self.decided));
        }
        let next = schedule.next(due.map_or(self.decided, |due| due.max(self.decided)));
        self.ends = Some(next.is_none());
        self.again(next.map_or(NEVER, |next| until(next, 0, self.now)));
        let Some(time) = due else { return };
        if let Some(seconds) = self.rules.deadline {
            let end = time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
            if end < self.now {
                let why = "startingDeadlineSeconds were over before they could begin";
                if let Some(missed) = self.missed_in(time, true, why) {
                    self.miss(missed);
                }
                return;
            }
            self.again(until(end, 1, self.now));
        }
        let mut active = self.input.children.iter().filter(|child| child.state == ChildState::Active);
        match self.rules.concurrency {
            Concurrency::Forbid if active.next().is_some() => return,
            Concurrency::Replace => {
                let going = active.filter(|child| !child.terminating);
                let deletes = going.map(|child| Action::Delete(child.kind, child.target()));
                self.plan.actions.extend(deletes);
            }
            Concurrency::Forbid | Concurrency::Allow => {}
        }
        if let Some(missed) = self.missed_in(time, false, "a later run was due already") {
            self.miss(missed);
        }
        let is_known = self
            .starting
            .as_ref()
            .and_then(|one| one.schedule_time.as_ref())
            .is_some_and(|one| one.0 == time);
        if self.rules.ttl.is_none() {
            self.starting = None;
        } else if !is_known {
            let since = Some(status::seconds(self.now));
            self.starting = Some(StartingRun { schedule_time: Some(status::seconds(time)), since });
            self.plan.status_first = true;
        }
        let object = build::child(self.rules, self.input.job, time);
        self.plan.actions.push(Action::Create(self.rules.kind, object));
    }

    /// Times after what is decided and before this one, or with it.
    fn missed_in(&self, time: Timestamp, with: bool, why: &'static str) -> Option<Missed> {
        let schedule = &self.rules.schedule;
        let end = if with { time } else { time.checked_sub(SignedDuration::from_secs(1)).ok()? };
        let last = schedule.last(self.decided, end)?;
        let first = schedule.next(self.decided)?;
        let (mut count, mut at) = (1, first);
        while at < last && count <= MOST_COUNTED {
            at = schedule.next(at)?;
            count += 1;
        }
        Some(Missed { first, last, count, why })
    }

    /// Counts runs as missed: they are decided, and that is on file before anything is made.
    fn miss(&mut self, mut missed: Missed) {
        self.decided = self.decided.max(missed.last);
        self.plan.status_first = true;
        self.plan.notes.push(missed.note());
        if let Some(before) = &self.missed {
            missed.first = before.first.min(missed.first);
            missed.count = before.count.saturating_add(missed.count);
        }
        self.missed = Some(missed);
    }

    fn again(&mut self, after: Duration) {
        // A timer that fires a moment early finds nothing due: one more millisecond.
        let after = after.saturating_add(Duration::from_millis(1));
        self.plan.again = Some(self.plan.again.map_or(after, |again| again.min(after)));
    }
}

/// A clock was far ahead when it was decided up to this time. No time is run twice, so none is run before.
fn ahead(decided: Timestamp) -> Note {
    let text = format!(
        "nothing is run before {decided}, up to which all is decided: a clock was ahead; correct lastScheduleTime and \
         decidedUntil of the status, or wait"
    );
    Note { warning: true, reason: "DecidedAhead", text }
}

impl Missed {
    fn note(&self) -> Note {
        let (reason, count) = if self.count > MOST_COUNTED {
            ("TooManyMissedTimes", format!("more than {MOST_COUNTED} runs"))
        } else {
            ("MissSchedule", format!("{} run{}", self.count, if self.count == 1 { "" } else { "s" }))
        };
        let text = format!("missed {count} from {} to {}: {}", self.first, self.last, self.why);
        Note { warning: true, reason, text }
    }
}

/// Kinds of jobs that an AdvancedCronJob makes.
pub const KINDS: [Kind; 2] = [Kind::Job, Kind::BroadcastJob];
