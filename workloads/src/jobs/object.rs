//! An object of the two kinds, and its plan.

use std::sync::Arc;

use berth_proto::crd::{AdvancedCronJob, BroadcastJob};
use berth_workloads_policy::{
    broadcast_job, cron_job,
    jobs::Plan,
    store::{Stored, version},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

/// A kind of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Broadcast,
    Cron,
}

/// An object as it was read.
#[derive(Clone, Debug)]
pub(super) enum Object {
    Broadcast(Arc<BroadcastJob>),
    Cron(Arc<AdvancedCronJob>),
}

/// An object, for the store.
#[derive(Clone, Debug)]
pub(super) struct Filed {
    uid: String,
    version: u64,
    pub(super) object: Object,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Broadcast => broadcast_job::KIND,
            Self::Cron => cron_job::KIND,
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::Broadcast => broadcast_job::API_VERSION,
            Self::Cron => cron_job::API_VERSION,
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
        let name = object.metadata.name.clone().unwrap_or_default();
        let wrong = |error: serde_json::Error| format!("{name}: {error}");
        let value = serde_json::to_value(object).map_err(wrong)?;
        let object = match self {
            Self::Broadcast => Object::Broadcast(Arc::new(serde_json::from_value(value).map_err(wrong)?)),
            Self::Cron => Object::Cron(Arc::new(serde_json::from_value(value).map_err(wrong)?)),
        };
        Ok(Filed::new(object))
    }
}

impl Filed {
    pub(super) fn new(object: Object) -> Self {
        let meta = object.meta();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version(meta.resource_version.as_deref().unwrap_or_default()),
            object,
        }
    }
}

impl Stored for Filed {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl Object {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Broadcast(_) => Kind::Broadcast,
            Self::Cron(_) => Kind::Cron,
        }
    }

    pub(super) fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Broadcast(job) => &job.metadata,
            Self::Cron(job) => &job.metadata,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    /// Status on file.
    pub(super) fn status(&self) -> Value {
        match self {
            Self::Broadcast(job) => json!(job.status),
            Self::Cron(job) => json!(job.status),
        }
    }

    /// Names it in an Event.
    pub(super) fn reference(&self) -> ObjectReference {
        let meta = self.meta();
        ObjectReference {
            api_version: Some(self.kind().api_version().to_owned()),
            kind: Some(self.kind().name().to_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            ..ObjectReference::default()
        }
    }
}

/// Plan of any kind.
pub(super) fn any<S: Serialize>(plan: Plan<S>) -> Plan<Value> {
    Plan {
        actions: plan.actions,
        status: plan.status.map(|status| json!(status)),
        status_first: plan.status_first,
        again: plan.again,
        notes: plan.notes,
    }
}
