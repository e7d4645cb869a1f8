//! The one owner of the picture: takes in what watches and writes show, and begins the plans that are due.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    hash::{BuildHasher, Hasher, RandomState},
    time::{Duration, Instant},
};

use berth_base::{lease::Tenure, time::later};
use berth_workloads_policy::{
    action::Note,
    clone_set::{Failures, Plan, Settings},
};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{debug, info, warn};

use crate::{
    cluster::{Cluster, Given},
    metrics::Metrics,
    owned::Concerned,
    watch::{Input, Shown},
    write::{End, Report, Writer, Wrote},
};

/// Inputs taken at once before anything is planned.
const BATCH: usize = 256;
/// Plans that are carried out at once.
const AT_ONCE: usize = 16;
/// The status of a set is written at most once in it.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// Time from a plan's end to the next one: what it wrote is often followed by more.
const SPACING: Duration = Duration::from_millis(10);
/// Pauses after failures in a row; the last one is repeated.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// The same is told again after it.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Which kinds have been listed.
pub(crate) type Listed = [(&'static str, bool); 6];

/// The picture, and what it is connected to.
pub(crate) struct Controller {
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) tenure: Tenure,
    pub(crate) writer: Writer,
    pub(crate) settings: Settings,
    pub(crate) listed: watch::Sender<Listed>,
    pub(crate) metrics: Metrics,
}

/// Memory of a set beside its objects.
#[derive(Debug, Default)]
struct Memory {
    failures: Failures,
    tries: usize,
    status_at: Option<Instant>,
    collisions: i32,
    /// Term in which its objects were read.
    read_in: Option<u64>,
    told: Option<(String, Instant)>,
}

#[derive(Default)]
struct State {
    cluster: Cluster,
    /// When a set is looked at, by UID.
    due: BTreeMap<String, Instant>,
    in_flight: BTreeSet<String>,
    memory: BTreeMap<String, Memory>,
}

impl Controller {
    /// Runs until the watches have ended.
    pub(crate) async fn run(mut self) {
        let mut state = State::default();
        let mut inputs = Vec::with_capacity(BATCH);
        let mut plans: JoinSet<Report> = JoinSet::new();
        let mut term = None;
        loop {
            let next = state.next_deadline();
            // Cancel-safe: `recv_many` and `join_next` take nothing unless they return it, the tenure keeps
            // its newest value, and a deadline that was not waited for to its end is still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    for input in inputs.drain(..) {
                        self.take(&mut state, input);
                    }
                }
                Some(report) = plans.join_next() => match report {
                    Ok(report) => self.settle(&mut state, report),
                    // One that panicked says so in the log; it would do so again.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                () = self.tenure.changed() => {}
                () = deadline(next) => {}
            }
            let before = std::mem::replace(&mut term, self.tenure.term());
            if term.is_some() && term != before {
                state.all_due();
            }
            if term.is_some() && state.cluster.listed().iter().all(|(_, listed)| *listed) {
                self.begin(&mut state, &mut plans);
            }
        }
    }

    fn take(&self, state: &mut State, input: Input) {
        let ends = matches!(
            input,
            Input::Set(Shown::ListEnds)
                | Input::Pod(Shown::ListEnds)
                | Input::Claim(Shown::ListEnds)
                | Input::Revision(Shown::ListEnds)
                | Input::Node(Shown::ListEnds)
                | Input::Mailbox(Shown::ListEnds)
        );
        match state.cluster.take(input) {
            Concerned::None => {}
            Concerned::Some(sets) => {
                let now = Instant::now();
                sets.into_iter().for_each(|uid| state.set_due(uid, now));
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
    fn begin(&self, state: &mut State, plans: &mut JoinSet<Report>) {
        let now = Instant::now();
        let due = state.due.iter().filter(|(uid, at)| **at <= now && !state.in_flight.contains(*uid));
        let due: Vec<String> =
            due.map(|(uid, _)| uid.clone()).take(AT_ONCE.saturating_sub(state.in_flight.len())).collect();
        for uid in due {
            state.due.remove(&uid);
            let Some(set) = state.cluster.set(&uid).cloned() else {
                state.memory.remove(&uid);
                continue;
            };
            let memory = state.memory.entry(uid.clone()).or_default();
            // What the leader before this one wrote last may not have been shown yet.
            if memory.read_in != self.tenure.term() && set.metadata.deletion_timestamp.is_none() {
                state.in_flight.insert(uid);
                plans.spawn(self.writer.clone().read(set));
                continue;
            }
            let Some(mut plan) = self.plan(&state.cluster, &uid, memory) else { continue };
            // Nothing is left to be done of what could not be done.
            if plan.actions.is_empty() && memory.failures != Failures::default() {
                memory.failures = Failures::default();
                let Some(again) = self.plan(&state.cluster, &uid, memory) else { continue };
                plan = again;
            }
            self.metrics.passed();
            let notes = std::mem::take(&mut plan.notes);
            for note in notes {
                memory.tell(now, &note, || self.writer.events.tell(&set, note.clone()));
            }
            let mut again = plan.again.map(|again| later(now, again));
            let status_at = memory.status_at.map(|at| later(at, STATUS_EVERY)).filter(|at| *at > now);
            if let Some(at) = status_at.filter(|_| plan.status.is_some()) {
                // Counters change with every pod; whoever looks once a second sees the same.
                plan.status = None;
                again = Some(again.map_or(at, |again| again.min(at)));
            }
            if let Some(at) = again {
                state.set_due(uid.clone(), at);
            }
            if plan.actions.is_empty() && plan.status.is_none() {
                continue;
            }
            if plan.status.is_some()
                && let Some(memory) = state.memory.get_mut(&uid)
            {
                memory.status_at = Some(now);
            }
            debug!(set = set.metadata.name, actions = plan.actions.len(), "Plan begins");
            state.in_flight.insert(uid);
            plans.spawn(self.writer.clone().carry_out(set, plan));
        }
    }

    fn plan(&self, cluster: &Cluster, uid: &str, memory: &Memory) -> Option<Plan> {
        let given = Given {
            settings: self.settings,
            failures: &memory.failures,
            collisions: memory.collisions,
            seed: RandomState::new().build_hasher().finish(),
        };
        cluster.plan(uid, given, Timestamp::now())
    }

    /// Takes in what a plan has written.
    fn settle(&self, state: &mut State, report: Report) {
        let Report { uid, wrote, end } = report;
        let cluster = &mut state.cluster;
        for wrote in wrote {
            match wrote {
                Wrote::Pod(pod) => cluster.pods.wrote(pod),
                Wrote::Claim(claim) => cluster.claims.wrote(claim),
                Wrote::Revision(revision) => cluster.revisions.wrote(revision),
                Wrote::Set(set) => cluster.wrote_set(*set),
                Wrote::Mailbox(mailbox) => cluster.wrote_mailbox(mailbox),
                Wrote::PodGone(uid) => cluster.pods.ended(&uid),
                Wrote::ClaimGone(uid) => cluster.claims.ended(&uid),
                Wrote::RevisionGone(uid) => cluster.revisions.ended(&uid),
                Wrote::Read(selector, pods, claims, revisions) => {
                    cluster.pods.read(&uid, pods, |pod| selector.takes(&pod.labels));
                    cluster.claims.read(&uid, claims, |_| true);
                    cluster.revisions.read(&uid, revisions, |_| true);
                    let memory = state.memory.entry(uid.clone()).or_default();
                    memory.read_in = self.tenure.term();
                }
            }
        }
        state.in_flight.remove(&uid);
        let memory = state.memory.entry(uid.clone()).or_default();
        let pause = memory.ends(&end);
        let name = state.cluster.set(&uid).and_then(|set| set.metadata.name.clone());
        match &end {
            End::Done | End::Changed => {}
            End::NameTaken => info!(set = name, "Name of a revision is taken, another one is made"),
            End::ScaleFailed(error) | End::UpdateFailed(error) => {
                warn!(set = name, error, "Plan not carried out, trying again");
            }
        }
        state.set_due(uid, later(Instant::now(), pause));
    }
}

impl Memory {
    /// Takes in how a plan ended: the pause until the next one.
    fn ends(&mut self, end: &End) -> Duration {
        match end {
            End::Done => {
                *self = Self { failures: Failures::default(), tries: 0, ..std::mem::take(self) };
                return SPACING;
            }
            End::Changed => {}
            End::NameTaken => self.collisions = self.collisions.saturating_add(1),
            End::ScaleFailed(error) => self.failures.scale = Some(error.clone()),
            End::UpdateFailed(error) => self.failures.update = Some(error.clone()),
        }
        let pause = PAUSES[self.tries.min(PAUSES.len() - 1)];
        self.tries = self.tries.saturating_add(1);
        pause
    }

    /// Tells something, unless it was told a moment ago.
    fn tell(&mut self, now: Instant, note: &Note, tell: impl FnOnce()) {
        let text = format!("{} {}", note.reason, note.text);
        let is_known = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| *told == text && now.saturating_duration_since(*at) < TELL_AGAIN);
        if !is_known {
            self.told = Some((text, now));
            tell();
        }
    }
}

impl State {
    /// The set is looked at then, or sooner.
    fn set_due(&mut self, uid: String, at: Instant) {
        let due = self.due.entry(uid).or_insert(at);
        *due = (*due).min(at);
    }

    fn all_due(&mut self) {
        let now = Instant::now();
        let sets: Vec<String> = self.cluster.sets().map(str::to_owned).collect();
        sets.into_iter().for_each(|uid| self.set_due(uid, now));
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.in_flight.len() >= AT_ONCE {
            return None;
        }
        self.due.iter().filter(|(uid, _)| !self.in_flight.contains(*uid)).map(|(_, at)| *at).min()
    }
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
    fn failures_in_a_row_are_tried_less_and_less() {
        let mut memory = Memory::default();
        let failed = End::ScaleFailed("no quota".to_owned());
        let pauses: Vec<_> = (0..9).map(|_| memory.ends(&failed)).collect();
        assert!(pauses.is_sorted() && pauses[8] == Duration::from_secs(60));
        assert_eq!(memory.failures.scale.as_deref(), Some("no quota"));
        memory.ends(&End::NameTaken);
        assert_eq!(memory.ends(&End::Done), SPACING);
        assert_eq!((memory.failures.scale.as_deref(), memory.collisions), (None, 1));
    }

    #[test]
    fn the_same_is_told_once_a_minute() {
        let (mut memory, mut told, now) = (Memory::default(), 0, Instant::now());
        let note = |text: &str| Note { warning: true, reason: "ScaleUpLimited", text: text.to_owned() };
        for (seconds, text) in [(0, "a"), (1, "a"), (2, "b"), (61, "b"), (63, "b")] {
            memory.tell(now + Duration::from_secs(seconds), &note(text), || told += 1);
        }
        assert_eq!(told, 3);
    }
}
