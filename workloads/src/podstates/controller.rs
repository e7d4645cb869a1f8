//! The one owner of what is known of StatefulSets and their PersistentPodStates; begins the plans that are
//! due.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_pod_state::annotations::is_owned;
use berth_proto::crd::PersistentPodState;
use tokio::sync::mpsc;
use tracing::error;

use super::{
    SETS, STATES,
    view::SetView,
    work::{Report, Work},
};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, Listed, Turn},
    timing::{AT_ONCE, Backoff},
    watch::Shown,
};

/// Events that come together are one plan.
const PACE: Duration = Duration::from_millis(100);
/// A plan that ended in a panic is made again after it.
const SET_ASIDE: Duration = Duration::from_secs(300);

/// Event of any of the kinds.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few of them wait at once")]
pub(super) enum Input {
    /// With the kind, as it is listed.
    Set(&'static str, Shown<SetView>),
    State(Shown<PersistentPodState>),
}

/// StatefulSets and PersistentPodStates as they are known, and their connections.
pub(super) struct Controller {
    connections: Connections,
    turns: EventLoop<Input, Report>,
    sets: BTreeMap<String, SetView>,
    /// UIDs of the sets, by namespace and name: one of each group may have the same.
    named: BTreeMap<(String, String), BTreeSet<String>>,
    /// By UID.
    states: BTreeMap<String, PersistentPodState>,
    /// UIDs of the states, by namespace and name.
    by_name: BTreeMap<(String, String), String>,
    /// UIDs that the list which is coming in has shown, by kind. There may be none for weeks.
    listing: BTreeMap<&'static str, BTreeSet<String>>,
    listed: Listed,
    backoff: BTreeMap<String, Backoff>,
}

impl Controller {
    pub(super) fn new(connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: EventLoop::new(inputs, connections.tenure.clone()),
            connections,
            sets: BTreeMap::new(),
            named: BTreeMap::new(),
            states: BTreeMap::new(),
            by_name: BTreeMap::new(),
            listing: BTreeMap::new(),
            listed: super::listed(true),
            backoff: BTreeMap::new(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(report) => self.settle(report),
                Turn::Panic(uid, _) => self.rest(uid),
                Turn::Due => {}
            }
            if self.turns.begins_term() {
                self.look_at_all();
            }
            if self.is_listed() {
                self.connections.count([(STATES, self.states.len())]);
                if self.turns.term().is_some() {
                    self.begin();
                }
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.listed.iter().all(|(_, done)| *done)
    }

    fn look_at_all(&mut self) {
        let now = Instant::now();
        self.sets.keys().for_each(|uid| self.turns.agenda.add(uid.clone(), now));
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Set(kind, shown) => self.take_set(kind, shown),
            Input::State(shown) => self.take_state(shown),
        }
    }

    fn take_set(&mut self, kind: &'static str, shown: Shown<SetView>) {
        match shown {
            Shown::ListBegins => drop(self.listing.insert(kind, BTreeSet::new())),
            Shown::Applied(set) => {
                self.is_seen(kind, &set.uid);
                // Its status changes with each of its pods, and nothing follows from that.
                if self.sets.get(&set.uid) != Some(&set) {
                    self.turns.agenda.add(set.uid.clone(), later(Instant::now(), PACE));
                    let name = (set.namespace.clone(), set.name.clone());
                    self.named.entry(name).or_default().insert(set.uid.clone());
                    self.sets.insert(set.uid.clone(), set);
                }
            }
            Shown::Gone(uid) => self.forget_set(&uid),
            Shown::ListEnds => {
                let seen = self.listing.remove(kind).unwrap_or_default();
                let of_kind = |set: &SetView| (set.api_version == "apps/v1") == (kind == SETS);
                let gone = self.sets.iter().filter(|(uid, set)| of_kind(set) && !seen.contains(*uid));
                let gone: Vec<String> = gone.map(|(uid, _)| uid.clone()).collect();
                gone.iter().for_each(|uid| self.forget_set(uid));
                self.ends(kind);
            }
        }
    }

