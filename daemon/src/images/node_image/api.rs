//! This node's `NodeImage` in the API server: made if it is missing, followed, and answered.
//!
//! ```text
//!   NodeImage --watch--> wishes --> SharedImages      SharedImages --reports--> status --server-side apply--> NodeImage
//!                        (spec.images,                (pulls, imageStatuses, counts, sealingKey)
//!                         status.desiredImages)
//! ```
//!
//! A change of a phase is written at once, progress at most once a second. While the API server is away
//! everything that was seen stays wished, and what happened is written when it is back. What somebody else
//! has written over is written again (see `written`). `spec.images` gets what OpenKruise's clients look for
//! there (see `spec`), and pulls that end have Events (see `news`).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_policy::{ImageEvent, WishSource};
use berth_proto::crd::{NodeImage, NodeImageStatus, Partly};
use futures::FutureExt;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{Client, Resource, runtime::watcher};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    SharedImages,
    aside::Aside,
    news::{self, Allowance, BURST, News},
    spec,
    status::{self, Told},
    wishes,
    written::Written,
};
use crate::{
    agent::fault::Point,
    base::{
        causes::chain,
        clock::Clock,
        deadline::{later, reached},
        status::whole_second,
    },
    cluster::{
        Cluster, FIELD_MANAGER, Said,
        client::{CallError, Connection},
        follow::{Shown, Watch, follow},
        node_object, pause,
        raw::{self, Raw},
        target::version,
    },
};

/// Pause between a change and its write: a fact and what was planned for it go into one write.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// Pause between two writes; what changes meanwhile goes with the next one.
const WRITES_APART: Duration = Duration::from_millis(50);
/// Pause between two writes of nothing but progress.
const PROGRESS_APART: Duration = Duration::from_secs(1);
/// Pause between two writes into `spec.images`: jobs come and go in crowds.
const SPECS_APART: Duration = Duration::from_secs(1);
/// Longest pause after such writes that failed: it doubles with each.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The side of the images towards the API server.
#[derive(Debug)]
pub(crate) struct NodeImages {
    /// Where wishes go, and reports come from.
    pub images: Arc<SharedImages>,
    /// Where Events go.
    pub cluster: Cluster,
    /// To the API server.
    pub connection: Connection,
    /// `spec.images` shows what jobs want.
    pub shows_jobs: bool,
    /// This node's name in the API.
    pub node: String,
    /// How long an image is kept for its first use.
    pub pin: Option<Duration>,
    /// The node's public key.
    pub sealing_key: Option<String>,
}

/// Last seen state of the object.
#[derive(Clone, Debug)]
struct Seen {
    uid: String,
    version: String,
    /// The version as a number.
    number: u64,
    images: Arc<spec::Images>,
    status: NodeImageStatus,
    faults: Vec<String>,
    /// Entries that cannot be read. What stood in their place before is in `images` and `status`.
    aside: Aside,
}

// === impl NodeImages ===

