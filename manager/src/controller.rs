//! The one owner of the indexes: takes in what the watches show, asks again when time has passed, hands on
//! what is owed.

use std::time::{Duration, Instant};

use berth_base::line_pace::SharedPace;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{
    budgets::{self, Step},
    effect::Effect,
    health::Listed,
    images::Fetch,
    indexes::Indexes,
    lease::Tenure,
    metrics::Metrics,
    notes::{Notes, no_room},
    podstates::{Annotated, PodStateStep},
    requests::{Ask, Reply},
    room::{Absent, Room},
    secrets::{Answer, Found, Vault},
    sidecarsets::FiledEvent,
    spreads::{Replicas, SpreadStep},
    store::{Entered, Kind, Now, Object, Webhooks},
    time::reached,
    watch::{Input, Relists},
    writer::Writer,
};

/// The sizes are counted once in it at the most: that looks at all objects, and an event must not.
const COUNTED_EVERY: Duration = Duration::from_secs(1);
/// Inputs taken at once before the clock is looked at again.
const BATCH: usize = 256;
/// All tasks share one thread: the lease is renewed and webhooks are answered between two turns of this one,
/// however much comes at once.
const TURN: Duration = Duration::from_millis(10);

/// Pace of the log lines about objects that are set aside.
static ASIDE: SharedPace = SharedPace::new();

/// Turn of this task on the thread.
struct Turn(tokio::time::Instant);

/// The indexes and what they are connected to.
#[derive(Debug)]
pub struct Controller {
    /// All indexes. Pure.
    pub indexes: Indexes,
    /// Room for the objects that they keep.
    pub(crate) room: Room,
    /// Takes which kinds are to be listed anew.
    pub(crate) relists: watch::Sender<Relists>,
    /// Takes what is to be read of Secrets.
    pub fetches: mpsc::UnboundedSender<Fetch>,
    /// Gives what was read.
    pub answers: mpsc::Receiver<Answer>,
    /// Keeps it.
    pub vault: Vault,
    /// Takes what the budgets of pods are to be asked.
    pub asks: mpsc::UnboundedSender<Ask>,
    /// Gives what they answered.
    pub replies: mpsc::Receiver<Reply>,
    /// Takes what is to be done for budgets.
    pub steps: mpsc::UnboundedSender<Step>,
    /// Gives what was looked up for them.
    pub facts: mpsc::Receiver<budgets::Answer>,
    /// Takes what is to be done for WorkloadSpreads.
    pub spread_steps: mpsc::UnboundedSender<SpreadStep>,
    /// Gives the replicas of their workloads.
    pub replicas: mpsc::Receiver<Replicas>,
    /// Takes what is to be done for PersistentPodStates.
    pub pod_state_steps: mpsc::UnboundedSender<PodStateStep>,
    /// Gives annotations of pods.
    pub annotations: mpsc::Receiver<Annotated>,
    /// From the watches.
    pub inputs: mpsc::Receiver<Input>,
    /// From the admission server: which SidecarSets new pods get.
    pub webhooks: watch::Receiver<Webhooks>,
    /// From the admission server: the budgets whose pods are asked about.
    pub entered: watch::Receiver<Entered>,
    /// From the watch of the ControllerRevisions of SidecarSets.
    pub filed: mpsc::Receiver<FiledEvent>,
    /// Whether this replica may write.
    pub tenure: Tenure,
    /// Takes what is owed.
    pub writer: Writer,
    /// Takes what is to be told.
    pub notes: Notes,
    /// Learns which kinds have been listed.
    pub listed: watch::Sender<Listed>,
    /// Counts.
    pub metrics: Metrics,
}

