//! The gate of a data path whose agent is another process: from the table where it says, by a question where
//! it does not, by the default of the call where nobody answers.

mod agents;
mod known;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_policy::{
    Call, CallId, ConnectionId, ContainerId, CredentialKey, Event, HoldReason, Latch, Verdict,
};
use tokio::{sync::watch, time::Instant};
use tracing::{debug, info, warn};

use self::waiting::{Asked, Bound, Presence, Turn};
use super::{
    answers::{answer_of, decision_of},
    away::{self, PATIENCE},
    calls::{Beyond, call_to_wire, event_to_wire},
    frame::{Outgoing, Unput},
    message::{Counts, ToAgent, Told},
    questions::{Question, Questions, locked},
    table::Table,
};
use crate::{
    convert::HashKey,
    gate::{Answer, BoxFuture, Decision, Gate, Holds, Query},
    metrics::Metrics,
};

/// An agent that was asked something and has said nothing for so long is asked whether it is there.
const SILENT: Duration = Duration::from_secs(1);
/// One that does not answer that for so long is away.
const GONE: Duration = Duration::from_secs(2);

/// Gate of the data path that asks an agent over a [`super::Line`].
pub struct RemoteGate {
    state: Mutex<State>,
    presence: watch::Sender<Presence>,
    /// Never changes: what is held here waits for an answer and not for a change.
    changes: watch::Sender<u64>,
    /// Random number by which the agent tells this process from another shim.
    process: u64,
    /// The namespace of the agents, where they are pods.
    agents: Option<String>,
    /// The agent wants to know the traces of what it is asked about. Beside the state, so that who has none
    /// to tell takes no lock for it.
    traces: AtomicBool,
    metrics: Metrics,
}

#[derive(Default)]
struct State {
    table: Table,
    questions: Questions,
    /// Calls that have gone on and not ended.
    going: BTreeMap<CallId, Going>,
    connections: BTreeSet<ConnectionId>,
    link: Option<Link>,
    links: u64,
    /// Another process has the sockets.
    succeeded: bool,
}

/// A call that goes on, as it is told to an agent that comes later.
enum Going {
    Call(Arc<Call>),
    Relist(ConnectionId),
    Hook(ContainerId, ConnectionId),
    Pull(String, CredentialKey),
}

/// The connection of the agent.
struct Link {
    number: u64,
    outgoing: Arc<Outgoing>,
    /// When it last said something, and when it was asked whether it is there.
    heard: Instant,
    pinged: Option<Instant>,
    /// It has said all that it knows.
    complete: bool,
    told: Counts,
}

impl RemoteGate {
    /// A gate without an agent, and with an empty table.
    pub fn new(metrics: Metrics) -> Arc<Self> {
        Self::of_pods(metrics, None)
    }

    /// The same where the agent is a pod, in this namespace: while there is none its own containers are
    /// created without being asked about.
    pub fn of_pods(metrics: Metrics, agents: Option<String>) -> Arc<Self> {
        let HashKey(process, _) = HashKey::own();
        Arc::new(Self {
            state: Mutex::default(),
            presence: watch::Sender::new(Presence::away()),
            changes: watch::Sender::new(0),
            process,
            agents,
            traces: AtomicBool::new(false),
            metrics,
        })
    }

    /// Reports whether an agent is there, and has said all that it knows.
    pub fn has_agent(&self) -> bool {
        self.presence.borrow().is_here()
    }

