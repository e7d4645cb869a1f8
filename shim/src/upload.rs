//! The request of a call on its way to the runtime, kept for a while so that it can be sent once more.
//!
//! A runtime that goes away may leave calls unprocessed, and says which. Such a call can go over a fresh
//! connection without anybody noticing, provided its frames so far are still here. They are kept until the
//! answer begins, up to [`MAX_KEPT`].

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::HeaderMap;

use crate::download::poll_room;

/// How much of a request that is still being read is kept.
pub(crate) const MAX_KEPT: usize = 64 << 10;

/// Request on its way up to the runtime.
pub(crate) struct Upload {
    /// The client's stream, until it was read to its end.
    source: Option<RecvStream>,
    /// Frames that were read: all of them while `keep`, otherwise the ones that are not handed on yet.
    frames: Vec<Bytes>,
    /// The first of `frames` that is not handed on.
    next: usize,
    /// Never sent by gRPC, and passed on all the same.
    trailers: Option<HeaderMap>,
    /// Bytes of `frames` whose room the client does not have back: given when they are handed on, so that a
    /// slow runtime slows down the client.
    unreleased: usize,
    /// All bytes that were read from the client.
    read: usize,
    keep: bool,
    /// The end was handed on, or the runtime takes no more.
    done: bool,
}

// === impl Upload ===

impl Upload {
    /// A request that is read from the client while it is sent.
    pub(crate) fn streamed(source: RecvStream) -> Self {
        Self { source: Some(source), ..Self::assembled(Vec::new()) }
    }

    /// A request that was read whole.
    pub(crate) fn assembled(frames: Vec<Bytes>) -> Self {
        Self {
            source: None,
            frames,
            next: 0,
            trailers: None,
            unreleased: 0,
            read: 0,
            keep: true,
            done: false,
        }
    }

    /// Tells whether there is no body at all: the request ends with its headers.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.source.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// Moves what can be moved now. Ready only when the client failed, with what it did; what the runtime
    /// does, its answer tells.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sink: &mut SendStream<Bytes>) -> Poll<h2::Error> {
        while !self.done {
            if self.next < self.frames.len() {
                if ready!(poll_room(cx, sink, self.frames[self.next].len())).is_err() {
                    self.done = true;
                    break;
                }
                self.hand_on(sink);
            } else {
                match ready!(self.poll_source(cx, sink)) {
                    Ok(()) => {}
                    Err(error) => return Poll::Ready(error),
                }
            }
        }
        Poll::Pending
    }

    fn hand_on(&mut self, sink: &mut SendStream<Bytes>) {
        let frame = self.frames[self.next].clone();
        self.next += 1;
        let caught_up = self.next == self.frames.len();
        let last = caught_up && self.source.is_none() && self.trailers.is_none();
        self.done = sink.send_data(frame, last).is_err() || last;
        if caught_up {
            if let Some(source) = &mut self.source {
                // An error means that the stream is gone, and its window with it.
                let _ = source.flow_control().release_capacity(self.unreleased);
            }
            self.unreleased = 0;
            if !self.keep {
                self.frames.clear();
                self.next = 0;
            }
        }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut SendStream<Bytes>,
    ) -> Poll<Result<(), h2::Error>> {
        let Some(source) = &mut self.source else {
            // Read to its end, and all frames were handed on without the last one being known as such.
            let end = match &self.trailers {
                Some(trailers) => sink.send_trailers(trailers.clone()),
                None => sink.send_data(Bytes::new(), true),
            };
            // When nobody takes it, the runtime's answer says why.
            drop(end);
            self.done = true;
            return Poll::Ready(Ok(()));
        };
        match ready!(source.poll_data(cx)).transpose()? {
            Some(frame) => {
                self.unreleased += frame.len();
                self.read += frame.len();
                self.keep &= self.read <= MAX_KEPT;
                let last = source.is_end_stream();
                if last {
                    self.source = None;
                }
                self.frames.push(frame);
            }
            None => {
                self.trailers = ready!(source.poll_trailers(cx))?;
                self.source = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The answer began: this request is not sent again.
    pub(crate) fn forget(&mut self) {
        self.keep = false;
        self.frames.drain(..self.next);
        self.next = 0;
    }

    /// Back to the first frame. `false` when it is not here any more.
    pub(crate) fn rewind(&mut self) -> bool {
        self.next = 0;
        self.done = false;
        self.keep
    }
}
