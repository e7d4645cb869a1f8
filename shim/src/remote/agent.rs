//! The side of the agent: connects to the shim, and answers with the gate that it has anyway.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use berth_policy::{CallId, ConnectionId, Event, InAdvance};
use tokio::{
    net::UnixStream,
    sync::watch,
    time::{sleep, timeout},
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
/// Between two attempts to connect, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Source of what an agent can say before it is asked.
pub trait Foresight: Send + Sync + 'static {
    /// A number that grows with every change that may alter what is foretold.
    fn changes(&self) -> watch::Receiver<u64>;

    /// A number that grows with every change that alters it; cheap to ask for.
    fn foretold(&self) -> u64;

    /// All that is known before it is asked.
    fn in_advance(&self) -> InAdvance;
}

/// Lists the runtime: what happened while nobody told is known then.
pub type Resync = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Connection of the agent to its shim, made anew whenever it is lost.
pub struct AgentLink {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) foresight: Arc<dyn Foresight>,
    pub(super) resync: Resync,
    pub(super) metrics: Metrics,
    pub(super) known: Known,
    linked: watch::Sender<bool>,
}

/// Calls and connections of the shim that the agent was told of.
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

// === impl AgentLink ===

impl AgentLink {
    /// A link that is made when it [runs](AgentLink::run).
    pub fn new(gate: Arc<dyn Gate>, foresight: Arc<dyn Foresight>, resync: Resync, metrics: Metrics) -> Self {
        let (known, linked) = (Known::default(), watch::Sender::new(false));
        Self { gate, foresight, resync, metrics, known, linked }
    }

    /// Whether the shim is connected and knows what the agent knows.
    pub fn linked(&self) -> watch::Receiver<bool> {
        self.linked.subscribe()
    }

    /// Serves the shim behind this socket until the stop.
    pub async fn run(mut self, socket: &Path, stop: CancellationToken) {
        let (mut pause, mut said) = (AGAIN.0, false);
        while !stop.is_cancelled() {
            let session = async {
                let stream = UnixStream::connect(socket).await?;
                (pause, said) = (AGAIN.0, false);
                self.serve(stream).await
            };
            let Some(ended) = stop.run_until_cancelled(session).await else { break };
            self.linked.send_replace(false);
            self.metrics.told(0, 0, 0);
            if !std::mem::replace(&mut said, true) {
                let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
                warn!(error, socket = %socket.display(), "No shim, trying again");
            }
            stop.run_until_cancelled(sleep(pause)).await;
            pause = pause.saturating_mul(2).min(AGAIN.1);
        }
        self.linked.send_replace(false);
    }

    async fn serve(&mut self, stream: UnixStream) -> Result<(), LineError> {
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
            self.known.meet(&hello, &*self.gate);
            let linked = self.linked.clone();
            Session::new(self, outgoing.clone(), linked).talk(incoming, reader).await
        };
        // Cancel-safe: the connection ends with either.
        tokio::select! {
            ended = talk => ended,
            written = outgoing.write(&mut writer, || true) => Ok(written?),
        }
    }
}

// === impl Known ===

impl Known {
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
            Event::RelistAsked { call, connection } => self.call(*call, Some(*connection)),
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