    fn take_state(&mut self, shown: Shown<PersistentPodState>) {
        match shown {
            Shown::ListBegins => drop(self.listing.insert(STATES, BTreeSet::new())),
            Shown::Applied(state) => {
                let meta = &state.metadata;
                let Some(uid) = meta.uid.clone() else { return };
                self.is_seen(STATES, &uid);
                let same = self.states.get(&uid).is_some_and(|known| {
                    known.spec == state.spec
                        && known.metadata.owner_references == meta.owner_references
                        && known.metadata.deletion_timestamp == meta.deletion_timestamp
                });
                let name =
                    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
                if !same {
                    self.touch(&name);
                }
                self.by_name.insert(name, uid.clone());
                self.states.insert(uid, state);
            }
            Shown::Gone(uid) => self.forget(&uid),
            Shown::ListEnds => {
                let seen = self.listing.remove(STATES).unwrap_or_default();
                let gone: Vec<String> =
                    self.states.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                self.ends(STATES);
            }
        }
    }

    /// Takes in that a list shows this one, if one is coming in.
    fn is_seen(&mut self, kind: &'static str, uid: &str) {
        if let Some(seen) = self.listing.get_mut(kind) {
            seen.insert(uid.to_owned());
        }
    }

    fn forget(&mut self, uid: &str) {
        let Some(state) = self.states.remove(uid) else { return };
        let name = (state.metadata.namespace.unwrap_or_default(), state.metadata.name.unwrap_or_default());
        // Another one may have its name by now.
        if self.by_name.get(&name).is_some_and(|known| known == uid) {
            self.by_name.remove(&name);
        }
        self.touch(&name);
    }

    fn forget_set(&mut self, uid: &str) {
        self.backoff.remove(uid);
        let Some(set) = self.sets.remove(uid) else { return };
        let name = (set.namespace, set.name);
        if let Some(uids) = self.named.get_mut(&name) {
            uids.remove(uid);
            if uids.is_empty() {
                self.named.remove(&name);
            }
        }
    }

    /// Looks at the StatefulSets of a name.
    fn touch(&mut self, name: &(String, String)) {
        let at = later(Instant::now(), PACE);
        for uid in self.named.get(name).into_iter().flatten() {
            self.turns.agenda.add(uid.clone(), at);
        }
    }

    fn ends(&mut self, kind: &'static str) {
        self.listed.iter_mut().filter(|(of, _)| *of == kind).for_each(|(_, done)| *done = true);
        self.connections.listed.send_replace(self.listed.clone());
        self.look_at_all();
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let due = self.turns.agenda.take(Instant::now(), AT_ONCE, |uid| Share {
            namespace: self.sets.get(uid).map(|set| set.namespace.clone()),
            fails: self.backoff.get(uid).is_some_and(Backoff::fails),
            ..Share::default()
        });
        for uid in due {
            let Some(set) = self.sets.get(&uid) else { continue };
            let name = (set.namespace.clone(), set.name.clone());
            let there = self.by_name.get(&name).and_then(|of| self.states.get(of));
            // Nearly all ask for nothing.
            if !set.asks() && !there.is_some_and(|there| is_owned(there, &uid)) {
                continue;
            }
            let work = Work {
                writer: self.connections.writer.clone(),
                set: set.clone(),
                there: there.cloned().map(Box::new),
            };
            self.turns.spawn(uid, work.carry_out());
        }
    }

    /// Takes in how a plan has ended.
    fn settle(&mut self, Report { uid, done }: Report) {
        if !self.sets.contains_key(&uid) {
            // It has gone meanwhile.
            return;
        }
        let pause = self.backoff.entry(uid.clone()).or_default().ends(done);
        if !done {
            self.turns.agenda.add(uid, later(Instant::now(), pause));
        }
    }

    /// Leaves a StatefulSet alone for a while: its plan ended in a panic.
    fn rest(&mut self, uid: String) {
        error!(uid, "Plan of a PersistentPodState ended in a panic, it rests");
        self.connections.writer.metrics.set_aside();
        self.turns.agenda.add(uid, later(Instant::now(), SET_ASIDE));
    }
}

#[cfg(test)]
mod tests;
