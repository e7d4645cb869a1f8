//! Pulls over the admin socket: wishes that live as long as somebody listens, and the list of all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_policy::{ImageEvent, Wish, WishId, WishReport, WishSource};
use berth_proto::{admin, image::Reference};
use futures::{Stream, stream};
use tokio::{sync::watch, time::Instant};
use tonic::Status;

use crate::images::node_image::{SharedImages, plain};

/// Shortest time between two answers in the same phase: faster changes are told together.
const ANSWER_INTERVAL: Duration = Duration::from_millis(100);

/// A wish of a listener; it goes when nobody listens any more.
struct Listener {
    images: Arc<SharedImages>,
    id: WishId,
    changes: watch::Receiver<u64>,
    told: Option<(admin::PullState, Instant)>,
}

/// Makes the wish that this request asks for.
#[allow(clippy::result_large_err, reason = "what a service answers")]
pub(super) fn wish(asked: &admin::PullRequest) -> Result<Wish, Status> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let reference: Reference = asked.image.parse().map_err(|error| {
        Status::invalid_argument(format!("{error}; give [registry/]repository[:tag][@digest]"))
    })?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let id = WishId { source: WishSource::Admin, key: Arc::from(number.to_string()) };
    let wish = plain(id, &reference);
    let timeout = match asked.timeout_seconds {
        None => wish.timeout,
        Some(seconds @ 1..) => Duration::from_secs(seconds.unsigned_abs().into()),
        Some(seconds) => {
            return Err(Status::invalid_argument(format!("a timeout of {seconds} s; give 1 s or more")));
        }
    };
    let retries = match asked.backoff_limit {
        None => wish.retries,
        Some(limit) => u32::try_from(limit).map_err(|_| {
            Status::invalid_argument(format!("{limit} attempts after the first one; give 0 or more"))
        })?,
    };
    Ok(Wish { always: asked.always, timeout, retries, ..wish })
}

/// Wishes it, and tells every change of it until it ends.
#[allow(clippy::result_large_err, reason = "what a service answers")]
pub(super) fn pull(
    images: &Arc<SharedImages>,
    asked: &admin::PullRequest,
) -> Result<impl Stream<Item = Result<admin::PullState, Status>> + Send + use<>, Status> {
    let wish = wish(asked)?;
    let listener =
        Listener { images: images.clone(), id: wish.id.clone(), changes: images.news(), told: None };
    images.apply(ImageEvent::WishSeen(Box::new(wish)));
    Ok(stream::unfold(Some(listener), async |listener| {
        let mut listener = listener?;
        let state = listener.next().await?;
        let ended = ["Succeeded", "Failed"].contains(&state.phase.as_str());
        Some((Ok(state), (!ended).then_some(listener)))
    }))
}

impl Listener {
    /// The next state that is another one; `None` when the wish is gone, which only this one could have
    /// caused.
    async fn next(&mut self) -> Option<admin::PullState> {
        loop {
            self.changes.mark_unchanged();
            let now = Instant::now();
            let state = state(&self.images.report(&self.id)?, now);
            match &self.told {
                Some((told, _)) if same(told, &state) => {}
                Some((told, at)) if told.phase == state.phase && at.elapsed() < ANSWER_INTERVAL => {
                    tokio::time::sleep(ANSWER_INTERVAL.saturating_sub(at.elapsed())).await;
                    continue;
                }
                _ => {
                    self.told = Some((state.clone(), now));
                    return Some(state);
                }
            }
            self.changes.changed().await.ok()?;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.images.apply(ImageEvent::WishGone(self.id.clone()));
    }
}

/// All wishes, or those for one image.
pub(super) fn pulls(images: &SharedImages, wanted: &str) -> admin::PullsResponse {
    let now = Instant::now();
    let reports = images.reports().into_iter();
    let wanted = reports.filter(|report| wanted.is_empty() || *report.image.given == *wanted);
    admin::PullsResponse { pulls: wanted.map(|report| state(&report, now)).collect() }
}

/// But for its age, which always changes.
fn same(a: &admin::PullState, b: &admin::PullState) -> bool {
    admin::PullState { age_milliseconds: 0, ..a.clone() }
        == admin::PullState { age_milliseconds: 0, ..b.clone() }
}

fn state(report: &WishReport, now: Instant) -> admin::PullState {
    let bytes = report.bytes.unwrap_or_default();
    let age = report.started.map(|started| now.into_std().saturating_duration_since(started));
    admin::PullState {
        image: report.image.given.to_string(),
        wanted_by: report.id.source.name().to_owned(),
        // The file of a wish, and which one of it.
        name: report.id.key.replace('\0', " "),
        phase: report.phase.name().to_owned(),
        percent: report.percent().into(),
        bytes_done: bytes.done,
        bytes_total: bytes.total,
        attempts: report.attempts,
        message: report.message.clone(),
        image_id: report.image_id.clone().unwrap_or_default(),
        age_milliseconds: age.map(super::millis).unwrap_or_default(),
    }
}
