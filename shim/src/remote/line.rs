//! The socket on which the shim waits for its agent. Whoever decides about the calls of a node's kubelet is
//! root: so says the mode of the socket, and so say the credentials that the kernel keeps of each peer.

use std::{io, sync::Arc, time::Duration};

use prost::Message;
use tokio::{
    io::AsyncWriteExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    VERSION,
    calls::Beyond,
    control::UpgradeAsk,
    frame::{Incoming, Outgoing, TooLong},
    gate::RemoteGate,
    message::{AgentHello, Said, ShimHello, ShimState, ToAgent, ToShim, Told, UpgradeStage},
};
use crate::{confined::Confined, convert::HashKey, listener::Listener, metrics::Exported};

/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// Connections at once. There is one agent; another one may be on its way, and people ask.
const CONNECTIONS: usize = 8;
/// How often it is looked whether the agent is there.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often whoever has asked for a drain is told how far it is.
const DRAIN_LOOK: Duration = Duration::from_secs(1);
/// How long the last words of all may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The socket of the agent, and of `berthctl`.
#[derive(Debug)]
pub struct Line {
    listener: Listener,
    people: People,
}

/// Answers to those who are no agent.
#[derive(Clone, Debug, Default)]
struct People {
    upgrades: Option<mpsc::Sender<UpgradeAsk>>,
    exported: Option<Arc<Exported>>,
    drain: Option<CancellationToken>,
    confined: Option<Confined>,
}

/// When to stop.
#[derive(Clone, Debug, Default)]
pub struct LineEnds {
    /// Cancelled, it ends the accepting: another process has the socket. The agent that is there stays.
    pub accepting: CancellationToken,
    /// Cancelled, it ends everything.
    pub all: CancellationToken,
}

