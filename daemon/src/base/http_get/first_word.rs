//! A connection on which the client has the first word.
//!
//! Servers made of a shell and `nc` answer whoever connects, before they have heard the request. Our HTTP
//! library takes that for an answer to nothing and gives up, unless the request happened to be quicker; the
//! kubelet's does not mind.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Nothing is read before something was written.
pub(super) struct FirstWord<S> {
    stream: S,
    written: bool,
    /// Waker of a reader that came too early.
    waiting: Option<Waker>,
}

impl<S> FirstWord<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, written: false, waiting: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstWord<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.written {
            self.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstWord<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        // Also when it failed: what the other end sent before it closed is still to be read.
        if written.is_ready() {
            self.written = true;
            if let Some(waiting) = self.waiting.take() {
                waiting.wake();
            }
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
