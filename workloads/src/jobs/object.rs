//! An object of the two kinds, and its plan.

use std::{collections::BTreeMap, sync::Arc};

use berth_proto::crd::{
    AdvancedCronJob, AdvancedCronJobSpec, BroadcastJob, BroadcastJobSpec, BroadcastJobStatus,
};
use berth_workloads_policy::{
    broadcast_job, cron_job,
    jobs::{self, Action},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    object::{self, Bare, Object},
    planner::Plan,
    room::bare_meta,
};

/// Conditions of a BroadcastJob that are kept where there is no room for it: there are fewer kinds of them.
const MOST_CONDITIONS: usize = 8;
/// The longest text of a time.
const LONGEST_TIME: usize = 64;

/// An object of them, for the store.
pub(super) type Filed = object::Filed<AnyJob>;

/// A kind of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Broadcast,
    Cron,
}

/// An object as it was read.
#[derive(Clone, Debug)]
pub(super) enum AnyJob {
    Broadcast(Arc<BroadcastJob>),
    Cron(Arc<AdvancedCronJob>),
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => broadcast_job::KIND,
            Self::Cron => cron_job::KIND,
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcastjobs",
            Self::Cron => "advancedcronjobs",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Broadcast => ApiResource::erase::<BroadcastJob>(&()),
            Self::Cron => ApiResource::erase::<AdvancedCronJob>(&()),
        }
    }

    /// Reads an object as it was shown.
    pub(super) fn read(self, object: DynamicObject) -> Result<Filed, String> {
        let bytes = object::memory(&object);
        let filed = Filed::new(match self {
            Self::Broadcast => AnyJob::Broadcast(Arc::new(object::read(object)?)),
            Self::Cron => AnyJob::Cron(Arc::new(object::read(object)?)),
        });
        Ok(filed.weighing(bytes))
    }
}

/// Keeps of a BroadcastJob what its AdvancedCronJob looks at, and whether it has ended.
impl Bare for AnyJob {
    fn bare(&self) -> Self {
        match self {
            Self::Broadcast(job) => {
                let mut bare = BroadcastJob::new("", BroadcastJobSpec::default());
                bare.metadata = bare_meta(&job.metadata);
                bare.metadata.annotations = scheduled_at(&job.metadata);
                bare.status = job.status.as_ref().map(bare_status);
                Self::Broadcast(Arc::new(bare))
            }
            Self::Cron(job) => {
                let mut bare = AdvancedCronJob::new("", AdvancedCronJobSpec::default());
                bare.metadata = bare_meta(&job.metadata);
                Self::Cron(Arc::new(bare))
            }
        }
    }
}

/// Annotation with the time that an AdvancedCronJob has made it for.
fn scheduled_at(meta: &ObjectMeta) -> Option<BTreeMap<String, String>> {
    let time = meta.annotations.as_ref()?.get(cron_job::SCHEDULED_AT)?;
    (time.len() <= LONGEST_TIME).then(|| [(cron_job::SCHEDULED_AT.to_owned(), time.clone())].into())
}

fn bare_status(status: &BroadcastJobStatus) -> BroadcastJobStatus {
    let mut status = status.clone();
    status.conditions.truncate(MOST_CONDITIONS);
    for condition in &mut status.conditions {
        (condition.reason, condition.message) = (None, None);
    }
    status
}

impl Object for AnyJob {
    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Broadcast(job) => &job.metadata,
            Self::Cron(job) => &job.metadata,
        }
    }

    fn reference(&self) -> ObjectReference {
        match self {
            Self::Broadcast(job) => job.reference(),
            Self::Cron(job) => job.reference(),
        }
    }
}

impl AnyJob {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Broadcast(_) => Kind::Broadcast,
            Self::Cron(_) => Kind::Cron,
        }
    }

    /// Status on file.
    pub(super) fn status(&self) -> Value {
        match self {
            Self::Broadcast(job) => json!(job.status),
            Self::Cron(job) => json!(job.status),
        }
    }
}

/// Plan of any kind.
pub(super) fn any<S: Serialize>(plan: jobs::Plan<S>) -> Plan<Action> {
    let jobs::Plan { actions, status, status_first, again, notes } = plan;
    Plan { actions, status: status.map(|status| json!(status)), status_first, again, notes }
}
