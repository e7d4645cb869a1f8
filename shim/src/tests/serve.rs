//! The life of a client connection: its first words, and its end.

use std::{future::ready, sync::Mutex};

use berth_policy::{Call, Latch, Verdict};
use tokio::{io::AsyncWriteExt, sync::watch};

use super::*;
use crate::gate::{Answer, BoxFuture, Query};

/// Hears of connections that are closed.
#[derive(Default)]
struct Hears(Mutex<Vec<ConnectionId>>);

impl Gate for Hears {
    fn admit(&self, _: &Call) -> Verdict {
        Verdict::Forward
    }

    fn observe(&self, event: Event) {
        if let Event::ConnectionClosed(connection) = event {
            self.0.lock().unwrap().push(connection);
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        watch::Sender::default().subscribe()
    }

    fn persist(&self, _: Latch) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn answer<'a>(&'a self, _: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Answer::Pass))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_told_to_be_closed_in_whatever_way_it_ends() {
    let gate = Arc::new(Hears::default());
    let server = Server {
        runtime: RuntimeEndpoint::from(std::path::PathBuf::from("/nobody")),
        gate: gate.clone(),
        clients: Clients::default(),
        fd_store: None,
        memory: Memory::new(Metrics::default()),
        shedding: AtomicBool::new(false),
        metrics: Metrics::default(),
        shutdown: Shutdown::new(FLUSH),
        cutoff: Cutoff::default(),
        next_connection: AtomicU64::new(1),
        next_call: Arc::default(),
    };
    let open = || {
        let (socket, client) = UnixStream::pair().unwrap();
        (server.connection(socket, 0).unwrap(), client)
    };
    let closed =
        |number| assert_eq!(*gate.0.lock().unwrap(), (1..=number).map(ConnectionId).collect::<Vec<_>>());
    let (connection, client) = open();
    drop(client);
    connection.await;
    closed(1);
    let (connection, _client) = open();
    connection.await;
    closed(2);
    // As a panic would end it.
    let (connection, _client) = open();
    assert!(timeout(FLUSH, connection).await.is_err());
    closed(3);
    let (connection, _client) = open();
    server.cutoff.all.cancel();
    connection.await;
    closed(4);
}

/// Otherwise a thousand of them would keep everybody but the kubelet out for ever.
#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_not_waited_for() {
    let (socket, _silent) = UnixStream::pair().unwrap();
    assert!(handshake(Socket::new(socket).unwrap(), Windows::of(false)).await.is_err());
    let (socket, mut mumbles) = UnixStream::pair().unwrap();
    mumbles.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    assert!(handshake(Socket::new(socket).unwrap(), Windows::of(false)).await.is_err());
    let (socket, mut other) = UnixStream::pair().unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(handshake(Socket::new(socket).unwrap(), Windows::of(false)).await.unwrap().is_err());
}
