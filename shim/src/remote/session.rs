//! One connection of the agent to its shim: events in, questions in, answers and the table out.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    io::{self, ErrorKind},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    task::Poll,
    time::{Duration, Instant},
};

use berth_policy::{Call, CallId, ConnectionId, CredentialKey, Event, HoldReason, InAdvance};
use futures::{FutureExt, TryFutureExt};
use tokio::{
    net::unix::OwnedReadHalf,
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tracing::{debug, error, info, warn};

use super::{
    agent::{Known, Shared, Succeeded},
    answers::{answer_to_wire, decision_to_wire, held_to_wire},
    calls::{Beyond, call_of, event_of, name, text, trace_of},
    frame::{Incoming, Outgoing},
    line::{LineError, next},
    message::{
        AnswerTo, Answers, Asks, EventTold, Nothing, Question, Said, TableChange, ToAgent, ToShim, Told,
    },
    questions::locked,
    table,
};
use crate::{
    gate::{BoxFuture, Holds, Query},
    trace::TraceParent,
};

/// Time that the shim may take to read a part of the table.
const READS: Duration = Duration::from_secs(10);
/// The most questions that wait while the runtime is listed. More than calls that any kubelet makes.
const MAX_QUESTIONS: usize = 64 << 10;

/// The state of one connection.
pub(super) struct Session<'a> {
    link: &'a Shared,
    known: &'a mut Known,
    outgoing: Arc<Outgoing>,
    succeeded: Succeeded,
    /// Questions that came before the table was told.
    early: BTreeMap<u64, (Asks, Option<TraceParent>)>,
    running: BTreeMap<u64, AbortHandle>,
    answers: JoinSet<(u64, Answers)>,
    /// The table as the shim has it, and when it was foretold.
    told: Option<(u64, InAdvance)>,
    version: u64,
    /// Rows that the shim is not told.
    left_out: usize,
    /// It was told what there is to say of each container.
    knows_all: bool,
}

