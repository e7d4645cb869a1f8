//! Jobs of Kubernetes: nearly all of a cluster's are made by something else than an AdvancedCronJob, and all
//! are listed.

use berth_base::{
    metadata::{Metadata, ReadAnnotations},
    sent::Received,
};
use berth_workloads_policy::cron_job::SCHEDULED_AT;
use k8s_openapi::{
    api::batch::v1::{Job, JobCondition, JobStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{MOST_METADATA, memory, reduce};

/// Conditions that are kept; Kubernetes has five kinds of them.
const MOST_CONDITIONS: usize = 16;

/// A Job with nothing but the fields that are read.
#[derive(Clone, Debug)]
pub(crate) struct TrimmedJob(Job);

resource!(TrimmedJob, Job);

/// No part of it that is read can be deep.
impl Received for TrimmedJob {
    type Object = Job;
    const IS_SMALL: bool = true;

    fn read(self) -> Result<Job, String> {
        Ok(self.0)
    }
}

/// Annotations of a Job.
struct Annotations;

impl ReadAnnotations for Annotations {
    const KEYS: &'static [&'static str] = &[SCHEDULED_AT];
}

/// The Job of the API.
#[derive(Deserialize)]
struct Read {
    metadata: Metadata<Annotations>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    conditions: Option<Vec<Condition>>,
    start_time: Option<Time>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    status: String,
}

impl<'de> Deserialize<'de> for TrimmedJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { metadata, status } = Read::deserialize(deserializer)?;
        let mut metadata = ObjectMeta::from(metadata);
        (metadata.labels, metadata.finalizers) = (None, None);
        // Its time is in its name as well.
        if memory(&metadata, &[]) > MOST_METADATA {
            reduce(&mut metadata);
        }
        let condition =
            |Condition { type_, status }| JobCondition { type_, status, ..JobCondition::default() };
        let status = status.map(|read| JobStatus {
            conditions: read
                .conditions
                .map(|all| all.into_iter().take(MOST_CONDITIONS).map(condition).collect()),
            start_time: read.start_time,
            ..JobStatus::default()
        });
        Ok(Self(Job { metadata, spec: None, status }))
    }
}

#[cfg(test)]
mod tests {
    use berth_workloads_policy::cron_job::ChildView;
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;

    fn job(owners: usize, conditions: &Value) -> Value {
        let owner = |number| {
            json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob", "name": "a",
                "uid": "a", "controller": number == 0 })
        };
        json!({
            "metadata": {
                "name": "a-1767222000", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "app": "a" },
                "annotations": { "apps.kruise.io/scheduled-at": "2026-01-01T01:00:00Z", "large": "x" },
                "ownerReferences": Vec::from_iter((0..owners).map(owner)),
            },
            "spec": { "template": { "spec": { "containers": [{ "name": "a" }] } } },
            "status": { "startTime": "2026-01-01T01:00:01Z", "conditions": conditions },
        })
    }

    #[test]
    fn all_that_is_read_of_a_job_is_there() {
        for conditions in [
            json!([{ "type": "Suspended", "status": "False" }, { "type": "Complete", "status": "True" }]),
            json!([{ "type": "Failed", "status": "True", "message": "m" }]),
            Value::Null,
        ] {
            let job = job(2, &conditions);
            let whole: Job = serde_json::from_value(job.clone()).unwrap();
            let trimmed: TrimmedJob = serde_json::from_value(job).unwrap();
            assert_eq!(trimmed.meta().uid.as_deref(), Some("u"));
            let trimmed = trimmed.read().unwrap();
            assert_eq!(ChildView::of_job(&trimmed), ChildView::of_job(&whole));
            assert_eq!((&trimmed.spec, &trimmed.metadata.labels), (&None, &None));
        }
    }

    #[test]
    fn one_with_too_many_owners_is_whose_it_was() {
        let job = job(10_000, &Value::Null);
        let whole: Job = serde_json::from_value(job.clone()).unwrap();
        let trimmed: TrimmedJob = serde_json::from_value(job).unwrap();
        assert!(memory(trimmed.meta(), &[]) <= MOST_METADATA);
        assert_eq!(ChildView::of_job(&trimmed.read().unwrap()).owner, ChildView::of_job(&whole).owner);
    }
}
