//! One pull, from the look at the room to the identity of what came.
//!
//! ```text
//!   room? ── credentials ──▶ asked ── runtime ──▶ there: look ──▶ ended
//!     │                        │ ▲       │
//!     │                        │ └─ next ┤ no
//!     │              progress ◀┘         │
//!     ▼                  │ no room       ▼
//!   ended ◀──────────────┴──────────── ended
//! ```
//!
//! Whatever ends it early (a cancel, the limit, the room) drops the call, and with it the pull at the
//! runtime.

use std::{panic::AssertUnwindSafe, time::Duration};

use berth_policy::{Bytes, ImageEvent, PullFailure, PullOrder, PulledImage};
use berth_proto::cri::AuthConfig;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

use super::{
    Shared,
    containerd::{Containerd, Progress, in_time},
    failure::{Attempts, Refusal},
    room::Need,
};
use crate::{agent::fault::Point, base::causes::chain, trace::Span};

/// How often the manifest is looked for, and then how far the pull is.
const FIND: Duration = Duration::from_millis(200);
const FOLLOW: Duration = Duration::from_millis(500);

/// How long what was loaded is kept after the time of an attempt is over; the longest pause between two is 30
/// s.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// Longest time of an attempt that counts here. An attempt that may take longer need not do so; data that
/// nobody comes back for must not fill the disk.
const LONGEST_KEPT: Duration = Duration::from_secs(60 * 60);

/// How one attempt ended.
enum Attempt {
    Pulled(PulledImage),
    Refused(Refusal),
    NoRoom(String),
}

impl Shared {
    /// Carries out an order and says how it ended.
    pub(super) async fn pull(
        &self,
        order: &PullOrder,
        stop: &CancellationToken,
    ) -> Result<PulledImage, PullFailure> {
        let began = Instant::now();
        let span = Span::own("pull");
        span.set("container.image.name", || &*order.image.given);
        info!(image = %order.image, pull = order.pull.0, "Pull begins");
        let work = async {
            match timeout(order.timeout, span.within(self.attempts(order))).await {
                Ok(result) => result,
                Err(_) => Err(PullFailure::TimedOut(order.timeout)),
            }
        };
        // Whoever waits for the answer would wait for ever.
        let work = AssertUnwindSafe(work).catch_unwind();
        // Cancel-safe: what is dropped ends at the runtime.
        let result = match stop.run_until_cancelled(work).await {
            Some(Ok(result)) => result,
            Some(Err(_)) => {
                error!(image = %order.image, pull = order.pull.0, "Pull panicked");
                Err(PullFailure::Refused("the agent failed, see its log".to_owned()))
            }
            None => Err(PullFailure::Cancelled),
        };
        let took = began.elapsed();
        self.metrics.pull_ended(&result, took);
        let seconds = took.as_secs_f64();
        match &result {
            Ok(image) => {
                info!(image = %order.image, pull = order.pull.0, image.id = image.id, seconds, "Pull succeeded");
            }
            Err(failure) => {
                info!(image = %order.image, pull = order.pull.0, %failure, seconds, "Pull failed");
                span.failed(|| failure.to_string());
            }
        }
        result
    }

    /// One credential after the other, as the kubelet does it: the registry alone knows which is the right
    /// one.
    async fn attempts(&self, order: &PullOrder) -> Result<PulledImage, PullFailure> {
        let mut need = self.room.before(order.pull, &order.image.given).await.map_err(PullFailure::NoRoom)?;
        let found = self.credentials.find(&order.image, &order.credentials).await;
        let mut attempts = Attempts::default();
        for candidate in found.candidates {
            (self.sink)(ImageEvent::PullAsked { pull: order.pull, credential: candidate.key });
            debug!(image = %order.image, pull = order.pull.0, from = candidate.from, "Runtime asked to pull");
            let with_credentials = candidate.auth.is_some();
            match self.attempt(order, candidate.auth, &mut need).await {
                Attempt::Pulled(image) => return Ok(image),
                Attempt::Refused(Refusal::Next(text)) => {
                    debug!(image = %order.image, pull = order.pull.0, text, "Attempt refused");
                    attempts.failed(with_credentials, text);
                }
                Attempt::Refused(Refusal::Final(failure)) => return Err(failure),
                Attempt::NoRoom(text) => return Err(PullFailure::NoRoom(text)),
            }
        }
        Err(attempts.failure(&found.notes))
    }

