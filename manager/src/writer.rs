//! The one writer: the only place from which the manager changes anything but its own Lease, and all it changes is
//! `status` of a request, by server-side apply.
//!
//! A write names the UID and the version of the object it was decided on, so one that is late, or of a leader that has
//! been followed without noticing, is refused by the API server (409) and harms nobody. That is also why it may be forced:
//! what it overrides was seen.

mod queue;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_proto::crd::ContainerRecreateRequestStatus;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde::Serialize;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::queue::Full;
use self::queue::Queue;
use crate::{
    index::{Key, StatusPatch, Write},
    lease::Tenure,
    metrics::{Metrics, Outcome},
    telemetry::chain,
    wire::{Requests, Watched},
};

/// The owner of what the manager writes, as `managedFields` shows it.
pub const FIELD_MANAGER: &str = "berth-manager";
/// Requests to the API server at the same time: some hundred writes a second, and a small part of what one client may
/// have in flight there.
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
}

impl Writer {
    /// One whose writes are done by [`Writer::run`].
    pub fn new(tenure: Tenure, metrics: Metrics) -> Self {
        let (queue, arrived) = (Mutex::default(), Notify::new());
        Self { shared: Arc::new(Shared { queue, arrived, tenure, metrics }) }
    }

    /// Takes a write. Without the lease it is dropped: the leader owes the same, and what is owed when this replica leads
    /// is decided then.
    pub fn submit(&self, patch: StatusPatch) -> Result<(), Full> {
        let Shared { tenure, metrics, .. } = &*self.shared;
        if !tenure.holds() {
            metrics.write(&patch.write, Outcome::NotLeading);
            return Ok(());
        }
        let write = patch.write.clone();
        match self.shared.queue().push(patch) {
            Ok(Some(superseded)) => metrics.write(&superseded.write, Outcome::Superseded),
            Ok(None) => {}
            Err(full) => {
                metrics.write(&write, Outcome::QueueFull);
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
                    if let Some(patch) = self.shared.take() {
                        return (permit, patch);
                    }
                    arrived.await;
                }
            };
            let Some((permit, patch)) = shutdown.run_until_cancelled(next).await else { break };
            let (shared, client, shutdown) = (self.shared.clone(), client.clone(), shutdown.clone());
            tasks.spawn(async move {
                let key = patch.key.clone();
                // What has been sent is waited for, pauses and retries are not.
                shared.write(client, patch, &shutdown).await;
                shared.done(&key);
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

    fn take(&self) -> Option<StatusPatch> {
        let mut queue = self.queue();
        let patch = queue.take();
        self.metrics.queued(queue.len());
        patch
    }

    fn done(&self, key: &Key) {
        self.queue().done(key);
        // A newer write of the same object may have waited for it.
        self.arrived.notify_one();
    }

    /// Writes one, until it is done or pointless.
    async fn write(&self, client: Client, patch: StatusPatch, shutdown: &CancellationToken) {
        let api: Api<Watched<Requests>> = Api::namespaced(client, &patch.key.namespace);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let body = Patch::Apply(body(&patch));
        let mut pauses = PAUSES.into_iter().chain(std::iter::repeat(PAUSES[PAUSES.len() - 1]));
        loop {
            if let Some(outcome) = self.pointless(&patch) {
                self.metrics.write(&patch.write, outcome);
                return;
            }
            let begun = Instant::now();
            let written = timeout(ANSWER_WITHIN, api.patch_status(&patch.key.name, &params, &body)).await;
            let outcome = match &written {
                Ok(Ok(_)) => Outcome::Written,
                Ok(Err(error)) => outcome(error),
                Err(_) => Outcome::Retried,
            };
            let error = match &written {
                Ok(result) => result.as_ref().err().map(|error| chain(error)),
                Err(_) => Some(format!("no answer within {} s", ANSWER_WITHIN.as_secs())),
            };
            self.metrics.write(&patch.write, outcome);
            if outcome == Outcome::Written {
                self.metrics.written_in(begun.elapsed());
            }
            tell(&patch, outcome, error.as_deref().unwrap_or_default());
            if outcome != Outcome::Retried {
                return;
            }
            let Some(pause) = pauses.next() else { return };
            if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    fn pointless(&self, patch: &StatusPatch) -> Option<Outcome> {
        if !self.tenure.holds() {
            return Some(Outcome::NotLeading);
        }
        self.queue().has_newer(&patch.key).then_some(Outcome::Superseded)
    }
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

fn tell(patch: &StatusPatch, outcome: Outcome, error: &str) {
    let request = &patch.key;
    match (outcome, &patch.write) {
        (Outcome::Written, Write::Assign(assignment)) => {
            info!(%request, node = %assignment.node, pod.uid = assignment.pod_uid, "Request assigned");
        }
        (Outcome::Written, Write::Fail(failure, _)) => {
            info!(%request, reason = %failure.reason, message = failure.message, "Request failed");
        }
        (Outcome::Refused, _) => {
            warn!(%request, error, "Status refused, not written before the request changes");
        }
        (Outcome::Retried, _) => warn!(%request, error, "Status not written, trying again"),
        (Outcome::Conflict | Outcome::Gone, _) => {
            debug!(%request, error, "Status not written, the request has changed");
        }
        (Outcome::Superseded | Outcome::NotLeading | Outcome::QueueFull, _) => {}
    }
}

/// The object as it is applied.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    status: ContainerRecreateRequestStatus,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}

fn body(patch: &StatusPatch) -> Body<'_> {
    Body {
        api_version: "apps.kruise.io/v1alpha1",
        kind: "ContainerRecreateRequest",
        metadata: Metadata {
            name: &patch.key.name,
            namespace: &patch.key.namespace,
            uid: &patch.uid,
            resource_version: &patch.resource_version,
        },
        status: patch.status(),
    }
}

#[cfg(test)]
mod tests;
