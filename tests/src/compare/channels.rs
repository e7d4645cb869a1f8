//! Several streams on one WebSocket, as the subprotocol `v4.channel.k8s.io` has them: the first byte of a
//! message is the number of its channel.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use tokio::time::timeout;

use super::side::PATIENCE;
use super::websocket::{Handshake, WebSocket};

const PROTOCOL: &str = "v4.channel.k8s.io";

/// The channels of a command.
pub const STDIN: u8 = 0;
/// Its output.
pub const STDOUT: u8 = 1;
/// Its other output.
pub const STDERR: u8 = 2;
/// How it ended.
const STATUS: u8 = 3;
/// The size of its terminal.
pub const RESIZE: u8 = 4;

/// An open connection, and what came on each of its channels so far.
#[derive(Debug)]
pub struct Channels {
    socket: WebSocket,
    received: BTreeMap<u8, Vec<u8>>,
}

/// The answer to the wish for one.
#[derive(Debug)]
pub enum Opened {
    /// Here it is.
    Open(Channels),
    /// An HTTP status and what else was said.
    Refused(u16, String),
}

/// Output and result that a command left behind.
#[derive(Debug)]
pub struct Ended {
    /// All of its output.
    pub stdout: String,
    /// All of its other output.
    pub stderr: String,
    /// The runtime's word on how it ended: an object of the kind `Status`.
    pub status: String,
}

impl Channels {
    /// Opens the URL that a runtime gave.
    pub async fn open(url: &str) -> Result<Opened> {
        match timeout(PATIENCE, WebSocket::open(url, PROTOCOL)).await.context("no WebSocket")?? {
            Handshake::Open(socket, chosen) if chosen == PROTOCOL => {
                Ok(Opened::Open(Self { socket, received: BTreeMap::new() }))
            }
            Handshake::Open(_, other) => bail!("the server chose {other:?}"),
            Handshake::Refused(status, body) => Ok(Opened::Refused(status, body)),
        }
    }

    /// The same for a URL that has to be good.
    pub async fn must_open(url: &str) -> Result<Self> {
        match Self::open(url).await? {
            Opened::Open(channels) => Ok(channels),
            Opened::Refused(status, body) => bail!("HTTP {status}: {body}"),
        }
    }

    /// Sends on one channel.
    pub async fn send(&mut self, channel: u8, data: &[u8]) -> Result<()> {
        self.socket.send(&[&[channel], data].concat()).await
    }

    /// Returns the bytes that came on a channel so far.
    pub fn received(&self, channel: u8) -> &[u8] {
        self.received.get(&channel).map_or(&[], Vec::as_slice)
    }

    /// Waits until this came on a channel.
    pub async fn receive(&mut self, channel: u8, wanted: &[u8]) -> Result<()> {
        while !self.received(channel).windows(wanted.len()).any(|window| window == wanted) {
            if !self.next().await? {
                bail!("ended without {:?}: {:?}", String::from_utf8_lossy(wanted), self.received);
            }
        }
        Ok(())
    }

    /// Waits for the end of the command.
    pub async fn ended(mut self) -> Result<Ended> {
        while self.next().await? {}
        let text = |channel| String::from_utf8_lossy(self.received(channel)).into_owned();
        Ok(Ended { stdout: text(STDOUT), stderr: text(STDERR), status: text(STATUS) })
    }

    /// Takes one message; `false` at the end.
    async fn next(&mut self) -> Result<bool> {
        let received = timeout(PATIENCE, self.socket.receive())
            .await
            .with_context(|| format!("nothing comes any more after {:?}", self.received))??;
        let Some(message) = received else { return Ok(false) };
        let (channel, data) = message.split_first().context("a message without a channel")?;
        self.received.entry(*channel).or_default().extend(data);
        Ok(true)
    }
}
