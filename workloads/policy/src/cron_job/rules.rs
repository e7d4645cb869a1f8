//! Rules of an AdvancedCronJob: its spec, checked, with its defaults.

use berth_proto::crd::{AdvancedCronJob, BroadcastJob, BroadcastJobSpec};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use crate::{broadcast_job, fault::Fault, jobs::Kind, schedule::Schedule};

/// The longest name: a dash and a time follow it in those of jobs.
const LONGEST_NAME: usize = 52;

/// Consequence of a run that goes on when the next one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    Allow,
    Forbid,
    Replace,
}

/// An AdvancedCronJob's spec.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub(crate) name: &'a str,
    pub(crate) schedule: Schedule,
    pub(crate) deadline: Option<i64>,
    pub(crate) concurrency: Concurrency,
    pub(crate) paused: bool,
    pub(crate) keep_succeeded: usize,
    pub(crate) keep_failed: usize,
    pub(crate) kind: Kind,
    pub(crate) template: &'a Map<String, Value>,
    /// Seconds after which a job that is over deletes itself.
    pub(crate) ttl: Option<i64>,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec; the zone is that of schedules that name none.
    pub fn of(job: &'a AdvancedCronJob, zone: &TimeZone) -> Result<Self, Fault> {
        let spec = &job.spec;
        let name = job.metadata.name.as_deref().unwrap_or_default();
        if name.len() > LONGEST_NAME {
            let why = format!("has {} letters: {LONGEST_NAME} leave room for the time of a run", name.len());
            return Err(Fault::new("metadata.name", why));
        }
        let (kind, template) = match (&spec.template.job_template, &spec.template.broadcast_job_template) {
            (Some(job), None) => (Kind::Job, &job.0),
            (None, Some(job)) => (Kind::BroadcastJob, &job.0),
            _ => {
                let why = "has not exactly one of jobTemplate and broadcastJobTemplate: give one of them";
                return Err(Fault::new("spec.template", why));
            }
        };
        let concurrency = match spec.concurrency_policy.as_deref().unwrap_or_default() {
            "" | "Allow" => Concurrency::Allow,
            "Forbid" => Concurrency::Forbid,
            "Replace" => Concurrency::Replace,
            other => {
                let why = format!("is {other:?}: give Allow, Forbid or Replace");
                return Err(Fault::new("spec.concurrencyPolicy", why));
            }
        };
        let ttl = match kind {
            Kind::BroadcastJob => broadcast(template)?,
            _ => of_job(template)?,
        };
        let number = |field: &str, value: Option<i64>| match value {
            Some(value) if value < 0 => Err(Fault::new(field, format!("is {value}: give 0 or more"))),
            other => Ok(other),
        };
        let limit = |field: &str, value: Option<i32>, default: i64| {
            let limit = number(field, value.map(i64::from))?.unwrap_or(default);
            Ok::<_, Fault>(usize::try_from(limit).unwrap_or(usize::MAX))
        };
        Ok(Self {
            name,
            schedule: Schedule::parse(&spec.schedule, spec.time_zone.as_deref(), zone)?,
            deadline: number("spec.startingDeadlineSeconds", spec.starting_deadline_seconds)?,
            concurrency,
            paused: spec.paused.unwrap_or(false),
            keep_succeeded: limit("spec.successfulJobsHistoryLimit", spec.successful_jobs_history_limit, 3)?,
            keep_failed: limit("spec.failedJobsHistoryLimit", spec.failed_jobs_history_limit, 1)?,
            kind,
            template,
            ttl,
        })
    }

    /// Name of the job of a time.
    pub(crate) fn child(&self, time: Timestamp) -> String {
        format!("{}-{}", self.name, time.as_second())
    }
}

/// Checks the template of a Job.
fn of_job(template: &Map<String, Value>) -> Result<Option<i64>, Fault> {
    let field = "spec.template.jobTemplate.spec";
    let Some(spec) = template.get("spec").and_then(Value::as_object) else {
        return Err(Fault::new(field, "is missing: give the spec of a Job"));
    };
    let policy = spec.get("template").and_then(|pod| pod.get("spec")?.get("restartPolicy")?.as_str());
    if !matches!(policy, Some("Never" | "OnFailure")) {
        let why = "is neither Never nor OnFailure: give one of them";
        return Err(Fault::new(format!("{field}.template.spec.restartPolicy"), why));
    }
    Ok(spec.get("ttlSecondsAfterFinished").and_then(Value::as_i64))
}

/// Checks the template of a BroadcastJob by the rules of that kind.
fn broadcast(template: &Map<String, Value>) -> Result<Option<i64>, Fault> {
    let field = "spec.template.broadcastJobTemplate";
    let spec = template.get("spec").cloned().unwrap_or_default();
    let spec: BroadcastJobSpec = serde_json::from_value(spec).map_err(|error| {
        Fault::new(format!("{field}.spec"), format!("is no spec of a BroadcastJob: {error}"))
    })?;
    let ttl = spec.completion_policy.as_ref().and_then(|policy| policy.ttl_seconds_after_finished);
    let job = BroadcastJob::new("", spec);
    broadcast_job::Rules::of(&job)
        .map_err(|fault| Fault::new(format!("{field}.{}", fault.field), fault.why))?;
    Ok(ttl.map(i64::from))
}
