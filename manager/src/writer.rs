//! The one writer: the only place from which the manager changes anything but its own Lease. All it changes
//! is `status` of Berth's kinds, by server-side apply; and it deletes jobs and requests that are over, where
//! they say when.
//!
//! A write names the UID and the version of the object it was decided on, so one that is late, or of a leader
//! that has been followed without noticing, is refused by the API server (409) and harms nobody. That is also
//! why it may be forced: what it overrides was seen.
//!
//! A write that is to be tried again waits in the queue, without a permit: objects that fail for ever take
//! nothing from others. All of them wait while the API server itself takes none (`busy`). One that is too
//! large for the API server, or makes no sense to it, is not tried again before its object changes: the
//! answer would be the same. Where a missing right or somebody's rule keeps one out, its object is given back
//! after minutes, to be decided on anew: that a write may pass by then is no event of the object.

mod answer;
mod body;
mod busy;
mod queue;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_base::overload::is_overload;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::body::Body;
pub use self::queue::Full;
use self::queue::{Item, Queue};
use crate::{
    images::JobAct,
    lease::Tenure,
    metrics::{Metrics, Outcome},
    probes::NodeAct,
    requests::{RequestAct, RequestKind, StatusPatch},
    secrets::Vault,
    size,
    store::Key,
    telemetry::chain,
    time::later_timer,
    wire::{
        Jobs, Markers, NodeImages, NodeProbes, NodeUpdates, Requests, SidecarSets, Updates, Watchable,
        Watched,
    },
    write::{Target, Write},
};

/// The owner of what the manager writes, as `managedFields` shows it.
pub const FIELD_MANAGER: &str = "berth-manager";
/// The owner of what earlier versions said of kinds that nothing acted on.
const NOTICES: &str = "berth-manager-notices";
/// The owner of entries of pods that SidecarSets want: each kind of owner of an entry has its own, for what
/// one of them leaves out of a write is what it takes back.
pub const SIDECARSETS: &str = "berth-manager-sidecarset";
/// Requests to the API server at the same time: some hundred writes a second, and a small part of what one
/// client may have in flight there. With 48 an image was on 1,000 nodes no sooner: it is the API server's
/// work that is waited for.
const AT_ONCE: usize = 16;
/// A write without an answer is tried again after it.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The largest body that is sent. etcd takes 1.5 MiB, and in that is also what others have in the object, and
/// who owns which field.
const MOST_BYTES: usize = 5 << 18;
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
    /// An object stands aside from now on, or is to be given back.
    unwritten: Notify,
    tenure: Tenure,
    metrics: Metrics,
    /// Vault of the credentials that are sealed into NodeImages, at the last moment.
    vault: Vault,
}

/// Consequence of a try.
enum Next {
    /// Nothing is left to be written.
    Over,
    /// It is tried again after a pause.
    Again(Box<Item>),
    /// It was refused by who may let one pass later.
    Aside,
    /// Its time has passed.
    Late,
}

