//! The side of the agent: connects to the shim, and answers with the gate that it has anyway.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use berth_policy::{CallId, ConnectionId, Event, InAdvance};
use futures::FutureExt;
use tokio::{
    net::UnixStream,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    VERSION,
    frame::{Incoming, Outgoing},
    line::{LineError, next},
    message::{AgentHello, Said, ShimHello, ToAgent, ToShim, Told},
    session::Session,
};
use crate::{
    convert::HashKey,
    gate::{BoxFuture, Gate},
    metrics::Metrics,
};

/// How long the shim may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// Shortest and longest pause between two attempts to connect. A connection that lasted for the longest is
/// good, and the next pause is short again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Source of what an agent can say before it is asked.
pub trait Foresight: Send + Sync + 'static {
    /// A number that grows with every change that may alter what is foretold.
    fn changes(&self) -> watch::Receiver<u64>;

    /// A number that grows with every change that alters it; cheap to ask for.
    fn foretold(&self) -> u64;

    /// All that is known before it is asked; `None` where that cannot be said.
    fn in_advance(&self) -> Option<InAdvance>;

    /// Takes note that a shim was told all that was foretold up to this number; `None` when there is none.
    fn told(&self, foretold: Option<u64>);
}

/// Lists the runtime: what happened while nobody told is known then.
pub type Resync = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// How far the identities of a shim are from those of the one before it, which may still count on.
const IDENTITY_GAP: u64 = 1 << 32;

/// Connection of the agent to its shim, made anew whenever it is lost. While a shim is succeeded there are
/// two.
pub struct AgentLink {
    shared: Arc<Shared>,
}

/// State that all connections have in common.
pub(super) struct Shared {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) foresight: Arc<dyn Foresight>,
    pub(super) resync: Resync,
    pub(super) metrics: Metrics,
    linked: watch::Sender<bool>,
}

/// Mark of a connection to a shim that has not the sockets any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Succeeded(CancellationToken);

/// Calls and connections of one shim that the agent was told of.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Added to all identities: those of a shim that was started anew are other ones.
    base: u64,
    highest: u64,
    process: Option<u64>,
    session: u64,
    /// By the session in which it was told last.
    calls: BTreeMap<CallId, u64>,
    connections: BTreeSet<ConnectionId>,
}

/// End of a connection.
struct Ended {
    known: Known,
    number: u64,
    error: Option<LineError>,
    lasted: Duration,
}

// === impl AgentLink ===

impl AgentLink {
    /// A link that is made when it [runs](AgentLink::run).
    pub fn new(gate: Arc<dyn Gate>, foresight: Arc<dyn Foresight>, resync: Resync, metrics: Metrics) -> Self {
        let linked = watch::Sender::new(false);
        Self { shared: Arc::new(Shared { gate, foresight, resync, metrics, linked }) }
    }

    /// Tells whether the shim is connected and knows what the agent knows.
    pub fn linked(&self) -> watch::Receiver<bool> {
        self.shared.linked.subscribe()
    }

    /// Serves the shim behind this socket until the stop, and those that it has succeeded to their end.
    pub async fn run(self, socket: &Path, stop: CancellationToken) {
        let shared = self.shared;
        // Dropped, all connections have ended.
        let mut sessions = JoinSet::new();
        let (mut known, mut pause, mut said) = (Known::default(), AGAIN.0, false);
        let mut number = 0_u64;
        while !stop.is_cancelled() {
            number = number.saturating_add(1);
            let (succeeded, next) = (Succeeded::default(), known.beside());
            let current =
                sessions.spawn(session(shared.clone(), known, number, socket.to_owned(), succeeded.clone()));
            let ended = async {
                loop {
                    // Cancel-safe: join_next takes no task that it does not return.
                    tokio::select! {
                        ended = sessions.join_next() => match ended {
                            Some(Ok(ended)) if ended.number == number => return Some(ended),
                            Some(Ok(ended)) => ended.known.over(&*shared.gate),
                            Some(Err(error)) => {
                                warn!(%error, "A connection to the shim panicked");
                                if error.id() == current.id() {
                                    return None;
                                }
                            }
                            None => return None,
                        },
                        () = succeeded.0.cancelled() => return None,
                    }
                }
            };
            let Some(ended) = stop.run_until_cancelled(ended).await else { break };
            let Some(ended) = ended else {
                // The one before goes on beside the next, and counts no more: the kubelet is the next one's.
                known = next;
                shared.unlink();
                if !succeeded.get() {
                    stop.run_until_cancelled(sleep(AGAIN.1)).await;
                }
                continue;
            };
            known = ended.known;
            shared.unlink();
            shared.metrics.told(0, 0, 0);
            if ended.lasted >= AGAIN.1 {
                (pause, said) = (AGAIN.0, false);
            }
            if !std::mem::replace(&mut said, true) {
                let error = ended.error.map(|error| error.to_string()).unwrap_or_default();
                warn!(error, socket = %socket.display(), "No shim, trying again");
            }
            stop.run_until_cancelled(sleep(pause)).await;
            pause = pause.saturating_mul(2).min(AGAIN.1);
        }
        shared.unlink();
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl AgentLink {
    /// Plays the words of a shim without a socket, to their end or to the first that is none. With each hello
    /// another connection begins.
    pub(super) async fn play(&self, words: impl Iterator<Item = ToAgent>) {
        let (gate, mut known) = (&*self.shared.gate, Known::default());
        let mut words = words.peekable();
        'all: while words.peek().is_some() {
            if let Some(ToAgent { told: Some(Told::Hello(hello)) }) = words.peek() {
                known.meet(hello, gate);
                words.next();
            }
            let of_this = |word: &ToAgent| !matches!(word.told, Some(Told::Hello(_)));
            let mut session = Session::new(&self.shared, &mut known, Arc::default(), Succeeded::default());
            while let Some(word) = words.next_if(of_this) {
                let played = match word.told {
                    Some(Told::CaughtUp(_)) => session.caught_up().await,
                    _ => session.heard(word).await,
                };
                if played.is_err() {
                    break 'all;
                }
            }
        }
        known.over(gate);
    }
}

/// One connection, from its beginning to its end.
async fn session(
    shared: Arc<Shared>,
    mut known: Known,
    number: u64,
    socket: PathBuf,
    succeeded: Succeeded,
) -> Ended {
    let begun = Instant::now();
    let served = match UnixStream::connect(&socket).await {
        Ok(stream) => {
            // What the shim has of this agent must not be lost with it: it would go on here for ever.
            let served = AssertUnwindSafe(serve(shared, &mut known, stream, succeeded)).catch_unwind();
            served.await.unwrap_or(Err(LineError::Panicked))
        }
        Err(error) => Err(error.into()),
    };
    Ended { known, number, error: served.err(), lasted: begun.elapsed() }
}

async fn serve(
    shared: Arc<Shared>,
    known: &mut Known,
    stream: UnixStream,
    succeeded: Succeeded,
) -> Result<(), LineError> {
    let (mut reader, mut writer) = stream.into_split();
    let (mut incoming, outgoing) = (Incoming::default(), Arc::new(Outgoing::default()));
    let HashKey(credential_key_0, credential_key_1) = HashKey::own();
    let hello = AgentHello {
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        credential_key_0,
        credential_key_1,
    };
    // The first one is never one too many.
    let _ = outgoing.put(&ToShim { said: Some(Said::Hello(hello)) });
    let talk = async {
        let first = timeout(HELLO, next::<ToAgent>(&mut incoming, &mut reader)).await;
        let Some(Told::Hello(hello)) = first.map_err(|_| LineError::Mumbles)??.told else {
            return Err(LineError::Mumbles);
        };
        if hello.version != VERSION {
            return Err(LineError::Version(hello.version));
        }
        info!(version = hello.program, "Shim connected");
        known.meet(&hello, &*shared.gate);
        Session::new(&shared, known, outgoing.clone(), succeeded).talk(incoming, reader).await
    };
    // Cancel-safe: the connection ends with either.
    tokio::select! {
        ended = talk => ended,
        written = outgoing.write(&mut writer, || true) => Ok(written?),
    }
}

// === impl Shared ===

impl Shared {
    /// The shim knows what the agent knows.
    pub(super) fn link(&self) {
        self.linked.send_replace(true);
    }

