//! An object of the two kinds, and its plan.

use std::sync::Arc;

use berth_proto::crd::{AdvancedCronJob, BroadcastJob};
use berth_workloads_policy::{
    broadcast_job, cron_job,
    jobs::{self, Action},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    object::{self, Object},
    planner::Plan,
};

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
        Ok(Filed::new(match self {
            Self::Broadcast => AnyJob::Broadcast(Arc::new(object::read(object)?)),
            Self::Cron => AnyJob::Cron(Arc::new(object::read(object)?)),
        }))
    }
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
