//! The one owner of the picture of UnitedDeployments: takes in what watches and writes show, and begins the
//! plans that are due.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::{action::Note, store::Stored, united_deployment::Plan};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::{
    Connections,
    object::{Filed, reference},
    picture::{Given, Picture},
    read::{self, Found},
    watches::Input,
    write::{self, End, Report, Wrote},
};
use crate::{
    jobs::Memory,
    owned::Concerned,
    reading::Ended,
    timing::AT_ONCE,
    turns::{Turn, Turns, guarded},
    write::HELD_BACK,
};

/// The longest time between two looks at what waits for a time.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Memory of an object between its plans.
#[derive(Debug, Default)]
struct Known {
    memory: Memory,
    /// Failure of its last writes.
    failure: Option<String>,
    /// How often the name of a new revision was taken.
    collisions: i32,
}

/// Something that was on its way.
enum Came {
    Report(Report),
    /// All objects, at the start of a term.
    Found(Ended<Found>),
}

/// The picture, and what it is connected to.
pub(super) struct Controller {
    connections: Connections,
    turns: Turns<Input, Came>,
    picture: Picture,
    known: BTreeMap<String, Known>,
}

impl Controller {
    pub(super) fn new(connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            turns: Turns::with_reading(inputs, connections.tenure.clone()),
            connections,
            picture: Picture::default(),
            known: BTreeMap::new(),
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
            let reading = read::all(self.connections.writer.clone(), term, self.picture.namespaces());
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
            let Some(filed) = self.picture.object(&uid).cloned() else {
                self.known.remove(&uid);
                continue;
            };
            let meta = &filed.object.metadata;
            let known = self.known.entry(uid.clone()).or_default();
            if known.memory.is_aside(meta.resource_version.as_deref()) {
                continue;
            }
            // What was written last may not have been shown yet.
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let unread = known.memory.unread || self.turns.is_unread(namespace, known.memory.read_in);
            if unread && meta.deletion_timestamp.is_none() {
                let read = write::read(self.connections.writer.clone(), filed);
                self.turns.spawn(uid, async { Came::Report(read.await) });
                continue;
            }
            let given = Given {
                failure: known.failure.as_deref(),
                collisions: known.collisions,
                seed: RandomState::new().build_hasher().finish(),
            };
            match guarded(|| self.picture.plan(&filed, given, Timestamp::now())) {
                Some(plan) => self.carry_out(uid, filed, plan, now),
                None => self.set_aside(&uid),
            }
        }
    }

    fn carry_out(&mut self, uid: String, filed: Filed, mut plan: Plan, now: Instant) {
        let Some(Known { memory, .. }) = self.known.get_mut(&uid) else { return };
        self.connections.writer.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.is_news(now, &note) {
                self.connections.writer.events.about(reference(&filed.object), note);
            }
        }
        let mut again = plan.again.map(|again| later(now, again.min(LONGEST_WAIT)));
        if plan.status.is_some() {
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
        debug!(united = filed.object.metadata.name, actions = plan.actions.len(), "Plan begins");
        let work = write::carry_out(self.connections.writer.clone(), filed, plan);
        self.turns.spawn(uid, async { Came::Report(work.await) });
    }

    /// Takes in what a plan has written.
    fn settle(&mut self, report: Report) {
        let Report { uid, wrote, end } = report;
        let picture = &mut self.picture;
        for wrote in wrote {
            match wrote {
                Wrote::United(filed) => picture.wrote(filed),
                Wrote::UnitedGone(uid) => picture.ended(&uid),
                Wrote::Child(child) => picture.children.entry(child.kind).or_default().wrote(child),
                Wrote::ChildGone(kind, uid) => picture.children.entry(kind).or_default().ended(&uid),
                Wrote::Revision(revision) => picture.revisions.wrote(revision),
                Wrote::RevisionGone(uid) => picture.revisions.ended(&uid),
                Wrote::PodGone(uid) => picture.pods.ended(&uid),
                Wrote::Read(children, revisions) => {
                    for (kind, children) in children {
                        picture.children.entry(kind).or_default().read(&uid, children, |_| true);
                    }
                    picture.revisions.read(&uid, revisions, |_| true);
                }
            }
        }
        let name = picture.object(&uid).and_then(|filed| filed.object.metadata.name.clone());
        let known = self.known.entry(uid.clone()).or_default();
        let pause = match end {
            End::Held(_) => known.memory.backoff.is_held(),
            _ => known.memory.backoff.ends(matches!(end, End::Done | End::Read)),
        };
        match end {
            End::Done => known.failure = None,
            End::Read => (known.memory.unread, known.memory.read_in) = (false, self.turns.term()),
            End::Changed => {}
            End::NameTaken => known.collisions = known.collisions.saturating_add(1),
            End::Failed(text) => {
                warn!(united = name, error = text, "Plan not carried out, trying again");
                known.failure = Some(text);
            }
            End::Held(text) => {
                info!(united = name, text, "Plan is held back, trying again");
                let note = Note { warning: false, reason: HELD_BACK, text: text.clone() };
                if let Some(filed) = picture.object(&uid)
                    && known.memory.is_news(Instant::now(), &note)
                {
                    self.connections.writer.events.about(reference(&filed.object), note);
                }
                known.failure = Some(text);
            }
            End::Unknown(text) => {
                warn!(united = name, error = text, "What a write did is not known, reading what there is");
                known.memory.unread = true;
            }
        }
        self.turns.agenda.add(uid, later(Instant::now(), pause));
    }

    /// Leaves an object alone until it changes: its plan would end in the same panic.
    fn set_aside(&mut self, uid: &str) {
        let Some(filed) = self.picture.object(uid) else { return };
        let meta = &filed.object.metadata;
        error!(
            united = meta.name,
            namespace = meta.namespace,
            "Plan ended in a panic, the object is set aside"
        );
        self.connections.writer.metrics.set_aside();
        let text = "the controller failed on this object and leaves it alone until it is changed".to_owned();
        let note = Note { warning: true, reason: "SetAside", text };
        self.connections.writer.events.about(reference(&filed.object), note);
        let version = meta.resource_version.clone().unwrap_or_default();
        self.known.entry(filed.uid().to_owned()).or_default().memory.set_aside(&version);
    }

    fn all_due(&mut self) {
        let now = Instant::now();
        self.picture.all().into_iter().for_each(|uid| self.turns.agenda.add(uid, now));
    }
}