    fn ask(&self, question: Question, bound: Bound) -> Result<Asked<'_>, Beyond> {
        let mut state = locked(&self.state);
        // The agent knows it from the question.
        state.connections.extend(question.connection());
        let (id, heard) = state.questions.ask(question.clone());
        match question.to_wire(id, std::time::Instant::now()) {
            Ok(question) => self.tell(&mut state, Told::Question(question)),
            Err(error) => {
                debug!(%error, "Not asked");
                state.questions.withdraw(id);
                return Err(error);
            }
        }
        Ok(Asked::new(self, id, heard, bound))
    }

    /// Notes that a call goes on, and tells it where no answer says so.
    fn goes_on(&self, call: &Call, tell: bool) {
        let mut state = locked(&self.state);
        state.going.insert(call.id, Going::Call(Arc::new(call.clone())));
        state.connections.insert(call.connection);
        if tell {
            self.tell_passed(&mut state, call);
        }
    }

    fn tell_passed(&self, state: &mut State, call: &Call) {
        match call_to_wire(call, std::time::Instant::now()) {
            Ok(call) => self.tell(state, Told::Passed(call)),
            Err(error) => debug!(%error, "Call not told"),
        }
    }

    fn tell(&self, state: &mut State, told: Told) {
        let Some(link) = &state.link else { return };
        match link.outgoing.put(&ToAgent { told: Some(told) }) {
            Ok(()) => {}
            Err(Unput::TooLong(error)) => debug!(%error, "Not told"),
            Err(Unput::Unread(error)) => {
                warn!(%error, "The agent is left");
                self.unlink(state);
            }
        }
    }

    fn unlink(&self, state: &mut State) {
        if let Some(link) = state.link.take() {
            link.outgoing.wake();
            state.table.abandon();
            self.is_away(Instant::now());
        }
    }

    fn is_away(&self, since: Instant) {
        self.presence.send_if_modified(|presence| presence.leaves(since));
    }

    /// The decision about a call that waits no longer.
    fn last(&self, call: &Call) -> Decision {
        let age = Instant::from_std(call.arrived).elapsed();
        let decision = away::of_call(&locked(&self.state).table, &call.request, PATIENCE, age);
        decision.unwrap_or(Decision::Pass(None))
    }

    async fn decided(&self, call: &Call, holds: &dyn Holds) -> Decision {
        let here = self.has_agent();
        if away::passes(&locked(&self.state).table, &call.request, here) {
            self.goes_on(call, true);
            return Decision::Pass(None);
        }
        let question = Question::Call(Arc::new(call.clone()), holds.trace());
        let arrived = Instant::from_std(call.arrived);
        let until = away::longest(&call.request).and_then(|longest| arrived.checked_add(longest));
        let Ok(mut asked) = self.ask(question, Bound::Call { until }) else {
            // Of nothing that exists: the runtime will say so.
            return Decision::Pass(None);
        };
        loop {
            if let Some(waited) = asked.alone() {
                let decision = away::of_agents(self.agents.as_deref(), &call.request).or_else(|| {
                    away::of_call(&locked(&self.state).table, &call.request, waited, arrived.elapsed())
                });
                if let Some(decision) = decision {
                    drop(asked);
                    info!(call = call.id.0, ?waited, ?decision, "Call decided without the agent");
                    if matches!(decision, Decision::Pass(_)) {
                        self.goes_on(call, true);
                    }
                    return decision;
                }
                holds.held(&HoldReason::AgentAway);
            }
            match asked.next().await {
                Turn::Look => {}
                Turn::Held(why) => holds.held(&why),
                Turn::Answer(answer) => match decision_of(answer) {
                    Ok(decision) => {
                        if matches!(decision, Decision::Pass(_)) {
                            self.goes_on(call, false);
                        }
                        return decision;
                    }
                    Err(error) => {
                        warn!(%error, "Answer of the agent not understood");
                        return self.last(call);
                    }
                },
            }
        }
    }

    /// The answer to a question, or what `alone` says without the agent.
    async fn answered(
        &self,
        question: Question,
        alone: impl Fn(&Table, Duration) -> Option<Answer>,
    ) -> Answer {
        let last = |table: &Table| alone(table, PATIENCE).unwrap_or(Answer::Pass);
        let bound = Bound::Look { grace: self.grace(&question) };
        let Ok(mut asked) = self.ask(question, bound) else { return last(&locked(&self.state).table) };
        loop {
            if let Some(waited) = asked.alone()
                && let Some(answer) = alone(&locked(&self.state).table, waited)
            {
                return answer;
            }
            match asked.next().await {
                Turn::Look | Turn::Held(_) => {}
                Turn::Answer(answer) => {
                    return answer_of(answer).unwrap_or_else(|error| {
                        warn!(%error, "Answer of the agent not understood");
                        last(&locked(&self.state).table)
                    });
                }
            }
        }
    }
}

