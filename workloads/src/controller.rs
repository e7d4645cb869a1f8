//! The one owner of the picture: takes in what watches and writes show, and begins the plans that are due.

use std::time::{Duration, Instant};

use berth_base::time::later;
use berth_malloc::growth::burst_is_over;
use berth_workloads_policy::{action::Note, clone_set::Settings};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::{
    absent::{Absent, no_room},
    cluster::Cluster,
    event_loop::{Connections, EventLoop, Turn},
    kinds::Set,
    object::Filed,
    owned::Concerned,
    state::{Came, Look, Next, State},
    unkept,
    watch::Input,
    write::{End, HELD_BACK, Report, Wrote},
};

/// A workload that could not be brought back is tried again after it.
const BROUGHT_BACK_EVERY: Duration = Duration::from_secs(30);
/// One that was read, and lacks something still, is read again after it.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The way from inputs and answers to plans.
pub(crate) struct Controller {
    pub(crate) settings: Settings,
    /// Bytes that workloads and their revisions may take in memory.
    pub(crate) most_held: usize,
    pub(crate) connections: Connections,
}

impl Controller {
    /// Runs until the watches have ended.
    pub(crate) async fn run(self, inputs: mpsc::Receiver<Input>) {
        let mut state = State::new(EventLoop::with_reading(inputs, self.connections.tenure.clone()));
        state.cluster = Cluster::with_room(self.most_held);
        while let Some(turn) = state.turns.next(state.is_listed()).await {
            match turn {
                Turn::Inputs(inputs) => inputs.into_iter().for_each(|input| self.take(&mut state, input)),
                Turn::Report(Came::Report(report)) => self.settle(&mut state, report),
                Turn::Report(Came::Found(ended)) => {
                    state.was_read(ended);
                    burst_is_over();
                }
                Turn::Report(Came::Fetched(uid, fetched)) => self.brought_back(&mut state, uid, fetched),
                Turn::Panic(uid, text) => state.set_aside(&uid, &text, self.look()),
                Turn::Due => {}
            }
            self.say_who_is_absent(&mut state);
            let concerned = state.cluster.listen(Instant::now());
            if concerned != Concerned::None {
                info!("Another agent is silent, or is not any more");
                state.concerns(concerned);
            }
            state.turns.wakes = state.cluster.next_silence();
            if state.turns.begins_term() {
                state.all_due();
                state.cluster.all_absent().for_each(|absent| self.tell_of(absent));
            }
            if state.is_listed() {
                self.connections.count(state.cluster.sizes());
                self.read_or_begin(&mut state);
            }
        }
    }

    /// Reads all objects at the start of a term, and some namespaces again, and begins plans when it is known
    /// what there is.
    fn read_or_begin(&self, state: &mut State) {
        if let Some((term, namespaces)) = state.turns.term_to_read(|| state.cluster.namespaces()) {
            let (spared, known) = (state.cluster.spared(&namespaces), state.cluster.known_sets(&namespaces));
            let reading = self.connections.writer.clone().read_all(term, namespaces, spared, known);
            state.turns.read(async { Came::Found(reading.await) });
        }
        if state.turns.term_to_plan().is_some() {
            self.begin(state);
        }
    }

