//! A unix socket as HTTP/2 uses it, with as few system calls as that takes.
//!
//! h2 writes the headers, the data and the trailers of an answer one by one, and asks for a flush after each
//! turn. Here they wait for the end of the turn: the first flush lets the other tasks of this thread go
//! first, which often have more to say on the same connection, and then all of it goes out at once. Nothing
//! waits for a timer.
//!
//! The kernel tells of room for writing each time the peer has read something. That is asked for only while a
//! write waits for room, which on a unix socket is rare.
//!
//! grpc-go sends a PING behind nearly everything it receives, to measure the link, and the next one only when
//! that one is answered. Answered at once, a small call would cost two more writes, and two more wake-ups of
//! its peers. So these answers alone wait a moment for something that they can go with; not where much has
//! been sent, for then their time decides how large a window the peer opens.

use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream as StdStream,
    },
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net::UnixStream,
    time::{Sleep, sleep},
};

use crate::authority::Authorities;

/// Bytes that are kept back at most; more goes out at once.
const TOGETHER: usize = 32 << 10;
/// Capacity that an idle connection keeps.
const KEPT: usize = 4 << 10;
/// The frame that answers the PING by which grpc-go measures a link: its `bdpPing` (RFC 9113, 6.7).
const PONG: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 2, 4, 16, 16, 9, 14, 7, 7];
/// The longest that such an answer waits.
const PONG_WITHIN: Duration = Duration::from_millis(20);
/// Bytes after which it does not wait. grpc-go opens no larger window for less than two thirds of 64 KiB.
const MUCH: usize = 16 << 10;

/// A connected socket that gathers what is written to it.
#[derive(Debug)]
pub struct Socket {
    /// Registered for reading alone.
    stream: AsyncFd<StdStream>,
    /// The same socket registered for writing, while a write waits for room.
    room: Option<AsyncFd<OwnedFd>>,
    /// Bytes that are taken and not sent.
    gathered: Vec<u8>,
    /// The first of them that is not sent.
    next: usize,
    /// The others of this turn have been let go first.
    yielded: bool,
    /// Nothing is gathered but answers that can wait.
    can_wait: bool,
    /// The end of their wait.
    late: Option<Pin<Box<Sleep>>>,
    /// Bytes taken since the last of them.
    since: usize,
    /// Mends what a client says, in the bytes that are read.
    authorities: Option<Authorities>,
}

// === impl Socket ===

impl Socket {
    /// Takes a connection over from its tokio type.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let stream = registered(stream.into_std()?, Interest::READABLE)?;
        Ok(Self {
            stream,
            room: None,
            gathered: Vec::new(),
            next: 0,
            yielded: false,
            can_wait: false,
            late: None,
            since: 0,
            authorities: None,
        })
    }

    /// The same for the connection of a client, which may say an `:authority` that is none.
    pub(crate) fn of_client(stream: UnixStream) -> io::Result<Self> {
        Ok(Self { authorities: Some(Authorities::new()), ..Self::new(stream)? })
    }

    /// Takes note of bytes that come behind what is gathered.
    fn note(&mut self, slices: &[IoSlice<'_>], length: usize) {
        let pong = length == PONG.len() && slices.iter().flat_map(|slice| slice.iter()).eq(&PONG);
        let little = self.since < MUCH;
        self.since = if pong { 0 } else { self.since.saturating_add(length) };
        self.can_wait = pong && little && (self.gathered.is_empty() || self.can_wait);
    }

    /// Lets answers wait that can, until it is time.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A part of it is on its way.
        if !self.can_wait || self.next > 0 {
            return Poll::Ready(());
        }
        self.late.get_or_insert_with(|| Box::pin(sleep(PONG_WITHIN))).as_mut().poll(cx)
    }

    /// Sends all that is gathered and as much of `more` as there is room for; gives the length of that part.
    fn poll_send(&mut self, cx: &mut Context<'_>, more: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let rest = &self.gathered[self.next..];
            let left = rest.len();
            let sent = if more.is_empty() {
                // The end of nearly every turn.
                self.stream.get_ref().write(rest)
            } else {
                let mut slices = Vec::with_capacity(more.len() + 1);
                slices.push(IoSlice::new(rest));
                slices.extend(more.iter().map(|slice| IoSlice::new(slice)));
                self.stream.get_ref().write_vectored(&slices)
            };
            match sent {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(sent) if sent < left => self.next += sent,
                Ok(sent) => {
                    self.next = 0;
                    self.gathered.clear();
                    self.gathered.shrink_to(KEPT);
                    self.yielded = false;
                    self.late = None;
                    if sent == left && more.iter().any(|part| !part.is_empty()) {
                        // None of it yet, and none at all would mean that nothing can be written any more.
                        continue;
                    }
                    // With nothing else to send this was all.
                    return Poll::Ready(Ok(sent - left));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.poll_room(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Waits until the peer has read something.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match &mut self.room {
            Some(room) => room,
            none => {
                let same = OwnedFd::from(self.stream.get_ref().try_clone()?);
                none.insert(registered(same, Interest::WRITABLE)?)
            }
        };
        ready!(room.poll_write_ready(cx))?.retain_ready();
        self.room = None;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let mut guard = ready!(this.stream.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let length = room.len();
            match guard.get_inner().read(room) {
                Ok(read) => {
                    // Less than there was room for: nothing is left, and the kernel tells of more.
                    if 0 < read && read < length {
                        guard.clear_ready();
                    }
                    if let Some(authorities) = &mut this.authorities {
                        authorities.pass(&mut room[..read]);
                        if authorities.is_over() {
                            this.authorities = None;
                        }
                    }
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).fold(0, usize::saturating_add);
        self.note(slices, length);
        if self.gathered.len().saturating_add(length) <= TOGETHER {
            slices.iter().for_each(|slice| self.gathered.extend_from_slice(slice));
            return Poll::Ready(Ok(length));
        }
        self.poll_send(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathered.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if self.poll_late(cx).is_pending() {
            return Poll::Ready(Ok(()));
        }
        if !std::mem::replace(&mut self.yielded, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_send(cx, &[]).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.gathered.is_empty() {
            ready!(self.poll_send(cx, &[]))?;
        }
        Poll::Ready(self.stream.get_ref().shutdown(Shutdown::Write))
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types whose descriptor changes; those of the standard library keep theirs"
)]
fn registered<T: AsRawFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}

#[cfg(test)]
#[path = "tests/socket.rs"]
mod tests;
