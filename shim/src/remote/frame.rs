//! Frames of the line: a length in four bytes, and a message. What is written in one turn goes out in one
//! system call.

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::Notify,
};

/// The longest message. The longest that is sent is the env of one pod, of which no more is told.
pub(crate) const MAX_FRAME: usize = 4 << 20;
/// Bytes that may wait for the other side to read. One that does not read is left, and has to come back.
const MAX_WAITING: usize = 16 << 20;
/// Bytes that may wait already where more of a large whole is put.
const SOME: usize = 4 << 20;
const PREFIX: usize = 4;

/// The other side does not keep to the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes, more than {MAX_FRAME}")]
pub(crate) struct TooLong(pub(crate) usize);

/// The other side does not read what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_WAITING} bytes wait for the other side to read them")]
pub(crate) struct Unread;

/// Frames as they come in.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    buffer: BytesMut,
}

/// Frames that wait to be written. Whoever has one writes it.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    buffer: Mutex<BytesMut>,
    /// Bytes of what was put first: they are no sign of one that does not read.
    first: AtomicUsize,
    more: Notify,
    taken: Notify,
}

// === impl Incoming ===

impl Incoming {
    /// Takes what has come.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(TooLong(length));
        }
        if self.buffer.len() - PREFIX < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Reads more of them. An error of the kind `UnexpectedEof` is the end of the line. Cancel-safe.
    pub(crate) async fn read(&mut self, from: &mut OwnedReadHalf) -> io::Result<()> {
        // What is reserved grows with what arrives, not with what a prefix announces.
        self.buffer.reserve(4096);
        match from.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// Takes a message to be written. One that is too long is not taken.
    pub(crate) fn put(&self, message: &impl Message) -> Result<(), Unput> {
        self.put_within(message, MAX_WAITING.saturating_add(self.first.load(Ordering::Relaxed)))
    }

    /// Takes a message of those that the other side is owed before it could have read anything. They are told
    /// of what is held in memory anyway, however much that is.
    pub(crate) fn put_first(&self, message: &impl Message) -> Result<(), Unput> {
        self.put_within(message, usize::MAX)?;
        self.first.fetch_add(PREFIX + message.encoded_len(), Ordering::Relaxed);
        Ok(())
    }

    fn put_within(&self, message: &impl Message, most: usize) -> Result<(), Unput> {
        let length = message.encoded_len();
        let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME) else {
            return Err(Unput::TooLong(TooLong(length)));
        };
        let mut buffer = self.locked();
        if buffer.len().saturating_add(length) > most {
            return Err(Unput::Unread(Unread));
        }
        buffer.reserve(PREFIX + length);
        buffer.put_u32(prefix);
        // There is room.
        let _ = message.encode(&mut *buffer);
        drop(buffer);
        self.more.notify_one();
        Ok(())
    }

    /// Wakes the writer, so that it looks whether it is still wanted.
    pub(crate) fn wake(&self) {
        self.more.notify_one();
    }

    /// Goes on when not much waits any more. Whoever has many messages to put lets the writer have those
    /// before. Cancel-safe.
    pub(crate) async fn room(&self) {
        while self.locked().len() > SOME {
            self.taken.notified().await;
        }
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> MutexGuard<'_, BytesMut> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that waits now; waits for it where there is nothing. Empty when it was only woken.
    pub(crate) async fn take(&self) -> Bytes {
        let take = || {
            let waiting = self.locked().split().freeze();
            self.taken.notify_one();
            waiting
        };
        let waiting = take();
        if !waiting.is_empty() {
            return waiting;
        }
        self.more.notified().await;
        take()
    }

    /// Writes what is put until the line breaks, or `wanted` is no more.
    pub(crate) async fn write(&self, to: &mut OwnedWriteHalf, wanted: impl Fn() -> bool) -> io::Result<()> {
        while wanted() {
            let bytes = self.take().await;
            to.write_all(&bytes).await?;
        }
        Ok(())
    }
}

/// A message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unput {
    /// It is too long.
    #[error(transparent)]
    TooLong(TooLong),
    /// Too many wait already.
    #[error(transparent)]
    Unread(Unread),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::message::{Said, ToShim};

    #[tokio::test]
    async fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let outgoing = Outgoing::default();
        let pong = ToShim { said: Some(Said::Pong(Default::default())) };
        for message in [&pong, &ToShim::default(), &pong] {
            outgoing.put(message).unwrap();
        }
        let bytes = outgoing.take().await;
        for cut in 0..bytes.len() {
            let mut incoming = Incoming::default();
            let mut found = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                incoming.push(part);
                while let Some(frame) = incoming.next().unwrap() {
                    found.push(ToShim::decode(frame).unwrap());
                }
            }
            assert_eq!(found, [pong.clone(), ToShim::default(), pong.clone()], "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn who_has_more_to_say_than_may_wait_goes_on_as_it_is_written() {
        let outgoing = Outgoing::default();
        let part = crate::remote::message::PullMade { image: "x".repeat(SOME - 64), ..Default::default() };
        let put = async {
            for _ in 0..20 {
                outgoing.room().await;
                outgoing.put(&part).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        };
        let mut written = 0;
        let write = async {
            while written < 20 * (SOME - 64) {
                written += outgoing.take().await.len();
            }
            Ok(())
        };
        assert_eq!(tokio::try_join!(put, write), Ok(((), ())));
    }

    #[test]
    fn who_announces_too_much_or_reads_too_little_is_left() {
        let mut incoming = Incoming::default();
        incoming.push(&u32::MAX.to_be_bytes());
        assert_eq!(incoming.next(), Err(TooLong(u32::MAX as usize)));
        let outgoing = Outgoing::default();
        let large =
            |bytes| crate::remote::message::PullMade { image: "x".repeat(bytes), ..Default::default() };
        assert!(matches!(outgoing.put(&large(MAX_FRAME)), Err(Unput::TooLong(_))));
        let put = || outgoing.put(&large(MAX_FRAME - 16));
        let four: Vec<_> = (0..4).map(|_| put()).collect();
        assert_eq!(four, [Ok(()); 4]);
        assert_eq!(put(), Err(Unput::Unread(Unread)));
    }
}