    fn look(&self) -> Look<'_> {
        Look {
            now: Instant::now(),
            settings: self.settings,
            events: &self.connections.writer.events,
            metrics: &self.connections.writer.metrics,
        }
    }

    fn take(&self, state: &mut State, input: Input) {
        let ends = input.is_end();
        let concerned = state.cluster.take(input);
        state.concerns(concerned);
        if ends {
            self.connections.show(state.cluster.listed(), state.cluster.sizes());
        }
    }

    /// Begins the plans that are due.
    fn begin(&self, state: &mut State) {
        let look = self.look();
        for uid in state.due(look.now) {
            let writer = self.connections.writer.clone();
            match state.look(&uid, look) {
                Next::Nothing => {}
                Next::Read(set) => state.turns.spawn(uid, async { Came::Report(writer.read(set).await) }),
                Next::Fetch(absent) => {
                    let of = uid.clone();
                    state.turns.spawn(uid, async { Came::Fetched(of, writer.bring_back(absent).await) });
                }
                Next::CarryOut(set, plan) => {
                    debug!(set = set.name(), actions = plan.actions.len(), "Plan begins");
                    let put_off = state.memory(&uid).put_off.names().clone();
                    let known = state.cluster.node_updates_of(&plan.actions);
                    state.turns.spawn(uid, async move {
                        Came::Report(writer.carry_out(set, plan, &put_off, known).await)
                    });
                }
            }
        }
    }

    /// Says which workloads were set aside for want of room.
    fn say_who_is_absent(&self, state: &mut State) {
        let writer = &self.connections.writer;
        writer.metrics.without_room(state.cluster.all_absent().len());
        for absent in state.cluster.left_out() {
            writer.metrics.set_aside();
            if let Some(left_out) = state.lines.take(Instant::now()) {
                let Absent { kind, namespace, name, .. } = &absent;
                warn!(?kind, namespace, set = name, left_out, "No room for the object, it is set aside");
            }
            // Of all replicas one tells it.
            if state.turns.term().is_some() {
                self.tell_of(&absent);
            }
        }
    }

    fn tell_of(&self, absent: &Absent) {
        self.connections.writer.events.about(absent.reference(), no_room());
    }

    /// Takes in a workload that was read again, since there is room for it.
    fn brought_back(&self, state: &mut State, uid: String, fetched: Result<Option<Filed<Set>>, String>) {
        match fetched {
            Ok(Some(filed)) => {
                let concerned = state.cluster.brought_back(filed);
                state.concerns(concerned);
            }
            // The watch will say that it is gone.
            Ok(None) => {}
            Err(error) => {
                if let Some(left_out) = state.lines.take(Instant::now()) {
                    warn!(uid, error, left_out, "Object that was set aside not read, trying again");
                }
            }
        }
        if state.cluster.absent(&uid).is_some() {
            state.turns.agenda.add(uid, later(Instant::now(), BROUGHT_BACK_EVERY));
        }
    }

    /// Takes in what a plan has written.
    fn settle(&self, state: &mut State, report: Report) {
        let Report { uid, wrote, unadopted, put_off, unread, end } = report;
        let Taken { was_read, unkept, mut others } = take_in(&mut state.cluster, &uid, wrote);
        let cluster = &state.cluster;
        let set = cluster.set(&uid).cloned();
        let lacks = was_read && set.as_ref().is_some_and(|set| cluster.lack(set).is_some());
        let name = set.as_ref().map(|set| set.title());
        let (read_in, readings) = (state.turns.read_in(), state.turns.readings());
        // Thousands of sets may fail at once, and again and again.
        let has_line = matches!(end, End::ScaleFailed(_) | End::UpdateFailed(_) | End::Held(_));
        let line = has_line.then(|| state.lines.take(Instant::now())).flatten();
        let memory = state.memory(&uid);
        if was_read {
            memory.unread.was_read_apart();
            memory.read_in = read_in;
        }
        if unread {
            memory.unread.add(readings);
        }
        if let Some((_, error)) = unadopted.first() {
            warn!(set = name, count = unadopted.len(), error, "Objects not adopted, going on without them");
        }
        memory.unadopted.failed(unadopted, Timestamp::now());
        if let Some((status, field)) = unkept {
            memory.unkept.add(status, Instant::now());
            let note = unkept::note(&field);
            if let Some(set) = &set
                && memory.told.is_news(Instant::now(), &note)
            {
                warn!(set = name, field, "Status is not kept as it is written, it waits");
                self.connections.writer.events.tell(set, note);
            }
        }
        put_off.into_iter().for_each(|late| memory.put_off.add_late(late));
        let mut pause = memory.ends(&end);
        if lacks {
            pause = pause.max(READ_EVERY);
        }
        match &end {
            End::Done | End::Read | End::Changed => {}
            End::NameTaken => info!(set = name, "Name of a revision is taken, another one is made"),
            End::PullFailed(error) => warn!(set = name, error, "Image not pulled ahead, going on without"),
            End::ScaleFailed(error) | End::UpdateFailed(error) => {
                if let Some(left_out) = line {
                    warn!(set = name, error, left_out, "Plan not carried out, trying again");
                }
            }
            End::Held(what) => {
                let text = what.text().to_owned();
                if let Some(left_out) = line {
                    info!(set = name, text, left_out, "Plan is held back, trying again");
                }
                let note = Note { warning: false, reason: HELD_BACK, text };
                if let Some(set) = set
                    && memory.told.is_news(Instant::now(), &note)
                {
                    self.connections.writer.events.tell(&set, note);
                }
            }
        }
        // It has a pause of its own.
        others.retain(|other| *other != uid);
        state.concerns(Concerned::Some(others));
        state.turns.agenda.add(uid, later(Instant::now(), pause));
    }
}

/// Consequences of writes, besides what the cluster has taken in.
#[derive(Default)]
struct Taken {
    /// Everything of the workload was read.
    was_read: bool,
    /// Status that the API server answered otherwise, and the field that differs.
    unkept: Option<(Value, String)>,
    /// UIDs of other workloads that they concern.
    others: Vec<String>,
}

/// Takes in what was written for a workload.
fn take_in(cluster: &mut Cluster, uid: &str, wrote: Vec<Wrote>) -> Taken {
    let mut taken = Taken::default();
    for wrote in wrote {
        match wrote {
            Wrote::Pod(pod) => cluster.pods.wrote(pod),
            Wrote::Claim(claim) => cluster.claims.wrote(claim),
            Wrote::Revision(revision) => cluster.wrote_revision(revision),
            Wrote::PullJob(job) => cluster.pull_jobs.wrote(job),
            Wrote::Set(set) => cluster.wrote_set(set),
            Wrote::StatusUnkept(status, field) => taken.unkept = Some((status, field)),
            Wrote::NodeUpdates(node_updates) => {
                if let Concerned::Some(sets) = cluster.wrote_node_updates(node_updates) {
                    taken.others.extend(sets);
                }
            }
            Wrote::PodGone(uid) => cluster.pods.ended(&uid),
            Wrote::ClaimGone(uid) => cluster.claims.ended(&uid),
            Wrote::RevisionGone(uid) => cluster.revisions.ended(&uid),
            Wrote::PullJobGone(uid) => cluster.pull_jobs.ended(&uid),
            Wrote::Read(selector, pods, claims, revisions) => {
                cluster.pods.found_by(&[uid], pods, |pod| selector.takes(&pod.labels));
                cluster.claims.found(&[uid], claims);
                cluster.read_revisions(uid, revisions);
                taken.was_read = true;
            }
        }
    }
    taken.others.extend(cluster.make_room());
    taken
}

#[cfg(test)]
mod tests;
