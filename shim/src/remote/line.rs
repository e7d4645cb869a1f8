//! The socket on which the shim waits for its agent. Whoever decides about the calls of a node's kubelet is
//! root: so says the mode of the socket, and so say the credentials that the kernel keeps of each peer.

use std::{io, sync::Arc, time::Duration};

use prost::Message;
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    VERSION,
    calls::Beyond,
    frame::{Incoming, TooLong},
    gate::RemoteGate,
    message::{AgentHello, Said, ToShim},
};
use crate::{convert::HashKey, listener::Listener};

/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// Connections at once. There is one agent; another one may be on its way.
const CONNECTIONS: usize = 4;
/// How often it is looked whether the agent is there.
const LOOK: Duration = Duration::from_secs(1);
/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The socket of the agent.
#[derive(Debug)]
pub struct Line {
    listener: Listener,
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
    #[error("it speaks version {0} of the line, and this process {VERSION}; give both programs one release")]
    Version(u32),
}

impl Line {
    /// Waits on this socket.
    pub fn new(listener: Listener) -> Self {
        Self { listener }
    }

    /// Serves the agents that come, one after the other, until the stop. The newest one is the agent.
    pub async fn serve(self, gate: Arc<RemoteGate>, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            // Cancel-safe: accept takes no connection unless it returns it, and join_next no task.
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok(_) if connections.len() >= CONNECTIONS => warn!("Too many agents, one more is closed"),
                    Ok(socket) => {
                        connections.spawn(serve_agent(gate.clone(), socket));
                    }
                    Err(error) => {
                        warn!(%error, "Agent not accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        connections.shutdown().await;
    }
}

async fn serve_agent(gate: Arc<RemoteGate>, socket: UnixStream) {
    match meet(socket).await {
        Ok((hello, reader, writer, incoming)) => {
            HashKey(hello.credential_key_0, hello.credential_key_1).adopt();
            let (number, outgoing) = gate.begin();
            info!(version = hello.program, connection = number, "Agent connected");
            // Dropped in whatever way, the connection has ended.
            let ended = Ended { gate: &gate, number };
            let error = tokio::select! {
                error = read(&gate, number, reader, incoming) => Some(error),
                written = write(&gate, number, writer, &outgoing) => written.err().map(LineError::from),
                () = look(&gate, number) => None,
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
        Err(error) => warn!(%error, "Agent refused"),
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

type Met = (AgentHello, OwnedReadHalf, OwnedWriteHalf, Incoming);

async fn meet(socket: UnixStream) -> Result<Met, LineError> {
    let uid = socket.peer_cred()?.uid();
    // Our own user is root, but in tests.
    if uid != 0 && uid != nix::unistd::geteuid().as_raw() {
        return Err(LineError::NotRoot(uid));
    }
    let (mut reader, writer) = socket.into_split();
    let mut incoming = Incoming::default();
    let first = timeout(HELLO, next::<ToShim>(&mut incoming, &mut reader))
        .await
        .map_err(|_| LineError::Mumbles)??;
    let Some(Said::Hello(hello)) = first.said else { return Err(LineError::Mumbles) };
    if hello.version != VERSION {
        return Err(LineError::Version(hello.version));
    }
    Ok((hello, reader, writer, incoming))
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
    outgoing: &super::frame::Outgoing,
) -> io::Result<()> {
    outgoing.write(&mut writer, || gate.is_current(number)).await
}

async fn look(gate: &RemoteGate, number: u64) {
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while gate.is_current(number) {
        tick.tick().await;
        gate.look(number);
    }
}
