//! A ContainerRecreateRequest as the API server shows it.
//!
//! It is read in two parts: a spec that cannot be read still has a status, in which that can be said.

use berth_policy::RequestId;
use berth_proto::crd::{ContainerRecreateRequestSpec, ContainerRecreateRequestStatus, RecreatePhase};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;

/// An object of the kind.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Its `metadata.uid`.
    pub(super) id: RequestId,
    /// What has to be known to write to it.
    pub(super) target: Target,
    /// `metadata.creationTimestamp`.
    pub(super) created: Timestamp,
    /// `metadata.deletionTimestamp` is set: it waits only for finalizers.
    pub(super) deleting: bool,
    /// What is asked for, or why that cannot be read.
    pub(super) spec: Result<ContainerRecreateRequestSpec, String>,
}

/// What has to be known of an object to write to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    /// `metadata.namespace`.
    pub(super) namespace: String,
    /// `metadata.name`.
    pub(super) name: String,
    /// `metadata.resourceVersion`.
    pub(super) version: Option<String>,
    /// What was written before, by whomever.
    pub(super) status: ContainerRecreateRequestStatus,
}

impl Object {
    /// `None` for an object without name, UID or time of creation, which the API never shows.
    pub(super) fn read(object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, mut data, .. } = object;
        // A status that cannot be read was not written by this agent; it is written anew.
        let status = serde_json::from_value(data["status"].take()).unwrap_or_default();
        Some(Self {
            id: metadata.uid?.into(),
            created: metadata.creation_timestamp?.0,
            deleting: metadata.deletion_timestamp.is_some(),
            target: Target {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name?,
                version: metadata.resource_version,
                status,
            },
            spec: read_spec(data["spec"].take()),
        })
    }
}

fn read_spec(spec: Value) -> Result<ContainerRecreateRequestSpec, String> {
    serde_json::from_value(spec).map_err(|error| error.to_string())
}

impl Target {
    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// It is over, whoever wrote that.
    pub(super) fn has_ended(&self) -> bool {
        self.status.completion_time.is_some() || self.status.phase == Some(RecreatePhase::Completed)
    }

    /// Whether `other` is an older state of the same object. Versions of one object are numbers that grow.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        let number =
            |target: &Self| target.version.as_deref().and_then(|version| version.parse::<u64>().ok());
        match (number(self), number(other)) {
            (Some(own), Some(others)) => own > others,
            (None, _) | (_, None) => false,
        }
    }
}
