//! Bytes that a socket gathers, that wait, and that go out at once.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::yield_now,
};

use super::*;

fn pair() -> (Socket, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    (Socket::new(one).unwrap(), other)
}

fn arrived(peer: &UnixStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    let length = peer.try_read(&mut bytes).unwrap_or(0);
    bytes.truncate(length);
    bytes
}

#[tokio::test]
async fn what_is_written_in_one_turn_goes_out_together() {
    let (mut socket, peer) = pair();
    peer.writable().await.unwrap();
    let turn = std::future::poll_fn(|cx| {
        for part in ["head", "data", "tail"] {
            let written = Pin::new(&mut socket).poll_write(cx, part.as_bytes());
            assert!(matches!(written, Poll::Ready(Ok(4))));
        }
        let first = Pin::new(&mut socket).poll_flush(cx);
        assert!(first.is_pending(), "the others of this turn go first");
        Poll::Ready(())
    });
    turn.await;
    assert_eq!(arrived(&peer), b"");
    // Bytes that another task has added meanwhile go with them.
    socket.write_all(b"more").await.unwrap();
    socket.flush().await.unwrap();
    peer.readable().await.unwrap();
    assert_eq!(arrived(&peer), b"headdatatailmore");
}

/// As far as h2 goes in a turn.
async fn write(socket: &mut Socket, bytes: &[u8]) {
    socket.write_all(bytes).await.unwrap();
    socket.flush().await.unwrap();
}

/// Lets the connection's task have its turns until so much time is over.
async fn flushes(socket: &mut Socket, time: Duration) {
    let turns = std::future::poll_fn(|cx| {
        let _ = Pin::new(&mut *socket).poll_flush(cx);
        Poll::<()>::Pending
    });
    assert!(tokio::time::timeout(time, turns).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_measuring_ping_goes_with_what_comes_next() {
    let (mut socket, peer) = pair();
    peer.writable().await.unwrap();
    write(&mut socket, &PONG).await;
    flushes(&mut socket, PONG_WITHIN / 2).await;
    assert_eq!(arrived(&peer), b"");
    write(&mut socket, b"call").await;
    peer.readable().await.unwrap();
    assert_eq!(arrived(&peer), [&PONG[..], b"call"].concat());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_measuring_ping_goes_alone_after_its_time() {
    let (mut socket, peer) = pair();
    peer.writable().await.unwrap();
    for _ in 0..2 {
        write(&mut socket, &PONG).await;
        flushes(&mut socket, PONG_WITHIN * 2).await;
        peer.readable().await.unwrap();
        assert_eq!(arrived(&peer), PONG);
    }
}

/// The answer to any other ping, and to one that follows so much that a window depends on it.
#[tokio::test(start_paused = true)]
async fn other_answers_do_not_wait() {
    let (mut socket, peer) = pair();
    peer.writable().await.unwrap();
    let mut goodbye = PONG;
    goodbye[9..].copy_from_slice(&[1, 6, 1, 8, 0, 3, 3, 9]);
    write(&mut socket, &goodbye).await;
    peer.readable().await.unwrap();
    assert_eq!(arrived(&peer), goodbye);
    write(&mut socket, &[7; MUCH]).await;
    write(&mut socket, &PONG).await;
    peer.readable().await.unwrap();
    assert_eq!(arrived(&peer).len(), MUCH + PONG.len());
    // Since that one little has been sent.
    write(&mut socket, &PONG).await;
    assert_eq!(arrived(&peer), b"");
}

/// Large writes with small ones between them, to a peer that reads slowly.
#[tokio::test]
async fn every_byte_arrives_in_its_order() {
    let (mut socket, mut peer) = pair();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|number| (number % 251) as u8).collect();
    let copy = sent.clone();
    let writer = tokio::spawn(async move {
        let mut rest = &copy[..];
        for length in [1, 9, 200, 20_000, 40_000, 700_000].into_iter().cycle() {
            let part = length.min(rest.len());
            socket.write_all(&rest[..part]).await.unwrap();
            socket.flush().await.unwrap();
            rest = &rest[part..];
            if rest.is_empty() {
                break;
            }
        }
        socket.write_all(b"end").await.unwrap();
        socket.shutdown().await.unwrap();
        socket
    });
    let mut received = Vec::new();
    let mut part = vec![0; 10_000];
    loop {
        match peer.read(&mut part).await.unwrap() {
            0 => break,
            length => received.extend_from_slice(&part[..length]),
        }
        yield_now().await;
    }
    assert!(received.ends_with(b"end"), "what was gathered goes out before the end");
    assert!(received[..received.len() - 3] == sent[..], "the bytes differ");
    writer.await.unwrap();
}

#[tokio::test]
async fn a_waiting_write_ends_with_its_peer() {
    let (mut socket, peer) = pair();
    let closed = tokio::spawn(async move {
        yield_now().await;
        drop(peer);
    });
    let error = socket.write_all(&vec![0; 8 << 20]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    closed.await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_peer_is_read_behind_its_last_bytes() {
    let (mut socket, mut peer) = pair();
    peer.write_all(b"last").await.unwrap();
    drop(peer);
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, b"last");
}
