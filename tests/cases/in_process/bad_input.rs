//! Nonsense of all kinds.

use std::time::Duration;

use berth_policy::Event;
use berth_tests::fake::framed;
use bytes::Bytes;

use crate::world::{World, cri, echo, within};

/// Every method of the intercept table whose request is read.
const INTERCEPTED: [&str; 14] = [
    "/runtime.v1.RuntimeService/CreateContainer",
    "/runtime.v1.RuntimeService/StopContainer",
    "/runtime.v1.RuntimeService/RunPodSandbox",
    "/runtime.v1.RuntimeService/StopPodSandbox",
    "/runtime.v1.RuntimeService/RemovePodSandbox",
    "/runtime.v1.RuntimeService/StartContainer",
    "/runtime.v1.RuntimeService/RemoveContainer",
    "/runtime.v1.RuntimeService/ListPodSandbox",
    "/runtime.v1.RuntimeService/StreamPodSandboxes",
    "/runtime.v1.RuntimeService/ListContainers",
    "/runtime.v1.RuntimeService/StreamContainers",
    "/runtime.v1.RuntimeService/ContainerStatus",
    "/runtime.v1.RuntimeService/ExecSync",
    "/runtime.v1.ImageService/PullImage",
];

/// The runtime gets what the kubelet sent, and judges it.
#[tokio::test]
async fn what_cannot_be_read_is_the_runtimes_to_judge() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let bodies: [(&str, Bytes); 8] = [
            ("garbage protobuf", framed(&[0xff; 40])),
            ("a string that is none", framed(&[0x0a, 2, 0xc3, 0x28])),
            ("nothing at all", Bytes::new()),
            ("half a prefix", Bytes::from_static(&[0, 0, 0])),
            ("half a message", Bytes::from_static(&[0, 0, 0, 0, 9, 0x0a])),
            ("two messages", Bytes::from([framed(b""), framed(b"")].concat())),
            ("more than it says", Bytes::from_static(&[0, 0, 0, 0, 0, 1, 2, 3])),
            ("compressed", Bytes::from_static(&[1, 0, 0, 0, 3, 0x1f, 0x8b, 0x08])),
        ];
        let mut unread = 0;
        for method in INTERCEPTED {
            for (what, body) in &bodies {
                let (reply, ()) = tokio::join!(kubelet.call_with(method, &[], body.clone()), async {
                    let mut exchange = calls.recv().await.unwrap();
                    assert_eq!(exchange.read().await.unwrap(), body, "{method}, {what}");
                    exchange.fail(13, "grpc: failed to unmarshal").unwrap();
                });
                let reply = reply.unwrap();
                assert_eq!((reply.status(), reply.message()), (Some(13), "grpc: failed to unmarshal"));
                unread += 1;
            }
        }
        assert_eq!(world.metrics.unread(), unread);
        assert!(world.gate.events().is_empty(), "{:?}", world.gate.events());
    })
    .await;
}

#[tokio::test]
async fn an_oversized_request_is_refused_where_it_is_looked_at() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let kubelet = world.kubelet().await;
        for method in INTERCEPTED {
            // Announced only: nobody has to send it.
            let announced = Bytes::from_static(&[0, 1, 0, 0, 1, 0]);
            let mut call = kubelet.open(method, &[]).await.unwrap();
            call.send.send_data(announced, false).unwrap();
            let reply = call.reply().await.unwrap();
            assert_eq!(reply.status(), Some(8), "{method}");
            assert_eq!(reply.message(), "grpc: received message larger than max (16777217 vs. 16777216)");
        }
        let reply = kubelet.call(&cri("Version"), b"alive").await.unwrap();
        assert_eq!(reply.status(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn a_request_that_never_ends_is_forgotten_with_its_client() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let before = world.open_sockets();
        for method in INTERCEPTED {
            let kubelet = world.kubelet().await;
            let mut call = kubelet.open(method, &[]).await.unwrap();
            call.send.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 0x0a]), false).unwrap();
            kubelet.vanish();
        }
        // At the other end of a line the gate has heard of none of them, and is not told of their ends.
        let told = if world.has_line { 0 } else { INTERCEPTED.len() };
        while world.open_sockets() > before
            || world.metrics.connections_open() > 0
            || world.gate.events().len() < told
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(world.gate.events().iter().all(|event| matches!(event, Event::ConnectionClosed(_))));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_speaks_something_else() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let path = world.socket();
        for nonsense in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff"]
        {
            let mut socket = tokio::net::UnixStream::connect(&path).await.unwrap();
            socket.write_all(nonsense).await.unwrap();
            socket.shutdown().await.unwrap();
            // Closed, whatever was said before.
            let _ = socket.read_to_end(&mut Vec::new()).await;
        }
        let reply = world.kubelet().await.call(&cri("Version"), b"alive").await.unwrap();
        assert_eq!(reply.status(), Some(0));
    })
    .await;
}
