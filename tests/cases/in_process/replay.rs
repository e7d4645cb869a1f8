//! Calls that the runtime did not process are sent once more over a fresh connection, and no others.
//!
//! The runtime here is written frame by frame: no library lets a test choose the last stream of a GOAWAY.

use berth_tests::fake::framed;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::world::{World, cri, echo, within};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const REFUSED_STREAM: u32 = 7;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    length: usize,
}

/// A connection that was accepted and has sent its settings.
struct RawRuntime(UnixStream);

impl RawRuntime {
    async fn accept(listener: &UnixListener) -> Self {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut preface = [0; 24];
        socket.read_exact(&mut preface).await.unwrap();
        let mut this = Self(socket);
        this.write(SETTINGS, 0, 0, &[]).await;
        this
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.unwrap();
    }

    async fn read(&mut self) -> Frame {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        self.0.read_exact(&mut vec![0; length]).await.unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Frame { kind: head[3], flags: head[4], stream, length }
    }

    /// Reads until a request has ended; its stream.
    async fn request(&mut self) -> u32 {
        loop {
            let frame = self.read().await;
            if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
                return frame.stream;
            }
        }
    }

    async fn goaway(&mut self, last: u32) {
        let payload = [last.to_be_bytes(), 0_u32.to_be_bytes()].concat();
        self.write(GOAWAY, 0, 0, &payload).await;
    }
}

/// How a runtime leaves a call unprocessed.
async fn leave_unprocessed(connection: &mut RawRuntime, stream: u32, refuse: bool) {
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
                    let mut connection = RawRuntime::accept(&listener).await;
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
            let mut connection = RawRuntime::accept(&listener).await;
            let one = connection.request().await;
            let two = connection.request().await;
            drop(listener);
            let runtime = world.runtime(echo);
            connection.goaway(one).await;
            // Stream `one` is still being worked on; a trailers-only answer with grpc-status 0 ends it, 300
            // ms later.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let headers = [&[0x88, 0x00, 11][..], b"grpc-status", &[1], b"0"].concat();
            connection.write(HEADERS, 4 | END_STREAM, one, &headers).await;
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
            let mut connection = RawRuntime::accept(&listener).await;
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
        let mut connection = RawRuntime::accept(&listener).await;
        // The raw runtime grants no more than HTTP/2's first window; when that is full, the third piece is on
        // its way.
        let mut read = 0;
        let stream = loop {
            let frame = connection.read().await;
            if frame.kind == DATA {
                read += frame.length;
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
            let mut connection = RawRuntime::accept(&listener).await;
            let stream = connection.request().await;
            let headers = [&[0x88, 0x00, 11][..], b"grpc-status", &[1], b"0"].concat();
            connection.write(HEADERS, 4 | END_STREAM, stream, &headers).await;
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
