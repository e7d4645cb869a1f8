//! Byte for byte, both ways.

use berth_tests::fake::{Exchange, Reply, framed, grpc_status};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use crate::world::{World, cri, echo, within};

/// CRI 0.36, as its `api.proto` lists them.
const RUNTIME_METHODS: [&str; 35] = [
    "Version",
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "ListPodSandbox",
    "StreamPodSandboxes",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ListContainers",
    "StreamContainers",
    "ContainerStatus",
    "UpdateContainerResources",
    "ReopenContainerLog",
    "ExecSync",
    "Exec",
    "Attach",
    "PortForward",
    "ContainerStats",
    "ListContainerStats",
    "StreamContainerStats",
    "PodSandboxStats",
    "ListPodSandboxStats",
    "StreamPodSandboxStats",
    "UpdateRuntimeConfig",
    "Status",
    "CheckpointContainer",
    "GetContainerEvents",
    "ListMetricDescriptors",
    "ListPodSandboxMetrics",
    "StreamPodSandboxMetrics",
    "RuntimeConfig",
    "UpdatePodSandboxResources",
];
const IMAGE_METHODS: [&str; 6] =
    ["ListImages", "StreamImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo"];
/// Paths that nobody has invented yet, and paths that containerd speaks on the same socket.
const OTHER_PATHS: [&str; 4] = [
    "/runtime.v1.RuntimeService/FoldContainer",
    "/runtime.v9.TimeService/Travel",
    "/containerd.services.containers.v1.Containers/List",
    "/x",
];

/// Fields 1 (a string) and 15, 2047 and 536870911 (of all wire types), which no version of the CRI has
/// together.
fn message() -> Vec<u8> {
    let mut message = vec![0x0a, 4, b'i', b'd', b'-', b'1'];
    message.extend([0x7d, 1, 2, 3, 4]);
    message.extend([0xfa, 0x7f, 3, 0xff, 0, 0xff]);
    message.extend([0xf8, 0xff, 0xff, 0xff, 0x0f, 0x96, 0x01]);
    message
}

fn paths() -> Vec<String> {
    let image = IMAGE_METHODS.iter().map(|method| format!("/runtime.v1.ImageService/{method}"));
    let runtime = RUNTIME_METHODS.iter().map(|method| cri(method));
    runtime.chain(image).chain(OTHER_PATHS.iter().map(|path| (*path).to_owned())).collect()
}

