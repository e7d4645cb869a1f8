//! Limits connections to the admin socket: those beyond the limit wait in its backlog. All are root's, but a
//! script that forgets to close its own must not take the agent's descriptors, nor keep others out: one that
//! says nothing is closed.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use berth_shim::Listener;
use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, UdsConnectInfo};
use tracing::warn;

use crate::base::connections::ACCEPT_PAUSE;

/// Connections at once.
pub(super) const CONNECTIONS: usize = 64;

/// Time to the first words of a connection, which a client sends when it is made.
const SILENCE: Duration = Duration::from_secs(30);

/// A connection and its place.
#[derive(Debug)]
pub(super) struct Accepted {
    stream: UnixStream,
    /// The end of the wait for its first words.
    silence: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

/// Gives the connections that come through this listener, while there is room.
pub(super) fn accepted(listener: Listener) -> impl Stream<Item = io::Result<Accepted>> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    futures::stream::unfold((listener, room), |(listener, room)| async move {
        // Nobody closes it.
        let place = room.clone().acquire_owned().await.ok()?;
        let accepted = listener.accept().await.map(|stream| Accepted::new(stream, place));
        if let Err(error) = &accepted {
            warn!(%error, "Connection to the admin socket not accepted");
            sleep(ACCEPT_PAUSE).await;
        }
        Some((accepted, (listener, room)))
    })
}

impl Accepted {
    fn new(stream: UnixStream, place: OwnedSemaphorePermit) -> Self {
        Self { stream, silence: Some(Box::pin(sleep(SILENCE))), _place: place }
    }
}

impl Connected for Accepted {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.silence = None;
        } else if let Some(silence) = &mut self.silence
            && silence.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net, pin::pin};

    use berth_shim::RuntimeEndpoint;
    use futures::{FutureExt, StreamExt};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_says_nothing_is_closed() {
        let (stream, mut client) = UnixStream::pair().unwrap();
        let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let mut one = Accepted::new(stream, place);
        client.write_all(b"P").await.unwrap();
        assert_eq!(one.read(&mut [0; 9]).await.unwrap(), 1);
        let later = timeout(SILENCE * 4, one.read(&mut [0; 9])).await;
        assert!(later.is_err(), "one that has spoken may rest");

        one.silence = Some(Box::pin(sleep(SILENCE)));
        let error = timeout(SILENCE * 4, one.read(&mut [0; 9])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_comes_when_there_is_no_room_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
        let mut accepted = pin!(accepted(berth_shim::bind(&path, &runtime).await.unwrap()));
        let clients: Vec<_> = (0..=CONNECTIONS).map(|_| net::UnixStream::connect(&path).unwrap()).collect();
        let mut taken = Vec::new();
        for _ in 0..CONNECTIONS {
            taken.push(accepted.next().await.unwrap().unwrap());
        }
        tokio::task::yield_now().await;
        assert!(accepted.next().now_or_never().is_none());
        taken.pop();
        assert!(accepted.next().await.unwrap().is_ok());
        drop(clients);
    }
}
