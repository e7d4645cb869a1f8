//! The one owner of the index: takes in what the watches show, asks again when time has passed, hands on what is owed.

use std::{future::pending, time::Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{
    health::Listed,
    index::{Index, Now, Object, StatusPatch},
    lease::Tenure,
    metrics::Metrics,
    watch::Input,
    writer::Writer,
};

/// Inputs taken at once before the clock is looked at again.
const BATCH: usize = 256;

/// The index and what it is connected to.
#[derive(Debug)]
pub struct Centre {
    /// Pure.
    pub index: Index,
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

impl Centre {
    /// Runs until the watches have ended.
    pub async fn run(mut self) {
        let mut leads = false;
        let mut inputs = Vec::with_capacity(BATCH);
        loop {
            // Cancel-safe: `recv_many` takes nothing unless it returns it, the tenure keeps its newest value, and a
            // deadline that was not waited for to its end is still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    for input in inputs.drain(..) {
                        let patches = self.take(input);
                        self.hand_on(patches);
                    }
                }
                () = self.tenure.changed() => {}
                () = deadline(self.index.next_deadline()) => {}
            }
            let led = std::mem::replace(&mut leads, self.tenure.holds());
            let patches = if leads && !led { self.index.owed(now()) } else { self.index.due(now()) };
            self.hand_on(patches);
            self.metrics.size(self.index.size());
        }
    }

    fn take(&mut self, input: Input) -> Vec<StatusPatch> {
        let now = now();
        match input {
            Input::ListBegins(kind) => {
                self.index.list_begins(kind, now);
                Vec::new()
            }
            Input::ListEnds(kind) => {
                let patches = self.index.list_ends(kind, now);
                self.listed.send_modify(|listed| listed.add(kind));
                info!(kind = kind.name(), size = ?self.index.size(), "Listed");
                patches
            }
            Input::Apply(object) => {
                if let Object::Request(request) = &object
                    && let Err(error) = &request.status
                {
                    let (namespace, name) = (&request.namespace, &request.name);
                    warn!(namespace, name, error, "Request left alone, its status cannot be read");
                }
                self.index.apply(object, now)
            }
            Input::Delete { kind, namespace, name } => self.index.delete(kind, &namespace, &name, now),
            Input::Broke(kind) => {
                self.index.view_broke(kind, now);
                Vec::new()
            }
        }
    }

    fn hand_on(&mut self, patches: Vec<StatusPatch>) {
        for patch in patches {
            if let Err(full) = self.writer.submit(patch) {
                self.index.lost(&full.key, now());
            }
        }
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
