//! The one writer: the only place from which the manager changes anything but its own Lease. All it changes is `status` of
//! Berth's kinds, by server-side apply; and it deletes jobs that are over, where they say when.
//!
//! A write names the UID and the version of the object it was decided on, so one that is late, or of a leader that has
//! been followed without noticing, is refused by the API server (409) and harms nobody. That is also why it may be forced:
//! what it overrides was seen.

mod body;
mod queue;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::body::Body;
pub use self::queue::Full;
use self::queue::Queue;
use crate::{
    images::JobAct,
    index::{Ask, Write},
    lease::Tenure,
    metrics::{Metrics, Outcome},
    order::{Order, Target},
    probes::NodeAct,
    secrets::Vault,
    seen::Key,
    telemetry::chain,
    wire::{Jobs, Markers, NodeImages, NodeProbes, Requests, Updates, Watchable, Watched},
};

/// The owner of what the manager writes, as `managedFields` shows it.
pub const FIELD_MANAGER: &str = "berth-manager";
/// The owner of what earlier versions said of kinds that nothing acted on.
const NOTICES: &str = "berth-manager-notices";
/// Requests to the API server at the same time: some hundred writes a second, and a small part of what one client may
/// have in flight there. With 48 an image was on 1,000 nodes no sooner: it is the API server's work that is waited for.
const AT_ONCE: usize = 16;
/// A write without an answer is tried again after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Pauses before a write is tried again; the last one is repeated.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];

/// The entrance. A clone leads to the same queue.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// A std lock: nothing is awaited under it.
    queue: Mutex<Queue>,
    arrived: Notify,
    tenure: Tenure,
    metrics: Metrics,
    /// What is sealed into NodeImages, at the last moment.
    vault: Vault,
}