/// Says to the shim why a call waits.
struct HoldsOfShim {
    question: u64,
    trace: Option<TraceParent>,
    outgoing: Arc<Outgoing>,
    /// The last reason that was said.
    said: Mutex<Option<HoldReason>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        link: &'a Shared,
        known: &'a mut Known,
        outgoing: Arc<Outgoing>,
        succeeded: Succeeded,
    ) -> Self {
        Self {
            link,
            known,
            outgoing,
            succeeded,
            early: BTreeMap::new(),
            running: BTreeMap::new(),
            answers: JoinSet::new(),
            told: None,
            version: 0,
            left_out: 0,
            knows_all: false,
        }
    }

    /// Talks until the connection breaks.
    pub(super) async fn talk(
        mut self,
        mut incoming: Incoming,
        mut reader: OwnedReadHalf,
    ) -> Result<(), LineError> {
        let mut changes = self.link.foresight.changes();
        let mut resync: Option<BoxFuture<'static, ()>> = None;
        loop {
            // Cancel-safe: what is read stays in `incoming`, and a future that did not win goes on.
            tokio::select! {
                word = next::<ToAgent>(&mut incoming, &mut reader) => {
                    if let Some(Told::CaughtUp(_)) = &word.as_ref().ok().and_then(|word| word.told.as_ref()) {
                        self.known.caught_up(&*self.link.gate);
                        resync = Some((self.link.resync)());
                    } else {
                        self.heard(word?).await?;
                    }
                }
                () = async { match &mut resync { Some(resync) => resync.await, None => std::future::pending().await } } => {
                    resync = None;
                    self.listed().await?;
                }
                Some(answered) = self.answers.join_next() => if let Ok((id, answers)) = answered {
                    self.running.remove(&id);
                    self.answer(id, answers).await?;
                },
                Ok(()) = changes.changed() => if self.told.is_some() {
                    self.tell_table().await?;
                },
            }
        }
    }

    /// The runtime was listed after all was told that goes on: the agent knows what there is.
    async fn listed(&mut self) -> Result<(), LineError> {
        self.tell_table().await?;
        info!("The shim knows what the agent knows");
        if !self.succeeded.get() {
            self.link.link();
        }
        for (id, (asks, trace)) in std::mem::take(&mut self.early) {
            self.ask(id, asks, trace).await?;
        }
        Ok(())
    }

    /// The shim has told all that goes on, and there was nothing else to be listed.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) async fn caught_up(&mut self) -> Result<(), LineError> {
        self.known.caught_up(&*self.link.gate);
        self.listed().await
    }

    pub(super) async fn heard(&mut self, word: ToAgent) -> Result<(), LineError> {
        match word.told {
            // One that a later version says.
            None | Some(Told::Hello(_) | Told::CaughtUp(_)) => {}
            // Words to others.
            Some(Told::State(_) | Told::Stage(_) | Told::Metrics(_)) => {}
            Some(Told::Succeeded(_)) => {
                info!("The shim has a successor");
                self.succeeded.set();
            }
            Some(Told::Question(Question { id, asks, trace })) => {
                let trace = trace.as_ref().and_then(trace_of);
                // Of a kind that a later version has: nothing is known that speaks against it.
                let Some(asks) = asks.filter(is_known) else {
                    return self.say(Said::Answer(AnswerTo {
                        question: id,
                        answer: Some(Answers::Pass(Nothing {})),
                    }));
                };
                if self.told.is_some() {
                    self.ask(id, asks, trace).await?;
                } else if self.early.len() >= MAX_QUESTIONS {
                    return Err(Beyond("the number of questions").into());
                } else {
                    // Otherwise it would be over when all was told that goes on, and another one when it is
                    // asked.
                    if let Asks::Call(made) = &asks {
                        let (call, connection) = (self.known.own(made.id), self.known.own(made.connection));
                        self.known.call(CallId(call), Some(ConnectionId(connection)));
                    }
                    self.early.insert(id, (asks, trace));
                }
            }
            Some(Told::Withdrawn(id)) => {
                self.early.remove(&id);
                if let Some(running) = self.running.remove(&id) {
                    running.abort();
                }
            }
            // Of a kind that a later version has.
            Some(Told::Passed(made)) if made.wants.is_none() => {}
            Some(Told::Passed(made)) => {
                let call = self.own(call_of(made, Instant::now())?);
                self.link.gate.passed(&call);
            }
            Some(Told::Event(told)) => self.event(told)?,
            Some(Told::Ping(_)) => self.say(Said::Pong(Nothing {}))?,
            // The one that has the sockets tells of those that count.
            Some(Told::Counts(_)) if self.succeeded.get() => {}
            Some(Told::Counts(counts)) => {
                self.link.metrics.told(counts.connections.max(0), counts.kubelet.max(0), counts.held.max(0));
            }
        }
        Ok(())
    }

    fn event(&mut self, told: EventTold) -> Result<(), Beyond> {
        let Some(event) = event_of(told)? else { return Ok(()) };
        let known = &mut *self.known;
        let mut call = |id: CallId| CallId(known.own(id.0));
        let event = match event {
            Event::ContainerCreated { call: id, container } => {
                Event::ContainerCreated { call: call(id), container }
            }
            Event::RelistAsked { call: id, connection } => {
                Event::RelistAsked { call: call(id), connection: ConnectionId(known.own(connection.0)) }
            }
            Event::RelistAnswered { call: id, connection } => {
                Event::RelistAnswered { call: call(id), connection: ConnectionId(known.own(connection.0)) }
            }
            Event::StatusAsked { container, connection } => {
                Event::StatusAsked { container, connection: ConnectionId(known.own(connection.0)) }
            }
            Event::HookAsked { call: id, container, connection } => {
                let (call, connection) = (call(id), ConnectionId(known.own(connection.0)));
                Event::HookAsked { call, container, connection }
            }
            Event::PullPassed { call: id, image, credential } => {
                Event::PullPassed { call: call(id), image, credential }
            }
            Event::CallEnded(id) => Event::CallEnded(call(id)),
            Event::ConnectionClosed(id) => Event::ConnectionClosed(ConnectionId(known.own(id.0))),
            other => other,
        };
        known.note(&event);
        self.link.gate.observe(event);
        Ok(())
    }

    /// The call by the identities of the agent.
    fn own(&mut self, call: Call) -> Call {
        let known = &mut *self.known;
        let call = Call {
            id: CallId(known.own(call.id.0)),
            connection: ConnectionId(known.own(call.connection.0)),
            ..call
        };
        known.call(call.id, Some(call.connection));
        call
    }

    /// Asks the gate, and answers at once where it can.
    async fn ask(&mut self, id: u64, asks: Asks, trace: Option<TraceParent>) -> Result<(), LineError> {
        let gate = self.link.gate.clone();
        let answer: BoxFuture<'static, Answers> = match asks {
            Asks::Call(made) => {
                let call = self.own(call_of(made, Instant::now())?);
                let (outgoing, said) = (self.outgoing.clone(), Mutex::default());
                let holds = HoldsOfShim { question: id, trace, outgoing, said };
                Box::pin(async move { decision_to_wire(&gate.decide(&call, &holds).await) })
            }
            Asks::Status(of) => {
                let (connection, container) = (self.connection(of.connection), name(&of.container)?.into());
                Box::pin(async move {
                    let query = Query::Status { connection, container: &container };
                    answer_to_wire(&gate.answer(query).await)
                })
            }
            Asks::Hook(of) => {
                let (connection, container) = (self.connection(of.connection), name(&of.container)?.into());
                Box::pin(async move {
                    let query = Query::Hook { connection, container: &container };
                    answer_to_wire(&gate.answer(query).await)
                })
            }
            Asks::Relist(call) => {
                let call = CallId(self.known.own(call));
                Box::pin(async move { answer_to_wire(&gate.answer(Query::Relist(call)).await) })
            }
            Asks::Pull(pull) => {
                let (call, image) = (CallId(self.known.own(pull.call)), text(&pull.image)?);
                let credential = CredentialKey(pull.credential);
                Box::pin(async move {
                    let query = Query::Pull { call, image: &image, credential, trace };
                    answer_to_wire(&gate.answer(query).await)
                })
            }
        };
        // Nobody else answers: a call whose answer panicked passes, and all others go on.
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let mut answer = answer.unwrap_or_else(move |_| {
            error!(question = id, "Answer panicked, the call passes");
            Answers::Pass(Nothing {})
        });
        match poll_fn(|cx| Poll::Ready(answer.poll_unpin(cx))).await {
            Poll::Ready(answers) => self.answer(id, answers).await?,
            Poll::Pending => {
                let running = self.answers.spawn(async move { (id, answer.await) });
                self.running.insert(id, running);
            }
        }
        Ok(())
    }

    fn connection(&mut self, theirs: u64) -> ConnectionId {
        ConnectionId(self.known.own(theirs))
    }

    /// Answers, after what the table has to say.
    async fn answer(&mut self, id: u64, answers: Answers) -> Result<(), LineError> {
        self.tell_table().await?;
        self.say(Said::Answer(AnswerTo { question: id, answer: Some(answers) }))
    }

    /// Tells what the table has to say that the shim does not know.
    async fn tell_table(&mut self) -> Result<(), LineError> {
        let foretold = self.link.foresight.foretold();
        self.tell_table_of(foretold).await?;
        // The kubelet is the successor's by then.
        if self.knows_all && !self.succeeded.get() {
            self.link.foresight.told(Some(foretold));
        }
        Ok(())
    }

    async fn tell_table_of(&mut self, foretold: u64) -> Result<(), LineError> {
        if self.told.as_ref().is_some_and(|(told, _)| *told == foretold) {
            return Ok(());
        }
        let known = self.link.foresight.in_advance();
        self.knows_all = known.is_some();
        let mut known = match (known, &mut self.told) {
            (Some(known), _) => known,
            // What was told last is better than nothing, and all else is asked.
            (None, Some((told, _))) => {
                *told = foretold;
                return Ok(());
            }
            (None, None) => InAdvance::default(),
        };
        let containers = known.containers.len();
        let left_out = table::fit(&mut known);
        self.knows_all &= known.containers.len() == containers;
        if std::mem::replace(&mut self.left_out, left_out) != left_out && left_out > 0 {
            warn!(left_out, "Not all of the table can be told to the shim, which asks about the rest");
        }
        for row in known.containers.values_mut() {
            if let Some(shown) = &mut row.status {
                shown.only_to = shown.only_to.map(|connection| self.known.theirs(connection));
            }
        }
        let before = self.told.as_ref().map(|(_, before)| before);
        if before == Some(&known) {
            self.told = Some((foretold, known));
            return Ok(());
        }
        self.version += 1;
        let changes = table::changes(before, &known, self.version);
        debug!(version = self.version, parts = changes.len(), "Table told");
        let traces = self.link.gate.traces();
        for change in changes {
            // It may be more than may wait.
            timeout(READS, self.outgoing.room())
                .await
                .map_err(|_| LineError::Io(ErrorKind::TimedOut.into()))?;
            self.say(Said::Table(TableChange { traces, ..change }))?;
        }
        self.told = Some((foretold, known));
        Ok(())
    }

    fn say(&self, said: Said) -> Result<(), LineError> {
        match self.outgoing.put(&ToShim { said: Some(said) }) {
            Ok(()) => Ok(()),
            Err(error) => Err(LineError::Io(io::Error::other(error))),
        }
    }
}

/// Tells whether a question is about something that this version knows.
fn is_known(asks: &Asks) -> bool {
    !matches!(asks, Asks::Call(made) if made.wants.is_none())
}

impl Holds for HoldsOfShim {
    fn trace(&self) -> Option<TraceParent> {
        self.trace
    }

    /// A crowd of calls looks again after each fact: only what is new is worth a message.
    fn held(&self, why: &HoldReason) {
        let mut said = locked(&self.said);
        if said.as_ref() == Some(why) {
            return;
        }
        *said = Some(why.clone());
        // An answer that cannot be written ends the connection; this one is only for people.
        let held = held_to_wire(self.question, why);
        let _ = self.outgoing.put(&ToShim { said: Some(Said::Held(held)) });
    }
}
