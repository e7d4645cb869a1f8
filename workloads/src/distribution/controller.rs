//! The one owner of the picture of distributions: takes in what watches and writes show, and begins the plans
//! that are due.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use berth_base::{line_pace::LinePace, time::later};
use berth_proto::crd::ResourceDistribution;
use berth_workloads_policy::{
    action::Note,
    distribution::{self, Input as Given, Plan, Rules},
    store::Stored,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{debug, error, warn};

use super::{
    memory::Memory,
    picture::Picture,
    watches::Input,
    write::{self, End, Report, Wrote},
};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, Turn, guarded},
    owned::Concerned,
    room,
    timing::{AT_ONCE, Backoff, SPACING},
    unkept,
    write::Writer,
};

/// The picture, and what it is connected to.
pub(super) struct Controller {
    connections: Connections,
    /// The namespaces of the cluster are as all others.
    everywhere: bool,
    turns: EventLoop<Input, Report>,
    picture: Picture,
    memory: BTreeMap<String, Memory>,
    /// Failures of writes of the status, by UID.
    backoff: BTreeMap<String, Backoff>,
    /// Pace of the lines about distributions that are set aside.
    lines: LinePace,
}

/// Decision on a distribution: its rules, where they make sense, and its plan.
type Decided = (Option<Arc<Rules>>, Plan);

