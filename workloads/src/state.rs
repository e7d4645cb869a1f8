//! The picture and the memories, and what is to be done next for one workload.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    time::Instant,
};

use berth_base::{line_pace::LinePace, time::later};
use berth_workloads_policy::{
    action::{Action, Note},
    clone_set::Settings,
    plan::Failures,
};
use jiff::Timestamp;
use tracing::error;

use crate::{
    absent::{Absent, no_room, unread_pod},
    agenda::Share,
    cluster::{Cluster, Lack},
    event_loop::{EventLoop, ReadFirst, guarded},
    events::Events,
    kinds::{Given, Plan, Set},
    memory::Memory,
    metrics::Metrics,
    object::Filed,
    owned::Concerned,
    reading::Ended,
    timing::AT_ONCE,
    watch::Input,
    write::Report,
};

/// All that the program knows.
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    pub(crate) turns: EventLoop<Input, Came>,
    memory: BTreeMap<String, Memory>,
    /// Lines about plans that are not carried out.
    pub(crate) lines: LinePace,
}

/// Answer to what was on its way.
#[derive(Debug)]
pub(crate) enum Came {
    Report(Report),
    /// All objects, at the start of a term.
    Found(Ended),
    /// Workload of this UID that was set aside for want of room, as it was read.
    Fetched(String, Result<Option<Filed<Set>>, String>),
}

/// Input of a look at a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: Settings,
    pub(crate) events: &'a Events,
    pub(crate) metrics: &'a Metrics,
}

/// Next step of a workload.
#[derive(Debug)]
pub(crate) enum Next {
    Nothing,
    /// Its objects are read: nobody knows what was written for it last, here or by the leader before this
    /// one.
    Read(Set),
    /// There is room again for a workload that was set aside.
    Fetch(Absent),
    CarryOut(Set, Plan),
}

impl State {
    pub(crate) fn new(turns: EventLoop<Input, Came>) -> Self {
        Self { cluster: Cluster::default(), turns, memory: BTreeMap::new(), lines: LinePace::default() }
    }

    /// Tells whether all was listed once.
    pub(crate) fn is_listed(&self) -> bool {
        self.cluster.listed().iter().all(|(_, listed)| *listed)
    }

