//! Answers that say more than the runtime's words: only to the kubelet, and nothing else in them.

use std::collections::HashMap;

use berth_policy::{Nudge, PodRef};
use berth_proto::cri as proto;
use berth_shim::{
    Clients,
    exceptions::{HASH_ANNOTATION, NUDGE_NAME, OTHER_HASH},
};
use berth_tests::fake::{Exchange, FakeKubelet, FakeRuntime, Reply, framed, grpc_status};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use prost::Message;

use crate::world::{Shim, World, cri, within};

/// A field that no version of the CRI has, as a newer runtime would send it.
const UNKNOWN: [u8; 6] = [0x8a, 0xfa, 0x01, 2, b'h', b'i'];

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn status(id: &str, hash: &str) -> proto::ContainerStatusResponse {
    let status = proto::ContainerStatus {
        id: id.to_owned(),
        state: 1,
        created_at: 17,
        annotations: map(&[(HASH_ANNOTATION, hash), ("io.kubernetes.container.restartCount", "2")]),
        ..Default::default()
    };
    proto::ContainerStatusResponse { status: Some(status), ..Default::default() }
}

fn list(length: usize) -> proto::ListContainersResponse {
    let container = |number| proto::Container {
        id: format!("container-{number}"),
        pod_sandbox_id: "sandbox-1".to_owned(),
        created_at: 17,
        annotations: map(&[(HASH_ANNOTATION, "9f8a7b6c")]),
        labels: map(&[("io.kubernetes.pod.uid", "uid-1"), ("filler", &"x".repeat(600))]),
        ..Default::default()
    };
    proto::ListContainersResponse { containers: (0..length).map(container).collect() }
}

pub(crate) fn nudge() -> Nudge {
    Nudge {
        pod: PodRef { uid: "uid-1".into(), namespace: "default".to_owned(), name: "pod".to_owned() },
        sandbox: "sandbox-1".into(),
        container: "nudge-1".into(),
    }
}

/// Answers all calls with this body, frame by frame, and OK.
pub(crate) fn answering(world: &World, frames: Vec<Bytes>) -> FakeRuntime {
    world.runtime(move |mut exchange: Exchange| {
        let frames = frames.clone();
        async move {
            exchange.read().await.unwrap();
            let mut send = exchange.begin().unwrap();
            for frame in frames {
                send.send_data(frame, false).unwrap();
            }
            send.send_trailers(grpc_status(0, "")).unwrap();
        }
    })
}

/// A second way into the world, for clients that are not the kubelet. Its gate is armed by the test as well.
pub(crate) async fn strangers(world: &World) -> (Shim, FakeKubelet) {
    let path = world.socket().with_file_name("strangers.sock");
    let listener = berth_shim::bind(&path, &world.runtime_endpoint()).await.unwrap();
    let clients = Clients { kubelet: vec!["somebody-else".to_owned()] };
    let shim = Shim::serve(listener, world.runtime_endpoint(), clients);
    (shim, FakeKubelet::connect(&path).await.unwrap())
}

pub(crate) async fn ask_status(kubelet: &FakeKubelet, id: &str) -> Reply {
    let request = proto::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
    kubelet.call(&cri("ContainerStatus"), &request.encode_to_vec()).await.unwrap()
}

/// A relist: sandboxes first, as PLEG does.
pub(crate) async fn relist(kubelet: &FakeKubelet) -> Reply {
    kubelet.call(&cri("ListPodSandbox"), b"").await.unwrap();
    // The filter it has says nothing.
    ask_list(kubelet, Some(proto::ContainerFilter::default())).await
}

async fn ask_list(kubelet: &FakeKubelet, filter: Option<proto::ContainerFilter>) -> Reply {
    let request = proto::ListContainersRequest { filter }.encode_to_vec();
    kubelet.call(&cri("ListContainers"), &request).await.unwrap()
}

