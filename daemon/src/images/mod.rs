//! Carries out what is due about images: looks, pulls, cancels, pins. No decisions but those of one pull.
//!
//! ```text
//!   Images ──ImageStep──▶ ImageExecutor ──▶ runtime (CRI), containerd (progress, pins)
//!      ▲                       │  credentials ◀── seals, docker configurations, plugins
//!      └──────ImageEvent───────┘  room ◀── statvfs
//! ```
//!
//! Each step is answered once, by the event it names. Only at the shutdown pulls are dropped without an
//! answer: nobody is told that they failed, and the next process begins them again. Nothing in it knows pods,
//! wishes or the API server.
//!
//! - [`node_image`]: the images that are wanted on the node, and what is told of them.
//! - [`gate`]: the gate of the data path, which tells the images of the kubelet's own pulls.

mod containerd;
pub(crate) mod credentials;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
pub(crate) mod gate;
pub(crate) mod metrics;
pub(crate) mod node_image;
pub(crate) mod node_key;
mod pull;
mod room;
pub(crate) mod runtime;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_policy::{ImageEvent, ImageReference, ImageStep, PullId, PullOrder};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

pub(crate) use self::containerd::record_name;
use self::{
    containerd::{Containerd, in_time},
    credentials::CredentialFinder,
    metrics::ImageMetrics,
    room::Room,
    runtime::ImageRuntime,
};
use crate::{base::causes::chain, config::Reserve, cri::RuntimeError};

/// How long containerd may take until its CRI shows a label that was set, and how often that is looked at.
const PIN_SHOWN: Duration = Duration::from_secs(2);
const PIN_LOOK: Duration = Duration::from_millis(100);

/// Where events go.
type Sink = Box<dyn Fn(ImageEvent) + Send + Sync>;

/// Executor of the steps. A clone works on the same pulls.
#[derive(Clone, Debug)]
pub(crate) struct ImageExecutor {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    /// Drops every pull.
    shutdown: CancellationToken,
}

/// Clients and state that the tasks share.
struct Shared {
    runtime: ImageRuntime,
    /// Set once the runtime has said what it is: `None` = not containerd.
    containerd: OnceCell<Option<Containerd>>,
    /// Set once it is known whether the kubelet is shown pins.
    pins_shown: OnceCell<()>,
    credentials: CredentialFinder,
    room: Room,
    metrics: ImageMetrics,
    sink: Sink,
    /// How to end each pull that runs. A std mutex: nothing awaits inside.
    running: Mutex<HashMap<PullId, CancellationToken>>,
}

impl ImageExecutor {
    /// An executor that tells `sink` what happens. It does nothing before the first step.
    pub(crate) fn new(
        runtime: ImageRuntime,
        reserve: Reserve,
        credentials: CredentialFinder,
        metrics: ImageMetrics,
        sink: impl Fn(ImageEvent) + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            room: Room::new(runtime.clone(), reserve),
            runtime,
            containerd: OnceCell::new(),
            pins_shown: OnceCell::new(),
            credentials,
            metrics,
            sink: Box::new(sink),
            running: Mutex::default(),
        };
        Self { shared: Arc::new(shared), tasks: TaskTracker::new(), shutdown: CancellationToken::new() }
    }

    /// Begins a step; what comes of it is told to the sink.
    pub(crate) fn begin(&self, step: ImageStep) {
        let shared = self.shared.clone();
        match step {
            ImageStep::Look(image) => self.spawn(async move { shared.look(image).await }),
            ImageStep::Pull(order) => self.pull(order),
            ImageStep::Cancel(pull) => {
                // One that is over has been answered.
                if let Some(running) = shared.running().get(&pull) {
                    running.cancel();
                }
            }
            ImageStep::Pin(image, until) => {
                let until = wall_clock(until);
                self.spawn(async move { shared.pin(image, Some(until)).await });
            }
            ImageStep::LetGo(image) => self.spawn(async move {
                if let Ok(Some(containerd)) = shared.containerd().await {
                    pull::release(containerd, &image.given, Timestamp::now()).await;
                }
            }),
            ImageStep::Unpin(image) => self.spawn(async move { shared.pin(image, None).await }),
        }
    }

    /// Tells which pins there are from an earlier life: `PinsListed`. A failure is for the caller to try
    /// again.
    pub(crate) async fn list_pins(&self) -> Result<(), RuntimeError> {
        let pins = match self.shared.containerd().await? {
            Some(containerd) => in_time(containerd.pins())
                .await
                .map_err(|status| RuntimeError::Call { method: "images.List", status: Box::new(status) })?,
            None => Vec::new(),
        };
        let pins = pins.into_iter().map(|(name, until)| (name.into(), monotonic(until))).collect();
        (self.shared.sink)(ImageEvent::PinsListed(pins));
        Ok(())
    }

    /// Drops all pulls and waits for the end of all tasks. No event comes after it.
    pub(crate) async fn end(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn pull(&self, order: Box<PullOrder>) {
        let shared = self.shared.clone();
        let stop = CancellationToken::new();
        // Before anything awaits, so that a cancel that follows at once finds it.
        shared.running().insert(order.pull, stop.clone());
        self.spawn(async move {
            let result = shared.pull(&order, &stop).await;
            shared.running().remove(&order.pull);
            let ended = Timestamp::now();
            (shared.sink)(ImageEvent::PullEnded { pull: order.pull, result: result.clone() });
            shared.let_go(&order, &result, ended).await;
        });
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            // Cancel-safe: a pull that is dropped ends at the runtime, and everything else is one call.
            shutdown.run_until_cancelled(work).await;
        });
    }
}

