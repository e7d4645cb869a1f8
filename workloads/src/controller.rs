//! The one owner of the picture: takes in what watches and writes show, and begins the plans that are due.

use std::{collections::BTreeMap, time::Instant};

use berth_base::{lease::Tenure, time::later};
use berth_workloads_policy::{action::Note, clone_set::Settings};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinSet},
};
use tracing::{debug, info, warn};

use crate::{
    metrics::Metrics,
    owned::Concerned,
    reading::Ended,
    state::{Look, Next, State},
    timing::{AT_ONCE, BATCH, deadline},
    watch::Input,
    write::{End, HELD_BACK, Report, Writer, Wrote},
};

/// Which kinds have been listed.
pub(crate) type Listed = Vec<(&'static str, bool)>;

/// The picture, and what it is connected to.
pub(crate) struct Controller {
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) tenure: Tenure,
    pub(crate) writer: Writer,
    pub(crate) settings: Settings,
    pub(crate) listed: watch::Sender<Listed>,
    pub(crate) metrics: Metrics,
}

/// Plans on their way.
#[derive(Default)]
struct Plans {
    tasks: JoinSet<Report>,
    /// Workload of each.
    of: BTreeMap<Id, String>,
    /// The reading of all objects.
    reading: JoinSet<Ended>,
}

