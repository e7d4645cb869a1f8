//! The one owner of what is known of WorkloadSpreads and their pods; begins the plans that are due.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::action::Note;
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event},
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use tracing::{error, info};

use super::{
    SPREADS,
    view::{PodView, SpreadView},
    wide::{Pods, Wide},
    work::{Memory, Report, Work},
};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, Turn},
    timing::{AT_ONCE, Backoff},
    trimmed::TrimmedPod,
    watch::{Shown, relay, shown},
    write::{HELD_BACK, Writer},
};

/// Events that come together are one plan.
const PACE: Duration = Duration::from_millis(200);
/// The longest time between two looks: a clock that was set is noticed after it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A plan that ended in a panic is made again after it.
const SET_ASIDE: Duration = Duration::from_secs(300);
/// Namespaces with a watch of their pods; for more of them there is one watch of all pods.
const MOST_WATCHES: usize = 100;

/// Event of either kind.
#[derive(Debug)]
pub(super) enum Input {
    Spread(Shown<SpreadView>),
    /// By the watch of its namespace, which is named.
    Pod(String, Shown<PodView>),
    /// By the watch of all pods.
    PodOfAll(String, Shown<PodView>),
    /// All pods of the cluster follow.
    AllPodsBegin,
    /// The list of them has ended.
    AllPodsEnd,
}

/// A namespace with WorkloadSpreads: their names, and its pods with their watch.
#[derive(Default)]
struct Space {
    /// UIDs of the spreads, by name.
    spreads: BTreeMap<String, String>,
    pods: Pods,
    /// UIDs that the list which is coming in has shown. There may be none for weeks.
    listing: Option<BTreeSet<String>>,
    /// Its pods were listed once.
    listed: bool,
    /// Its own watch of pods.
    watch: Option<AbortHandle>,
}

/// Spreads and pods as they are known, and their connections.
pub(super) struct Controller {
    connections: Connections,
    sender: mpsc::Sender<Input>,
    turns: EventLoop<Input, Report>,
    /// By UID, as all that is kept of them.
    spreads: BTreeMap<String, SpreadView>,
    /// UIDs that the list of spreads which is coming in has shown.
    listing: Option<BTreeSet<String>>,
    /// The spreads were listed once.
    listed: bool,
    spaces: BTreeMap<String, Space>,
    /// One watch is for the pods of all namespaces.
    wide: Option<Wide>,
    backoff: BTreeMap<String, Backoff>,
    memory: BTreeMap<String, Memory>,
    watches: JoinSet<()>,
}

impl Space {
    fn of(watch: AbortHandle) -> Self {
        Self { watch: Some(watch), ..Self::default() }
    }

    /// Takes in a spread.
    fn add(&mut self, uid: &str, name: &str) {
        self.spreads.insert(name.to_owned(), uid.to_owned());
    }

    /// Forgets a spread. Another one may have its name by now.
    fn forget(&mut self, uid: &str, name: &str) {
        if self.spreads.get(name).is_some_and(|known| known == uid) {
            self.spreads.remove(name);
        }
    }

    /// Names of spreads that are there and that these pods say they are in. No other spread is looked at:
    /// there may be thousands.
    fn named(&self, pods: &[Arc<PodView>]) -> BTreeSet<String> {
        let said = pods.iter().filter_map(|pod| Some(&pod.seen.matched.as_ref()?.name));
        said.filter(|name| self.spreads.contains_key(*name)).cloned().collect()
    }
}

impl Controller {
    pub(super) fn new(
        connections: Connections,
        sender: mpsc::Sender<Input>,
        inputs: mpsc::Receiver<Input>,
    ) -> Self {
        Self {
            turns: EventLoop::new(inputs, connections.tenure.clone()),
            connections,
            sender,
            spreads: BTreeMap::new(),
            listing: None,
            listed: false,
            spaces: BTreeMap::new(),
            wide: None,
            backoff: BTreeMap::new(),
            memory: BTreeMap::new(),
            watches: JoinSet::new(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.listed).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(report) => self.settle(report),
                Turn::Panic(uid, _) => self.rest(uid),
                Turn::Due => {}
            }
            // Those of namespaces without spreads have ended.
            while self.watches.try_join_next().is_some() {}
            if self.turns.begins_term() {
                let now = Instant::now();
                self.spreads.keys().for_each(|uid| self.turns.agenda.add(uid.clone(), now));
            }
            if self.listed {
                self.connections.count([(SPREADS, self.spreads.len())]);
                if self.turns.term().is_some() {
                    self.begin();
                }
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Spread(shown) => self.take_spread(shown),
            // The last words of a namespace's watch are older than the list of all that follows.
            Input::Pod(namespace, shown) if self.wide.is_none() => self.take_pod(&namespace, shown),
            Input::Pod(..) => {}
            Input::PodOfAll(namespace, shown) => self.take_of_all(&namespace, shown),
            Input::AllPodsBegin => self.wide.iter_mut().for_each(Wide::list_begins),
            Input::AllPodsEnd => {
                let Some(wide) = &mut self.wide else { return };
                let seen = wide.list_ends();
                let namespaces: Vec<String> = self.spaces.keys().cloned().collect();
                namespaces.iter().for_each(|namespace| self.list_ended(namespace, &seen));
            }
        }
    }

