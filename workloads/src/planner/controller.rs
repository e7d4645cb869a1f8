//! The one owner of a picture: takes in what watches and writes show, and begins the plans that are due.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_base::{line_pace::LinePace, time::later};
use berth_workloads_policy::action::Note;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::{
    End, Memory, Picture, Plan,
    work::{self, Report},
};
use crate::{
    agenda::Share,
    event_loop::{Connections, EventLoop, ReadFirst, Turn, guarded},
    object::Object,
    owned::Concerned,
    reading::{Ended, uids_in},
    room,
    timing::{AT_ONCE, SPACING},
    unkept,
    write::{HELD_BACK, Writer},
};

/// The longest time between two looks at what waits for a time: a clock that was set is noticed after it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The shortest one, where nothing was to be written: whatever an object says, it is not looked at for ever.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// Answer to what was on its way.
enum Came<P: Picture> {
    Report(Report<P::Wrote>),
    /// All objects, at the start of a term.
    Found(Ended<P::Found>),
}

/// The picture, and what it is connected to.
pub(crate) struct Controller<P: Picture> {
    connections: Connections,
    turns: EventLoop<P::Input, Came<P>>,
    picture: P,
    /// By UID.
    memory: BTreeMap<String, Memory>,
    /// Lines about plans that are not carried out.
    lines: LinePace,
}

impl<P: Picture> Controller<P> {
    pub(crate) fn new(picture: P, connections: Connections, inputs: mpsc::Receiver<P::Input>) -> Self {
        Self {
            turns: EventLoop::with_reading(inputs, connections.tenure.clone()),
            connections,
            picture,
            memory: BTreeMap::new(),
            lines: LinePace::default(),
        }
    }

