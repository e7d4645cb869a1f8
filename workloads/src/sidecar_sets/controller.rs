//! The one owner of what is known of SidecarSets and their ControllerRevisions; begins the plans that are
//! due.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_sidecarset::{FiledRevision, RefileError, refile};
use berth_workloads_policy::{action::Note, store::Store};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::{
    KINDS,
    view::{CopyView, SetView},
    write::{End, Report, carry_out},
};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, Turn, guarded},
    owned::{Concerned, Owned},
    timing::{AT_ONCE, Backoff},
    watch::Shown,
};

/// A namespace that is not there is looked for again after it.
const NAMESPACE_WAITS: Duration = Duration::from_secs(30);

/// Event of either kind.
#[derive(Debug)]
pub(super) enum Input {
    Set(Shown<SetView>),
    Copy(Shown<CopyView>),
}

/// Sets and ControllerRevisions as they are known, and their connections.
pub(super) struct Controller {
    connections: Connections,
    /// Namespace of the ControllerRevisions.
    namespace: String,
    turns: EventLoop<Input, Report>,
    sets: Store<SetView>,
    sets_listed: bool,
    copies: Owned<CopyView>,
    backoff: BTreeMap<String, Backoff>,
    /// Version of a set that cannot be filed, which was said.
    aside: BTreeMap<String, String>,
    /// Name of a revision that is another one's, which was said, by UID of the set.
    taken: BTreeMap<String, String>,
    /// The namespace was missing, which was said.
    is_missing: bool,
}

impl Controller {
    pub(super) fn new(namespace: String, connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: EventLoop::new(inputs, connections.tenure.clone()),
            connections,
            namespace,
            sets: Store::default(),
            sets_listed: false,
            copies: Owned::default(),
            backoff: BTreeMap::new(),
            aside: BTreeMap::new(),
            taken: BTreeMap::new(),
            is_missing: false,
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(report) => self.settle(report),
                Turn::Panic(uid, _) => self.set_aside(&uid, "the controller failed on this object"),
                Turn::Due => {}
            }
            if self.turns.begins_term() {
                self.all_due();
            }
            if self.is_listed() {
                self.connections.count(self.sizes());
                if self.turns.term().is_some() {
                    self.begin();
                }
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.sets_listed && self.copies.listed
    }