impl Gate for RemoteGate {
    /// The verdict where nobody can be asked.
    fn admit(&self, call: &Call) -> Verdict {
        match self.last(call) {
            Decision::Pass(None) => Verdict::Forward,
            Decision::Pass(Some(amendment)) => Verdict::Amend(amendment),
            Decision::Refuse(refusal) => Verdict::Refuse(refusal),
        }
    }

    fn traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    fn decide<'a>(&'a self, call: &'a Call, holds: &'a dyn Holds) -> BoxFuture<'a, Decision> {
        Box::pin(self.decided(call, holds))
    }

    fn observe(&self, event: Event) {
        let mut state = locked(&self.state);
        match &event {
            Event::RelistAsked { call, connection } => {
                state.going.insert(*call, Going::Relist(*connection));
                state.connections.insert(*connection);
            }
            Event::HookAsked { call, container, connection } => {
                state.going.insert(*call, Going::Hook(container.clone(), *connection));
                state.connections.insert(*connection);
            }
            Event::StatusAsked { connection, container } => {
                // Most looks are for a log that may be too long, and concern nobody.
                if state.connections.contains(connection)
                    && state.table.container(container).is_some_and(|row| row.quiet)
                {
                    return;
                }
                state.connections.insert(*connection);
            }
            Event::PullPassed { call, image, credential } => {
                state.going.insert(*call, Going::Pull(image.clone(), *credential));
            }
            Event::CallEnded(call) => {
                state.going.remove(call);
            }
            // Nobody was told of one that has said nothing.
            Event::ConnectionClosed(connection) if !state.connections.remove(connection) => return,
            _ => {}
        }
        if state.link.is_none() {
            return; // the agent that comes lists the runtime
        }
        match event_to_wire(&event) {
            Ok(Some(event)) => self.tell(&mut state, Told::Event(event)),
            Ok(None) => {}
            Err(error) => debug!(%error, "Event not told"),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The agent does so before it answers.
    fn persist(&self, _: Latch) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn answer<'a>(&'a self, query: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match query {
                Query::Status { connection, container } => {
                    if let Some(answer) = self.status_known(container) {
                        return answer;
                    }
                    let question = Question::Status { connection, container: container.clone() };
                    let alone = |table: &Table, waited| away::of_status(table, connection, container, waited);
                    self.answered(question, alone).await
                }
                Query::Hook { connection, container } => {
                    if self.is_plain(container) {
                        return Answer::Pass;
                    }
                    let question = Question::Hook { connection, container: container.clone() };
                    self.answered(question, |table, waited| away::of_hook(table, container, waited)).await
                }
                Query::Relist(call) => {
                    if !locked(&self.state).table.nudges() {
                        return Answer::Nudged(Vec::new());
                    }
                    self.answered(Question::Relist(call), |_, _| Some(Answer::Nudged(Vec::new()))).await
                }
                Query::Create(create) => Answer::WithEnv(locked(&self.state).table.env(create)),
                Query::Pull { call, image, credential, trace } => {
                    if locked(&self.state).table.pulls_pass() {
                        return Answer::Pass;
                    }
                    let question = Question::Pull { call, image: image.to_owned(), credential, trace };
                    self.answered(question, |_, _| Some(Answer::Pass)).await
                }
            }
        })
    }

    fn is_completed(&self, container: &ContainerId) -> bool {
        locked(&self.state).table.is_completed(container)
    }

    fn can_tell(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.first_table())
    }
}

impl Going {
    fn told(&self, id: CallId, now: std::time::Instant) -> Option<Told> {
        let event = match self {
            Self::Call(call) => return call_to_wire(call, now).ok().map(Told::Passed),
            Self::Relist(connection) => Event::RelistAsked { call: id, connection: *connection },
            Self::Hook(container, connection) => {
                Event::HookAsked { call: id, container: container.clone(), connection: *connection }
            }
            Self::Pull(image, credential) => {
                Event::PullPassed { call: id, image: image.clone(), credential: *credential }
            }
        };
        event_to_wire(&event).ok().flatten().map(Told::Event)
    }
}

impl fmt::Debug for RemoteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteGate").field("presence", &*self.presence.borrow()).finish_non_exhaustive()
    }
}
