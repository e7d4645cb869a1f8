//! The one owner of the picture of jobs: takes in what watches and writes show, and begins the plans that are
//! due.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::{action::Note, jobs::Plan, store::Stored};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::{
    Connections, Settings,
    memory::Memory,
    object::Object,
    picture::Picture,
    read::{self, Found},
    watches::Input,
    write::{self, End, Report, Wrote},
};
use crate::{
    owned::Concerned,
    reading::Ended,
    timing::AT_ONCE,
    turns::{Turn, Turns, guarded},
    write::HELD_BACK,
};

/// The longest time between two looks at what waits for a time: a clock that was set is noticed after it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Something that was on its way.
enum Came {
    Report(Report),
    /// All objects, at the start of a term.
    Found(Ended<Found>),
}

/// The picture, and what it is connected to.
pub(super) struct Controller {
    settings: Settings,
    connections: Connections,
    turns: Turns<Input, Came>,
    picture: Picture,
    memory: BTreeMap<String, Memory>,
}

impl Controller {
    pub(super) fn new(settings: Settings, connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: Turns::with_reading(inputs, connections.tenure.clone()),
            picture: Picture::new(&settings),
            settings,
            connections,
            memory: BTreeMap::new(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(Came::Report(report)) => self.settle(report),
                Turn::Report(Came::Found(ended)) => self.was_read(ended),
                Turn::Panic(uid) => self.set_aside(&uid),
                Turn::Due => {}
            }
            if self.turns.begins_term() {
                self.all_due();
            }
            if self.is_listed() {
                self.read_or_begin();
            }
        }
    }

    /// Tells whether all was listed once.
    fn is_listed(&self) -> bool {
        self.picture.listed().iter().all(|(_, listed)| *listed)
    }

    fn take(&mut self, input: Input) {
        let ends = input.is_end();
        match self.picture.take(input) {
            Concerned::None => {}
            Concerned::Some(uids) => {
                let now = Instant::now();
                uids.into_iter().for_each(|uid| self.turns.agenda.add(uid, now));
            }
            Concerned::All => self.all_due(),
        }
        if ends {
            self.connections.listed.send_replace(self.picture.listed());
            for (kind, count) in self.picture.sizes() {
                self.connections.writer.metrics.objects(kind, count);
            }
        }
    }

    /// Reads all objects at the start of a term, and begins plans when that is done.
    fn read_or_begin(&mut self) {
        if let Some(term) = self.turns.term_to_read() {
            let reading = read::all(
                self.connections.writer.clone(),
                self.settings.clone(),
                term,
                self.picture.namespaces(),
            );
            self.turns.read(async { Came::Found(reading.await) });
        } else if self.turns.term_to_plan().is_some() {
            self.begin();
        }
    }

    /// Takes in what was read at the start of a term.
    fn was_read(&mut self, (term, found): Ended<Found>) {
        let now = Instant::now();
        let namespaces = found.as_ref().ok();
        let namespaces = namespaces.map(|all| all.iter().map(|one| one.namespace.clone()).collect());
        if let Some(reading) = &mut self.turns.reading {
            reading.ends(term, namespaces, now);
        }
        match found {
            Ok(found) => {
                found.into_iter().for_each(|found| self.picture.found(found));
                self.all_due();
            }
            Err(error) => warn!(error, "Objects not read at the start of a term, trying again"),
        }
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let now = Instant::now();
        for uid in self.turns.agenda.take(now, AT_ONCE) {
            let Some(object) = self.picture.object(&uid).cloned() else {
                self.memory.remove(&uid);
                continue;
            };
            let memory = self.memory.entry(uid.clone()).or_default();
            if memory.is_aside(object.meta().resource_version.as_deref()) {
                continue;
            }
            // What was written last may not have been shown yet.
            let unread = memory.unread || self.turns.is_unread(object.namespace(), memory.read_in);
            if unread && object.meta().deletion_timestamp.is_none() {
                let read = write::read(self.connections.writer.clone(), object);
                self.turns.spawn(uid, async { Came::Report(read.await) });
                continue;
            }
            let refused = memory.refused.as_deref();
            match guarded(|| self.picture.plan(&object, refused, Timestamp::now())) {
                Some(plan) => self.carry_out(uid, object, plan, now),
                None => self.set_aside(&uid),
            }
        }
    }

    fn carry_out(&mut self, uid: String, object: Object, mut plan: Plan<Value>, now: Instant) {
        let Some(memory) = self.memory.get_mut(&uid) else { return };
        self.connections.writer.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.is_news(now, &note) {
                self.connections.writer.events.about(object.reference(), note);
            }
        }
        let mut again = plan.again.map(|again| later(now, again.min(LONGEST_WAIT)));
        if plan.status.is_some() && !plan.status_first {
            // Counters change with every pod; whoever looks once a second sees the same.
            match memory.status.waits(now) {
                Some(at) => {
                    plan.status = None;
                    again = Some(again.map_or(at, |again| again.min(at)));
                }
                None => memory.status.written(now),
            }
        }
        if let Some(at) = again {
            self.turns.agenda.add(uid.clone(), at);
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return;
        }
        debug!(job = object.name(), actions = plan.actions.len(), "Plan begins");
        let work = write::carry_out(self.connections.writer.clone(), object, plan);
        self.turns.spawn(uid, async { Came::Report(work.await) });
    }

    /// Takes in what a plan has written.
    fn settle(&mut self, report: Report) {
        let Report { uid, wrote, end } = report;
        let picture = &mut self.picture;
        for wrote in wrote {
            match wrote {
                Wrote::Pod(pod) => picture.pods.wrote(pod),
                Wrote::PodGone(uid) => picture.pods.ended(&uid),
                Wrote::Job(job) => picture.jobs.wrote(job),
                Wrote::JobGone(uid) => picture.jobs.ended(&uid),
                Wrote::Object(filed) => picture.wrote(*filed),
                Wrote::ObjectGone(uid) => picture.ended(&uid),
                Wrote::Pods(pods) => picture.pods.read(&uid, pods, |_| true),
                Wrote::Jobs(jobs, broadcasts) => {
                    picture.jobs.read(&uid, jobs, |_| true);
                    let there = |uid: &str| broadcasts.iter().any(|filed| filed.uid() == uid);
                    let known: Vec<String> =
                        picture.broadcasts.of(&uid).map(|child| child.uid.clone()).collect();
                    known.iter().filter(|uid| !there(uid)).for_each(|uid| picture.ended(uid));
                    broadcasts.into_iter().for_each(|filed| picture.wrote(filed));
                }
            }
        }
        let name = picture.object(&uid).map(|object| object.name().to_owned());
        let memory = self.memory.entry(uid.clone()).or_default();
        let pause = match end {
            End::Held(_) => memory.backoff.is_held(),
            _ => memory.backoff.ends(matches!(end, End::Done | End::Read)),
        };
        match end {
            End::Done => memory.refused = None,
            End::Read => (memory.unread, memory.read_in) = (false, self.turns.term()),
            End::Changed => {}
            End::Failed { text, refused } => {
                warn!(job = name, error = text, "Plan not carried out, trying again");
                memory.refused = refused;
            }
            End::Held(text) => {
                info!(job = name, text, "Plan is held back, trying again");
                let note = Note { warning: false, reason: HELD_BACK, text };
                if let Some(object) = picture.object(&uid)
                    && memory.is_news(Instant::now(), &note)
                {
                    self.connections.writer.events.about(object.reference(), note);
                }
            }
            End::Unknown(text) => {
                warn!(job = name, error = text, "What a write did is not known, reading what there is");
                memory.unread = true;
            }
        }
        self.turns.agenda.add(uid, later(Instant::now(), pause));
    }

    /// Leaves an object alone until it changes: its plan would end in the same panic.
    fn set_aside(&mut self, uid: &str) {
        let Some(object) = self.picture.object(uid) else { return };
        error!(
            job = object.name(),
            namespace = object.namespace(),
            "Plan ended in a panic, the job is set aside"
        );
        self.connections.writer.metrics.set_aside();
        let text = "the controller failed on this object and leaves it alone until it is changed".to_owned();
        self.connections
            .writer
            .events
            .about(object.reference(), Note { warning: true, reason: "SetAside", text });
        let version = object.meta().resource_version.clone().unwrap_or_default();
        self.memory.entry(uid.to_owned()).or_default().set_aside(&version);
    }

    fn all_due(&mut self) {
        let now = Instant::now();
        self.picture.all().into_iter().for_each(|uid| self.turns.agenda.add(uid, now));
    }
}
