//! Steps of kinds whose status is replaced at a version, carried out a few at a time: budgets, spreads and
//! PersistentPodStates. Each such status is decided on what others have written into it, so a write that was
//! decided on an older version has to fail; it is decided anew from what the watch shows then.
//!
//! Writes have places of their own: they wait for no answer that does not come to somebody's question.

use std::{fmt::Debug, sync::Arc, time::Duration};

use berth_base::sent::Sent;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, api::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{debug, warn};

use crate::{reads, store::Key, telemetry::chain};

/// Requests to the API server at the same time, for one kind; and as many writes beside them.
pub(crate) const AT_ONCE: usize = 8;
/// A question of an index without an answer is asked again after it: until then it may wait for its turn.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(300);
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

/// Carries out steps until nobody gives any: those that only read, and the others, which wait for none of
/// them.
pub(crate) async fn reads_and_writes<S, F>(
    mut steps: mpsc::UnboundedReceiver<S>,
    reads: impl Fn(&S) -> bool,
    carry_out: impl Fn(S) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let ((to_read, due_reads), (to_write, due_writes)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let part = async move {
        while let Some(step) = steps.recv().await {
            let lane = if reads(&step) { &to_read } else { &to_write };
            // Their readers end after this one.
            let _ = lane.send(step);
        }
    };
    tokio::join!(part, each(due_reads, &carry_out), each(due_writes, &carry_out));
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
    let api: Api<Sent<K>> = Api::namespaced(client.clone(), &key.namespace);
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        uid: Some(uid.into()),
        resource_version: Some(resource_version.into()),
        ..ObjectMeta::default()
    };
    let object = object(metadata, *spec, Some(*status));
    let written = timeout(ANSWER_WITHIN, reads::replace_status(&api, &key.name, &object)).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions that nobody answers hold up each other, and no write.
    #[tokio::test(start_paused = true)]
    async fn a_write_waits_for_no_answer() {
        let (steps, due) = mpsc::unbounded_channel();
        let (written, mut shown) = mpsc::unbounded_channel();
        for _ in 0..100 {
            steps.send(None).unwrap();
        }
        steps.send(Some("status")).unwrap();
        let carry_out = |step: Option<&'static str>| {
            let written = written.clone();
            async move {
                match step {
                    Some(status) => written.send(status).unwrap(),
                    None => std::future::pending().await,
                }
            }
        };
        let all = reads_and_writes(due, Option::is_none, carry_out);
        tokio::select! {
            () = all => panic!("it has ended"),
            status = timeout(ANSWER_WITHIN, shown.recv()) => assert_eq!(status, Ok(Some("status"))),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_who_gives_steps() {
        let (steps, due) = mpsc::unbounded_channel();
        steps.send(1).unwrap();
        drop(steps);
        reads_and_writes(due, |step| *step == 1, |_| std::future::ready(())).await;
    }
}