#[tokio::test]
async fn a_marked_container_has_another_hash_for_the_kubelet_only() {
    within(async {
        let world = World::new().await;
        let message = [&status("marked", "9f8a7b6c").encode_to_vec()[..], &UNKNOWN].concat();
        let _runtime = answering(&world, vec![framed(&message)]);
        let kubelet = world.kubelet().await;
        assert_eq!(ask_status(&kubelet, "marked").await.body(), framed(&message), "nothing is armed");

        world.gate.mark("marked");
        for _ in 0..3 {
            let body = ask_status(&kubelet, "marked").await.body();
            assert!(body[5..].starts_with(&message), "the runtime's bytes are not all there");
            assert_eq!(body[1..5], u32::try_from(body.len() - 5).unwrap().to_be_bytes());
            let seen = proto::ContainerStatusResponse::decode(&body[5..]).unwrap();
            assert_eq!(seen, status("marked", OTHER_HASH));
        }
        assert_eq!(ask_status(&kubelet, "other").await.body(), framed(&message));
        assert_eq!((world.metrics.restated_answers(), world.metrics.unchanged()), (3, 0));

        let (shim, stranger) = strangers(&world).await;
        shim.gate.mark("marked");
        assert_eq!(ask_status(&stranger, "marked").await.body(), framed(&message));
        assert_eq!(shim.metrics.restated_answers(), 0);
    })
    .await;
}

