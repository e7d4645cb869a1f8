//! The answer of a call on its way to the client, at the client's pace.
//!
//! A frame's room at the runtime is given back only when it was handed on: a slow reader slows down the writer, and
//! nobody buffers more than a window.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::HeaderMap;

/// Sees what passes, before it passes.
pub(crate) trait Tap {
    /// A frame of the body.
    fn data(&mut self, frame: &Bytes);
    /// The end; `None` when it came without trailers.
    fn end(&mut self, trailers: Option<&HeaderMap>);
}

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum DownloadEnd {
    /// All of it was handed on.
    Finished,
    /// The runtime reset it, or its connection is lost.
    RuntimeFailed(h2::Error),
    /// The client takes no more.
    ClientGone,
}

/// The client cannot be sent to any more.
pub(crate) struct Closed;

/// Moves what can be moved now. `pending` is the frame on its way, and whether it is the last.
pub(crate) fn poll_download(
    cx: &mut Context<'_>,
    source: &mut RecvStream,
    sink: &mut SendStream<Bytes>,
    pending: &mut Option<(Bytes, bool)>,
    tap: &mut impl Tap,
) -> Poll<DownloadEnd> {
    loop {
        if let Some((frame, _)) = pending
            && ready!(poll_room(cx, sink, frame.len())).is_err()
        {
            return Poll::Ready(DownloadEnd::ClientGone);
        }
        if let Some((frame, last)) = pending.take() {
            let length = frame.len();
            if sink.send_data(frame, last).is_err() {
                return Poll::Ready(DownloadEnd::ClientGone);
            }
            // An error means that the stream is gone, and its window with it.
            let _ = source.flow_control().release_capacity(length);
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
                *pending = Some((frame, last));
            }
            Some(Err(error)) => return Poll::Ready(DownloadEnd::RuntimeFailed(error)),
            None => {
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