impl Controller {
    pub(super) fn new(connections: Connections, everywhere: bool, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: EventLoop::new(inputs, connections.tenure.clone()),
            connections,
            everywhere,
            picture: Picture::default(),
            memory: BTreeMap::new(),
            backoff: BTreeMap::new(),
            lines: LinePace::default(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(report) => self.settle(report),
                Turn::Panic(uid, _) => self.set_aside(&uid),
                Turn::Due => {}
            }
            self.say_who_is_left_out();
            if self.turns.begins_term() {
                self.all_due();
                // The leader before this one may have ended before it told.
                let all = self.picture.all_left_out();
                all.into_iter().for_each(|object| self.connections.writer.events.about(object, no_room()));
            }
            if self.is_listed() {
                self.connections.count(self.picture.sizes());
                if self.turns.term().is_some() {
                    self.begin();
                }
            }
        }
    }

    /// Tells whether all was listed once.
    fn is_listed(&self) -> bool {
        self.picture.listed().iter().all(|(_, listed)| *listed)
    }

    fn take(&mut self, input: Input) {
        let ends = input.is_end();
        let memory = &self.memory;
        let concerned = self.picture.take(input, |filed, change| {
            let generation = filed.object.metadata.generation;
            memory.get(filed.uid()).is_none_or(|memory| memory.minds(generation, change))
        });
        self.turns.take(concerned, || all(&self.picture, &self.memory));
        if ends {
            self.connections.show(self.picture.listed(), self.picture.sizes());
        }
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let (now, term) = (Instant::now(), self.turns.term());
        let fails = |uid: &str| {
            self.backoff.get(uid).is_some_and(Backoff::fails)
                || self.memory.get(uid).is_some_and(Memory::fails)
        };
        let share = |uid: &str| Share { fails: fails(uid), ..Share::default() };
        for uid in self.turns.agenda.take(now, AT_ONCE, share) {
            if let Some(name) = self.picture.returning(&uid) {
                let writer = self.connections.writer.clone();
                let work = write::read(writer, name.to_owned(), uid.clone());
                self.turns.spawn(uid, work);
                continue;
            }
            let Some(object) = self.picture.object(&uid).cloned() else {
                self.memory.remove(&uid);
                self.backoff.remove(&uid);
                continue;
            };
            let memory = self.memory.entry(uid.clone()).or_default();
            if memory.aside.has(&object) {
                continue;
            }
            // The leader before this one may have given out a newer one, which the watch has not shown here:
            // what this one says would take its place.
            if memory.read_in != term {
                memory.read_in = term;
                let name = object.metadata.name.clone().unwrap_or_default();
                let work = write::read(self.connections.writer.clone(), name, uid.clone());
                self.turns.spawn(uid, work);
                continue;
            }
            memory.sees(object.metadata.generation);
            memory.keep(|namespace| self.picture.namespaces.contains_key(namespace));
            match guarded(|| decide(&self.picture, memory, &object, self.everywhere, now)) {
                Ok(decided) => self.carry_out(uid, object, decided, now),
                Err(_) => self.set_aside(&uid),
            }
        }
    }

    fn carry_out(
        &mut self,
        uid: String,
        object: Arc<ResourceDistribution>,
        (rules, mut plan): Decided,
        now: Instant,
    ) {
        let Some(memory) = self.memory.get_mut(&uid) else { return };
        self.connections.writer.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.told.is_news(now, &note) {
                self.connections.writer.events.tell(&object, note);
            }
        }
        if let Some(at) = memory.retry().filter(|at| *at > now) {
            self.turns.agenda.add(uid.clone(), at);
        }
        if let Some(status) = &plan.status {
            let unkept = memory.unkept.waits(&json!(status), now);
            // Counters change with every copy; whoever looks once a second sees the same.
            match unkept.or_else(|| memory.status.waits(now)) {
                Some(at) => {
                    plan.status = None;
                    self.turns.agenda.add(uid.clone(), at);
                }
                None => {
                    memory.unkept.forget();
                    memory.status.written(now);
                }
            }
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return;
        }
        debug!(distribution = object.metadata.name, actions = plan.actions.len(), "Plan begins");
        let uid_of = |name: &str| self.picture.namespaces.get(name).map(|one| one.uid.clone());
        let uids = plan.actions.iter().map(|action| uid_of(action.namespace()).unwrap_or_default()).collect();
        let writer = self.connections.writer.clone();
        let work = write::carry_out(writer, object, rules, plan, uids, memory.met_errors);
        self.turns.spawn(uid, work);
    }

    /// Takes in what a plan has written.
    fn settle(&mut self, report: Report) {
        let Report { uid, wrote, outcomes, met_errors, unkept, end } = report;
        let now = Instant::now();
        for wrote in wrote {
            match wrote {
                Wrote::Copy(copy) => self.picture.wrote_copy(copy),
                Wrote::CopyGone(kind, uid) => self.picture.copy_ended(kind, &uid),
                Wrote::Distribution(filed) => {
                    let concerned = self.picture.wrote(filed);
                    concerned.into_iter().for_each(|uid| self.turns.agenda.add(uid, now));
                }
            }
        }
        let name = self.picture.object(&uid).and_then(|object| object.metadata.name.clone());
        let memory = self.memory.entry(uid.clone()).or_default();
        if let Some((namespace, trouble)) =
            outcomes.iter().find_map(|(namespace, trouble)| Some((namespace, trouble.as_ref()?)))
        {
            let error = trouble.text.as_str();
            warn!(distribution = name, namespace, error, "Copy not written, trying again");
        }
        if !outcomes.is_empty() {
            memory.met_errors = met_errors;
        }
        memory.tried(outcomes, now);
        if let Some((status, field)) = unkept {
            memory.unkept.add(status, now);
            let note = unkept::note(&field);
            if let Some(object) = self.picture.object(&uid)
                && memory.told.is_news(now, &note)
            {
                warn!(distribution = name, field, "Status is not kept as it is written, it waits");
                self.connections.writer.events.tell(object, note);
            }
        }
        let pause = match &end {
            End::Done => {
                self.backoff.remove(&uid);
                SPACING
            }
            // What failed before may fail again.
            End::Read => SPACING,
            End::Changed => {
                memory.read_in = None;
                self.backoff.entry(uid.clone()).or_default().ends(false)
            }
            End::Failed(error) => {
                warn!(distribution = name, error, "Status not written, trying again");
                self.backoff.entry(uid.clone()).or_default().ends(false)
            }
            End::Unread(error) => {
                memory.read_in = None;
                warn!(uid, error, "Distribution not read, trying again");
                self.backoff.entry(uid.clone()).or_default().ends(false)
            }
        };
        self.turns.agenda.add(uid, later(now, pause));
    }

    /// Says which distributions were set aside for want of room.
    fn say_who_is_left_out(&mut self) {
        let Writer { events, metrics, .. } = &self.connections.writer;
        metrics.without_room(self.picture.without_room());
        for object in self.picture.left_out() {
            metrics.set_aside();
            if let Some(left_out) = self.lines.take(Instant::now()) {
                let ObjectReference { name, .. } = &object;
                warn!(distribution = name, left_out, "No room for the distribution, it is set aside");
            }
            // Of all replicas one tells it.
            if self.turns.term().is_some() {
                events.about(object, no_room());
            }
        }
    }

    /// Leaves a distribution alone until it changes: its plan would end in the same panic.
    fn set_aside(&mut self, uid: &str) {
        let Some(object) = self.picture.object(uid) else { return };
        let name = object.metadata.name.as_deref();
        error!(distribution = name, "Plan ended in a panic, the distribution is set aside");
        self.connections.writer.metrics.set_aside();
        let text = "the controller failed on this object and leaves it alone until it is changed".to_owned();
        let note = Note { warning: true, reason: "SetAside", text };
        self.connections.writer.events.tell(object, note);
        self.memory.entry(uid.to_owned()).or_default().aside.set(object);
    }

    fn all_due(&mut self) {
        self.turns.take(Concerned::All, || all(&self.picture, &self.memory));
    }
}

/// Note on a distribution for which there is no room.
fn no_room() -> Note {
    room::no_room("distributions", "it is among the largest", "Make it smaller, or delete others")
}

/// UIDs of all distributions, and of those that are remembered and gone: a list has not shown them any more,
/// and what is remembered goes when they are looked at.
fn all(picture: &Picture, memory: &BTreeMap<String, Memory>) -> Vec<String> {
    let gone = memory.keys().filter(|uid| picture.object(uid).is_none()).cloned();
    picture.all().into_iter().chain(gone).collect()
}

fn decide(
    picture: &Picture,
    memory: &mut Memory,
    object: &ResourceDistribution,
    everywhere: bool,
    now: Instant,
) -> Decided {
    let rules = match memory.rules(object, everywhere) {
        Ok(rules) => rules,
        Err(fault) => return (None, distribution::faulty(object, &fault, Timestamp::now())),
    };
    let given = Given {
        distribution: object,
        namespaces: &picture.namespaces,
        copies: &picture.copies(object.metadata.uid.as_deref().unwrap_or_default()),
        troubles: &memory.troubles,
        retry: memory.retries(now),
    };
    let plan = distribution::plan(&given, &rules, Timestamp::now());
    (Some(rules), plan)
}

#[cfg(test)]
mod tests;
