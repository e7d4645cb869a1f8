//! The one owner of the indexes: takes in what the watches show, asks again when time has passed, hands on
//! what is owed.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{
    health::Listed,
    images::{Effect, Fetch, ImageIndex},
    lease::Tenure,
    metrics::Metrics,
    probes::ProbeIndex,
    requests::{RequestId, RequestIndex, RequestKind},
    secrets::{Answer, Vault},
    seen::{Kind, Now, Object},
    watch::Input,
    write::{Target, Write},
    writer::Writer,
};

/// The sizes are counted once in it at the most: that looks at all objects, and an event must not.
const COUNTED_EVERY: Duration = Duration::from_millis(100);
/// Inputs taken at once before the clock is looked at again.
const BATCH: usize = 256;

/// The indexes and what they are connected to.
#[derive(Debug)]
pub struct Controller {
    /// Requests. Pure.
    pub requests: RequestIndex,
    /// Images. Pure.
    pub images: ImageIndex,
    /// Probes. Pure.
    pub probes: ProbeIndex,
    /// Takes what is to be read of Secrets.
    pub fetches: mpsc::UnboundedSender<Fetch>,
    /// Gives what was read.
    pub answers: mpsc::Receiver<Answer>,
    /// Keeps it.
    pub vault: Vault,
    /// From the watches.
    pub inputs: mpsc::Receiver<Input>,
    /// Whether this replica may write.
    pub tenure: Tenure,
    /// Takes what is owed.
    pub writer: Writer,
    /// Learns which kinds have been listed.
    pub listed: watch::Sender<Listed>,
    /// Counts.
    pub metrics: Metrics,
}

impl Controller {
    /// Runs until the watches have ended.
    pub async fn run(mut self) {
        let mut term = None;
        let mut inputs = Vec::with_capacity(BATCH);
        let (mut counted, mut count_at) = (None, None);
        loop {
            // Cancel-safe: `recv` and `recv_many` take nothing unless they return it, the tenure keeps its
            // newest value, and a deadline that was not waited for to its end is still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    for input in inputs.drain(..) {
                        self.take(input);
                    }
                }
                Some(answer) = self.answers.recv() => self.answered(answer),
                () = self.tenure.changed() => {}
                () = deadline(self.requests.next_deadline()) => {}
                () = deadline(self.images.next_deadline()) => {}
                () = deadline(self.probes.next_deadline()) => {}
                () = deadline(count_at) => {}
            }
            let before = std::mem::replace(&mut term, self.tenure.term());
            let now = now();
            let (patches, effects, orders) = if term.is_some() && term != before {
                (self.requests.owed(now), self.images.owed(now), self.probes.owed(now))
            } else if term.is_none() && before.is_some() {
                (self.requests.due(now), self.images.rests(now), self.probes.rests(now))
            } else {
                (self.requests.due(now), self.images.due(now), self.probes.due(now))
            };
            self.hand_on(patches);
            self.carry_out(effects);
            self.hand_on(orders);
            let next = counted.and_then(|at: Instant| at.checked_add(COUNTED_EVERY));
            count_at = next.filter(|at| *at > now.instant);
            if count_at.is_none() {
                counted = Some(now.instant);
                self.metrics.size(self.requests.size());
                self.metrics.images(self.images.size());
                self.metrics.probes(self.probes.size());
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = now();
        let (patches, effects, orders) = match input {
            Input::ListBegins(kind) => {
                self.requests.list_begins(kind, now);
                self.images.list_begins(kind, now);
                self.probes.list_begins(kind, now);
                return;
            }
            Input::ListEnds(kind) => {
                let owed = (
                    self.requests.list_ends(kind, now),
                    self.images.list_ends(kind, now),
                    self.probes.list_ends(kind, now),
                );
                self.listed.send_modify(|listed| listed.add(kind));
                let (requests, images) = (self.requests.size(), self.images.size());
                info!(kind = kind.name(), ?requests, ?images, probes = ?self.probes.size(), "Listed");
                owed
            }
            Input::Apply(object) => {
                match &object {
                    Object::Request(seen) => {
                        left_alone(Kind::Request, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::Update(seen) => {
                        left_alone(Kind::Update, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::ImagePullJob(seen) => {
                        left_alone(Kind::ImagePullJob, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::PodProbeMarker(seen) => {
                        left_alone(Kind::PodProbeMarker, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::Pod(_) | Object::Node(_) | Object::NodeImage(_) | Object::NodePodProbe(_) => {}
                }
                let (effects, orders) = (self.images.apply(&object, now), self.probes.apply(&object, now));
                (self.requests.apply(object, now), effects, orders)
            }
            Input::Delete { kind, namespace, name } => (
                self.requests.delete(kind, &namespace, &name, now),
                self.images.delete(kind, &namespace, &name, now),
                self.probes.delete(kind, &namespace, &name, now),
            ),
            Input::Absent(kind) => {
                // There is nothing of it to know, and what was known stays. No other kind of requests waits for it.
                self.requests.view_broke(kind, now);
                self.images.view_broke(kind, now);
                self.probes.view_broke(kind, now);
                self.listed.send_modify(|listed| listed.add(kind));
                return;
            }
            Input::Broke(kind) => {
                self.requests.view_broke(kind, now);
                self.images.view_broke(kind, now);
                self.probes.view_broke(kind, now);
                return;
            }
        };
        self.hand_on(patches);
        self.carry_out(effects);
        self.hand_on(orders);
    }

    fn answered(&mut self, Answer { fetch, result }: Answer) {
        // Read for a job that has ended meanwhile, or has another image now, or that another replica has now.
        if !self.images.wants_secrets(&fetch) {
            return;
        }
        let Fetch { uid, image, .. } = fetch;
        let effects = match result {
            Ok(credentials) => {
                self.vault.keep(uid.clone(), image, credentials);
                self.images.secrets_ready(&uid, now())
            }
            Err(text) => {
                self.vault.forget(&uid);
                self.images.secrets_missing(&uid, &text, now())
            }
        };
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(order) => self.hand_on([order]),
                // Its reader ends after this task.
                Effect::Fetch(fetch) => drop(self.fetches.send(fetch)),
                Effect::Forget(uid) => self.vault.forget(&uid),
            }
        }
    }

    fn hand_on<O: Into<Write>>(&mut self, orders: impl IntoIterator<Item = O>) {
        for order in orders {
            if let Err(full) = self.writer.submit(order) {
                self.lost(full.target);
            }
        }
    }

    fn lost(&mut self, target: Target) {
        let kind = match target.kind {
            Kind::Request => RequestKind::Recreate,
            Kind::Update => RequestKind::Update,
            Kind::PodProbeMarker | Kind::NodePodProbe => return self.probes.lost(&target, now()),
            Kind::Pod | Kind::Node | Kind::NodeImage | Kind::ImagePullJob => {
                return self.images.lost(&target, now());
            }
        };
        self.requests.lost(&RequestId { kind, key: target.key }, now());
    }
}

/// Said once for each version of it.
fn left_alone<T>(kind: Kind, namespace: &str, name: &str, status: &Result<T, String>) {
    if let Err(error) = status {
        warn!(kind = kind.name(), namespace, name, error, "Left alone, its status cannot be read");
    }
}

async fn deadline(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}

/// The clocks are read here and nowhere below. Tokio's monotonic one is what tests can stop.
fn now() -> Now {
    Now { instant: tokio::time::Instant::now().into_std(), wall: Timestamp::now() }
}
