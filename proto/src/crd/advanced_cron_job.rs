//! `AdvancedCronJob`: a Job or a BroadcastJob at each time of a schedule.

use std::borrow::Cow;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::WorkloadCondition;

/// Makes a Job or a BroadcastJob at each time of a schedule.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "apps.kruise.io",
    version = "v1alpha1",
    kind = "AdvancedCronJob",
    plural = "advancedcronjobs",
    shortname = "acj",
    namespaced,
    doc = "Makes a Job or a BroadcastJob at each time of a schedule.",
    status = "AdvancedCronJobStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Schedule","type":"string","jsonPath":".spec.schedule","description":"When it runs."}"#,
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".status.type","description":"What it makes."}"#,
    printcolumn = r#"{"name":"LastScheduleTime","type":"date","jsonPath":".status.lastScheduleTime","description":"The last time that it made one for."}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
// What OpenKruise's webhook refuses, as far as a rule can say it: whether a zone exists, and whether each
// field of a schedule is within its range, the controller says.
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.schedule.matches('^[ ]*((CRON_)?TZ=[^ ]+ +)?(@(yearly|annually|monthly|weekly|daily\
            |midnight|hourly)|@every [-+0-9.a-zµμ]+|[0-9A-Za-z*?,/-]+([ \\t]+[0-9A-Za-z*?,/-]+){4})[ \\t]*$')",
        "message": "is no schedule: give minute, hour, day of month, month and day of week, or one such as @hourly or @every 90s",
        "fieldPath": ".schedule",
    },
    {
        "rule": "!has(self.timeZone) || !self.schedule.contains('TZ')",
        "message": "goes not with a schedule that has a zone of its own: leave one of them out",
        "fieldPath": ".timeZone",
    },
    {
        "rule": "!has(self.timeZone) || (size(self.timeZone) > 0 && self.timeZone.lowerAscii() != 'local')",
        "message": "is no time zone: give one such as Europe/Berlin or Etc/UTC, or leave it out",
        "fieldPath": ".timeZone",
    },
]))]
pub struct AdvancedCronJobSpec {
    /// When it runs: five fields, or `@hourly`, `@daily`, `@every 90s` and the like.
    pub schedule: String,
    /// Zone that the schedule is read in; the program's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Seconds after its time within which a run may still begin; without end when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline_seconds: Option<i64>,
    /// Fate of a run while the one before it goes on: `Allow` (the default) both, `Forbid` it waits,
    /// `Replace` the one before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Allow", "x-kubernetes-validations" = [{
        "rule": "self in ['', 'Allow', 'Forbid', 'Replace']",
        "message": "is none of Allow, Forbid and Replace: give one of them",
    }]))]
    pub concurrency_policy: Option<String>,
    /// Whether it rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub paused: Option<bool>,
    /// How many runs that succeeded are kept; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3))]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many runs that failed are kept; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub failed_jobs_history_limit: Option<i32>,
    /// Template of what is made: one of the two.
    pub template: CronJobTemplate,
}

/// Template of an AdvancedCronJob. That it is immutable no rule here can say: a client with types writes it
/// back in other words.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.jobTemplate) != has(self.broadcastJobTemplate)",
        "message": "has not exactly one of jobTemplate and broadcastJobTemplate: give one of them",
    },
]))]
pub struct CronJobTemplate {
    /// A batch/v1 Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_template: Option<JobTemplate>,
    /// A BroadcastJob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast_job_template: Option<JobTemplate>,
}

/// Metadata and spec of a job as they were given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct JobTemplate(pub Map<String, Value>);

/// Where an AdvancedCronJob stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdvancedCronJobStatus {
    /// The generation of the spec this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Job` or `BroadcastJob`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Runs that go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,
    /// The last time that a run was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// Time up to which all is decided: every run was made, or told as missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_until: Option<Time>,
    /// The run that is being made, where one that was made could be gone again unseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<StartingRun>,
    /// The runs that were missed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedRuns>,
    /// Runs that were missed before them, the newest first: fifteen times at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed_before: Vec<MissedRuns>,
    /// Faults of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<WorkloadCondition>,
}

/// A run that is being made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartingRun {
    /// Its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_time: Option<Time>,
    /// Since when it is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Runs that were missed one after the other.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissedRuns {
    /// Time of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Time>,
    /// Time of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
    /// How many; 101 for more than 100.
    #[serde(default)]
    pub count: i32,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

// === impl JobTemplate ===

impl JsonSchema for JobTemplate {
    fn schema_name() -> Cow<'static, str> {
        "JobTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Metadata and spec of a job.",
            "type": "object",
            "properties": {
                "metadata": {
                    "description": "Metadata of each job.",
                    "type": "object",
                    "properties": {
                        "labels": {
                            "description": "Labels of each job.",
                            "type": "object", "additionalProperties": {"type": "string"},
                        },
                    },
                    "x-kubernetes-preserve-unknown-fields": true,
                },
            },
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
