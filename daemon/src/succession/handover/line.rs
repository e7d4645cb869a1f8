//! The connection between the two processes: a line of JSON for a word, with descriptors where it has any.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use nix::{
    cmsg_space,
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg},
};
use serde::{Deserialize, Serialize};
use tokio::{io::Interest, net::UnixStream};

use super::sockets::Name;
use crate::succession::descriptor::own;

/// No word is as long.
const LONGEST: usize = 4096;

/// Messages between the two processes. Both may be of different versions: a word is only ever added, and a
/// field has a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Word {
    /// The new one is there and wants everything.
    #[serde(rename_all = "camelCase")]
    Take {
        /// Its version.
        #[serde(default)]
        version: String,
    },
    /// The old one has given it: these sockets come with the word, in this order. The store is closed.
    #[serde(rename_all = "camelCase")]
    Taken {
        /// Names of the descriptors.
        sockets: Vec<Name>,
    },
    /// The old one gives nothing.
    #[serde(rename_all = "camelCase")]
    Refused {
        /// In words.
        why: String,
    },
    /// The new one accepts.
    Ready,
}

/// One end.
#[derive(Debug)]
pub(super) struct Line {
    stream: UnixStream,
    heard: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, heard: Vec::new(), descriptors: Vec::new() }
    }

    /// Says a word. It is short, so that it goes as a whole or not at all.
    pub(super) async fn say(&self, word: &Word, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut text = serde_json::to_vec(word)?;
        text.push(b'\n');
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
    pub(super) async fn hear(&mut self) -> io::Result<(Word, Vec<OwnedFd>)> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.heard.drain(..=end).collect();
                return Ok((serde_json::from_slice(&line)?, std::mem::take(&mut self.descriptors)));
            }
            if self.heard.len() >= LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no word of a hand-over"));
            }
            let mut buffer = [0; LONGEST];
            let (length, descriptors) =
                self.stream.async_io(Interest::READABLE, || receive(&self.stream, &mut buffer)).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.heard.extend_from_slice(&buffer[..length]);
            self.descriptors.extend(descriptors);
        }
    }
}

fn receive(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([RawFd; Name::ALL.len()]);
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
