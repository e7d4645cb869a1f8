//! Calls that the runtime did not process are sent once more over a fresh connection, and no others.
//!
//! The runtime here is written frame by frame: no library lets a test choose the last stream of a GOAWAY.

use berth_tests::fake::framed;
use tokio::net::UnixListener;

use crate::{
    raw::{DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, Raw},
    world::{World, cri, echo, within},
};

const REFUSED_STREAM: u32 = 7;

/// How a runtime leaves a call unprocessed.
async fn leave_unprocessed(connection: &mut Raw, stream: u32, refuse: bool) {
    if refuse {
        connection.write(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()).await;
    } else {
        connection.goaway(stream - 2).await;
    }
}

#[tokio::test]
async fn an_unprocessed_call_is_sent_once_more() {
    within(async {
        for refuse in [false, true] {
            for method in ["Version", "CreateContainer", "ListContainers"] {
                let world = World::new().await;
                let listener = UnixListener::bind(world.runtime_socket()).unwrap();
                let kubelet = world.kubelet().await;
                let path = cri(method);
                let (reply, runtime) = tokio::join!(kubelet.call(&path, &[]), async {
                    let mut connection = Raw::accept(&listener).await;
                    let stream = connection.request().await;
                    if refuse {
                        // Refused on a connection that stays: the second try comes over it.
                        leave_unprocessed(&mut connection, stream, true).await;
                        let again = connection.request().await;
                        assert!(again > stream);
                        connection.write(RST_STREAM, 0, again, &2_u32.to_be_bytes()).await;
                        return None;
                    }
                    drop(listener);
                    let runtime = world.runtime(echo);
                    // A second runtime is there before the first one says that it goes.
                    connection.goaway(0).await;
                    Some(runtime)
                });
                if runtime.is_some() {
                    let reply = reply.unwrap();
                    assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"").to_vec()), "{method}");
                } else {
                    let error = reply.unwrap_err().downcast::<h2::Error>().unwrap();
                    assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{method}");
                }
                assert_eq!(world.metrics.replays(), 1);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn calls_up_to_the_last_stream_stay() {
    within(async {
        let world = World::new().await;
        let listener = UnixListener::bind(world.runtime_socket()).unwrap();
        let kubelet = world.kubelet().await;
        let (first, second) = (cri("First"), cri("Second"));
        let runtime = async {
            let mut connection = Raw::accept(&listener).await;
            let one = connection.request().await;
            let two = connection.request().await;
            drop(listener);
            let runtime = world.runtime(echo);
            connection.goaway(one).await;
            // Stream `one` is still being worked on; a trailers-only answer with grpc-status 0 ends it, 300
            // ms later.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let headers = [&[0x88, 0x00, 11][..], b"grpc-status", &[1], b"0"].concat();
            connection.write(HEADERS, END_HEADERS | END_STREAM, one, &headers).await;
            (runtime, connection, two)
        };
        let (one, two, (_runtime, _connection, stream)) = tokio::join!(
            kubelet.call(&first, b"1"),
            async {
                tokio::task::yield_now().await;
                kubelet.call(&second, b"2").await
            },
            runtime
        );
        assert_eq!(stream, 3);
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!((one.status(), one.frames.len()), (Some(0), 0));
        assert_eq!((two.status(), two.body()), (Some(0), framed(b"2").to_vec()));
        assert_eq!(world.metrics.replays(), 1);
    })
    .await;
}

#[tokio::test]
async fn never_more_than_once() {
    within(async {
        let world = World::new().await;
        let listener = UnixListener::bind(world.runtime_socket()).unwrap();
        let kubelet = world.kubelet().await;
        let path = cri("Version");
        let (reply, ()) = tokio::join!(kubelet.call(&path, &[]), async {
            let mut connection = Raw::accept(&listener).await;
            for _ in 0..2 {
                let stream = connection.request().await;
                leave_unprocessed(&mut connection, stream, true).await;
            }
        });
        // Handed on as what it is: the client's library may try again.
        let error = reply.unwrap_err().downcast::<h2::Error>().unwrap();
        assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
        assert_eq!(world.metrics.replays(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_long_request_is_left_to_the_client() {
    within(async {
        let world = World::new().await;
        let listener = UnixListener::bind(world.runtime_socket()).unwrap();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open("/some.Service/Upload", &[]).await.unwrap();
        for _ in 0..3 {
            call.send.send_data(framed(&[7; 30_000]), false).unwrap();
        }
        let mut connection = Raw::accept(&listener).await;
        // The raw runtime grants no more than HTTP/2's first window; when that is full, the third piece is on
        // its way.
        let mut read = 0;
        let stream = loop {
            let frame = connection.read().await;
            if frame.kind == DATA {
                read += frame.payload.len();
            }
            if read == 65_535 {
                break frame.stream;
            }
        };
        leave_unprocessed(&mut connection, stream, true).await;
        let error = call.reply().await.unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::REFUSED_STREAM));
        assert_eq!(world.metrics.replays(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_never_sent_goes_over_a_fresh_connection() {
    within(async {
        let world = World::new().await;
        let listener = UnixListener::bind(world.runtime_socket()).unwrap();
        let kubelet = world.kubelet().await;
        let path = cri("Version");
        let (reply, mut connection) = tokio::join!(kubelet.call(&path, &[]), async {
            let mut connection = Raw::accept(&listener).await;
            let stream = connection.request().await;
            let headers = [&[0x88, 0x00, 11][..], b"grpc-status", &[1], b"0"].concat();
            connection.write(HEADERS, END_HEADERS | END_STREAM, stream, &headers).await;
            connection
        });
        assert_eq!(reply.unwrap().status(), Some(0));
        // It goes away between two calls.
        drop(listener);
        let _runtime = world.runtime(echo);
        connection.goaway(1).await;
        drop(connection);
        let reply = kubelet.call(&path, b"again").await.unwrap();
        assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"again").to_vec()));
    })
    .await;
}
