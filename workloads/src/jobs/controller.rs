//! The one owner of the picture of jobs: takes in what watches and writes show, and begins the plans that are
//! due.

use std::{
    collections::BTreeMap,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use berth_base::time::later;
use berth_workloads_policy::{action::Note, jobs::Plan, store::Stored};
use jiff::Timestamp;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::{Id, JoinSet},
};
use tracing::{debug, error, warn};

use super::{
    Connections, Settings,
    memory::{Agenda, Memory},
    object::Object,
    picture::Picture,
    watches::Input,
    write::{self, End, Report, Wrote},
};
use crate::owned::Concerned;

/// Inputs taken at once before anything is planned.
const BATCH: usize = 256;
/// Plans that are carried out at once.
const AT_ONCE: usize = 16;
/// The longest time between two looks at what waits for a time: a clock that was set is noticed after it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The picture, and what it is connected to.
pub(super) struct Controller {
    connections: Connections,
    inputs: mpsc::Receiver<Input>,
    picture: Picture,
    agenda: Agenda,
    memory: BTreeMap<String, Memory>,
    plans: JoinSet<Report>,
    /// Object of each plan on its way.
    of: BTreeMap<Id, String>,
}

impl Controller {
    pub(super) fn new(settings: Settings, connections: Connections, inputs: mpsc::Receiver<Input>) -> Self {
        Self {
            picture: Picture::new(&settings),
            connections,
            inputs,
            agenda: Agenda::default(),
            memory: BTreeMap::new(),
            plans: JoinSet::new(),
            of: BTreeMap::new(),
        }
    }

    /// Runs until the watches have ended.
    pub(super) async fn run(mut self) {
        let mut inputs = Vec::with_capacity(BATCH);
        let mut term = None;
        loop {
            let next = self.agenda.next(AT_ONCE);
            // Cancel-safe: `recv_many` and `join_next_with_id` take nothing unless they return it, the tenure
            // keeps its newest value, and a deadline that was not waited for to its end is still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    inputs.drain(..).for_each(|input| self.take(input));
                }
                Some(ended) = self.plans.join_next_with_id() => match ended {
                    Ok((id, report)) => {
                        self.of.remove(&id);
                        self.settle(report);
                    }
                    // Said in the log already; the others go on.
                    Err(error) => if let Some(uid) = self.of.remove(&error.id()) {
                        self.agenda.in_flight.remove(&uid);
                        self.set_aside(&uid);
                    }
                },
                () = self.connections.tenure.changed() => {}
                () = deadline(next) => {}
            }
            let before = std::mem::replace(&mut term, self.connections.tenure.term());
            if term.is_some() && term != before {
                self.all_due();
            }
            if let Some(term) = term
                && self.picture.listed().iter().all(|(_, listed)| *listed)
            {
                self.begin(term);
            }
        }
    }

    fn take(&mut self, input: Input) {
        let ends = input.is_end();
        match self.picture.take(input) {
            Concerned::None => {}
            Concerned::Some(uids) => {
                let now = Instant::now();
                uids.into_iter().for_each(|uid| self.agenda.add(uid, now));
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

    /// Begins the plans that are due.
    fn begin(&mut self, term: u64) {
        let now = Instant::now();
        for uid in self.agenda.take(now, AT_ONCE) {
            let Some(object) = self.picture.object(&uid).cloned() else {
                self.memory.remove(&uid);
                continue;
            };
            let memory = self.memory.entry(uid.clone()).or_default();
            if memory.is_aside(object.meta().resource_version.as_deref()) {
                continue;
            }
            // What the leader before this one wrote last may not have been shown yet.
            if memory.read_in != Some(term) && object.meta().deletion_timestamp.is_none() {
                let read = write::read(self.connections.writer.clone(), object);
                self.spawn(uid, read);
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
            match memory.status_waits(now) {
                Some(at) => {
                    plan.status = None;
                    again = Some(again.map_or(at, |again| again.min(at)));
                }
                None => memory.status_written(now),
            }
        }
        if let Some(at) = again {
            self.agenda.add(uid.clone(), at);
        }
        if plan.actions.is_empty() && plan.status.is_none() {
            return;
        }
        debug!(job = object.name(), actions = plan.actions.len(), "Plan begins");
        let work = write::carry_out(self.connections.writer.clone(), object, plan);
        self.spawn(uid, work);
    }

    fn spawn(&mut self, uid: String, work: impl Future<Output = Report> + Send + 'static) {
        self.agenda.in_flight.insert(uid.clone());
        let handle = self.plans.spawn(work);
        self.of.insert(handle.id(), uid);
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
        self.agenda.in_flight.remove(&uid);
        let name = picture.object(&uid).map(|object| object.name().to_owned());
        let memory = self.memory.entry(uid.clone()).or_default();
        let pause = memory.ends(matches!(end, End::Done | End::Read));
        match end {
            End::Done => memory.refused = None,
            End::Read => memory.read_in = self.connections.tenure.term(),
            End::Changed => {}
            End::Failed { text, refused } => {
                warn!(job = name, error = text, "Plan not carried out, trying again");
                memory.refused = refused;
            }
            End::Unknown(text) => {
                warn!(job = name, error = text, "What a write did is not known, reading what there is");
                memory.read_in = None;
            }
        }
        self.agenda.add(uid, later(Instant::now(), pause));
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
        self.picture.all().into_iter().for_each(|uid| self.agenda.add(uid, now));
    }
}

/// Result of a plan; `None`: it ended in a panic.
fn guarded<T>(plan: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(plan)).ok()
}

async fn deadline(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_one_plan_and_no_other() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let plans = [1_usize, 9, 2].map(|at| guarded(|| [7, 8, 9][at]));
        std::panic::set_hook(hook);
        assert_eq!(plans, [Some(8), None, Some(9)]);
    }
}
