//! Rules of a BroadcastJob: its spec, checked, with its defaults.

use berth_proto::crd::BroadcastJob;
use serde_json::{Map, Value};

use super::{NAME_LABEL, UID_LABEL};
use crate::{amount::Amount, clone_set::template_labels, daemon_set::fit, fault::Fault};

/// Consequence of a pod that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFailure {
    Continue,
    FailFast,
    Pause,
}

/// A BroadcastJob's spec. A share is of the nodes that fit.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    pub(super) template: &'a Map<String, Value>,
    pub(super) parallelism: Amount,
    pub(super) paused: bool,
    /// It goes on serving new nodes.
    pub(super) never: bool,
    pub(super) deadline: Option<i64>,
    pub(super) ttl: Option<i64>,
    pub(super) on_failure: OnFailure,
    pub(super) restart_limit: i64,
}

impl<'a> Rules<'a> {
    /// Reads and checks the spec.
    pub fn of(job: &'a BroadcastJob) -> Result<Self, Fault> {
        let spec = &job.spec;
        let template = &spec.template.0;
        let labels = template_labels(template);
        if let Some(label) = [NAME_LABEL, UID_LABEL].into_iter().find(|label| labels.contains_key(*label)) {
            let why = format!("has {label}, which is the controller's: leave it out");
            return Err(Fault::new("spec.template.metadata.labels", why));
        }
        let policy = template.get("spec").and_then(|spec| spec.get("restartPolicy")?.as_str());
        if !matches!(policy, Some("Never" | "OnFailure")) {
            let why = "is neither Never nor OnFailure: give one of them";
            return Err(Fault::new("spec.template.spec.restartPolicy", why));
        }
        fit::check(template)?;
        let completion = spec.completion_policy.as_ref();
        let never = match completion.and_then(|one| one.type_.as_deref()).unwrap_or_default() {
            "" | "Always" => false,
            "Never" => true,
            other => {
                let why = format!("is {other:?}: give Always or Never");
                return Err(Fault::new("spec.completionPolicy.type", why));
            }
        };
        let number = |field: &str, value: Option<i64>| match value {
            Some(value) if value < 0 => Err(Fault::new(field, format!("is {value}: give 0 or more"))),
            Some(_) if never => Err(Fault::new(field, "is only for type Always: leave it out")),
            other => Ok(other),
        };
        let deadline = completion.and_then(|one| one.active_deadline_seconds);
        let ttl = completion.and_then(|one| one.ttl_seconds_after_finished).map(i64::from);
        let failure = spec.failure_policy.as_ref();
        let on_failure = match failure.and_then(|one| one.type_.as_deref()).unwrap_or_default() {
            "" | "FailFast" => OnFailure::FailFast,
            "Continue" => OnFailure::Continue,
            "Pause" => OnFailure::Pause,
            other => {
                let why = format!("is {other:?}: give Continue, FailFast or Pause");
                return Err(Fault::new("spec.failurePolicy.type", why));
            }
        };
        Ok(Self {
            template,
            parallelism: Amount::parse(
                "spec.parallelism",
                spec.parallelism.as_ref(),
                Amount::Number(i64::from(i32::MAX)),
            )?,
            paused: spec.paused.unwrap_or(false),
            never,
            deadline: number("spec.completionPolicy.activeDeadlineSeconds", deadline)?,
            ttl: number("spec.completionPolicy.ttlSecondsAfterFinished", ttl)?,
            on_failure,
            restart_limit: i64::from(failure.and_then(|one| one.restart_limit).unwrap_or(0)).max(0),
        })
    }
}