impl Controller {
    /// Runs until the watches have ended.
    pub async fn run(mut self) {
        let mut term = None;
        let (mut inputs, mut facts, mut filed) = (Vec::with_capacity(BATCH), Vec::new(), Vec::new());
        let (mut counted, mut count_at) = (None, None);
        loop {
            let next = self.indexes.all().next_deadline().into_iter().chain(self.room.next()).min();
            // Cancel-safe: `recv`, `recv_many` and the writer take nothing unless they return it, the tenure,
            // webhooks and budgets keep their newest value, and a deadline that was not waited for to its end
            // is still there.
            tokio::select! {
                count = self.inputs.recv_many(&mut inputs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    let mut turn = Turn::begin();
                    for input in inputs.drain(..) {
                        self.take(input);
                        turn.pass().await;
                    }
                }
                Some(answer) = self.answers.recv() => self.answered(answer),
                Some(reply) = self.replies.recv() => self.indexes.requests.permitted(reply, now()),
                1.. = self.facts.recv_many(&mut facts, BATCH) => {
                    let now = now().instant;
                    facts.drain(..).for_each(|fact| self.indexes.budgets.found(fact, now));
                }
                Some(replicas) = self.replicas.recv() => self.indexes.spreads.found(replicas, now().instant),
                Some(read) = self.annotations.recv() => self.indexes.pod_states.found(read, now().instant),
                // Where they are not waited for, nobody sends.
                1.. = self.filed.recv_many(&mut filed, BATCH) => {
                    filed.drain(..).for_each(|event| self.indexes.sidecarsets.filed(event));
                }
                // Without an admission server nobody sends.
                Ok(()) = self.webhooks.changed() => {
                    let webhooks = self.webhooks.borrow_and_update().clone();
                    self.indexes.sidecarsets.webhooks_stand(webhooks, now());
                }
                targets = self.writer.given_back() => {
                    let now = now();
                    targets.iter().for_each(|target| self.indexes.all().lost(target, now));
                }
                Ok(()) = self.entered.changed() => {
                    let entered = self.entered.borrow_and_update().clone();
                    self.indexes.budgets.entries_stand(entered);
                }
                () = self.tenure.changed() => {}
                () = reached(next) => {}
                () = reached(count_at) => {}
            }
            let mut turn = Turn::begin();
            let before = std::mem::replace(&mut term, self.tenure.term());
            let now = now();
            let effects = if term.is_some() && term != before {
                // Whoever led before may have said it of others: each replica has its own room.
                self.room.all_left_out().for_each(|absent| self.tell_of(absent));
                // Pods are asked for by these, and the leader before this one may have seen newer ones.
                self.ask_for_list(Kind::SidecarSet);
                self.ask_for_list(Kind::PodProbeMarker);
                self.indexes.all().leads(now)
            } else if term.is_none() && before.is_some() {
                self.indexes.all().rests(now)
            } else {
                self.indexes.all().time_passed(now)
            };
            self.carry_out(effects);
            self.list_again(now.instant);
            let next = counted.and_then(|at: Instant| at.checked_add(COUNTED_EVERY));
            count_at = next.filter(|at| *at > now.instant);
            if count_at.is_none() {
                counted = Some(now.instant);
                self.indexes.all().count(&self.metrics);
                self.metrics.without_room(self.room.all_left_out().len());
            }
            turn.pass().await;
        }
    }