    async fn attempt(&self, order: &PullOrder, auth: Option<AuthConfig>, need: &mut Need<'_>) -> Attempt {
        let mut first = None;
        let asked = self.runtime.pull(&order.image.given, auth.clone(), &order.labels, &order.annotations);
        // Cancel-safe: whichever ends first decides, and the other one has nothing to keep.
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            text = self.follow(order, need, &mut first) => return Attempt::NoRoom(text),
        };
        match answer {
            Ok(image_ref) => {
                Point::Pulled.reached();
                if let Some(Bytes { done, total }) = first {
                    self.metrics.pulled(total.saturating_sub(done));
                }
                Attempt::Pulled(self.identify(order, image_ref).await)
            }
            Err(status) => Attempt::Refused(Refusal::of(&status, auth.as_ref())),
        }
    }

    /// Tells how far the pull is as long as it goes on. Ends only when there is no room for it.
    async fn follow(&self, order: &PullOrder, need: &mut Need<'_>, first: &mut Option<Bytes>) -> String {
        let mut progress = match self.containerd().await {
            Ok(Some(containerd)) => Some(Progress::new(containerd.clone(), &order.image)),
            Ok(None) => None,
            Err(error) => {
                debug!(error = %chain(&error), "Runtime not known, progress of a pull not told");
                None
            }
        };
        let mut last = None;
        loop {
            sleep(if last.is_some() || progress.is_none() { FOLLOW } else { FIND }).await;
            Point::Pulling.reached();
            // Whatever takes it: what is kept free is kept free.
            if let Err(text) = need.holds().await {
                return text;
            }
            let Some(progress) = &mut progress else { continue };
            let bytes = match in_time(progress.look()).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(status) => {
                    debug!(pull = order.pull.0, code = ?status.code(), "Progress of a pull not known");
                    continue;
                }
            };
            if let Err(text) = need.progressed(bytes).await {
                return text;
            }
            if first.is_none() {
                *first = Some(bytes);
                self.keep(order, progress).await;
            }
            if last != Some(bytes) {
                last = Some(bytes);
                (self.sink)(ImageEvent::PullProgressed { pull: order.pull, bytes });
            }
        }
    }

    /// Keeps what it loads for another attempt. Without it that one begins at zero, so a failure is no
    /// failure of the pull.
    async fn keep(&self, order: &PullOrder, progress: &Progress) {
        let (Ok(Some(containerd)), Some(digests)) = (self.containerd().await, progress.digests()) else {
            return;
        };
        let life = order.timeout.min(LONGEST_KEPT).saturating_add(KEPT);
        let until = SignedDuration::try_from(life)
            .ok()
            .and_then(|life| Timestamp::now().checked_add(life).ok())
            .unwrap_or(Timestamp::MAX);
        if let Err(status) = in_time(containerd.keep(&order.image.given, digests, until)).await {
            debug!(pull = order.pull.0, code = ?status.code(), "What is loaded is not kept for another attempt");
        }
    }

    /// Keeps it no longer, unless there may be another attempt.
    pub(super) async fn let_go(
        &self,
        order: &PullOrder,
        result: &Result<PulledImage, PullFailure>,
        at: Timestamp,
    ) {
        // One that was told to end may only have made way; the policy says if nobody wants it any more.
        let again = matches!(
            result,
            Err(PullFailure::Refused(_)
                | PullFailure::TimedOut(_)
                | PullFailure::Away(_)
                | PullFailure::Cancelled)
        );
        let Ok(Some(containerd)) = self.containerd().await else { return };
        if !again {
            release(containerd, &order.image.given, at).await;
        }
    }

    /// The runtime's identity of what came. It is there, so a question without an answer makes no failure of
    /// it.
    async fn identify(&self, order: &PullOrder, image_ref: String) -> PulledImage {
        match self.runtime.look(&order.image.record).await {
            Ok(Some(image)) => PulledImage { id: image.id, image_ref },
            Ok(None) | Err(_) => PulledImage { id: image_ref.clone(), image_ref },
        }
    }
}

/// Keeps nothing more of what pulls of an image before then have loaded.
pub(super) async fn release(containerd: &Containerd, image: &str, before: Timestamp) {
    if let Err(status) = in_time(containerd.release(image, before)).await {
        debug!(image, code = ?status.code(), "What was loaded is kept until its lease ends");
    }
}