impl Writer {
    /// One whose writes are done by [`Writer::run`].
    pub fn new(tenure: Tenure, metrics: Metrics, vault: Vault) -> Self {
        let (queue, arrived, unwritten) = (Mutex::default(), Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { queue, arrived, unwritten, tenure, metrics, vault }) }
    }

    /// Takes a write. Without the lease it is dropped: the leader owes the same, and what is owed when this
    /// replica leads is decided then.
    pub fn submit(&self, order: impl Into<Write>) -> Result<(), Full> {
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

    /// Waits for objects whose writes came too late, or a right or a rule kept out minutes ago: what is owed
    /// to them is to be decided anew. Cancel-safe: what is taken is returned at once.
    pub async fn given_back(&self) -> Vec<Target> {
        loop {
            let unwritten = self.shared.unwritten.notified();
            let later = match self.shared.give_back() {
                Ok(targets) => return targets,
                Err(later) => later,
            };
            match later {
                // Either way the queue is asked again, so neither can be missed.
                Some(at) => drop(timeout_at(at, unwritten).await),
                None => unwritten.await,
            }
        }
    }

    /// Writes until the shutdown, and ends when what is on its way has ended. What waits is not waited for.
    pub async fn run(self, client: Client, shutdown: CancellationToken) {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut tasks = JoinSet::new();
        loop {
            // Cancel-safe: what arrives is in the queue, a permit that is not used is given back.
            let next = async {
                let permit = permits.clone().acquire_owned().await;
                (permit, self.shared.next().await)
            };
            let Some((permit, item)) = shutdown.run_until_cancelled(next).await else { break };
            let (shared, client) = (self.shared.clone(), client.clone());
            tasks.spawn(async move {
                let target = item.order.target();
                let next = shared.write(client, item, &target).await;
                // The permit is for what is on its way: a pause is spent in the queue.
                drop(permit);
                shared.done(&target, next);
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

    /// The next one, once there is one.
    async fn next(&self) -> Item {
        loop {
            let arrived = self.arrived.notified();
            let later = match self.take() {
                Ok(item) => return item,
                Err(later) => later,
            };
            match later {
                // Either way the queue is asked again, so neither can be missed.
                Some(at) => drop(timeout_at(at, arrived).await),
                None => arrived.await,
            }
        }
    }

    fn take(&self) -> Result<Item, Option<Instant>> {
        let mut queue = self.queue();
        let item = queue.take(Instant::now());
        self.metrics.queued(queue.len());
        item
    }

    fn give_back(&self) -> Result<Vec<Target>, Option<Instant>> {
        self.queue().give_back(Instant::now())
    }

    /// The write is over, or waits for its next try.
    fn done(&self, target: &Target, next: Next) {
        let now = Instant::now();
        let given_back = matches!(next, Next::Aside | Next::Late);
        let superseded = {
            let mut queue = self.queue();
            match next {
                Next::Over => queue.done(target, None),
                Next::Again(item) => {
                    let pause = PAUSES[item.tries.saturating_sub(1).min(PAUSES.len() - 1)];
                    queue.done(target, Some((later_timer(now, pause), *item)))
                }
                // None of its own is left that a newer one could supersede.
                Next::Aside => {
                    queue.refused(target, now);
                    None
                }
                Next::Late => {
                    queue.late(target);
                    None
                }
            }
        };
        if given_back {
            self.unwritten.notify_one();
        }
        if let Some(superseded) = superseded {
            self.metrics.write(superseded.what(), Outcome::Superseded);
        }
        // A newer write of the same object may have waited for it, or one of its namespace.
        self.arrived.notify_one();
    }

    /// Writes one, if there still is a point in it; what is to be tried again comes back.
    async fn write(&self, client: Client, item: Item, target: &Target) -> Next {
        let Item { order, tries } = item;
        if !self.tenure.holds() {
            self.metrics.write(order.what(), Outcome::NotLeading);
            return Next::Over;
        }
        let begun = Instant::now();
        let left = order.by().map(|by| Instant::from_std(by).saturating_duration_since(begun));
        let within = left.map_or(ANSWER_WITHIN, |left| left.min(ANSWER_WITHIN));
        if within.is_zero() {
            self.metrics.write(order.what(), Outcome::Late);
            return Next::Late;
        }
        let body = match Body::of(&order, &self.vault) {
            Ok(body) => body,
            Err(error) => {
                self.metrics.write(order.what(), Outcome::Unsealed);
                warn!(object = %target.key, error = chain(&error), "Not written, credentials cannot be sealed");
                return Next::Over;
            }
        };
        let size = size::bytes(&body);
        let mut by_rule = false;
        let (outcome, error) = if size > MOST_BYTES {
            (Outcome::TooLarge, format!("more than {MOST_BYTES} bytes"))
        } else {
            match timeout(within, send(&client, &order, target, &body)).await {
                Ok(Ok(())) => {
                    self.queue().busy.has_written(Instant::now());
                    (Outcome::Written, String::new())
                }
                Ok(Err(error)) => {
                    if matches!(&error, kube::Error::Api(status) if is_overload(status)) {
                        self.queue().busy.is_told(Instant::now());
                    }
                    by_rule = answer::is_by_rule(&error);
                    (answer::outcome(&error, tries), chain(&error))
                }
                Err(_) => (Outcome::Retried, format!("no answer within {within:.1?}")),
            }
        };
        self.metrics.write(order.what(), outcome);
        if outcome == Outcome::Written {
            self.metrics.written_in(begun.elapsed());
        }
        let aside = outcome == Outcome::Refused && by_rule;
        answer::tell(&order, target, outcome, size, &error, aside);
        if outcome == Outcome::Retried {
            Next::Again(Box::new(Item { order, tries: tries.saturating_add(1) }))
        } else if aside {
            Next::Aside
        } else {
            Next::Over
        }
    }
}

/// One request to the API server.
async fn send(client: &Client, order: &Write, target: &Target, body: &Body) -> kube::Result<()> {
    let Target { key, .. } = target;
    match order {
        Write::Request(StatusPatch { write: RequestAct::Delete, id, .. }) => match id.kind {
            RequestKind::Recreate => delete::<Requests>(&namespaced(client, key), order).await,
            RequestKind::Update => delete::<Updates>(&namespaced(client, key), order).await,
        },
        Write::Request(patch) => match patch.id.kind {
            RequestKind::Recreate => apply::<Requests>(&namespaced(client, key), &key.name, body).await,
            RequestKind::Update => apply::<Updates>(&namespaced(client, key), &key.name, body).await,
        },
        Write::Node(_) => apply::<NodeImages>(&Api::all(client.clone()), &key.name, body).await,
        Write::NodeProbes(order) => {
            let owner = match order.act {
                NodeAct::Desired(_) => FIELD_MANAGER,
                NodeAct::TakeNoticeBack => NOTICES,
            };
            apply_as::<NodeProbes>(&Api::all(client.clone()), &key.name, body, owner).await
        }
        Write::Marker(_) => apply::<Markers>(&namespaced(client, key), &key.name, body).await,
        Write::SidecarSet(_) => apply::<SidecarSets>(&Api::all(client.clone()), &key.name, body).await,
        Write::PodUpdates(_) => {
            apply_as::<NodeUpdates>(&Api::all(client.clone()), &key.name, body, SIDECARSETS).await
        }
        Write::Job(job) => {
            let api = namespaced::<Jobs>(client, key);
            match job.act {
                JobAct::Status(_) => apply(&api, &key.name, body).await,
                JobAct::Delete => delete(&api, order).await,
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

/// Deletes the object in the version that it was decided on.
async fn delete<W>(api: &Api<Watched<W>>, order: &Write) -> kube::Result<()>
where
    W: Watchable,
    Watched<W>: Resource<DynamicType = ()>,
{
    let preconditions = Preconditions {
        uid: Some(order.uid().to_owned()),
        resource_version: Some(order.resource_version().to_owned()),
    };
    let params = DeleteParams::default().preconditions(preconditions);
    api.delete(&order.target().key.name, &params).await.map(drop)
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

#[cfg(test)]
mod tests;