/// The runtime may take its time, and the answer then tells of an end that was brought about after it was
/// asked.
#[tokio::test]
async fn a_container_that_is_ended_while_its_status_is_asked_for() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let mut failed = status("ended", "9f8a7b6c");
        failed.status = failed.status.map(|status| proto::ContainerStatus {
            state: 2,
            exit_code: 143,
            reason: "Error".to_owned(),
            ..status
        });
        let (shim, stranger) = strangers(&world).await;
        for (kubelet, gate, seen) in
            [(world.kubelet().await, &world.gate, (0, "Completed")), (stranger, &shim.gate, (143, "Error"))]
        {
            let (reply, ()) = tokio::join!(ask_status(&kubelet, "ended"), async {
                let mut exchange = calls.recv().await.unwrap();
                exchange.read().await.unwrap();
                gate.end("ended");
                world.hears().await;
                exchange.reply(&failed.encode_to_vec()).await.unwrap();
            });
            let answer = proto::ContainerStatusResponse::decode(&reply.body()[5..]).unwrap();
            let status = answer.status.unwrap();
            assert_eq!((status.exit_code, &*status.reason), seen);
            assert_eq!(status.state, 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_nudge_is_in_one_unfiltered_list_of_the_kubelet() {
    within(async {
        let world = World::new().await;
        let message = [&list(500).encode_to_vec()[..], &UNKNOWN].concat();
        // As grpc-go cuts it.
        let frames: Vec<_> = framed(&message).chunks(16 << 10).map(Bytes::copy_from_slice).collect();
        let _runtime = answering(&world, frames);
        let kubelet = world.kubelet().await;
        let untouched = framed(&message);
        assert!(ask_list(&kubelet, None).await.body() == untouched, "nothing is armed");

        let (shim, stranger) = strangers(&world).await;
        shim.gate.nudge(nudge());
        assert!(ask_list(&stranger, None).await.body() == untouched, "a stranger is nudged");

        world.gate.nudge(nudge());
        let filters = [
            proto::ContainerFilter { label_selector: map(&[("a", "b")]), ..Default::default() },
            proto::ContainerFilter { id: "container-1".to_owned(), ..Default::default() },
            proto::ContainerFilter { pod_sandbox_id: "sandbox-1".to_owned(), ..Default::default() },
            proto::ContainerFilter {
                state: Some(proto::ContainerStateValue { state: 1 }),
                ..Default::default()
            },
        ];
        for filter in filters {
            assert!(ask_list(&kubelet, Some(filter.clone())).await.body() == untouched, "{filter:?}");
        }
        // Not PLEG's: no list of sandboxes has come before it.
        assert!(ask_list(&kubelet, None).await.body() == untouched, "log rotation is nudged");
        let body = relist(&kubelet).await.body();
        assert!(body[5..].starts_with(&message), "the runtime's bytes are not all there");
        assert_eq!(body[1..5], u32::try_from(body.len() - 5).unwrap().to_be_bytes());
        let seen = proto::ListContainersResponse::decode(&body[5..]).unwrap().containers;
        assert_eq!(seen[..500], list(500).containers);
        let [entry] = &seen[500..] else { panic!("{} entries more", seen.len() - 500) };
        assert_eq!((entry.id.as_str(), entry.pod_sandbox_id.as_str()), ("nudge-1", "sandbox-1"));
        assert_eq!(entry.state(), proto::ContainerState::ContainerRunning);
        assert_eq!(entry.labels["io.kubernetes.container.name"], NUDGE_NAME);
        assert_eq!(entry.labels["io.kubernetes.pod.uid"], "uid-1");
        for _ in 0..3 {
            assert!(relist(&kubelet).await.body() == untouched, "nudged twice");
        }
        assert_eq!((world.metrics.nudges(), shim.metrics.nudges()), (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_nudge_waits_for_a_list_that_is_answered() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.nudge(nudge());
        let asked = async { calls.recv().await.unwrap().fail(14, "not now").unwrap() };
        let (reply, ()) = tokio::join!(ask_list(&kubelet, None), asked);
        assert_eq!(reply.message(), "not now");
        assert_eq!(world.metrics.nudges(), 0);

        let message = list(1).encode_to_vec();
        let asked = async {
            calls.recv().await.unwrap().reply(b"").await.unwrap();
            calls.recv().await.unwrap().reply(&message).await.unwrap();
        };
        let (reply, ()) = tokio::join!(relist(&kubelet), asked);
        let body = reply.body();
        assert_eq!(proto::ListContainersResponse::decode(&body[5..]).unwrap().containers.len(), 2);
        assert_eq!(world.metrics.nudges(), 1);
    })
    .await;
}

/// How an answer ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Trailers,
    LastFrame,
    EmptyFrame,
}

#[tokio::test]
async fn however_the_answer_is_cut_and_ended() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.mark("marked");
        let message = status("marked", "9f8a7b6c").encode_to_vec();
        let whole = framed(&message);
        for end in [End::Trailers, End::LastFrame, End::EmptyFrame] {
            for size in [1, 2, 4, 5, 6, whole.len() - 1, whole.len()] {
                let answer = async {
                    let mut exchange = calls.recv().await.unwrap();
                    exchange.read().await.unwrap();
                    let mut send = exchange.begin().unwrap();
                    let mut frames = whole.chunks(size).peekable();
                    while let Some(frame) = frames.next() {
                        let last = frames.peek().is_none() && matches!(end, End::LastFrame);
                        send.send_data(Bytes::copy_from_slice(frame), last).unwrap();
                        // Each frame by itself.
                        tokio::task::yield_now().await;
                    }
                    match end {
                        End::Trailers => send.send_trailers(grpc_status(0, "")).unwrap(),
                        End::LastFrame => {}
                        End::EmptyFrame => send.send_data(Bytes::new(), true).unwrap(),
                    }
                };
                let (reply, ()) = tokio::join!(ask_status(&kubelet, "marked"), answer);
                let body = reply.body();
                let seen = proto::ContainerStatusResponse::decode(&body[5..]).unwrap();
                assert_eq!(seen, status("marked", OTHER_HASH), "{end:?}, frames of {size}");
                assert_eq!(body[1..5], u32::try_from(body.len() - 5).unwrap().to_be_bytes());
            }
        }
        assert_eq!(world.metrics.restated_answers(), 21);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_changed_passes_as_it_is() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.mark("marked");
        let bodies: [(&str, &[u8]); 6] = [
            ("compressed", &[1, 0, 0, 0, 3, 0x1f, 0x8b, 0x08]),
            ("empty message", &[0, 0, 0, 0, 0]),
            ("nothing at all", &[]),
            ("half a prefix", &[0, 0, 0]),
            ("too large", &[0, 1, 0, 0, 0, 0x0a]),
            ("no gRPC", b"<html>"),
        ];
        for (what, body) in bodies {
            let answer = async {
                let mut exchange = calls.recv().await.unwrap();
                exchange.read().await.unwrap();
                let mut send = exchange.begin().unwrap();
                if !body.is_empty() {
                    send.send_data(Bytes::copy_from_slice(body), false).unwrap();
                }
                send.send_trailers(grpc_status(0, "")).unwrap();
            };
            let (reply, ()) = tokio::join!(ask_status(&kubelet, "marked"), answer);
            assert_eq!((reply.body().as_slice(), reply.status()), (body, Some(0)), "{what}");
        }
        let failing = async { calls.recv().await.unwrap().fail(5, "no such container").unwrap() };
        let (reply, ()) = tokio::join!(ask_status(&kubelet, "marked"), failing);
        assert_eq!((reply.status(), reply.message()), (Some(5), "no such container"));
        assert_eq!((world.metrics.restated_answers(), world.metrics.unchanged()), (0, 4));
    })
    .await;
}