    fn take(&mut self, input: Input) {
        let now = now();
        let effects = match input {
            Input::ListBegins(kind) => {
                self.room.list_begins(kind);
                return self.indexes.all().list_begins(kind, now);
            }
            Input::ListEnds(kind) => {
                for Absent { kind, namespace, name, .. } in self.room.list_ends(kind) {
                    let effects = self.indexes.all().delete(kind, &namespace, &name, now);
                    self.carry_out(effects);
                }
                let effects = self.indexes.all().list_ends(kind, now);
                self.listed.send_modify(|listed| listed.add(kind));
                let Indexes { pods, requests, images, probes, sidecarsets, budgets, spreads, pod_states } =
                    &self.indexes;
                let (requests, images, probes) = (requests.size(), images.size(), probes.size());
                let (pods, sidecarsets, budgets) = (pods.len(), sidecarsets.size(), budgets.size());
                let (spreads, pod_states) = (spreads.size(), pod_states.size());
                info!(
                    kind = kind.name(),
                    pods,
                    ?requests,
                    ?images,
                    ?probes,
                    ?sidecarsets,
                    ?budgets,
                    ?spreads,
                    ?pod_states,
                    "Listed"
                );
                effects
            }
            Input::Apply(object) => {
                match &*object {
                    Object::Request(seen) => {
                        left_alone(Kind::Request, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::Update(seen) => {
                        left_alone(Kind::Update, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::ImagePullJob(seen) => {
                        left_alone(Kind::ImagePullJob, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::PodProbeMarker(seen) => {
                        left_alone(Kind::PodProbeMarker, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::Budget(seen) => {
                        left_alone(Kind::Budget, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::Spread(seen) => {
                        left_alone(Kind::Spread, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::PodState(seen) => {
                        left_alone(Kind::PodState, &seen.namespace, &seen.name, &seen.status);
                    }
                    Object::SidecarSet(seen) => left_alone(Kind::SidecarSet, "", &seen.name, &seen.status),
                    Object::Pod(_)
                    | Object::Node(_)
                    | Object::NodeImage(_)
                    | Object::NodePodProbe(_)
                    | Object::Namespace(_)
                    | Object::NodePodUpdate(_)
                    | Object::StatefulSet(_) => {}
                }
                let object = self.room.fit(*object);
                self.indexes.all().apply(&object, now)
            }
            Input::Delete { kind, namespace, name } => {
                self.room.gone(kind, &namespace, &name);
                self.indexes.all().delete(kind, &namespace, &name, now)
            }
            Input::Absent(kind) => {
                // There is nothing of it to know, and what was known stays. No other kind of requests waits
                // for it.
                self.indexes.all().view_broke(kind, now);
                self.listed.send_modify(|listed| listed.add(kind));
                return;
            }
            Input::Broke(kind) => return self.indexes.all().view_broke(kind, now),
        };
        self.carry_out(effects);
        self.make_room(now);
    }

    /// Sets aside that for which there is no room any more, and says so.
    fn make_room(&mut self, now: Now) {
        for object in self.room.news() {
            let effects = self.indexes.all().apply(&object, now);
            self.carry_out(effects);
        }
        if self.indexes.probes.takes_list() {
            self.room.asks(Kind::PodProbeMarker);
        }
        for absent in self.room.left_out() {
            if let Some(left_out) = ASIDE.take() {
                let (kind, Absent { namespace, name, .. }) = (absent.kind.name(), &absent);
                warn!(kind, namespace, name, left_out, "No room for the object, it is set aside");
            }
            self.tell_of(&absent);
        }
    }

    /// Tells of an object that is set aside; only the leader does.
    fn tell_of(&self, absent: &Absent) {
        if let Some(note) = no_room(absent) {
            self.notes.tell(note);
        }
    }

    /// Asks for the kinds that are to be shown again, since there is room for what was not kept of them.
    fn list_again(&mut self, now: Instant) {
        for kind in self.room.due(now) {
            info!(kind = kind.name(), "Room for what was not kept, all of the kind are listed");
            self.ask_for_list(kind);
        }
    }

    fn ask_for_list(&self, kind: Kind) {
        self.relists.send_modify(|asked| asked[kind as usize] = asked[kind as usize].wrapping_add(1));
    }

    fn answered(&mut self, Answer { fetch, result }: Answer) {
        // Read for a job that has ended meanwhile, or has another image now, or that another replica has now.
        if !self.indexes.images.wants_secrets(&fetch) {
            return;
        }
        let Fetch { uid, image, .. } = fetch;
        let effects = match result {
            Ok(Found { credentials, lacks }) => {
                self.vault.keep(uid.clone(), image, credentials);
                match lacks {
                    None => self.indexes.images.secrets_ready(&uid, now()),
                    Some(text) => self.indexes.images.secrets_lacking(&uid, &text, now()),
                }
            }
            Err(text) => {
                self.vault.forget(&uid);
                self.indexes.images.secrets_missing(&uid, &text, now())
            }
        };
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Write(write) => {
                    if let Err(full) = self.writer.submit(write) {
                        self.indexes.all().lost(&full.target, now());
                    }
                }
                // Its reader ends after this task.
                Effect::Fetch(fetch) => drop(self.fetches.send(fetch)),
                Effect::Forget(uid) => self.vault.forget(&uid),
                // News that nobody takes are old ones.
                Effect::Note(note) => self.notes.tell(note),
                // Its adapter ends after this task.
                Effect::Ask(ask) => drop(self.asks.send(ask)),
                Effect::Budget(step) => drop(self.steps.send(step)),
                Effect::Spread(step) => drop(self.spread_steps.send(step)),
                Effect::PodState(step) => drop(self.pod_state_steps.send(step)),
            }
        }
    }
}

impl Turn {
    fn begin() -> Self {
        Self(tokio::time::Instant::now())
    }

    /// Lets the others have theirs when this one has lasted long enough.
    async fn pass(&mut self) {
        if self.0.elapsed() >= TURN {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}

/// Said once for each version of it.
fn left_alone<T>(kind: Kind, namespace: &str, name: &str, status: &Result<T, String>) {
    if let Err(error) = status {
        warn!(kind = kind.name(), namespace, name, error, "Left alone, its status cannot be read");
    }
}

/// The clocks are read here and nowhere below. Tokio's monotonic one is what tests can stop.
fn now() -> Now {
    Now { instant: tokio::time::Instant::now().into_std(), wall: Timestamp::now() }
}

#[cfg(test)]
mod tests;
