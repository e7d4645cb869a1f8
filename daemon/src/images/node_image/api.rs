//! This node's `NodeImage` in the API server: made if it is missing, followed, and answered.
//!
//! ```text
//!   NodeImage --watch--> wishes --> Keeper            Keeper --reports--> status --server-side apply--> NodeImage
//!                        (spec.images,                (pulls, imageStatuses, counts, sealingKey)
//!                         status.desiredImages)
//! ```
//!
//! A change of a phase is written at once, progress at most once a second. While the API server is away everything that was
//! seen stays wished, and what happened is written when it is back.

use std::{pin::pin, sync::Arc, time::Duration};

use berth_policy::{ImageEvent, WishSource};
use berth_proto::crd::{NodeImage, NodeImageStatus};
use futures::TryStreamExt;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    SharedImages,
    status::{self, Told},
    wishes,
};
use crate::{
    agent::fault::Point,
    base::{causes::chain, clock::Clock, deadline::later, status::whole_second},
    cluster::{
        FIELD_MANAGER,
        client::{self, CallError, Connection},
        node_object, pause,
    },
};

/// After a change, before it is told: a fact and what was planned for it are one thing to tell.
const TOGETHER: Duration = Duration::from_millis(10);
/// Between two writes; what changes meanwhile goes with the next one.
const WRITES_APART: Duration = Duration::from_millis(50);
/// Between two writes of nothing but progress.
const PROGRESS_APART: Duration = Duration::from_secs(1);
/// How often the kind is looked for when the API server does not have it, or not for us.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The side of the images towards the API server.
#[derive(Debug)]
pub(crate) struct NodeImages {
    /// Where wishes go, and reports come from.
    pub keeper: Arc<SharedImages>,
    /// To the API server.
    pub connection: Connection,
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
    status: NodeImageStatus,
    faults: Vec<String>,
}

