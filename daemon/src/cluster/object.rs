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
        let whole = object.whole();
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
            spec: whole.and_then(|()| {
                serde_json::from_value(object.take("spec")).map_err(|error| unquoted(&error.to_string()))
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The beginning of a list that is too large says something else than its author.
    #[test]
    fn a_spec_that_is_cut_off_is_none() {
        let of = |maps: usize| {
            let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-11-01T00:00:00Z" });
            let object = json!({ "metadata": metadata, "spec": vec![json!({ "a": 1 }); maps] });
            let raw: Raw = serde_json::from_str(&object.to_string()).unwrap();
            Object::<Vec<Value>, Value>::read(raw).unwrap().spec
        };
        assert_eq!(of(100).map(|all| all.len()), Ok(100));
        let error = of(100_000).unwrap_err();
        assert!(error.contains("fewer lists and maps"), "{error}");
    }
}
