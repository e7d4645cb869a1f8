//! A request as the API server shows it: a ContainerRecreateRequest, where nothing else is said.
//!
//! It is read in two parts: a spec that cannot be read still has a status, in which that can be said.

use berth_policy::RequestId;
use berth_proto::crd::{ContainerRecreateRequestSpec, ContainerRecreateRequestStatus};
use berth_proto::quoting::unquoted;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use serde::de::DeserializeOwned;

use super::{raw::Raw, target::Target};

/// An object with this spec and status.
#[derive(Clone, Debug)]
pub(crate) struct Object<S = ContainerRecreateRequestSpec, T = ContainerRecreateRequestStatus> {
    /// Its `metadata.uid`.
    pub(crate) id: RequestId,
    /// Target of writes: all that has to be known to write to it.
    pub(crate) target: Target<T>,
    /// `metadata.creationTimestamp`.
    pub(crate) created: Timestamp,
    /// `metadata.deletionTimestamp` is set: it waits only for finalizers.
    pub(crate) deleting: bool,
    /// Spec of the object, or why it cannot be read.
    pub(crate) spec: Result<S, String>,
}

impl<S: DeserializeOwned, T: DeserializeOwned + Default> Object<S, T> {
    /// `None` for an object without name, UID or time of creation, which the API never shows.
    pub(crate) fn read(mut object: Raw) -> Option<Self> {
        let metadata: ObjectMeta = serde_json::from_value(object.take("metadata")).ok()?;
        // A status that cannot be read was not written by this agent; it is written anew.
        let status = serde_json::from_value(object.take("status")).unwrap_or_default();
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
            spec: serde_json::from_value(object.take("spec")).map_err(|error| unquoted(&error.to_string())),
        })
    }
}