    /// Takes workloads that are due, as far as there are places for their plans.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<String> {
        let (cluster, memory) = (&self.cluster, &self.memory);
        self.turns.agenda.take(now, AT_ONCE, |uid| {
            let of = |set: &Set| (set.namespace().to_owned(), set.kind().name);
            let of_absent = |absent: &Absent| (absent.namespace.clone(), absent.kind.name);
            let of = cluster.set(uid).map(of).or_else(|| cluster.absent(uid).map(of_absent));
            let (namespace, kind) = of.unzip();
            Share {
                namespace,
                kind: kind.unwrap_or_default(),
                fails: memory.get(uid).is_some_and(Memory::fails),
            }
        })
    }

    /// Looks at a workload.
    pub(crate) fn look(&mut self, uid: &str, look: Look<'_>) -> Next {
        let Some(set) = self.cluster.set(uid).cloned() else {
            // One for which there is no room comes back, and what was written for it last may be unknown.
            if self.cluster.absent(uid).is_none() {
                self.memory.remove(uid);
            }
            return self.cluster.returning(uid).cloned().map_or(Next::Nothing, Next::Fetch);
        };
        if let Some(next) = self.comes_first(uid, &set, look) {
            return next;
        }
        let memory = self.memory.entry(uid.to_owned()).or_default();
        memory.looks(self.turns.term(), set.meta().generation);
        memory.rests.begin(set.meta().generation);
        let planned = guarded(|| {
            let plan = planned(&self.cluster, &set, memory, look.settings, look.now);
            if !plan.actions.is_empty() || memory.failures == Failures::default() {
                return plan;
            }
            // Nothing is left to be done of what could not be done.
            memory.failures = Failures::default();
            planned(&self.cluster, &set, memory, look.settings, look.now)
        });
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(text) => {
                self.set_aside(uid, &text, look);
                return Next::Nothing;
            }
        };
        look.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.told.is_news(look.now, &note) {
                look.events.tell(&set, note);
            }
        }
        if let Some(held) = plan.held.take() {
            memory.held = held;
        }
        plan.ended_on.iter().for_each(|(node, uid)| memory.rests.ended(node, uid, Timestamp::now()));
        if let Some(at) = put_off(&mut plan, memory, look.now) {
            self.turns.agenda.add(uid.to_owned(), at);
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return Next::Nothing;
        }
        Next::CarryOut(set, plan)
    }

    /// Returns what comes before a plan for a workload: a rest, a reading, or room for all that it is decided
    /// by.
    fn comes_first(&mut self, uid: &str, set: &Set, look: Look<'_>) -> Option<Next> {
        let meta = set.meta();
        let memory = self.memory.entry(uid.to_owned()).or_default();
        if let Some(until) = memory.aside_until(meta.generation, look.now) {
            // An event, or another term, has taken the place of that look.
            self.turns.agenda.add(uid.to_owned(), until);
            return Some(Next::Nothing);
        }
        if meta.deletion_timestamp.is_none() {
            let Memory { unread, read_in, .. } = memory;
            match self.turns.reads_first(set.namespace(), unread, *read_in, look.now) {
                Some(ReadFirst::Apart) => return Some(Next::Read(set.clone())),
                Some(ReadFirst::WithNamespace) => return Some(Next::Nothing),
                None => {}
            }
        }
        match self.cluster.lack(set)? {
            Lack::Templates => {
                // Many come back at once, and each reading lists the namespace.
                if !memory.unread.is_so() {
                    memory.unread.add(self.turns.readings());
                }
                let Memory { unread, read_in, .. } = memory;
                match self.turns.reads_first(set.namespace(), unread, *read_in, look.now) {
                    Some(ReadFirst::WithNamespace) => Some(Next::Nothing),
                    Some(ReadFirst::Apart) | None => Some(Next::Read(set.clone())),
                }
            }
            // It is due when there is room, or another version of the pod.
            lack @ (Lack::Room | Lack::Labels(_)) => {
                let note = match lack {
                    Lack::Labels(pod) => unread_pod(&pod),
                    _ => no_room(),
                };
                if memory.told.is_news(look.now, &note) {
                    look.metrics.set_aside();
                    look.events.tell(set, note);
                }
                Some(Next::Nothing)
            }
        }
    }

    /// Sets a workload aside: to decide on it or to write for it has failed in a way that it must not.
    pub(crate) fn set_aside(&mut self, uid: &str, text: &str, look: Look<'_>) {
        look.metrics.set_aside();
        let Some(set) = self.cluster.set(uid).cloned() else { return };
        error!(set = set.title(), text, "A panic: the object is set aside");
        let text = format!(
            "set aside by a fault of berth-workloads ({text}): looked at again when its spec changes, or in 10 \
             minutes"
        );
        look.events.tell(&set, Note { warning: true, reason: "SetAside", text });
        let readings = self.turns.readings();
        let memory = self.memory.entry(uid.to_owned()).or_default();
        // Nobody knows what was written.
        memory.unread.add(readings);
        let until = memory.set_aside(set.meta().generation, look.now);
        self.turns.agenda.add(uid.to_owned(), until);
    }

    /// Memory of a workload.
    pub(crate) fn memory(&mut self, uid: &str) -> &mut Memory {
        self.memory.entry(uid.to_owned()).or_default()
    }

    pub(crate) fn all_due(&mut self) {
        self.concerns(Concerned::All);
    }

    /// Makes the workloads due that something concerns. To all of them belong those that are remembered and
    /// gone: a list has not shown them any more, and what is remembered goes when they are looked at.
    pub(crate) fn concerns(&mut self, concerned: Concerned) {
        let (cluster, memory) = (&self.cluster, &self.memory);
        self.turns.take(concerned, || {
            let gone = memory.keys().map(String::as_str).filter(|uid| cluster.set(uid).is_none());
            cluster.sets().chain(cluster.all_returning()).chain(gone).map(str::to_owned).collect()
        });
    }

    /// Takes in how a reading of namespaces ended. Workloads that something new was found for are due, and
    /// those that waited for it; others keep the pauses of theirs.
    pub(crate) fn was_read(&mut self, ended: Ended) {
        let read = ended.read();
        let (sets, mut due) = (self.cluster.sets_in(&read), Vec::new());
        for (namespace, found) in self.turns.was_read(ended) {
            let sets = sets.get(&namespace).map(Vec::as_slice).unwrap_or_default();
            due.extend(self.cluster.found(sets, found));
        }
        let (cluster, readings) = (&self.cluster, self.turns.readings());
        let is_read = |uid: &str| cluster.set(uid).is_some_and(|set| read.contains(set.namespace()));
        for (uid, memory) in &mut self.memory {
            if is_read(uid) && memory.unread.was_read(readings) {
                due.push(uid.clone());
            }
        }
        self.turns.take(Concerned::Some(due), Vec::new);
    }
}

fn planned(cluster: &Cluster, set: &Set, memory: &Memory, settings: Settings, now: Instant) -> Plan {
    let given = Given {
        settings,
        failures: &memory.failures,
        rests: &memory.rests,
        held: &memory.held,
        collisions: memory.collisions,
        predownload_rests: memory.predownload_rests(now),
        unadopted: &memory.unadopted,
        put_off: memory.put_off.names(),
        seed: RandomState::new().build_hasher().finish(),
    };
    cluster.plan(set, given, Timestamp::now())
}

/// Leaves the status of a plan for later where that says no less. Returns when the workload is looked at
/// again.
fn put_off(plan: &mut Plan, memory: &mut Memory, now: Instant) -> Option<Instant> {
    let mut again = plan.again.map(|again| later(now, again));
    let waits = plan.status.as_ref().and_then(|status| {
        let unkept = memory.unkept.waits(status, now);
        // Counters change with every pod; whoever looks once a second sees the same.
        unkept.or_else(|| memory.status.waits(now))
    });
    if let Some(at) = waits {
        plan.status = None;
        again = Some(again.map_or(at, |again| again.min(at)));
    }
    // A status that says of the new generation that it has no pods is taken at its word. Where plans fail
    // the one that follows may be a minute away.
    let changes_counts = !memory.pauses() && plan.actions.iter().any(Action::is_about_number);
    if plan.status.is_some() && memory.left_status.is_left(changes_counts) {
        plan.status = None;
    }
    if plan.status.is_some() {
        memory.status.written(now);
        memory.unkept.forget();
    }
    again
}

#[cfg(test)]
mod tests;