impl Writer {
    /// One whose writes are done by [`Writer::run`].
    pub fn new(tenure: Tenure, metrics: Metrics, vault: Vault) -> Self {
        let (queue, arrived) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Shared { queue, arrived, tenure, metrics, vault }) }
    }

    /// Takes a write. Without the lease it is dropped: the leader owes the same, and what is owed when this replica leads
    /// is decided then.
    pub fn submit(&self, order: impl Into<Order>) -> Result<(), Full> {
        let Shared { tenure, metrics, .. } = &*self.shared;
        let order = order.into();
        let what = order.what();
        if !tenure.holds() {
            metrics.write(what, Outcome::NotLeading);
            return Ok(());
        }
        match self.shared.queue().push(order) {
            Ok(Some(superseded)) => metrics.write(superseded.what(), Outcome::Superseded),
            Ok(None) => {}
            Err(full) => {
                metrics.write(what, Outcome::QueueFull);
                return Err(full);
            }
        }
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// Writes until the shutdown, and ends when what is on its way has ended.
    pub async fn run(self, client: Client, shutdown: CancellationToken) {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        loop {
            // Cancel-safe: what arrives is in the queue, a permit that is not used is given back.
            let next = async {
                let permit = permits.clone().acquire_owned().await;
                loop {
                    let arrived = self.shared.arrived.notified();
                    if let Some(order) = self.shared.take() {
                        return (permit, order);
                    }
                    arrived.await;
                }
            };
            let Some((permit, order)) = shutdown.run_until_cancelled(next).await else { break };
            let (shared, client, shutdown) = (self.shared.clone(), client.clone(), shutdown.clone());
            tasks.spawn(async move {
                let target = order.target();
                // What has been sent is waited for, pauses and retries are not.
                shared.write(client, order, &target, &shutdown).await;
                shared.done(&target);
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic elsewhere leaves the queue as it is.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Order> {
        let mut queue = self.queue();
        let order = queue.take();
        self.metrics.queued(queue.len());
        order
    }

    fn done(&self, target: &Target) {
        self.queue().done(target);
        // A newer write of the same object may have waited for it.
        self.arrived.notify_one();
    }

    /// Writes one, until it is done or pointless.
    async fn write(&self, client: Client, order: Order, target: &Target, shutdown: &CancellationToken) {
        let mut pauses = PAUSES.into_iter().chain(std::iter::repeat(PAUSES[PAUSES.len() - 1]));
        let mut body = None;
        loop {
            if let Some(outcome) = self.pointless(target) {
                self.metrics.write(order.what(), outcome);
                return;
            }
            let body = match &body {
                Some(body) => body,
                // Made once: no two seals are alike.
                None => match Body::of(&order, &self.vault) {
                    Ok(made) => body.insert(made),
                    Err(error) => {
                        self.metrics.write(order.what(), Outcome::Unsealed);
                        warn!(object = %target.key, error = chain(&error), "Not written, credentials cannot be sealed");
                        return;
                    }
                },
            };
            let begun = Instant::now();
            let written = timeout(ANSWER_WITHIN, send(&client, &order, target, body)).await;
            let outcome = match &written {
                Ok(Ok(())) => Outcome::Written,
                Ok(Err(error)) => outcome(error),
                Err(_) => Outcome::Retried,
            };
            let error = match &written {
                Ok(result) => result.as_ref().err().map(|error| chain(error)),
                Err(_) => Some(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
            };
            self.metrics.write(order.what(), outcome);
            if outcome == Outcome::Written {
                self.metrics.written_in(begun.elapsed());
            }
            tell(&order, target, outcome, error.as_deref().unwrap_or_default());
            if outcome != Outcome::Retried {
                return;
            }
            let Some(pause) = pauses.next() else { return };
            if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    fn pointless(&self, target: &Target) -> Option<Outcome> {
        if !self.tenure.holds() {
            return Some(Outcome::NotLeading);
        }
        self.queue().has_newer(target).then_some(Outcome::Superseded)
    }
}

/// One request to the API server.
async fn send(client: &Client, order: &Order, target: &Target, body: &Body) -> kube::Result<()> {
    let Target { key, .. } = target;
    match order {
        Order::Request(patch) => match patch.id.ask {
            Ask::Recreate => apply::<Requests>(&namespaced(client, key), &key.name, body).await,
            Ask::Update => apply::<Updates>(&namespaced(client, key), &key.name, body).await,
        },
        Order::Node(_) => apply::<NodeImages>(&Api::all(client.clone()), &key.name, body).await,
        Order::NodeProbes(order) => {
            let owner = match order.act {
                NodeAct::Desired(_) => FIELD_MANAGER,
                NodeAct::TakeNoticeBack => NOTICES,
            };
            apply_as::<NodeProbes>(&Api::all(client.clone()), &key.name, body, owner).await
        }
        Order::Marker(_) => apply::<Markers>(&namespaced(client, key), &key.name, body).await,
        Order::Job(job) => {
            let api = namespaced::<Jobs>(client, key);
            match job.act {
                JobAct::Status(_) => apply(&api, &key.name, body).await,
                JobAct::Delete => {
                    let preconditions = Preconditions {
                        uid: Some(order.uid().to_owned()),
                        resource_version: Some(order.resource_version().to_owned()),
                    };
                    let params = DeleteParams::default().preconditions(preconditions);
                    api.delete(&key.name, &params).await.map(drop)
                }
            }
        }
    }
}

fn namespaced<W>(client: &Client, key: &Key) -> Api<Watched<W>>
where
    W: Watchable<Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &key.namespace)
}

async fn apply<W>(api: &Api<Watched<W>>, name: &str, body: &Body) -> kube::Result<()>
where
    W: Watchable,
    Watched<W>: Resource<DynamicType = ()>,
{
    apply_as(api, name, body, FIELD_MANAGER).await
}

async fn apply_as<W>(api: &Api<Watched<W>>, name: &str, body: &Body, owner: &str) -> kube::Result<()>
where
    W: Watchable,
    Watched<W>: Resource<DynamicType = ()>,
{
    let params = PatchParams::apply(owner).force();
    api.patch_status(name, &params, &Patch::Apply(body)).await.map(drop)
}

/// What an error means for the write. Whatever is not known to last is tried again.
fn outcome(error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => Outcome::Gone,
            409 => Outcome::Conflict,
            400 | 403 | 405 | 413 | 415 | 422 => Outcome::Refused,
            _ => Outcome::Retried,
        },
        _ => Outcome::Retried,
    }
}

fn tell(order: &Order, target: &Target, outcome: Outcome, error: &str) {
    let (what, object) = (order.what(), &target.key);
    match (outcome, order) {
        (Outcome::Written, Order::Request(patch)) => match &patch.write {
            Write::Assign(assignment) => {
                let (node, pod) = (&assignment.node, &assignment.pod_uid);
                info!(kind = target.kind.name(), request = %object, %node, pod.uid = pod, "Request assigned");
            }
            Write::Fail(failure, _) => {
                let (reason, message) = (failure.reason, &failure.message);
                info!(kind = target.kind.name(), request = %object, %reason, message, "Request failed");
            }
        },
        (Outcome::Written, Order::Node(order)) => {
            debug!(node = %object, images = order.wishes.len(), "Desired images written");
        }
        (Outcome::Written, Order::Job(order)) => match &order.act {
            JobAct::Status(status) if status.completion_time.is_some() => {
                let message = status.message.as_deref().unwrap_or_default();
                info!(job = %object, desired = status.desired, failed = status.failed, message, "Job ended");
            }
            JobAct::Status(_) => debug!(job = %object, "Job's status written"),
            JobAct::Delete => info!(job = %object, "Job deleted, its time after its end has passed"),
        },
        (Outcome::Written, Order::NodeProbes(order)) => match &order.act {
            NodeAct::Desired(pods) => debug!(node = %object, pods = pods.len(), "Desired probes written"),
            NodeAct::TakeNoticeBack => debug!(node = %object, "Notice that nothing acts on it taken back"),
        },
        (Outcome::Written, Order::Marker(order)) => {
            debug!(marker = %object, pods = order.status.matched_pods, "Marker's status written");
        }
        (Outcome::Refused, _) => {
            warn!(%object, what, error, "Write refused, not tried before the object changes");
        }
        (Outcome::Retried, _) => warn!(%object, what, error, "Not written, trying again"),
        (Outcome::Conflict | Outcome::Gone, _) => {
            debug!(%object, what, error, "Not written, the object has changed");
        }
        (Outcome::Superseded | Outcome::NotLeading | Outcome::QueueFull | Outcome::Unsealed, _) => {}
    }
}

#[cfg(test)]
mod tests;