impl Shared {
    /// The way to containerd; `None` where the runtime is another one.
    async fn containerd(&self) -> Result<Option<&Containerd>, RuntimeError> {
        let ask = async || {
            let name = self.runtime.name().await?;
            if name == "containerd" {
                return Ok(Some(Containerd::new(self.runtime.channel())));
            }
            info!(runtime = name, "Pulls have no progress and images no pins: this runtime has neither");
            Ok(None)
        };
        self.containerd.get_or_try_init(ask).await.map(Option::as_ref)
    }

    async fn look(&self, image: ImageReference) {
        // By its whole name: a short one that is not there could be taken for the beginning of an identity.
        (self.sink)(match self.runtime.look(&image.record).await {
            Ok(found) => ImageEvent::Looked { image, found },
            Err(error) => ImageEvent::LookFailed { image, message: chain(&error) },
        });
    }

    /// Pins the image of this record until then, or unpins it.
    async fn pin(&self, image: Arc<str>, until: Option<Timestamp>) {
        let done = match self.containerd().await {
            Ok(None) => Ok(false),
            Ok(Some(containerd)) => {
                let label = async {
                    match until {
                        Some(until) => containerd.pin(&image, until).await,
                        None => containerd.unpin(&image).await,
                    }
                };
                in_time(label).await.map_err(|status| RuntimeError::Call {
                    method: "images.Update",
                    status: Box::new(status),
                })
            }
            Err(error) => Err(error),
        };
        let pinned = matches!(done, Ok(true)) && until.is_some();
        (self.sink)(match done {
            Ok(_) => ImageEvent::PinDone(image.clone()),
            Err(error) => {
                warn!(%image, error = %chain(&error), "Pin of an image not changed");
                ImageEvent::PinFailed(image.clone())
            }
        });
        if pinned {
            self.pins_shown.get_or_init(|| self.look_for_pin(&image)).await;
        }
    }

    /// Says once if a pin keeps nothing: containerd's CRI learnt of them late.
    async fn look_for_pin(&self, image: &str) {
        let shown = async {
            while !matches!(self.runtime.shows_pinned(image).await, Ok(true)) {
                sleep(PIN_LOOK).await;
            }
        };
        if timeout(PIN_SHOWN, shown).await.is_err() {
            info!(
                "This containerd does not show pins: the kubelet may remove pulled images before they are used"
            );
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<PullId, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// Converts this instant to the time of the wall clock.
fn wall_clock(at: std::time::Instant) -> Timestamp {
    let now = Instant::now().into_std();
    let left = SignedDuration::try_from(at.saturating_duration_since(now)).unwrap_or(SignedDuration::MAX);
    Timestamp::now().saturating_add(left).unwrap_or(Timestamp::MAX)
}

/// The instant at which the clock on the wall shows this; now for what is over.
fn monotonic(at: Timestamp) -> std::time::Instant {
    let left = at.duration_since(Timestamp::now());
    let now = Instant::now().into_std();
    now.checked_add(left.unsigned_abs()).filter(|_| left.is_positive()).unwrap_or(now)
}

#[cfg(test)]
mod tests;
