//! Target of a write: what has to be known of a request for it, and the writes that all kinds of requests
//! have.

use berth_policy::RequestId;
use berth_proto::crd::ContainerRecreateRequestStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, Preconditions},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    client::{CallError, Connection, Lane},
    raw::Raw,
};

/// A request with this status; a ContainerRecreateRequest, where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target<T = ContainerRecreateRequestStatus> {
    /// `metadata.namespace`.
    pub(crate) namespace: String,
    /// `metadata.name`.
    pub(crate) name: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    /// Status as it was written before, no matter by whom.
    pub(crate) status: T,
}

impl<T> Target<T> {
    /// `namespace/name`.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The version as a number: those of one object grow.
    pub(crate) fn number(&self) -> Option<u64> {
        self.version.as_deref().and_then(|version| version.parse().ok())
    }

    /// Tells whether `other` is an older state of the same object.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        match (self.number(), other.number()) {
            (Some(own), Some(others)) => own > others,
            (None, _) | (_, None) => false,
        }
    }

    /// The object to apply, for exactly this version of it.
    pub(crate) fn with_status<K>(&self, id: &RequestId, status: &impl Serialize) -> Value
    where
        K: Resource<DynamicType = ()>,
    {
        json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {
                "namespace": self.namespace,
                "name": self.name,
                "uid": id.as_str(),
                "resourceVersion": self.version,
            },
            "status": status,
        })
    }

    /// Asks something of the objects of its kind in its namespace.
    pub(crate) async fn ask<A, F>(
        &self,
        connection: &Connection,
        kind: &ApiResource,
        question: impl FnOnce(Api<Raw>) -> F,
    ) -> Result<A, CallError>
    where
        F: Future<Output = kube::Result<A>>,
    {
        let namespace = self.namespace.clone();
        let question = |client: Client| question(Api::namespaced_with(client, &namespace, kind));
        connection.ask_in(Lane::Requests, question).await
    }

    /// Deletes it, and no other request of its name.
    pub(crate) async fn delete(
        &self,
        connection: &Connection,
        kind: &ApiResource,
        id: &RequestId,
    ) -> Result<(), CallError> {
        let uid = Some(id.as_str().to_owned());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, ..Preconditions::default() }),
            ..DeleteParams::default()
        };
        let name = self.name.clone();
        self.ask(connection, kind, async move |api| api.delete(&name, &params).await).await.map(drop)
    }
}

/// `metadata.resourceVersion` as a number that grows; 0 for one that is none.
pub(crate) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}
