//! Steps of kinds whose status is replaced at a version, carried out a few at a time: budgets, spreads and
//! PersistentPodStates. Each such status is decided on what others have written into it, so a write that was
//! decided on an older version has to fail; it is decided anew from what the watch shows then.
//!
//! Writes have places of their own: they wait for no answer that does not come to somebody's question. Those
//! who wait take turns by their namespaces (`round_robin`).

mod round_robin;

use std::{collections::HashMap, fmt::Debug, time::Duration};

use berth_base::sent::Sent;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, api::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tracing::{debug, warn};

pub(crate) use self::round_robin::Queued;
use self::round_robin::StepQueue;
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
    S: Queued,
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

/// Carries out steps until nobody gives any, a few at a time.
pub(crate) async fn each<S, F>(mut steps: mpsc::UnboundedReceiver<S>, carry_out: impl Fn(S) -> F)
where
    S: Queued,
    F: Future<Output = ()> + Send + 'static,
{
    let (mut turns, mut tasks) = (StepQueue::<S>::default(), JoinSet::new());
    // Namespace of each that is on its way: a task that ends in a panic does not say it.
    let mut of = HashMap::new();
    let mut are_given = true;
    loop {
        while tasks.len() < AT_ONCE
            && let Some(step) = turns.next()
        {
            let namespace = step.namespace().clone();
            of.insert(tasks.spawn(carry_out(step)).id(), namespace);
        }
        // Cancel-safe: neither takes anything unless it returns it.
        tokio::select! {
            step = steps.recv(), if are_given => match step {
                Some(step) => turns.push(step),
                None => are_given = false,
            },
            Some(ended) = tasks.join_next_with_id() => {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                if let Some(namespace) = of.remove(&id) {
                    turns.done(&namespace);
                }
            }
            else => return,
        }
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
    use std::sync::Arc;

    use futures::{
        FutureExt,
        future::{BoxFuture, pending},
    };

    use super::*;

    /// A step of a namespace; one without a number is never over.
    struct Test(Arc<str>, Option<u32>);

    impl Queued for Test {
        fn namespace(&self) -> &Arc<str> {
            &self.0
        }
    }

    fn test(namespace: &str, number: Option<u32>) -> Test {
        Test(namespace.into(), number)
    }

    /// Carries out steps: tells their numbers.
    fn tell(told: &mpsc::UnboundedSender<u32>) -> impl Fn(Test) -> BoxFuture<'static, ()> {
        let told = told.clone();
        move |Test(_, number)| {
            let told = told.clone();
            let step = async move {
                match number {
                    Some(number) => told.send(number).unwrap(),
                    None => pending().await,
                }
            };
            step.boxed()
        }
    }

    /// Questions that nobody answers hold up each other, and no write.
    #[tokio::test(start_paused = true)]
    async fn a_write_waits_for_no_answer() {
        let (steps, due) = mpsc::unbounded_channel();
        let (told, mut shown) = mpsc::unbounded_channel();
        for namespace in 0..100 {
            steps.send(test(&format!("ns-{namespace}"), None)).unwrap();
        }
        steps.send(test("shop", Some(7))).unwrap();
        let all = reads_and_writes(due, |Test(_, number)| number.is_none(), tell(&told));
        tokio::select! {
            () = all => panic!("it has ended"),
            number = timeout(ANSWER_WITHIN, shown.recv()) => assert_eq!(number, Ok(Some(7))),
        }
    }

    /// Steps of a namespace that are never over leave the others their places, and so does one that panics.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_waits_for_no_other() {
        let (steps, due) = mpsc::unbounded_channel();
        let (told, mut shown) = mpsc::unbounded_channel();
        for _ in 0..100 {
            steps.send(test("crowd", None)).unwrap();
        }
        for number in 0..100 {
            steps.send(test("shop", Some(number))).unwrap();
        }
        let telling = tell(&told);
        let all = each(due, |step| {
            let panics = step.1 == Some(50);
            let told = telling(step);
            async move {
                assert!(!panics, "one of them");
                told.await;
            }
        });
        let shown = async {
            let mut all = Vec::new();
            while all.len() < 99 {
                all.extend(shown.recv().await);
            }
            all
        };
        tokio::select! {
            () = all => panic!("it has ended"),
            all = timeout(ANSWER_WITHIN, shown) => assert_eq!(all.map(|all| all.len()), Ok(99)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_who_gives_steps() {
        let (steps, due) = mpsc::unbounded_channel();
        let (told, mut shown) = mpsc::unbounded_channel();
        for number in 0..20 {
            steps.send(test("shop", Some(number))).unwrap();
        }
        drop(steps);
        reads_and_writes(due, |Test(_, number)| *number == Some(1), tell(&told)).await;
        drop(told);
        let mut count = 0;
        while shown.recv().await.is_some() {
            count += 1;
        }
        assert_eq!(count, 20, "what was given is carried out");
    }
}