    fn unlink(&self) {
        self.linked.send_replace(false);
        self.foresight.told(None);
    }
}

// === impl Succeeded ===

impl Succeeded {
    /// Another process has the sockets.
    pub(super) fn set(&self) {
        self.0.cancel();
    }

    pub(super) fn get(&self) -> bool {
        self.0.is_cancelled()
    }
}

// === impl Known ===

impl Known {
    /// Begins for another shim, while this one may go on for a while.
    fn beside(&self) -> Self {
        let base = self.highest.max(self.base).saturating_add(IDENTITY_GAP);
        Self { base, highest: base, ..Self::default() }
    }

    /// The shim has ended, and so has all that it had.
    fn over(self, gate: &dyn Gate) {
        for call in self.calls.into_keys() {
            gate.observe(Event::CallEnded(call));
        }
        for connection in self.connections {
            gate.observe(Event::ConnectionClosed(connection));
        }
    }

    /// A connection to a shim begins. What another one had is over.
    pub(super) fn meet(&mut self, hello: &ShimHello, gate: &dyn Gate) {
        self.session += 1;
        if self.process.replace(hello.process).is_some_and(|process| process != hello.process) {
            self.base = self.highest.saturating_add(1);
        }
        let open: BTreeSet<ConnectionId> =
            hello.connections.iter().map(|id| ConnectionId(self.own(*id))).collect();
        let closed: Vec<ConnectionId> = self.connections.difference(&open).copied().collect();
        for connection in closed {
            gate.observe(Event::ConnectionClosed(connection));
        }
        self.connections = open;
    }

    /// All that goes on was told: the other calls have ended.
    pub(super) fn caught_up(&mut self, gate: &dyn Gate) {
        let session = self.session;
        let (kept, ended) =
            std::mem::take(&mut self.calls).into_iter().partition(|(_, told)| *told == session);
        self.calls = kept;
        let ended: BTreeMap<CallId, u64> = ended;
        for (call, _) in ended {
            gate.observe(Event::CallEnded(call));
        }
    }

    /// The identity that the agent gives to one of the shim.
    pub(super) fn own(&mut self, theirs: u64) -> u64 {
        let own = theirs.saturating_add(self.base);
        self.highest = self.highest.max(own);
        own
    }

    /// The identity that the shim gives to a connection of the agent's.
    pub(super) fn theirs(&self, own: ConnectionId) -> ConnectionId {
        ConnectionId(own.0.saturating_sub(self.base))
    }

    pub(super) fn call(&mut self, call: CallId, connection: Option<ConnectionId>) {
        self.calls.insert(call, self.session);
        self.connections.extend(connection);
    }

    /// Takes note of what an event says of calls and connections.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::RelistAsked { call, connection } | Event::HookAsked { call, connection, .. } => {
                self.call(*call, Some(*connection));
            }
            Event::PullPassed { call, .. } => self.call(*call, None),
            Event::StatusAsked { connection, .. } => self.connections.extend(Some(*connection)),
            Event::CallEnded(call) => {
                self.calls.remove(call);
            }
            Event::ConnectionClosed(connection) => {
                self.connections.remove(connection);
            }
            _ => {}
        }
    }
}
