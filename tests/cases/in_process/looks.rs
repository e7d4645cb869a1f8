//! Looks of the kubelet and of others, and answers as one sees them who counts frames.

use berth_policy::Event;
use berth_proto::cri as proto;
use berth_tests::fake::{framed, grpc_status};
use bytes::Bytes;
use prost::Message;

use crate::{
    exceptions::{answering, ask_status, nudge, relist, status, strangers},
    script::ScriptedGate,
    world::{World, cri, link, within},
};

/// A client counts them, and gives up the connection after some.
#[tokio::test]
async fn an_answer_that_is_kept_for_an_edit_leaves_no_empty_frames_behind() {
    within(async {
        let world = World::new().await;
        let message = [&[0x3a, 0xd0, 0x0f][..], &[b'x'; 2000]].concat();
        let whole = framed(&message);
        let _runtime = answering(&world, whole.chunks(10).map(Bytes::copy_from_slice).collect());
        let kubelet = world.kubelet().await;
        for _ in 0..3 {
            let reply = kubelet.call(&cri("PodSandboxStatus"), b"").await.unwrap();
            assert!(reply.frames.iter().all(|frame| !frame.is_empty()), "{}", reply.frames.len());
            assert_eq!((reply.status(), reply.body()), (Some(0), whole.to_vec()));
        }
    })
    .await;
}

/// A message that is kept until it is whole, and never is.
#[tokio::test]
async fn an_answer_that_is_cut_off_passes_to_its_last_byte() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let body = Bytes::from([&framed(b"whole")[..], &[0_u8, 0, 0, 0, 9, 0x3a][..]].concat());
        for ends_with_trailers in [true, false] {
            let answer = async {
                let mut exchange = calls.recv().await.unwrap();
                exchange.read().await.unwrap();
                let mut send = exchange.begin().unwrap();
                send.send_data(body.clone(), !ends_with_trailers).unwrap();
                if ends_with_trailers {
                    send.send_trailers(grpc_status(0, "")).unwrap();
                }
            };
            let path = cri("PodSandboxStatus");
            let (reply, ()) = tokio::join!(kubelet.call(&path, b""), answer);
            assert_eq!(reply.unwrap().body(), body, "trailers: {ends_with_trailers}");
        }
    })
    .await;
}

/// CRI 0.36 can send its lists in parts, each of which is the message of a list.
#[tokio::test]
async fn a_nudge_is_in_the_first_part_of_a_list() {
    within(async {
        let world = World::new().await;
        let part = |id: &str| {
            let container = proto::Container { id: id.to_owned(), ..Default::default() };
            framed(&proto::ListContainersResponse { containers: vec![container] }.encode_to_vec())
        };
        let _runtime = answering(&world, vec![part("a"), part("b")]);
        let kubelet = world.kubelet().await;
        world.gate.nudge(nudge());
        kubelet.call(&cri("StreamPodSandboxes"), b"").await.unwrap();
        let body = kubelet.call(&cri("StreamContainers"), b"").await.unwrap().body();
        let first = body.strip_suffix(&part("b")[..]).expect("the second part is as it was");
        assert_eq!(first[1..5], u32::try_from(first.len() - 5).unwrap().to_be_bytes());
        let seen = proto::ListContainersResponse::decode(&first[5..]).unwrap();
        let ids: Vec<_> = seen.containers.iter().map(|container| container.id.as_str()).collect();
        assert_eq!(ids, ["a", "nudge-1"]);
    })
    .await;
}

/// With Evented PLEG the kubelet has the exit code of a job sidecar from there. The stream of events goes on.
#[tokio::test]
async fn statuses_of_a_sandbox_wait_for_the_first_word_of_an_agent() {
    within(async {
        let (world, remote) = World::unlinked().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut open = Vec::new();
        for method in ["PodSandboxStatus", "GetContainerEvents"] {
            let mut call = kubelet.open(&cri(method), &[]).await.unwrap();
            call.send.send_data(framed(b""), true).unwrap();
            open.push(call);
        }
        let first = calls.recv().await.unwrap();
        assert_eq!(first.head.uri.path(), cri("GetContainerEvents"));
        assert!(!remote.has_agent());
        link(world.gate.clone(), remote.clone());
        let second = calls.recv().await.unwrap();
        assert_eq!(second.head.uri.path(), cri("PodSandboxStatus"));
        assert!(remote.has_agent(), "it has waited for that");
    })
    .await;
}

/// People who debug a node list and look as well. For the policy only the kubelet has looked.
#[tokio::test]
async fn looks_of_others_are_not_the_kubelets() {
    within(async {
        let world = World::new().await;
        let _runtime = answering(&world, vec![framed(&status("c", "1").encode_to_vec())]);
        let (shim, stranger) = strangers(&world).await;
        let told = |gate: &ScriptedGate| {
            let looks = |event: &Event| {
                let looks = "RelistAsked RelistAnswered StatusAsked";
                looks.split(' ').find(|look| format!("{event:?}").starts_with(look))
            };
            gate.events().iter().filter_map(looks).collect::<Vec<_>>()
        };
        let kubelet = world.kubelet().await;
        for client in [&stranger, &kubelet] {
            relist(client).await;
            assert_eq!(ask_status(client, "c").await.status(), Some(0));
        }
        world.gate.told(|event| matches!(event, Event::StatusAsked { .. })).await;
        assert_eq!(told(&world.gate), ["RelistAsked", "RelistAnswered", "StatusAsked"]);
        assert_eq!(told(&shim.gate), [""; 0]);
    })
    .await;
}
