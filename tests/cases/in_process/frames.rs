//! Peers that use HTTP/2 to its limits: frames of all kinds, few streams at once, windows that nobody bounds.

use berth_tests::fake::{Exchange, framed, grpc_status};
use bytes::Bytes;
use futures::future::join_all;
use http::Response;
use tokio::net::UnixListener;

use crate::{
    raw::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HAS_PRIORITY, HEADERS, PADDED, PRIORITY,
        RST_STREAM, Raw, WINDOW_UPDATE, head, head_with,
    },
    world::{World, cri, echo, within},
};

/// A kind that nobody has given a meaning.
const UNKNOWN: u8 = 0xfa;

/// Frames that are padded, with a priority, in parts, and unknown. What pads counts in the windows, and would
/// use them up twice. A client that says that it goes still gets what it waits for.
#[tokio::test]
async fn all_frames_that_a_client_may_send() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let mut client = Raw::connect(&world.socket(), &[]).await;
        let head = head(&cri("StartContainer"));
        let (first, rest) = head.split_at(7);
        let (second, third) = rest.split_at(1);
        let first = [&[9, 0, 0, 0, 0, 15][..], first, &[0; 9]].concat();
        client.write(HEADERS, PADDED | HAS_PRIORITY, 1, &first).await;
        client.write(CONTINUATION, 0, 1, second).await;
        client.write(CONTINUATION, END_HEADERS, 1, third).await;
        client.write(PRIORITY, 0, 3, &[0, 0, 0, 1, 200]).await;
        client.write(UNKNOWN, 0xff, 1, b"of no meaning").await;
        let message = framed(&[7; 40_000]);
        for (at, byte) in message.iter().enumerate() {
            let last = if at + 1 == message.len() { END_STREAM } else { 0 };
            client.write(DATA, PADDED | last, 1, &[&[255, *byte][..], &[0; 255]].concat()).await;
        }
        client.goaway(0).await;
        let mut answer = Vec::new();
        loop {
            let frame = client.read().await;
            assert!(![RST_STREAM, GOAWAY].contains(&frame.kind), "{:?}", frame.payload);
            let ends = frame.stream == 1 && frame.flags & END_STREAM != 0;
            match (frame.kind, frame.stream) {
                (DATA, 1) => answer.extend(frame.payload),
                (HEADERS, 1) if ends => break,
                _ => {}
            }
        }
        assert!(answer == message, "the message has changed");
    })
    .await;
}

/// As kubelets before 1.31 give it, and gRPC for Java.
#[tokio::test]
async fn a_client_that_gives_the_path_of_the_socket_as_authority_is_served() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let mut client = Raw::connect(&world.socket(), &[]).await;
        for (stream, authority) in [(1, "/run/berth/cri.sock"), (3, "%2Frun%2Fberth%2Fcri.sock")] {
            client.write(HEADERS, END_HEADERS, stream, &head_with(authority, &cri("Version"))).await;
            client.write(DATA, END_STREAM, stream, &framed(b"hello")).await;
            loop {
                let frame = client.read().await;
                assert!(![RST_STREAM, GOAWAY].contains(&frame.kind), "{authority}");
                if frame.stream == stream && frame.flags & END_STREAM != 0 {
                    break;
                }
            }
        }
    })
    .await;
}

/// More calls than the runtime takes wait in the data path, as in the client's own library. Those that were
/// on their way before it said so are sent again.
#[tokio::test]
async fn a_runtime_that_takes_few_calls_at_once() {
    within(async {
        let world = World::new().await;
        let listener = UnixListener::bind(world.runtime_socket()).unwrap();
        tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut server = h2::server::Builder::new();
            server.max_concurrent_streams(2);
            let mut connection = server.handshake::<_, Bytes>(socket).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut response = Response::new(());
                *response.headers_mut() = grpc_status(0, "");
                respond.send_response(response, true).unwrap();
            }
        });
        let kubelet = world.kubelet().await;
        let path = cri("Version");
        for reply in join_all((0..60).map(|_| kubelet.call(&path, b"one of many"))).await {
            assert_eq!(reply.unwrap().status(), Some(0));
        }
    })
    .await;
}

/// A client that opens all windows and reads nothing. Others are served, and nothing of it stays.
#[tokio::test]
async fn who_reads_nothing_stops_nobody() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(|exchange: Exchange| async move {
            if exchange.method() == "Large" {
                // Its client goes away in the middle.
                let _ = exchange.reply(&[7; 1 << 20]).await;
            } else {
                echo(exchange).await;
            }
        });
        let kubelet = world.kubelet().await;
        // SETTINGS_INITIAL_WINDOW_SIZE.
        let mut client = Raw::connect(&world.socket(), &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await;
        client.write(WINDOW_UPDATE, 0, 0, &[0x7f, 0, 0, 0]).await;
        let head = head(&cri("Large"));
        for call in 0..40 {
            client.write(HEADERS, END_HEADERS | END_STREAM, 2 * call + 1, &head).await;
        }
        for _ in 0..100 {
            let reply = kubelet.call(&cri("Version"), b"quick").await.unwrap();
            assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"quick").to_vec()));
        }
        drop(client);
        while world.metrics.connections_open() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
