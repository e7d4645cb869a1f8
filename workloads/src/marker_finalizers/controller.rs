//! The one owner of what is known of markers and of the nodes that have them; begins the patches that are
//! due.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::{
    marker_finalizers::{Given, Next, next},
    store::Store,
};
use tokio::sync::mpsc;
use tracing::{error, warn};

use super::{MARKERS, NODES, nodes::Nodes, view::MarkerView, write};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, Turn},
    owned::Concerned,
    timing::{AT_ONCE, Backoff},
    watch::Shown,
    write::Failure,
};

/// A patch that ended in a panic is made again after it.
const SET_ASIDE: Duration = Duration::from_secs(300);

/// Event of either kind.
#[derive(Debug)]
pub(super) enum Input {
    Marker(Shown<MarkerView>),
    /// Markers of a node, with the UID of its object.
    Node(Shown<(String, BTreeSet<String>)>),
}

/// Report of a patch.
#[derive(Debug)]
pub(super) struct Report {
    uid: String,
    /// Marker as it was answered, if it counts; text of a failure that is not only a change.
    answer: Result<Option<MarkerView>, Option<String>>,
}

/// Markers and nodes as they are known, and their connections.
pub(super) struct Controller {
    connections: Connections,
    turns: EventLoop<Input, Report>,
    markers: Store<MarkerView>,
    markers_listed: bool,
    nodes: Nodes,
    nodes_listed: bool,
    /// UIDs of the markers that are being deleted, by their keys: they wait for nodes.
    deleted: BTreeMap<String, String>,
    /// Time at which the deletion of a marker was seen first, by UID.
    since: BTreeMap<String, Instant>,
    backoff: BTreeMap<String, Backoff>,
}

