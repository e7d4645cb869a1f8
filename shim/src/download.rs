//! The answer of a call on its way to the client, at the client's pace.
//!
//! A frame's room at the runtime is given back only when it was handed on: a slow reader slows down the
//! writer, and nobody buffers more than a window. The rare answer that says more than the runtime did
//! ([`Exception`]) is lengthened on its way; all others go frame by frame as they came.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::HeaderMap;

use crate::exceptions::Exception;

/// Sees what passes, before it passes.
pub(crate) trait Tap {
    /// The answer begins, and passes as it is so far. What else is it to say?
    fn begun(&mut self) -> Option<Box<Exception>>;
    /// A frame of the body.
    fn data(&mut self, frame: &Bytes);
    /// The end; `None` when it came without trailers.
    fn end(&mut self, trailers: Option<&HeaderMap>);
    /// Ready when the answer is to end now, although the runtime goes on: a stream that never ends by itself.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum DownloadEnd {
    /// All of it was handed on.
    Finished,
    /// The runtime reset it, or its connection is lost.
    RuntimeFailed(h2::Error),
    /// The tap has cut it.
    Cut,
    /// The client takes no more.
    ClientGone,
}

/// An answer on its way.
#[derive(Default)]
pub(crate) struct Download {
    /// Exception: text beyond the runtime's words; nearly always nothing.
    exception: Option<Box<Exception>>,
    pending: Option<Pending>,
}

/// A frame that waits for room at the client.
struct Pending {
    frame: Bytes,
    /// The room at the runtime that is given back once it was handed on.
    unreleased: usize,
    last: bool,
}

/// The client cannot be sent to any more.
pub(crate) struct Closed;

// === impl Download ===

impl Download {
    pub(crate) fn new(exception: Option<Box<Exception>>) -> Self {
        Self { exception, pending: None }
    }

    /// Returns the exception from the runtime's words, as far as it got.
    pub(crate) fn exception(&self) -> Option<&Exception> {
        self.exception.as_deref()
    }

    /// Moves what can be moved now.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut RecvStream,
        sink: &mut SendStream<Bytes>,
        tap: &mut impl Tap,
    ) -> Poll<DownloadEnd> {
        loop {
            if let Some(pending) = &self.pending
                && ready!(poll_room(cx, sink, pending.frame.len())).is_err()
            {
                return Poll::Ready(DownloadEnd::ClientGone);
            }
            if let Some(Pending { frame, unreleased, last }) = self.pending.take() {
                if sink.send_data(frame, last).is_err() {
                    return Poll::Ready(DownloadEnd::ClientGone);
                }
                // An error means that the stream is gone, and its window with it.
                let _ = source.flow_control().release_capacity(unreleased);
                if last {
                    return Poll::Ready(DownloadEnd::Finished);
                }
            }
            match ready!(source.poll_data(cx)) {
                Some(Ok(frame)) => {
                    let last = source.is_end_stream();
                    tap.data(&frame);
                    if last {
                        tap.end(None);
                    }
                    let unreleased = frame.len();
                    let is_kept = unreleased > 0;
                    let frame = self.outgoing(frame, last);
                    if is_kept && frame.is_empty() && !last {
                        // Kept for an edit. Clients count frames without anything in them.
                        let _ = source.flow_control().release_capacity(unreleased);
                        continue;
                    }
                    self.pending = Some(Pending { frame, unreleased, last });
                }
                Some(Err(error)) => return Poll::Ready(DownloadEnd::RuntimeFailed(error)),
                None => {
                    let frame = self.exception.as_mut().map(|exception| exception.end()).unwrap_or_default();
                    if !frame.is_empty() {
                        self.pending = Some(Pending { frame, unreleased: 0, last: false });
                        continue;
                    }
                    let trailers = match ready!(source.poll_trailers(cx)) {
                        Ok(trailers) => trailers,
                        Err(error) => return Poll::Ready(DownloadEnd::RuntimeFailed(error)),
                    };
                    tap.end(trailers.as_ref());
                    let sent = match trailers {
                        Some(trailers) => sink.send_trailers(trailers),
                        None => sink.send_data(Bytes::new(), true),
                    };
                    return Poll::Ready(sent.map_or(DownloadEnd::ClientGone, |()| DownloadEnd::Finished));
                }
            }
        }
    }

    /// Gives the bytes that go to the client for this frame of the runtime.
    fn outgoing(&mut self, frame: Bytes, last: bool) -> Bytes {
        let Some(exception) = &mut self.exception else { return frame };
        let frame = exception.frame(frame);
        if !last {
            return frame;
        }
        // With what is kept of a message that was cut off.
        let rest = exception.end();
        if rest.is_empty() { frame } else { [&frame[..], &rest[..]].concat().into() }
    }
}

/// Waits until the sink has room for a part of a frame of this length; h2 queues the rest of that one frame.
pub(crate) fn poll_room(
    cx: &mut Context<'_>,
    sink: &mut SendStream<Bytes>,
    length: usize,
) -> Poll<Result<(), Closed>> {
    if length == 0 || sink.capacity() > 0 {
        return Poll::Ready(Ok(()));
    }
    // One byte, not the whole frame: what one stream reserves and does not use, the others lack.
    sink.reserve_capacity(1);
    while sink.capacity() == 0 {
        match ready!(sink.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Poll::Ready(Err(Closed)),
        }
    }
    Poll::Ready(Ok(()))
}