impl Controller {
    /// Runs until the watches have ended.
    pub(crate) async fn run(mut self) {
        let mut state = State::default();
        let mut inputs = Vec::with_capacity(BATCH);
        let mut plans = Plans::default();
        let mut term = None;
        loop {
            let next = self.next(&state);
            // Cancel-safe: `recv_many`, `join_next` and `join_next_with_id` take nothing unless they return
            // it, the tenure keeps its newest value, and a deadline that was not waited for to its end is
            // still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    for input in inputs.drain(..) {
                        self.take(&mut state, input);
                    }
                }
                Some(ended) = plans.tasks.join_next_with_id() => match ended {
                    Ok((id, report)) => {
                        plans.of.remove(&id);
                        self.settle(&mut state, report);
                    }
                    // Said in the log already; the others go on.
                    Err(error) => {
                        let uid = plans.of.remove(&error.id());
                        if let (Some(uid), Ok(panic)) = (uid, error.try_into_panic()) {
                            state.set_aside(&uid, panic.as_ref(), self.look());
                        }
                    }
                },
                Some(ended) = plans.reading.join_next() => match ended {
                    Ok(ended) => self.was_read(&mut state, ended),
                    // Said in the log already.
                    Err(_) => state.reading.is_lost(Instant::now()),
                },
                () = self.tenure.changed() => {}
                () = deadline(next) => {}
            }
            if matches!(state.cluster.listen(Instant::now()), Concerned::All) {
                info!("Another agent is silent, or is not any more");
                state.all_due();
            }
            let before = std::mem::replace(&mut term, self.tenure.term());
            if term.is_some() && term != before {
                state.all_due();
            }
            if self.may_begin(&state) {
                self.begin(&mut state, &mut plans);
            } else if let Some(term) = self.next_term(&state)
                && state.reading.next(term, Instant::now()).is_some_and(|next| next <= Instant::now())
            {
                state.reading.begins();
                let namespaces = state.cluster.namespaces();
                plans.reading.spawn(self.writer.clone().read_all(term, namespaces));
            }
        }
    }

    /// Term of this replica, if it leads and its watches have shown what there is.
    fn next_term(&self, state: &State) -> Option<u64> {
        let term = self.tenure.term()?;
        state.cluster.listed().iter().all(|(_, listed)| *listed).then_some(term)
    }

    /// Tells whether plans may be begun: this replica leads, and what it knows is no older than its term.
    fn may_begin(&self, state: &State) -> bool {
        self.next_term(state).is_some_and(|term| state.reading.is_done(term))
    }

    /// Time of the next look, or of the next reading before the first look. A replica that may begin nothing
    /// waits for news: what is due stays due, and would wake it again and again.
    fn next(&self, state: &State) -> Option<Instant> {
        let due = self.next_term(state).and_then(|term| {
            if state.reading.is_done(term) {
                state.agenda.next(AT_ONCE)
            } else {
                state.reading.next(term, Instant::now())
            }
        });
        due.into_iter().chain(state.cluster.next_silence()).min()
    }

    fn look(&self) -> Look<'_> {
        Look {
            now: Instant::now(),
            settings: self.settings,
            events: &self.writer.events,
            metrics: &self.metrics,
        }
    }

    fn take(&self, state: &mut State, input: Input) {
        let ends = input.is_end();
        match state.cluster.take(input) {
            Concerned::None => {}
            Concerned::Some(sets) => {
                let now = Instant::now();
                sets.into_iter().for_each(|uid| state.agenda.add(uid, now));
            }
            Concerned::All => state.all_due(),
        }
        if ends {
            self.listed.send_replace(state.cluster.listed());
            for (kind, count) in state.cluster.sizes() {
                self.metrics.objects(kind, count);
            }
        }
    }

    /// Begins the plans that are due.
    fn begin(&self, state: &mut State, plans: &mut Plans) {
        let look = self.look();
        for uid in state.agenda.take(look.now, AT_ONCE) {
            let writer = self.writer.clone();
            let task = match state.look(&uid, look) {
                Next::Nothing => continue,
                Next::Read(set) => plans.tasks.spawn(writer.read(set)),
                Next::CarryOut(set, plan) => {
                    debug!(set = set.name(), actions = plan.actions.len(), "Plan begins");
                    plans.tasks.spawn(writer.carry_out(set, plan))
                }
            };
            plans.of.insert(task.id(), uid);
        }
    }

    /// Takes in what was read at the start of a term.
    fn was_read(&self, state: &mut State, (term, found): Ended) {
        let now = Instant::now();
        let namespaces = found.as_ref().ok();
        let namespaces = namespaces.map(|all| all.iter().map(|one| one.namespace.clone()).collect());
        state.reading.ends(term, namespaces, now);
        match found {
            Ok(found) => {
                found.into_iter().for_each(|found| state.cluster.found(found));
                state.all_due();
            }
            Err(error) => warn!(error, "Objects not read at the start of a term, trying again"),
        }
    }

    /// Takes in what a plan has written.
    fn settle(&self, state: &mut State, report: Report) {
        let Report { uid, wrote, end } = report;
        let cluster = &mut state.cluster;
        let mut was_read = false;
        for wrote in wrote {
            match wrote {
                Wrote::Pod(pod) => cluster.pods.wrote(pod),
                Wrote::Claim(claim) => cluster.claims.wrote(claim),
                Wrote::Revision(revision) => cluster.revisions.wrote(revision),
                Wrote::PullJob(job) => cluster.pull_jobs.wrote(job),
                Wrote::Set(set) => cluster.wrote_set(set),
                Wrote::Mailbox(mailbox) => cluster.wrote_mailbox(mailbox),
                Wrote::PodGone(uid) => cluster.pods.ended(&uid),
                Wrote::ClaimGone(uid) => cluster.claims.ended(&uid),
                Wrote::RevisionGone(uid) => cluster.revisions.ended(&uid),
                Wrote::PullJobGone(uid) => cluster.pull_jobs.ended(&uid),
                Wrote::Read(selector, pods, claims, revisions) => {
                    cluster.pods.read(&uid, pods, |pod| selector.takes(&pod.labels));
                    cluster.claims.read(&uid, claims);
                    cluster.revisions.read(&uid, revisions, |_| true);
                    was_read = true;
                }
            }
        }
        let set = cluster.set(&uid).cloned();
        let name = set.as_ref().map(|set| set.entry_owner());
        let term = state.reading.term();
        let memory = state.landed(&uid);
        if was_read {
            (memory.unread, memory.read_in) = (false, term);
        }
        let pause = memory.ends(&end);
        match &end {
            End::Done | End::Changed => {}
            End::NameTaken => info!(set = name, "Name of a revision is taken, another one is made"),
            End::PullFailed(error) => warn!(set = name, error, "Image not pulled ahead, going on without"),
            End::ScaleFailed(error) | End::UpdateFailed(error) => {
                warn!(set = name, error, "Plan not carried out, trying again");
            }
            End::Held(what) => {
                let text = what.text().to_owned();
                info!(set = name, text, "Plan is held back, trying again");
                if let Some(set) = set {
                    let note = Note { warning: false, reason: HELD_BACK, text };
                    memory.tell(Instant::now(), &note, || self.writer.events.tell(&set, note.clone()));
                }
            }
        }
        state.agenda.add(uid, later(Instant::now(), pause));
    }
}

#[cfg(test)]
mod tests;