    fn sizes(&self) -> [(&'static str, usize); 2] {
        [(KINDS[0], self.sets.count()), (KINDS[1], self.copies.len())]
    }

    fn take(&mut self, input: Input) {
        let ends = matches!(input, Input::Set(Shown::ListEnds) | Input::Copy(Shown::ListEnds));
        match input {
            Input::Set(shown) => self.take_set(shown, Instant::now()),
            Input::Copy(shown) => {
                let concerned = self.copies.take(shown);
                self.turns.take(concerned, || all(&self.sets));
            }
        }
        if ends {
            let listed = vec![(KINDS[0], self.sets_listed), (KINDS[1], self.copies.listed)];
            self.connections.show(listed, self.sizes());
        }
    }

    fn take_set(&mut self, shown: Shown<SetView>, now: Instant) {
        match shown {
            Shown::ListBegins => self.sets.list_begins(),
            Shown::Applied(set) => {
                let uid = set.set.uid.clone();
                let before = self.sets.get(&uid).map(|known| known.set.clone());
                let set_now = set.set.clone();
                // The counters of its status change with every pod.
                if self.sets.applied(set) && before.is_none_or(|before| before != set_now) {
                    self.turns.agenda.add(uid, now);
                }
            }
            Shown::Gone(uid) => {
                // Its ControllerRevisions go with their owner.
                self.sets.gone(&uid);
                self.forget(&uid);
            }
            Shown::ListEnds => {
                self.sets.list_ends();
                let remembered = self.backoff.keys().chain(self.aside.keys()).chain(self.taken.keys());
                let gone = remembered.filter(|uid| self.sets.get(uid).is_none());
                let gone: Vec<String> = gone.cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                self.sets_listed = true;
                self.all_due();
            }
        }
    }

    /// Forgets what is remembered of a set that is gone.
    fn forget(&mut self, uid: &str) {
        self.backoff.remove(uid);
        self.aside.remove(uid);
        self.taken.remove(uid);
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let fails = |uid: &str| self.backoff.get(uid).is_some_and(Backoff::fails);
        let share = |uid: &str| Share { fails: fails(uid), ..Share::default() };
        for uid in self.turns.agenda.take(Instant::now(), AT_ONCE, share) {
            let Some(view) = self.sets.get(&uid) else {
                // Its last plan may have ended when it had gone.
                self.forget(&uid);
                continue;
            };
            if self.aside.get(&uid).is_some_and(|version| *version == view.version) {
                continue;
            }
            let there: Vec<&FiledRevision> = self.copies.of(&uid).map(|copy| &copy.0).collect();
            let set = view.set.clone();
            match guarded(|| refile(&set, &there)) {
                Err(_) => self.set_aside(&uid, "the controller failed on this object"),
                Ok(Err(why)) => self.refuse(&uid, &why),
                Ok(Ok(writes)) if writes.is_empty() => {}
                Ok(Ok(writes)) => {
                    debug!(set = set.name, writes = writes.len(), "Plan begins");
                    let (writer, namespace) = (self.connections.writer.clone(), self.namespace.clone());
                    self.turns.spawn(uid, carry_out(writer, namespace, set, writes));
                }
            }
        }
    }

    /// Takes in what a plan has written.
    fn settle(&mut self, Report { uid, made, gone, end }: Report) {
        made.into_iter().for_each(|copy| self.copies.wrote(copy));
        gone.iter().for_each(|uid| self.copies.ended(uid));
        let name = self.sets.get(&uid).map(|view| view.set.name.clone());
        let mut pause = self.backoff.entry(uid.clone()).or_default().ends(matches!(end, End::Done));
        let was_missing = std::mem::replace(&mut self.is_missing, matches!(end, End::NoNamespace));
        match end {
            End::Done => drop(self.taken.remove(&uid)),
            End::Changed => {}
            End::NoNamespace => {
                if !was_missing {
                    let namespace = &self.namespace;
                    info!(namespace, "Revisions of SidecarSets are not filed until their namespace is there");
                }
                pause = NAMESPACE_WAITS;
            }
            End::Taken(taken) => {
                let text =
                    format!("ControllerRevision {taken} is there, and the set does not own it: delete it");
                // Said once, however often it is tried.
                if self.taken.insert(uid.clone(), taken.clone()).is_none_or(|said| said != taken) {
                    self.tell(&uid, "FailedCreateRevision", text);
                }
            }
            End::Failed(error) => warn!(set = name, error, "ControllerRevision not written, trying again"),
        }
        self.turns.agenda.add(uid, later(Instant::now(), pause));
    }

    fn refuse(&mut self, uid: &str, why: &RefileError) {
        self.set_aside(uid, &why.to_string());
    }

    /// Leaves a set alone until it changes: the plan would end the same way.
    fn set_aside(&mut self, uid: &str, why: &str) {
        let Some(view) = self.sets.get(uid) else { return };
        error!(set = view.set.name, why, "Revisions of a SidecarSet are not filed");
        self.connections.writer.metrics.set_aside();
        let version = view.version.clone();
        let text = format!("its ControllerRevisions are left alone until it is changed: {why}");
        self.tell(uid, "SetAside", text);
        self.aside.insert(uid.to_owned(), version);
    }

    fn tell(&self, uid: &str, reason: &'static str, text: String) {
        if let Some(view) = self.sets.get(uid) {
            let note = Note { warning: true, reason, text };
            self.connections.writer.events.about(view.reference(), note);
        }
    }

    fn all_due(&mut self) {
        self.turns.take(Concerned::All, || all(&self.sets));
    }
}

/// UIDs of all sets.
fn all(sets: &Store<SetView>) -> Vec<String> {
    sets.iter().map(|view| view.set.uid.clone()).collect()
}

#[cfg(test)]
mod tests;
