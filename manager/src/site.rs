//! Steps of kinds whose status is replaced at a version, carried out a few at a time: budgets, spreads and
//! PersistentPodStates. Each such status is decided on what others have written into it, so a write that was
//! decided on an older version has to fail; it is decided anew from what the watch shows then.

use std::{fmt::Debug, sync::Arc, time::Duration};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

use crate::{seen::Key, telemetry::chain};

/// Requests to the API server at the same time, for one kind.
const AT_ONCE: usize = 8;
/// A request without an answer has failed; what it was for is decided anew.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A write to the status of an object, by the types of its spec and status.
#[derive(Clone, Debug)]
pub struct StatusWrite<S, T> {
    /// The object.
    pub key: Key,
    /// Which one of that name.
    pub uid: Box<str>,
    /// The version it was decided on: what was let in since makes it fail.
    pub resource_version: Box<str>,
    /// Its spec, which a write of the status leaves as it is.
    pub spec: Box<S>,
    /// All of its status.
    pub status: Box<T>,
}

/// Carries out steps until nobody gives any.
pub(crate) async fn each<S, F>(mut steps: mpsc::UnboundedReceiver<S>, carry_out: impl Fn(S) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    while let Some(step) = steps.recv().await {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        let step = carry_out(step);
        tasks.spawn(async move {
            step.await;
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
}

/// Writes a status. `object` makes the object of its parts.
pub(crate) async fn write<K, S, T>(
    client: &Client,
    order: StatusWrite<S, T>,
    object: impl FnOnce(ObjectMeta, S, Option<T>) -> K,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let StatusWrite { key, uid, resource_version, spec, status } = order;
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        uid: Some(uid.into()),
        resource_version: Some(resource_version.into()),
        ..ObjectMeta::default()
    };
    let object = object(metadata, *spec, Some(*status));
    let written =
        timeout(ANSWER_WITHIN, api.replace_status(&key.name, &PostParams::default(), &object)).await;
    let kind = K::kind(&());
    match written {
        Ok(Ok(_)) => debug!(%kind, %key, "Status written"),
        // It has changed since, or is gone: its newest version comes by the watch.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
            debug!(%kind, %key, "Status was decided on an older version");
        }
        Ok(Err(error)) => warn!(%kind, %key, error = chain(&error), "Status not written"),
        Err(_) => warn!(%kind, %key, "Status not written, no answer"),
    }
}