impl NodeImages {
    /// Follows and answers until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let seen = watch::Sender::new(None);
        let (news, told) = mpsc::channel(BURST);
        let all = async {
            tokio::join!(
                self.follow(&seen),
                self.answer(seen.subscribe(), news),
                self.keep_spec(seen.subscribe()),
                self.tell(told),
            )
        };
        // Cancel-safe: what was not written is written by the next process.
        shutdown.run_until_cancelled(all).await;
    }

    async fn follow(&self, seen: &watch::Sender<Option<Seen>>) {
        let watch = Watch {
            what: "NodeImage",
            single: true,
            insists: false,
            selected: watcher::Config::default().fields(&format!("metadata.name={}", self.node)),
        };
        let ensure = |client: Client| {
            let node = self.node.clone();
            let make = |metadata| NodeImage { metadata, ..NodeImage::new("", Default::default()) };
            async move { node_object::ensure(&client, &node, make).await }.boxed()
        };
        let each = |shown| match shown {
            Shown::Listed(objects) => match objects.into_iter().next() {
                Some(object) => self.take(object, seen),
                None => self.nothing(seen),
            },
            Shown::Applied(object) => self.take(object, seen),
            Shown::Deleted(_) => self.nothing(seen),
            // What it showed stays.
            Shown::NotInstalled(_) | Shown::Refused(_) | Shown::Lost(_) => {}
        };
        follow(&self.connection, &watch, raw::all::<NodeImage>, Raw::typed, ensure, each).await;
    }

    fn nothing(&self, seen: &watch::Sender<Option<Seen>>) {
        seen.send_replace(None);
        self.images.apply(ImageEvent::WishesListed(WishSource::Api, Vec::new()));
    }

    fn take(&self, shown: Partly<NodeImage>, seen: &watch::Sender<Option<Seen>>) {
        let uid = shown.object.metadata.uid.clone().unwrap_or_default();
        let known = seen.borrow();
        let before = known.as_ref().filter(|known| known.uid == uid);
        let (object, aside) = Aside::of(shown, before.map(|known| (&*known.images, &known.status)));
        // The API server may show the same again and again.
        if before.is_none_or(|before| before.aside != aside) && !aside.faults.is_empty() {
            let entries = &aside.faults;
            warn!(node = self.node, ?entries, "Entries of NodeImage not understood, what was wanted stays");
        }
        drop(known);
        let mut asked = wishes::asked(&object, WishSource::Api, "", self.pin);
        self.images.apply(ImageEvent::WishesListed(WishSource::Api, asked.wishes));
        asked.faults.extend(aside.faults.iter().cloned());
        seen.send_replace(Some(Seen {
            uid,
            number: version(&object.metadata),
            version: object.metadata.resource_version.unwrap_or_default(),
            images: Arc::new(object.spec.images),
            status: object.status.unwrap_or_default(),
            faults: asked.faults,
            aside,
        }));
    }

    /// Writes what changes, as long as there is an object to write it to.
    async fn answer(&self, mut seen: watch::Receiver<Option<Seen>>, news: mpsc::Sender<(String, News)>) {
        let mut changes = self.images.news();
        let mut clock = Clock::read();
        let mut written: Option<Written> = None;
        let mut last = None;
        let mut attempt = 0;
        let mut allowance = Allowance::new(Instant::now());
        loop {
            changes.mark_unchanged();
            let now_seen = seen.borrow_and_update().clone();
            clock = clock.kept(Clock::read());
            let mut again = None;
            if let Some(object) = now_seen {
                let own = written.as_ref().filter(|written| written.uid == object.uid);
                let shown = own.map_or(&object.status, |own| &own.sent);
                let owed = self.status(&object, shown, &clock);
                let times = own.map_or(0, |own| own.times_of(&owed));
                let over = own.is_some_and(|own| own.is_written_over(&object.status, object.number));
                again = write_due(own, over, &owed, last);
                if again.is_some_and(|due| due <= Instant::now()) {
                    last = Some(Instant::now());
                    match self.write(&object.uid, &owed).await {
                        Ok(answered) => {
                            let ended = news::ended(shown, &owed, &object.status.desired_images);
                            for one in ended.into_iter().filter(|_| allowance.take(Instant::now())) {
                                // Where there is no room nobody waits for it.
                                let _ = news.try_send((object.uid.clone(), one));
                            }
                            written = Some(Written::new(object.uid, owed, answered, times));
                            attempt = 0;
                            continue;
                        }
                        Err(error) => {
                            warn!(node = self.node, error = %chain(&error), "NodeImage not answered, trying again");
                            again = Some(later(Instant::now(), pause::after(attempt)));
                            attempt += 1;
                        }
                    }
                }
            }
            let again = async {
                match again {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // Cancel-safe: numbers and a timer. A write that failed waits for its pause whatever happens.
            tokio::select! {
                changed = changes.changed(), if attempt == 0 => match changed {
                    Ok(()) => sleep(DEBOUNCE).await,
                    Err(_) => return,
                },
                changed = seen.changed(), if attempt == 0 => if changed.is_err() { return },
                () = again => {}
            }
        }
    }

    /// Writes Events, one after the other.
    async fn tell(&self, mut told: mpsc::Receiver<(String, News)>) {
        while let Some((uid, news)) = told.recv().await {
            let said = Said { reason: news.reason(), warning: news.failed, note: &news.note };
            let node_image = || ObjectReference {
                api_version: Some(NodeImage::api_version(&()).into_owned()),
                kind: Some(NodeImage::kind(&()).into_owned()),
                name: Some(self.node.clone()),
                uid: Some(uid),
                ..ObjectReference::default()
            };
            self.cluster.tell_of(news.job.clone().unwrap_or_else(node_image), &said).await;
        }
    }

    /// Writes what is due in `spec.images`, as long as there is an object to write it to.
    async fn keep_spec(&self, mut seen: watch::Receiver<Option<Seen>>) {
        let mut pause = SPECS_APART;
        loop {
            let shown = seen.borrow_and_update().clone();
            let due = shown.as_ref().map(|shown| self.due(shown)).unwrap_or_default();
            let mut failed = false;
            if let Some(shown) = shown.filter(|_| !due.changes.is_empty()) {
                match self.write_spec(&shown, &due.changes).await {
                    // The watch shows what was written, and what somebody else has written before.
                    Ok(()) => pause = SPECS_APART,
                    Err(error) if error.is_conflict() || error.is_gone() => pause = SPECS_APART,
                    Err(error) => {
                        warn!(node = self.node, error = %chain(&error), "What jobs want not shown in spec.images, trying again");
                        failed = true;
                        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    }
                }
                sleep(pause).await;
            }
            if failed {
                continue;
            }
            let over = due.again.map(|at| Clock::read().instant(at));
            // Cancel-safe: a number and a timer.
            tokio::select! {
                changed = seen.changed() => if changed.is_err() { return },
                () = reached(over) => {}
            }
        }
    }

    fn due(&self, shown: &Seen) -> spec::Due {
        let copies = if self.shows_jobs { spec::copies(&shown.status) } else { BTreeMap::new() };
        let mut due = spec::due(&shown.images, &shown.status, copies, Timestamp::now());
        shown.aside.spare(&mut due.changes);
        due
    }

    async fn write_spec(&self, shown: &Seen, changes: &BTreeMap<String, Value>) -> Result<(), CallError> {
        let (of, spec) = ((shown.uid.as_str(), shown.version.as_str()), json!({ "images": changes }));
        node_object::merge_spec::<NodeImage>(&self.connection, &self.node, of, spec).await
    }

    fn status(&self, object: &Seen, previous: &NodeImageStatus, clock: &Clock) -> NodeImageStatus {
        let mut reports = self.images.reports();
        reports.retain(|report| report.id.source == WishSource::Api);
        let told = Told {
            reports: &reports,
            prefix: "",
            faults: &object.faults,
            sealing_key: self.sealing_key.as_deref(),
        };
        let status = status::status(&told, previous, clock, Time(whole_second(Timestamp::now())));
        object.aside.answered(status, previous)
    }

    async fn write(&self, uid: &str, status: &NodeImageStatus) -> Result<NodeImage, CallError> {
        Point::Answering.reached();
        let written =
            node_object::apply_status::<NodeImage>(&self.connection, &self.node, uid, FIELD_MANAGER, status);
        let written = written.await;
        Point::Answered.reached();
        written.map(|written| written.object)
    }
}

/// Time at which the status that is owed is to be written, after the own one of before, which somebody may
/// have written over, and after the last write; `None`: it is written.
fn write_due(
    own: Option<&Written>,
    over: bool,
    owed: &NodeImageStatus,
    last: Option<Instant>,
) -> Option<Instant> {
    match (own, last) {
        (Some(own), _) if own.sent == *owed && !over => None,
        (Some(own), Some(last)) if own.sent == *owed => Some(later(last, own.pause())),
        (Some(own), Some(last)) if status::without_progress(&own.sent) == status::without_progress(owed) => {
            Some(later(last, PROGRESS_APART))
        }
        (_, Some(last)) => Some(later(last, WRITES_APART)),
        (_, None) => Some(Instant::now()),
    }
}