/// End of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error("it broke")]
    Io(#[from] io::Error),
    #[error("it does not keep to the frames: {0}")]
    TooLong(#[from] TooLong),
    #[error("a message that is none: {0}")]
    Decode(#[from] prost::DecodeError),
    #[error("{0}")]
    Beyond(#[from] Beyond),
    #[error("uid {0} is not root")]
    NotRoot(u32),
    #[error("it does not say who it is")]
    Mumbles,
    #[error("this process panicked at what it said")]
    Panicked,
    #[error("it speaks version {0} of the line, and this process {VERSION}; give both programs one release")]
    Version(u32),
}

impl Line {
    /// Waits on this socket.
    pub fn new(listener: Listener) -> Self {
        Self { listener, people: People::default() }
    }

    /// Gives these metrics to whoever exports them.
    pub fn exporting(mut self, exported: Exported) -> Self {
        self.people.exported = Some(Arc::new(exported));
        self
    }

    /// Gives on who asks for an upgrade.
    pub fn upgrading(mut self, upgrades: mpsc::Sender<UpgradeAsk>) -> Self {
        self.people.upgrades = Some(upgrades);
        self
    }

    /// Tells people what this process cannot do.
    pub fn confined(mut self, confined: Confined) -> Self {
        self.people.confined = Some(confined);
        self
    }

    /// Cancels this where a drain is asked for.
    pub fn draining(mut self, drain: CancellationToken) -> Self {
        self.people.drain = Some(drain);
        self
    }

    /// Serves the agents that come, one after the other, until the stop. The newest one is the agent.
    pub async fn serve(self, gate: Arc<RemoteGate>, ends: LineEnds) {
        let mut connections = JoinSet::new();
        let mut listener = Some(self.listener);
        loop {
            // Cancel-safe: accept takes no connection unless it returns it, and join_next no task.
            tokio::select! {
                biased;
                () = ends.all.cancelled() => break,
                () = ends.accepting.cancelled(), if listener.is_some() => listener = None,
                Some(_) = connections.join_next() => {}
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(_) if connections.len() >= CONNECTIONS => warn!("Too many agents, one more is closed"),
                    Ok(socket) => {
                        connections.spawn(serve_peer(
                            gate.clone(), self.people.clone(), ends.all.clone(), socket,
                        ));
                    }
                    Err(error) => {
                        warn!(%error, "Agent not accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        let ended = async { while connections.join_next().await.is_some() {} };
        if timeout(LAST_WORDS, ended).await.is_err() {
            connections.shutdown().await;
        }
    }
}

/// State of the process, for people.
fn state(gate: &RemoteGate, confined: Option<Confined>) -> ShimState {
    let Some(Confined { filtered, memory_limit }) = confined else { return gate.state() };
    ShimState { filtered: Some(filtered), memory_limit: memory_limit.unwrap_or_default(), ..gate.state() }
}

/// The next one that comes; nobody does where the socket is another process's. Cancel-safe.
async fn accept(listener: Option<&Listener>) -> io::Result<UnixStream> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn serve_peer(gate: Arc<RemoteGate>, people: People, ended: CancellationToken, socket: UnixStream) {
    let served = async {
        match meet(socket).await {
            Ok((First::Agent(hello), reader, writer, incoming)) => {
                serve_agent(&gate, hello, reader, writer, incoming).await;
            }
            Ok((First::Looks, _, mut writer, _)) => {
                // Whoever does not listen has asked for nothing.
                let _ = say(&mut writer, Told::State(state(&gate, people.confined))).await;
            }
            Ok((First::Scrapes, _, mut writer, _)) => {
                let text = people.exported.map(|exported| exported.text()).unwrap_or_default();
                let _ = say(&mut writer, Told::Metrics(text)).await;
            }
            Ok((First::Upgrades, _, mut writer, _)) => upgrade(people.upgrades, &mut writer).await,
            Ok((First::Drains, _, writer, _)) => return Some(writer),
            Err(error) => warn!(%error, "Agent refused"),
        }
        None
    };
    let drains = tokio::select! {
        drains = served => drains,
        () = ended.cancelled() => None,
    };
    if let (Some(writer), Some(asked)) = (drains, people.drain) {
        asked.cancel();
        tell_drain(&gate, &ended, writer).await;
    }
}

/// Tells how far a drain is, to its end. It goes on whether anybody listens or not.
async fn tell_drain(gate: &RemoteGate, ended: &CancellationToken, mut writer: OwnedWriteHalf) {
    loop {
        let over = ended.is_cancelled();
        if say(&mut writer, Told::State(gate.state())).await.is_err() || over {
            return;
        }
        tokio::select! {
            () = sleep(DRAIN_LOOK) => {}
            () = ended.cancelled() => {}
        }
    }
}

/// Tells of all stages; the upgrade goes on whether anybody listens or not.
async fn upgrade(upgrades: Option<mpsc::Sender<UpgradeAsk>>, writer: &mut OwnedWriteHalf) {
    let (ask, mut stages) = UpgradeAsk::new();
    if upgrades.is_none_or(|upgrades| upgrades.try_send(ask).is_err()) {
        let error = "an upgrade is under way, or this process is about to end".to_owned();
        let _ = say(writer, Told::Stage(UpgradeStage { error, ..UpgradeStage::default() })).await;
        return;
    }
    while let Some(stage) = stages.recv().await {
        if say(writer, Told::Stage(stage)).await.is_err() {
            return;
        }
    }
}

async fn say(writer: &mut OwnedWriteHalf, told: Told) -> io::Result<()> {
    let outgoing = Outgoing::default();
    outgoing.put(&ToAgent { told: Some(told) }).map_err(io::Error::other)?;
    timeout(HELLO, writer.write_all(&outgoing.take().await)).await?
}

async fn serve_agent(
    gate: &Arc<RemoteGate>,
    hello: AgentHello,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    incoming: Incoming,
) {
    HashKey(hello.credential_key_0, hello.credential_key_1).adopt();
    let (number, outgoing) = gate.begin();
    info!(version = hello.program, connection = number, "Agent connected");
    // Dropped in whatever way, the connection has ended.
    let ended = Ended { gate, number };
    // Cancel-safe: the connection ends with each of them. In this order: an agent that went has said its last
    // words before; and where this process had no turn for a while, one that is there has said that it is,
    // and the time in which it has to is over.
    let error = tokio::select! {
        biased;
        error = read(gate, number, reader, incoming) => Some(error),
        written = write(gate, number, writer, &outgoing) => written.err().map(LineError::from),
        () = look(gate, number) => None,
    };
    drop(ended);
    match error {
        Some(LineError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            info!(connection = number, "Agent gone");
        }
        Some(error) => warn!(connection = number, %error, "Agent left"),
        None => info!(connection = number, "Agent left for a newer one"),
    }
}

struct Ended<'a> {
    gate: &'a RemoteGate,
    number: u64,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.gate.ended(self.number);
    }
}

/// The first word of a peer.
enum First {
    Agent(AgentHello),
    Looks,
    Scrapes,
    Upgrades,
    Drains,
}

/// Fails for a peer whose user may say nothing here. Our own user is root, but in tests.
pub(super) fn check_peer(peer: u32, own: u32) -> Result<(), LineError> {
    if peer == 0 || peer == own { Ok(()) } else { Err(LineError::NotRoot(peer)) }
}

type Met = (First, OwnedReadHalf, OwnedWriteHalf, Incoming);

async fn meet(socket: UnixStream) -> Result<Met, LineError> {
    check_peer(socket.peer_cred()?.uid(), nix::unistd::geteuid().as_raw())?;
    let (mut reader, mut writer) = socket.into_split();
    let mut incoming = Incoming::default();
    let first = timeout(HELLO, next::<ToShim>(&mut incoming, &mut reader))
        .await
        .map_err(|_| LineError::Mumbles)??;
    let first = match first.said {
        Some(Said::Hello(hello)) if hello.version != VERSION => {
            // It would take this process for one that is not there.
            let program = env!("CARGO_PKG_VERSION").to_owned();
            let own = ShimHello { version: VERSION, program, ..ShimHello::default() };
            // Whoever does not listen is none the wiser.
            let _ = say(&mut writer, Told::Hello(own)).await;
            return Err(LineError::Version(hello.version));
        }
        Some(Said::Hello(hello)) => First::Agent(hello),
        Some(Said::Look(_)) => First::Looks,
        Some(Said::Scrape(_)) => First::Scrapes,
        Some(Said::Upgrade(_)) => First::Upgrades,
        Some(Said::Drain(_)) => First::Drains,
        _ => return Err(LineError::Mumbles),
    };
    Ok((first, reader, writer, incoming))
}

/// The next word. Cancel-safe.
pub(crate) async fn next<M: Message + Default>(
    incoming: &mut Incoming,
    reader: &mut OwnedReadHalf,
) -> Result<M, LineError> {
    loop {
        if let Some(frame) = incoming.next()? {
            return Ok(M::decode(frame)?);
        }
        incoming.read(reader).await?;
    }
}

async fn read(
    gate: &RemoteGate,
    number: u64,
    mut reader: OwnedReadHalf,
    mut incoming: Incoming,
) -> LineError {
    loop {
        match next::<ToShim>(&mut incoming, &mut reader).await {
            Ok(word) => {
                if let Err(error) = gate.heard(number, word) {
                    return error.into();
                }
            }
            Err(error) => return error,
        }
    }
}

async fn write(
    gate: &RemoteGate,
    number: u64,
    mut writer: OwnedWriteHalf,
    outgoing: &Outgoing,
) -> io::Result<()> {
    outgoing.write(&mut writer, || gate.is_current(number)).await
}

async fn look(gate: &RemoteGate, number: u64) {
    let mut tick = interval(POLL_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while gate.is_current(number) {
        tick.tick().await;
        gate.look(number);
    }
}