    fn take_spread(&mut self, shown: Shown<SpreadView>) {
        match shown {
            Shown::ListBegins => self.listing = Some(BTreeSet::new()),
            Shown::Applied(spread) => {
                if let Some(seen) = &mut self.listing {
                    seen.insert(spread.uid.clone());
                }
                self.follow(&spread.namespace).add(&spread.uid, &spread.name);
                self.turns.agenda.add(spread.uid.clone(), later(Instant::now(), PACE));
                self.spreads.insert(spread.uid.clone(), spread);
            }
            Shown::Gone(uid) => self.forget(&uid),
            Shown::ListEnds => {
                let seen = self.listing.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.spreads.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
                self.listed = true;
                self.connections.listed.send_replace(vec![(SPREADS, true)]);
            }
        }
    }

    /// Forgets a spread, and the pods of its namespace if that has none any more. It looks at no other one:
    /// ten thousand may go at once.
    fn forget(&mut self, uid: &str) {
        let Some(spread) = self.spreads.remove(uid) else { return };
        self.backoff.remove(uid);
        self.memory.remove(uid);
        let Entry::Occupied(mut space) = self.spaces.entry(spread.namespace) else { return };
        space.get_mut().forget(uid, &spread.name);
        if space.get().spreads.is_empty() {
            let (namespace, Space { pods, watch, .. }) = space.remove_entry();
            watch.iter().for_each(AbortHandle::abort);
            if let Some(wide) = &mut self.wide {
                wide.ends(namespace, pods);
            }
        }
    }

    /// Namespace whose pods are watched, once.
    fn follow(&mut self, namespace: &str) -> &mut Space {
        if !self.spaces.contains_key(namespace) {
            let space = self.begins(namespace);
            self.spaces.insert(namespace.to_owned(), space);
        }
        self.spaces.entry(namespace.to_owned()).or_default()
    }

    /// A namespace gets its first spread: its pods are watched.
    fn begins(&mut self, namespace: &str) -> Space {
        if self.wide.is_none() && self.spaces.len() >= MOST_WATCHES {
            self.watch_all();
        }
        if let Some(wide) = &mut self.wide {
            let (pods, listed) = wide.begins(namespace);
            return Space { pods, listed, ..Space::default() };
        }
        let (sender, own) = (self.sender.clone(), namespace.to_owned());
        let Writer { client, metrics, .. } = self.connections.writer.clone();
        Space::of(self.watches.spawn(async move {
            let api: Api<TrimmedPod> = Api::namespaced(client, &own);
            let input = |event: Option<_>| Some(Input::Pod(own.clone(), shown(event?, PodView::of)));
            relay(api, watcher::Config::default(), "pods", input, sender, &metrics).await;
        }))
    }

    /// Watches the pods of all namespaces at once from now on. What is known of them stays until the list
    /// says otherwise.
    fn watch_all(&mut self) {
        info!("One watch is for the pods of all namespaces with WorkloadSpreads from now on");
        for space in self.spaces.values_mut() {
            space.watch.take().iter().for_each(AbortHandle::abort);
            space.listing = None;
        }
        self.wide = Some(Wide::default());
        let sender = self.sender.clone();
        let Writer { client, metrics, .. } = self.connections.writer.clone();
        self.watches.spawn(async move {
            let api: Api<TrimmedPod> = Api::all(client);
            relay(api, watcher::Config::default(), "pods", of_all, sender, &metrics).await;
        });
    }

    /// Takes in a pod of whichever namespace.
    fn take_of_all(&mut self, namespace: &str, shown: Shown<PodView>) {
        let Some(wide) = &mut self.wide else { return };
        wide.is_seen(&shown);
        if self.spaces.contains_key(namespace) {
            self.take_pod(namespace, shown);
        } else {
            wide.take(namespace, shown);
        }
    }