/// Why the object is not followed now.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("no client of the API server")]
    Client(#[source] crate::cluster::client::ClientError),
    #[error("NodeImage {0} not made")]
    Made(String, #[source] Box<kube::Error>),
    /// The kubelet registers it, maybe later than we start.
    #[error("there is no Node {0} yet, and a NodeImage goes with its Node")]
    NoNode(String),
    #[error("watch of NodeImage {0}")]
    Watch(String, #[source] Box<watcher::Error>),
    #[error("NodeImage {0} was deleted")]
    Deleted(String),
    #[error("the watch of NodeImage {0} ended")]
    Ended(String),
}

// === impl NodeImages ===

impl NodeImages {
    /// Follows and answers until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let seen = watch::Sender::new(None);
        let both = async { tokio::join!(self.follow(&seen), self.answer(seen.subscribe())) };
        // Cancel-safe: what was not written is written by the next process.
        shutdown.run_until_cancelled(both).await;
    }

    async fn follow(&self, seen: &watch::Sender<Option<Seen>>) {
        let (mut attempt, mut told) = (0, None);
        loop {
            let began = Instant::now();
            let lost = self.follow_once(seen).await;
            let text = chain(&lost);
            // What was followed for a while and is lost again is news.
            told = told.filter(|_| began.elapsed() < LOOK_AGAIN);
            if told.as_ref() != Some(&text) {
                warn!(node = self.node, error = text, "NodeImage not followed, what it showed stays");
                told = Some(text);
            }
            attempt = if began.elapsed() > LOOK_AGAIN { 0 } else { attempt + 1 };
            match lost.is_refusal() {
                true => sleep(LOOK_AGAIN).await,
                false => sleep(pause::after(attempt)).await,
            }
        }
    }

    async fn follow_once(&self, seen: &watch::Sender<Option<Seen>>) -> Lost {
        let session = match self.connection.session().await {
            Ok(session) => session,
            Err(error) => return Lost::Client(error),
        };
        let make = |metadata| NodeImage { metadata, ..NodeImage::new("", Default::default()) };
        let lost = match node_object::ensure(&session.client, &self.node, make).await {
            Ok(true) => self.watch(&session.client, seen).await,
            Ok(false) => return Lost::NoNode(self.node.clone()),
            Err(error) => Lost::Made(self.node.clone(), Box::new(error)),
        };
        if !lost.is_refusal() && !matches!(lost, Lost::Deleted(_)) {
            self.connection.discard(&session).await;
        }
        lost
    }

    async fn watch(&self, client: &Client, seen: &watch::Sender<Option<Seen>>) -> Lost {
        let api: Api<NodeImage> = Api::all(client.clone());
        let own = watcher::Config::default().fields(&format!("metadata.name={}", self.node));
        let mut events = pin!(watcher::watcher(api, own));
        let mut shown = false;
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => shown = false,
                Ok(Some(Event::InitApply(object) | Event::Apply(object))) => {
                    shown = true;
                    self.take(&object, seen);
                }
                Ok(Some(Event::InitDone)) if shown => {}
                Ok(Some(Event::InitDone | Event::Delete(_))) => {
                    seen.send_replace(None);
                    self.keeper.apply(ImageEvent::WishesListed(WishSource::Api, Vec::new()));
                    return Lost::Deleted(self.node.clone());
                }
                Ok(None) => return Lost::Ended(self.node.clone()),
                Err(error) => return Lost::Watch(self.node.clone(), Box::new(error)),
            }
        }
    }

    fn take(&self, object: &NodeImage, seen: &watch::Sender<Option<Seen>>) {
        let asked = wishes::asked(object, WishSource::Api, "", self.pin);
        self.keeper.apply(ImageEvent::WishesListed(WishSource::Api, asked.wishes));
        seen.send_replace(Some(Seen {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            status: object.status.clone().unwrap_or_default(),
            faults: asked.faults,
        }));
    }

    /// Writes what changes, as long as there is an object to write it to.
    async fn answer(&self, mut seen: watch::Receiver<Option<Seen>>) {
        let mut changes = self.keeper.news();
        let mut clock = Clock::read();
        let mut written: Option<(String, NodeImageStatus)> = None;
        let mut last = None;
        let mut attempt = 0;
        loop {
            changes.mark_unchanged();
            let now_seen = seen.borrow_and_update().clone();
            clock = clock.kept(Clock::read());
            let mut again = None;
            if let Some(object) = now_seen {
                let before = written.as_ref().filter(|(uid, _)| *uid == object.uid).map(|(_, status)| status);
                let owed = self.status(&object, before.unwrap_or(&object.status), &clock);
                let due = match (before, last) {
                    (Some(before), _) if *before == owed => None,
                    (Some(before), Some(last))
                        if status::without_progress(before) == status::without_progress(&owed) =>
                    {
                        Some(later(last, PROGRESS_APART))
                    }
                    (_, Some(last)) => Some(later(last, WRITES_APART)),
                    (_, None) => Some(Instant::now()),
                };
                match due {
                    Some(due) if due <= Instant::now() => {
                        last = Some(Instant::now());
                        match self.write(&object.uid, &owed).await {
                            Ok(()) => {
                                written = Some((object.uid, owed));
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
                    due => again = due,
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
                    Ok(()) => sleep(TOGETHER).await,
                    Err(_) => return,
                },
                changed = seen.changed(), if attempt == 0 => if changed.is_err() { return },
                () = again => {}
            }
        }
    }

    fn status(&self, object: &Seen, previous: &NodeImageStatus, clock: &Clock) -> NodeImageStatus {
        let mut reports = self.keeper.reports();
        reports.retain(|report| report.id.source == WishSource::Api);
        let told = Told {
            reports: &reports,
            prefix: "",
            faults: &object.faults,
            sealing_key: self.sealing_key.as_deref(),
        };
        status::status(&told, previous, clock, Time(whole_second(Timestamp::now(), false)))
    }

    async fn write(&self, uid: &str, status: &NodeImageStatus) -> Result<(), CallError> {
        Point::Answering.reached();
        let write =
            node_object::apply_status::<NodeImage>(&self.connection, &self.node, uid, FIELD_MANAGER, status);
        let written = write.await;
        Point::Answered.reached();
        written.map(drop)
    }
}

// === impl Lost ===

impl Lost {
    /// Another client, or haste, would not help.
    fn is_refusal(&self) -> bool {
        let code = match self {
            Self::Made(_, error) => match &**error {
                kube::Error::Api(status) => status.code,
                _ => return false,
            },
            Self::Watch(_, error) => match client::watch_refusal(error) {
                Some(code) => code,
                None => return false,
            },
            Self::Client(_) | Self::NoNode(_) | Self::Deleted(_) | Self::Ended(_) => return false,
        };
        [403, 404].contains(&code)
    }
}