#[tokio::test]
async fn a_length_in_the_headers_does_not_contradict_the_body() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.mark("marked");
        let body = framed(&status("marked", "9f8a7b6c").encode_to_vec());
        let answer = async {
            let mut exchange = calls.recv().await.unwrap();
            exchange.read().await.unwrap();
            let mut headers = HeaderMap::new();
            headers.insert("content-length", HeaderValue::from(body.len()));
            let mut send = exchange.begin_with(headers).unwrap();
            send.send_data(body, false).unwrap();
            send.send_trailers(grpc_status(0, "")).unwrap();
        };
        let (reply, ()) = tokio::join!(ask_status(&kubelet, "marked"), answer);
        let seen = proto::ContainerStatusResponse::decode(&reply.body()[5..]).unwrap();
        assert_eq!(seen, status("marked", OTHER_HASH));
    })
    .await;
}

#[tokio::test]
async fn a_large_answer_comes_at_the_readers_pace() {
    within(async {
        let world = World::new().await;
        // Encoded once: a map has another order each time.
        let message: Bytes = list(20_000).encode_to_vec().into();
        let answer = message.clone();
        let _runtime = world.runtime(move |mut exchange: Exchange| {
            let answer = answer.clone();
            async move {
                exchange.read().await.unwrap();
                exchange.reply(&answer).await.unwrap();
            }
        });
        let kubelet = world.kubelet().await;
        assert!(message.len() > 12 << 20, "{} bytes do not fill a window", message.len());
        world.gate.nudge(nudge());
        // More than once over one connection: a window that is not given back would end it.
        for nudged in [true, false, true, false] {
            let body = relist(&kubelet).await.body();
            assert!(body[5..].starts_with(&message) && (body.len() > message.len() + 5) == nudged);
            if !nudged {
                world.gate.nudge(nudge());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_had_begun_is_answered_without_the_runtime() {
    within(async {
        let world = World::new().await;
        let answer = proto::ExecSyncResponse { exit_code: 7, ..Default::default() }.encode_to_vec();
        let runtime = answering(&world, vec![framed(&answer)]);
        let kubelet = world.kubelet().await;
        let (_shim, stranger) = strangers(&world).await;
        let exec = async |client: &FakeKubelet, container: &str, timeout: i64| {
            let cmd = vec!["bye".to_owned()];
            let request = proto::ExecSyncRequest { container_id: container.to_owned(), cmd, timeout };
            client.call(&cri("ExecSync"), &request.encode_to_vec()).await.unwrap()
        };
        assert_eq!(exec(&kubelet, "a", 0).await.body(), framed(&answer));
        world.gate.hook_has_run("a");
        let reply = exec(&kubelet, "a", 0).await;
        assert_eq!(reply.status(), Some(0));
        let done = proto::ExecSyncResponse::decode(&reply.body()[5..]).unwrap();
        assert_eq!(done.exit_code, 0);
        // A probe has a time limit; another container, and another client, are not meant.
        for (client, container, timeout) in [(&kubelet, "a", 1), (&kubelet, "b", 0), (&stranger, "a", 0)] {
            assert_eq!(exec(client, container, timeout).await.body(), framed(&answer));
        }
        drop(runtime);
    })
    .await;
}