    /// Takes in a pod. Most of its versions say something that no spread looks at; only those spreads are due
    /// whose workload may have it.
    fn take_pod(&mut self, namespace: &str, shown: Shown<PodView>) {
        // Its last spread may be gone, and its watch with it.
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let changed: Vec<Arc<PodView>> = match shown {
            Shown::ListBegins => {
                space.listing = Some(BTreeSet::new());
                return;
            }
            Shown::Applied(pod) => {
                let pod = Arc::new(pod);
                if let Some(seen) = &mut space.listing {
                    seen.insert(pod.seen.uid.clone());
                }
                match space.pods.insert(pod.seen.uid.clone(), pod.clone()) {
                    Some(before) if pod.decides_as(&before) => return,
                    before => before.into_iter().chain([pod]).collect(),
                }
            }
            Shown::Gone(uid) => space.pods.remove(&uid).into_iter().collect(),
            Shown::ListEnds => {
                let seen = space.listing.take().unwrap_or_default();
                return self.list_ended(namespace, &seen);
            }
        };
        self.changed(namespace, &changed);
    }

    /// A list has ended that has shown these pods.
    fn list_ended(&mut self, namespace: &str, seen: &BTreeSet<String>) {
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        let mut gone = Vec::new();
        space.pods.retain(|uid, pod| {
            let is_there = seen.contains(uid);
            if !is_there {
                gone.push(pod.clone());
            }
            is_there
        });
        if !std::mem::replace(&mut space.listed, true) {
            let at = later(Instant::now(), PACE);
            return space.spreads.values().for_each(|uid| self.turns.agenda.add(uid.clone(), at));
        }
        self.changed(namespace, &gone);
    }

    /// Makes those spreads due whose workload may have one of these pods.
    fn changed(&mut self, namespace: &str, changed: &[Arc<PodView>]) {
        let Some(space) = self.spaces.get(namespace) else { return };
        let at = later(Instant::now(), PACE);
        let of_space = space.spreads.values().filter_map(|uid| self.spreads.get(uid));
        for spread in of_space.filter(|spread| changed.iter().any(|pod| spread.may_have(pod))) {
            self.turns.agenda.add(spread.uid.clone(), at);
        }
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let due = self.turns.agenda.take(Instant::now(), AT_ONCE, |uid| Share {
            namespace: self.spreads.get(uid).map(|spread| spread.namespace.clone()),
            fails: self.backoff.get(uid).is_some_and(Backoff::fails),
            ..Share::default()
        });
        for uid in due {
            let Some(spread) = self.spreads.get(&uid).cloned() else { continue };
            // The end of the list makes it due again.
            let Some(space) = self.spaces.get(&spread.namespace).filter(|space| space.listed) else {
                continue;
            };
            let pods: Vec<Arc<PodView>> =
                space.pods.values().filter(|pod| spread.may_have(pod)).cloned().collect();
            let names = space.named(&pods);
            let writer = self.connections.writer.clone();
            let memory = self.memory.entry(uid.clone()).or_default().clone();
            let work = Work { writer, spread, pods, memory, names };
            self.turns.spawn(uid, work.carry_out());
        }
    }

    /// Takes in how a plan has ended.
    fn settle(&mut self, Report { uid, done, held, again }: Report) {
        if !self.spreads.contains_key(&uid) {
            // It has gone meanwhile.
            return;
        }
        let backoff = self.backoff.entry(uid.clone()).or_default();
        let pause = match held {
            Some(text) => {
                // Said once, however often it is tried.
                if !backoff.holds()
                    && let Some(spread) = self.spreads.get(&uid)
                {
                    let note = Note { warning: false, reason: HELD_BACK, text };
                    self.connections.writer.events.about(spread.reference(), note);
                }
                backoff.is_held()
            }
            None => backoff.ends(done),
        };
        let again = again.map(|again| Duration::from_secs(again.max(0).unsigned_abs()).max(pause));
        if let Some(again) = if done { again } else { Some(pause) } {
            self.turns.agenda.add(uid, later(Instant::now(), again.min(LONGEST_WAIT)));
        }
    }

    /// Leaves a spread alone for a while: its plan ended in a panic.
    fn rest(&mut self, uid: String) {
        let spread = self.spreads.get(&uid).map(|spread| format!("{}/{}", spread.namespace, spread.name));
        error!(spread, "Plan of a WorkloadSpread ended in a panic, it rests");
        self.connections.writer.metrics.set_aside();
        self.turns.agenda.add(uid, later(Instant::now(), SET_ASIDE));
    }
}

/// Input of an event of the watch of all pods.
fn of_all(event: Option<Event<TrimmedPod>>) -> Option<Input> {
    let event = event?;
    let namespace = match &event {
        Event::Init => return Some(Input::AllPodsBegin),
        Event::InitDone => return Some(Input::AllPodsEnd),
        Event::InitApply(pod) | Event::Apply(pod) | Event::Delete(pod) => pod.meta().namespace.clone()?,
    };
    Some(Input::PodOfAll(namespace, shown(event, PodView::of)))
}

#[cfg(test)]
mod tests;