/// Name and value of all headers, in their order.
fn listed(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

const REQUEST_HEADERS: [(&str, &str); 7] = [
    ("user-agent", "grpc-go/1.72.1"),
    ("grpc-timeout", "119999m"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("grpc-accept-encoding", "gzip"),
    ("x-bytes-bin", "AAECA/8"),
    ("x-twice", "one"),
    ("x-twice", "two"),
];

#[tokio::test]
async fn every_method_known_or_not() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        for path in paths() {
            let call = kubelet.call_with(&path, &REQUEST_HEADERS, framed(&message()));
            let answer = async {
                let mut exchange: Exchange = calls.recv().await.unwrap();
                assert_eq!(exchange.head.uri.path(), path);
                assert_eq!(exchange.head.uri.authority().unwrap(), "localhost");
                assert_eq!(exchange.head.method, http::Method::POST);
                let mut sent = vec![("content-type", "application/grpc"), ("te", "trailers")];
                sent.extend(REQUEST_HEADERS);
                let sent: Vec<_> = sent
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                    .collect();
                assert_eq!(listed(&exchange.head.headers), sent, "{path}");
                assert_eq!(exchange.read().await.unwrap(), framed(&message()), "{path}");

                let mut headers = HeaderMap::new();
                headers.insert("x-runtime", HeaderValue::from_static("fake"));
                headers.append("x-twice-bin", HeaderValue::from_static("AA"));
                headers.append("x-twice-bin", HeaderValue::from_static("AQ"));
                let mut send = exchange.begin_with(headers).unwrap();
                send.send_data(framed(&message()), false).unwrap();
                let mut trailers = grpc_status(0, "");
                trailers.insert("x-trailer", HeaderValue::from_static("kept"));
                trailers.insert("grpc-status-details-bin", HeaderValue::from_static("CAUSBHRleHQ"));
                send.send_trailers(trailers).unwrap();
            };
            let (reply, ()) = tokio::join!(call, answer);
            let reply: Reply = reply.unwrap();
            assert_eq!(
                listed(&reply.head.headers),
                [
                    ("x-runtime".to_owned(), b"fake".to_vec()),
                    ("x-twice-bin".to_owned(), b"AA".to_vec()),
                    ("x-twice-bin".to_owned(), b"AQ".to_vec()),
                    ("content-type".to_owned(), b"application/grpc".to_vec()),
                ],
                "{path}"
            );
            assert_eq!(reply.body(), framed(&message()), "{path}");
            let trailers = reply.trailers.unwrap();
            assert_eq!(
                listed(&trailers),
                [
                    ("grpc-status".to_owned(), b"0".to_vec()),
                    ("grpc-message".to_owned(), b"".to_vec()),
                    ("x-trailer".to_owned(), b"kept".to_vec()),
                    ("grpc-status-details-bin".to_owned(), b"CAUSBHRleHQ".to_vec()),
                ],
                "{path}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_error_in_one_frame_stays_in_one_frame() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(|exchange| async {
            exchange.fail(5, "container %22x%22 not found").unwrap();
        });
        let kubelet = world.kubelet().await;
        for path in paths() {
            let reply = kubelet.call(&path, &[]).await.unwrap();
            assert_eq!(reply.status(), Some(5), "{path}");
            assert_eq!(reply.message(), "container %22x%22 not found");
            assert!(reply.trailers.is_none() && reply.frames.is_empty());
            assert!(!reply.head.headers.contains_key("content-length"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_passes_frame_by_frame() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open(&cri("GetContainerEvents"), &[]).await.unwrap();
        call.send.send_data(framed(b""), true).unwrap();
        let mut exchange = calls.recv().await.unwrap();
        let mut send = exchange.begin().unwrap();
        let mut body = call.response.await.unwrap().into_body();
        for number in 0..50_u8 {
            // The next is sent only when this one has arrived: nothing waits for more.
            send.send_data(framed(&[number; 100]), false).unwrap();
            assert_eq!(body.data().await.unwrap().unwrap(), framed(&[number; 100]));
            body.flow_control().release_capacity(105).unwrap();
        }
        send.send_trailers(grpc_status(0, "")).unwrap();
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    })
    .await;
}

#[tokio::test]
async fn a_request_streams_before_it_is_whole() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open("/some.Service/Chat", &[]).await.unwrap();
        call.send.send_data(framed(b"first"), false).unwrap();
        let mut exchange = calls.recv().await.unwrap();
        assert_eq!(exchange.body.data().await.unwrap().unwrap(), framed(b"first"));
        let mut send = exchange.begin().unwrap();
        send.send_data(framed(b"answer"), false).unwrap();
        let mut body = (&mut call.response).await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), framed(b"answer"));
        call.send.send_data(framed(b"second"), false).unwrap();
        assert_eq!(exchange.body.data().await.unwrap().unwrap(), framed(b"second"));
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", HeaderValue::from_static("of request"));
        call.send.send_trailers(trailers).unwrap();
        assert!(exchange.body.data().await.is_none());
        assert_eq!(exchange.body.trailers().await.unwrap().unwrap()["x-end"], "of request");
        send.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.unwrap().unwrap().is_empty());
        assert!(body.data().await.is_none() && body.trailers().await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn large_messages_both_ways() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let kubelet = world.kubelet().await;
        for size in [4_500_000, 20_000_000] {
            let message: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let mut call = kubelet.open(&cri("ListMetricDescriptors"), &[]).await.unwrap();
            let mut rest = framed(&message);
            let send = async {
                while !rest.is_empty() {
                    call.send.reserve_capacity(rest.len());
                    let room = std::future::poll_fn(|cx| call.send.poll_capacity(cx)).await.unwrap().unwrap();
                    call.send.send_data(rest.split_to(room), rest.is_empty()).unwrap();
                }
                call.send
            };
            let response = async {
                let mut body = call.response.await.unwrap().into_body();
                let mut read = Vec::new();
                while let Some(frame) = body.data().await {
                    let frame = frame.unwrap();
                    body.flow_control().release_capacity(frame.len()).unwrap();
                    read.extend_from_slice(&frame);
                }
                assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
                read
            };
            let (_send, read) = tokio::join!(send, response);
            assert!(read == framed(&message), "{size} bytes arrive changed");
        }
    })
    .await;
}

#[tokio::test]
async fn long_error_texts() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(|mut exchange: Exchange| async {
            let request = exchange.read().await.unwrap();
            let length: usize = std::str::from_utf8(&request[5..]).unwrap().parse().unwrap();
            exchange.fail(2, &"e".repeat(length)).unwrap();
        });
        let kubelet = world.kubelet().await;
        for length in [40_000, 200_000, 2_000_000] {
            let reply = kubelet.call(&cri("Status"), length.to_string().as_bytes()).await.unwrap();
            assert_eq!((reply.status(), reply.message().len()), (Some(2), length));
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_slows_down_the_runtime() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open(&cri("GetContainerEvents"), &[]).await.unwrap();
        call.send.send_data(framed(b""), true).unwrap();
        let mut exchange = calls.recv().await.unwrap();
        let mut send = exchange.begin().unwrap();
        // Nobody reads: the runtime can send what the windows on the way hold, and not 64 MB.
        let mut sent = 0;
        let frame = Bytes::from(vec![7; 16 << 10]);
        loop {
            send.reserve_capacity(frame.len());
            let room = std::future::poll_fn(|cx| send.poll_capacity(cx));
            match tokio::time::timeout(std::time::Duration::from_millis(500), room).await {
                Ok(room) => {
                    let room = room.unwrap().unwrap().min(frame.len());
                    send.send_data(frame.slice(..room), false).unwrap();
                    sent += room;
                }
                Err(_) => break,
            }
            assert!(sent < 64 << 20, "nothing holds the runtime back");
        }
        // And when it is read, it goes on.
        let mut body = call.response.await.unwrap().into_body();
        let mut read = 0;
        while read < sent {
            let frame = body.data().await.unwrap().unwrap();
            body.flow_control().release_capacity(frame.len()).unwrap();
            read += frame.len();
        }
        send.send_trailers(grpc_status(0, "")).unwrap();
        while let Some(frame) = body.data().await {
            read += frame.unwrap().len();
        }
        assert_eq!(read, sent);
    })
    .await;
}