impl Controller {
    pub(super) fn new(connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: EventLoop::new(inputs, connections.tenure.clone()),
            connections,
            markers: Store::default(),
            markers_listed: false,
            nodes: Nodes::default(),
            nodes_listed: false,
            deleted: BTreeMap::new(),
            since: BTreeMap::new(),
            backoff: BTreeMap::new(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => {
                    let now = Instant::now();
                    inputs.into_iter().for_each(|input| self.take(input, now));
                }
                Turn::Report(report) => self.settle(report),
                Turn::Panic(uid, _) => self.rest(uid),
                Turn::Due => {}
            }
            if self.turns.begins_term() {
                self.all_due();
            }
            if self.is_listed() {
                self.connections.count(self.sizes());
                if self.turns.term().is_some() {
                    self.begin(Instant::now());
                }
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.markers_listed && self.nodes_listed
    }

    fn sizes(&self) -> [(&'static str, usize); 2] {
        [(MARKERS, self.markers.count()), (NODES, self.nodes.len())]
    }

    fn all_due(&mut self) {
        let markers = &self.markers;
        self.turns.take(Concerned::All, || markers.iter().map(|marker| marker.uid.clone()).collect());
    }

    fn take(&mut self, input: Input, now: Instant) {
        let ends = matches!(input, Input::Marker(Shown::ListEnds) | Input::Node(Shown::ListEnds));
        match input {
            Input::Marker(shown) => self.take_marker(shown, now),
            Input::Node(shown) => self.take_node(shown, now),
        }
        if ends {
            self.all_due();
            let listed = vec![(MARKERS, self.markers_listed), (NODES, self.nodes_listed)];
            self.connections.show(listed, self.sizes());
        }
    }

    fn take_marker(&mut self, shown: Shown<MarkerView>, now: Instant) {
        match shown {
            Shown::ListBegins => self.markers.list_begins(),
            Shown::Applied(marker) => {
                let (uid, key, is_deleted) = (marker.uid.clone(), marker.key(), marker.is_deleted);
                let is_known = self.markers.get(&uid).is_some_and(|known| marker.decides_as(known));
                if !self.markers.applied(marker) {
                    return;
                }
                if is_deleted {
                    self.goes(key, &uid, now);
                }
                if !is_known {
                    self.turns.agenda.add(uid, now);
                }
            }
            Shown::Gone(uid) => {
                let gone = self.markers.gone(&uid);
                self.since.remove(&uid);
                self.backoff.remove(&uid);
                if let Some(key) = gone.map(|marker| marker.key())
                    && self.deleted.get(&key) == Some(&uid)
                {
                    self.deleted.remove(&key);
                }
            }
            Shown::ListEnds => {
                self.markers.list_ends();
                let markers = &self.markers;
                self.since.retain(|uid, _| markers.get(uid).is_some());
                self.backoff.retain(|uid, _| markers.get(uid).is_some());
                self.deleted.clear();
                let all: Vec<_> = markers.iter().filter(|marker| marker.is_deleted).cloned().collect();
                all.iter().for_each(|marker| self.goes(marker.key(), &marker.uid, now));
                self.markers_listed = true;
            }
        }
    }

    /// A marker is being deleted.
    fn goes(&mut self, key: String, uid: &str, now: Instant) {
        self.deleted.insert(key, uid.to_owned());
        self.since.entry(uid.to_owned()).or_insert(now);
    }

    fn take_node(&mut self, shown: Shown<(String, BTreeSet<String>)>, now: Instant) {
        let free = match shown {
            Shown::ListBegins => return self.nodes.list_begins(),
            Shown::Applied((uid, markers)) => self.nodes.applied(uid, &markers),
            Shown::Gone(uid) => self.nodes.gone(&uid),
            Shown::ListEnds => {
                self.nodes.list_ends();
                self.nodes_listed = true;
                return;
            }
        };
        for key in free {
            if let Some(uid) = self.deleted.get(&*key) {
                self.turns.agenda.add(uid.clone(), now);
            }
        }
    }

    /// Begins the patches that are due.
    fn begin(&mut self, now: Instant) {
        let (markers, backoff) = (&self.markers, &self.backoff);
        let due = self.turns.agenda.take(now, AT_ONCE, |uid| Share {
            namespace: markers.get(uid).map(|marker| marker.namespace.clone()),
            fails: backoff.get(uid).is_some_and(Backoff::fails),
            ..Share::default()
        });
        for uid in due {
            let Some(marker) = self.markers.get(&uid) else { continue };
            // Nothing that was deleted comes back.
            let since = self.since.get(&uid);
            let given = Given {
                finalizers: &marker.finalizers,
                deleted_for: since.map(|since| now.saturating_duration_since(*since)),
                has_entries: since.is_some() && self.nodes.have(&marker.key()),
                on: true,
            };
            match next(&given) {
                Next::Nothing => {}
                Next::Wait(left) => self.turns.agenda.add(uid, later(now, left)),
                Next::Write(finalizers) => {
                    let (writer, marker) = (self.connections.writer.clone(), marker.clone());
                    self.turns.spawn(uid.clone(), async move {
                        let answer = match write(&writer, &marker, &finalizers).await {
                            Ok(marker) => Ok(marker),
                            Err(Failure::Gone) => Ok(None),
                            Err(Failure::Changed) => Err(None),
                            Err(failure) => Err(Some(failure.text())),
                        };
                        Report { uid, answer }
                    });
                }
            }
        }
    }

    /// Takes in how a patch has ended.
    fn settle(&mut self, Report { uid, answer }: Report) {
        let is_done = answer.is_ok();
        match answer {
            Ok(marker) => marker.into_iter().for_each(|marker| self.markers.wrote(marker)),
            // The watch shows what has changed.
            Err(None) => {}
            Err(Some(error)) => {
                let name = self.markers.get(&uid).map(MarkerView::key);
                warn!(marker = name, error, "Finalizer of a PodProbeMarker not written, trying again");
            }
        }
        if self.markers.get(&uid).is_none() {
            self.backoff.remove(&uid);
            return;
        }
        let pause = self.backoff.entry(uid.clone()).or_default().ends(is_done);
        self.turns.agenda.add(uid, later(Instant::now(), pause));
    }

    /// Leaves a marker alone for a while: its patch ended in a panic.
    fn rest(&mut self, uid: String) {
        error!(uid, "Patch of a PodProbeMarker ended in a panic, it rests");
        self.connections.writer.metrics.set_aside();
        self.turns.agenda.add(uid, later(Instant::now(), SET_ASIDE));
    }
}

#[cfg(test)]
mod tests;