    /// Runs until the watches have ended.
    pub(crate) async fn run(mut self) {
        while let Some(turn) = self.turns.next(self.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(input)),
                Turn::Report(Came::Report(report)) => self.settle(report),
                Turn::Report(Came::Found(ended)) => self.was_read(ended),
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
                self.read_or_begin();
            }
        }
    }

    /// Tells whether all was listed once.
    fn is_listed(&self) -> bool {
        self.picture.listed().iter().all(|(_, listed)| *listed)
    }

    fn all_due(&mut self) {
        self.turns.take(Concerned::All, || uids(&self.picture, &self.memory));
    }

    fn take(&mut self, input: P::Input) {
        let ends = P::ends_list(&input);
        let concerned = self.picture.take(input);
        self.turns.take(concerned, || uids(&self.picture, &self.memory));
        if ends {
            self.connections.show(self.picture.listed(), self.picture.sizes());
        }
    }

    /// Reads all objects at the start of a term, and some namespaces again, and begins plans when it is known
    /// what there is.
    fn read_or_begin(&mut self) {
        let namespaces = || self.picture.objects().map(|object| object.namespace().to_owned()).collect();
        if let Some((term, namespaces)) = self.turns.term_to_read(namespaces) {
            let reading = self.picture.read_all(self.connections.writer.clone(), term, namespaces);
            self.turns.read(async { Came::Found(reading.await) });
        }
        if self.turns.term_to_plan().is_some() {
            self.begin();
        }
    }

    /// Takes in how a reading of namespaces ended. Objects that something new was found for are due, and
    /// those that waited for it; others keep the pauses of theirs.
    fn was_read(&mut self, ended: Ended<P::Found>) {
        let read = ended.read();
        let (known, mut due) = (uids_in(&read, self.picture.all()), Vec::new());
        for (namespace, found) in self.turns.was_read(ended) {
            let known = known.get(&namespace).map(Vec::as_slice).unwrap_or_default();
            due.extend(self.picture.found(known, found));
        }
        let (picture, readings) = (&self.picture, self.turns.readings());
        let is_read = |uid: &str| picture.object(uid).is_some_and(|object| read.contains(object.namespace()));
        for (uid, memory) in &mut self.memory {
            if is_read(uid) && memory.unread.was_read(readings) {
                due.push(uid.clone());
            }
        }
        self.turns.take(Concerned::Some(due), Vec::new);
    }

    /// Takes objects that are due, as far as there are places for their plans.
    fn due(&mut self, now: Instant) -> Vec<String> {
        let (picture, memory) = (&self.picture, &self.memory);
        self.turns.agenda.take(now, AT_ONCE, |uid| Share {
            namespace: picture.object(uid).map(|object| object.namespace().to_owned()),
            kind: picture.object(uid).map(P::kind).unwrap_or_default(),
            fails: memory.get(uid).is_some_and(|memory| memory.backoff.fails()),
        })
    }

    /// Begins the plans that are due.
    fn begin(&mut self) {
        let now = Instant::now();
        for uid in self.due(now) {
            let Some(object) = self.picture.object(&uid).cloned() else {
                self.memory.remove(&uid);
                continue;
            };
            let memory = self.memory.entry(uid.clone()).or_default();
            if memory.aside.has(&object) {
                continue;
            }
            let lacks = self.picture.lacks(&uid);
            if lacks && !memory.unread.is_so() {
                // Many come back at once, and each reading lists the namespace.
                memory.unread.add(self.turns.readings());
            }
            if lacks || object.meta().deletion_timestamp.is_none() {
                let Memory { unread, read_in, .. } = memory;
                match self.turns.reads_first(object.namespace(), unread, *read_in, now) {
                    Some(ReadFirst::WithNamespace) => continue,
                    None if !lacks => {}
                    Some(ReadFirst::Apart) | None => {
                        let read = work::read::<P>(self.connections.writer.clone(), object);
                        self.turns.spawn(uid, async { Came::Report(read.await) });
                        continue;
                    }
                }
            }
            match guarded(|| self.picture.plan(&object, memory, Timestamp::now())) {
                Ok(plan) => self.carry_out(uid, object, plan, now),
                Err(_) => self.set_aside(&uid),
            }
        }
    }

    fn carry_out(&mut self, uid: String, object: P::Object, mut plan: Plan<P::Action>, now: Instant) {
        let Some(memory) = self.memory.get_mut(&uid) else { return };
        self.connections.writer.metrics.passed();
        for note in std::mem::take(&mut plan.notes) {
            if memory.is_news(now, &note) {
                self.connections.writer.events.tell(&object, note);
            }
        }
        // One that was written a moment ago and is not kept is as good as written, also before other writes.
        let mut waits = plan.status.as_ref().and_then(|status| memory.unkept.waits(status, now));
        if waits.is_some() {
            plan.status = None;
        } else if plan.status.is_some() && !plan.status_first {
            // Counters change with every pod; whoever looks once a second sees the same.
            match memory.status.waits(now) {
                Some(at) => {
                    plan.status = None;
                    waits = Some(at);
                }
                None => memory.status.written(now),
            }
        }
        if plan.status.is_some() {
            memory.unkept.forget();
        }
        let shortest = if plan.has_writes() { Duration::ZERO } else { SHORTEST_WAIT };
        let again = plan.again.map(|again| later(now, again.clamp(shortest, LONGEST_WAIT)));
        if let Some(at) = again.into_iter().chain(waits).min() {
            self.turns.agenda.add(uid.clone(), at);
        }
        if !plan.has_writes() {
            return;
        }
        debug!(object = object.title(), actions = plan.actions.len(), "Plan begins");
        let work = work::carry_out::<P>(self.connections.writer.clone(), object, plan);
        self.turns.spawn(uid, async { Came::Report(work.await) });
    }

    /// Takes in what a plan has written.
    fn settle(&mut self, report: Report<P::Wrote>) {
        let Report { uid, wrote, put_off, unread, made, unkept, end } = report;
        let mut others: Vec<String> =
            wrote.into_iter().flat_map(|wrote| self.picture.wrote(&uid, wrote)).collect();
        // It has a pause of its own.
        others.retain(|other| *other != uid);
        self.turns.take(Concerned::Some(others), Vec::new);
        let planned = self.picture.object(&uid);
        let title = || planned.map(Object::title);
        let readings = self.turns.readings();
        let memory = self.memory.entry(uid.clone()).or_default();
        memory.put_off.add(put_off);
        if made {
            // What was refused before is made now, or what comes after it.
            memory.refused = None;
        }
        if let Some((status, field)) = unkept {
            memory.unkept.add(status, Instant::now());
            let note = unkept::note(&field);
            if let Some(planned) = planned
                && memory.is_news(Instant::now(), &note)
            {
                warn!(object = title(), field, "Status is not kept as it is written, it waits");
                self.connections.writer.events.tell(planned, note);
            }
        }
        let pause = match end {
            End::Held { .. } => memory.backoff.is_held(),
            // What failed before is still to be done.
            End::Read => SPACING,
            _ => memory.backoff.ends(end == End::Done),
        };
        match end {
            End::Done => (memory.failure, memory.refused) = (None, None),
            End::Read => {
                memory.unread.was_read_apart();
                memory.read_in = self.turns.read_in();
            }
            End::Changed => {}
            End::NameTaken => memory.collisions = memory.collisions.saturating_add(1),
            End::Failed { text, refused } => {
                if let Some(left_out) = self.lines.take(Instant::now()) {
                    warn!(object = title(), error = text, left_out, "Plan not carried out, trying again");
                }
                (memory.failure, memory.refused) = (Some(text), refused);
            }
            End::Held { text, refused } => {
                if let Some(left_out) = self.lines.take(Instant::now()) {
                    info!(object = title(), text, left_out, "Plan is held back, trying again");
                }
                let note = Note { warning: false, reason: HELD_BACK, text: text.clone() };
                if let Some(planned) = planned
                    && memory.is_news(Instant::now(), &note)
                {
                    self.connections.writer.events.tell(planned, note);
                }
                memory.failure = Some(text);
                memory.refused = refused.or_else(|| memory.refused.take());
            }
            End::Unknown(text) => {
                warn!(object = title(), error = text, "What a write did is not known, reading what there is");
                memory.unread.add(readings);
            }
        }
        if unread {
            memory.unread.add(readings);
        }
        self.turns.agenda.add(uid, later(Instant::now(), pause));
    }

    /// Says which objects were set aside for want of room.
    fn say_who_is_left_out(&mut self) {
        let Writer { events, metrics, .. } = &self.connections.writer;
        for object in self.picture.left_out() {
            metrics.set_aside();
            if let Some(left_out) = self.lines.take(Instant::now()) {
                let ObjectReference { kind, namespace, name, .. } = &object;
                warn!(kind, namespace, name, left_out, "No room for the object, it is set aside");
            }
            // Of all replicas one tells it.
            if self.turns.term().is_some() {
                events.about(object, no_room());
            }
        }
    }

    /// Leaves an object alone until it changes: its plan would end in the same panic.
    fn set_aside(&mut self, uid: &str) {
        let Some(object) = self.picture.object(uid) else { return };
        error!(
            object = object.title(),
            namespace = object.namespace(),
            "Plan ended in a panic, the object is set aside"
        );
        self.connections.writer.metrics.set_aside();
        let text = "the controller failed on this object and leaves it alone until it is changed".to_owned();
        self.connections.writer.events.tell(object, Note { warning: true, reason: "SetAside", text });
        let memory = self.memory.entry(uid.to_owned()).or_default();
        memory.aside.set(object);
        // Nobody knows what was written.
        memory.unread.add(self.turns.readings());
    }
}

/// Note on an object for which there is no room.
fn no_room() -> Note {
    let remedy = "Make it smaller, or delete others that have ended, and revisions that no pod has";
    let why = "its namespace takes most and it is among the largest there, with its revisions";
    room::no_room("objects of its kind", why, remedy)
}

/// UIDs of all objects, and of those that are remembered and gone: a list has not shown them any more, and
/// what is remembered goes when they are looked at.
fn uids(picture: &impl Picture, memory: &BTreeMap<String, Memory>) -> Vec<String> {
    let gone = memory.keys().filter(|uid| picture.object(uid).is_none()).cloned();
    picture.objects().map(|object| object.uid().to_owned()).chain(gone).collect()
}

#[cfg(test)]
mod tests;
