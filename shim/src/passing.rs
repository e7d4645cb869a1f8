//! A line between two processes over which descriptors are passed: a line of JSON for a word, with the
//! descriptors that it has. Old and new processes of both programs speak to each other so.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use nix::{
    cmsg_space,
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{io::Interest, net::UnixStream};

use crate::descriptor::own;

/// Longest word, in bytes.
pub(crate) const LONGEST: usize = 4096;
/// Most descriptors that come with a word.
pub(crate) const MOST_DESCRIPTORS: usize = 8;

/// One end.
#[derive(Debug)]
pub struct PassingLine {
    stream: UnixStream,
    heard: Heard,
}

/// Bytes that have come and are no whole word yet, with the descriptors that came along.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl PassingLine {
    /// The line over this connection.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, heard: Heard::default() }
    }

    /// Says a word. It is short, so that it goes as a whole or not at all.
    pub async fn say(&self, word: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = line_of(word)?;
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &rights[..0] } else { &rights[..] };
        let sent = self
            .stream
            .async_io(Interest::WRITABLE, || {
                let (part, flags) = ([IoSlice::new(&text)], MsgFlags::MSG_NOSIGNAL);
                Ok(sendmsg::<()>(self.stream.as_raw_fd(), &part, rights, flags, None)?)
            })
            .await?;
        if sent < text.len() {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the other side does not read"));
        }
        Ok(())
    }

    /// The next word, and what came with it. Cancel-safe.
    pub async fn hear<W: DeserializeOwned>(&mut self) -> io::Result<(W, Vec<OwnedFd>)> {
        loop {
            if let Some(word) = self.heard.next()? {
                return Ok(word);
            }
            let mut buffer = [0; LONGEST];
            let (length, descriptors) =
                self.stream.async_io(Interest::READABLE, || receive(&self.stream, &mut buffer)).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.heard.push(&buffer[..length], descriptors);
        }
    }
}

impl Heard {
    /// Takes what has come. Of the descriptors of one word no more are kept than a word may have.
    pub(crate) fn push(&mut self, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        self.bytes.extend_from_slice(bytes);
        let room = MOST_DESCRIPTORS.saturating_sub(self.descriptors.len());
        self.descriptors.extend(descriptors.into_iter().take(room));
    }

    /// The next whole word, and what came until then; `None` until there is one.
    pub(crate) fn next<W: DeserializeOwned>(&mut self) -> io::Result<Option<(W, Vec<OwnedFd>)>> {
        if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            return Ok(Some((serde_json::from_slice(&line)?, std::mem::take(&mut self.descriptors))));
        }
        if self.bytes.len() >= LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no word of a hand-over"));
        }
        Ok(None)
    }

    /// Bytes and descriptors that are kept.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.bytes.len(), self.descriptors.len())
    }
}

/// A word as it goes over the line.
pub(crate) fn line_of(word: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(word)?;
    text.push(b'\n');
    Ok(text)
}

fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let mut descriptors = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            descriptors.extend(raw.into_iter().map(own));
        }
    }
    Ok((message.bytes, descriptors))
}
