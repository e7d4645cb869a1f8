//! A call that is refused or passed on: with what it was told, and what is told of it.

use std::time::Duration;

use berth_policy::{Amendment, Event, Latch, Refusal, Verdict};
use berth_proto::cri as proto;
use berth_tests::fake::{Exchange, framed};
use prost::Message;

use super::{begin, create, ended, stop};
use crate::world::{World, cri, within};

#[tokio::test]
async fn refused_with_the_code_of_its_reason() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let table = [
            (
                Refusal::Waiting(vec!["größe".into()]),
                9,
                "launch order: waiting for container(s) gr%C3%B6%C3%9Fe",
            ),
            (Refusal::Terminating, 9, "launch order: the pod is terminating"),
            (Refusal::Draining, 14, "launch order: the agent is restarting"),
        ];
        for (refusal, code, message) in table {
            world.gate.answer(move |_| Verdict::Refuse(refusal.clone()));
            let reply = kubelet.call(&cri("CreateContainer"), &create("web")).await.unwrap();
            assert_eq!((reply.status(), reply.message()), (Some(code), message));
            assert!(reply.trailers.is_none());
        }
        assert!(calls.try_recv().is_err());
        ended(&world, 3).await;
    })
    .await;
}

#[tokio::test]
async fn a_latch_is_durable_before_its_call_is_sent_on() {
    within(async {
        let world = World::new().await;
        let latch = Latch { sandbox: "sandbox-1".into(), priority: 3 };
        let given = latch.clone();
        world.gate.answer(move |_| Verdict::Latch(given.clone()));
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let _call = begin(&kubelet, "CreateContainer", &create("web")).await;
        let mut exchange = calls.recv().await.unwrap();
        assert_eq!(world.gate.latched(), [latch]);
        assert_eq!(exchange.read().await.unwrap(), framed(&create("web")));
    })
    .await;
}

#[tokio::test]
async fn a_changed_stop_timeout_changes_nothing_else() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.answer(|_| Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(300))));
        // Unknown fields before, between and after.
        let unknown = [0xfa, 0x7f, 3, 0xff, 0, 0xff];
        let id = [0x0a, 2, b'c', b'1'];
        let message = [&unknown[..], &id, &[0x10, 30], &unknown].concat();
        let expected = [&unknown[..], &id, &[0x10, 0xac, 0x02], &unknown].concat();
        // However the request is cut. A length that it says is not said of the changed one, which is longer.
        let length = framed(&message).len().to_string();
        for cut in [1, 5, 7, 16] {
            let headers = [("content-length", length.as_str())];
            let mut call = kubelet.open(&cri("StopContainer"), &headers).await.unwrap();
            let mut rest = framed(&message);
            while !rest.is_empty() {
                let piece = rest.split_to(cut.min(rest.len()));
                call.send.send_data(piece, rest.is_empty()).unwrap();
            }
            let mut exchange: Exchange = calls.recv().await.unwrap();
            assert_eq!(exchange.read().await.unwrap(), framed(&expected));
            exchange.reply(b"").await.unwrap();
            assert_eq!(call.reply().await.unwrap().status(), Some(0));
        }
    })
    .await;
}

/// The events of one call, without its numbers.
fn words(world: &World, from: usize) -> Vec<String> {
    let word = |event: &Event| match event {
        Event::SandboxCreated { sandbox, pod, declared } => {
            format!("sandbox {sandbox} of {} created, {declared:?}", pod.name)
        }
        Event::SandboxStopping(sandbox) => format!("sandbox {sandbox} stopping"),
        Event::SandboxRemoved(sandbox) => format!("sandbox {sandbox} removed"),
        Event::ContainerCreated { container, .. } => format!("container {container} created"),
        Event::ContainerStarted(container) => format!("container {container} started"),
        Event::HookAsked { container, .. } => format!("hook of {container} asked"),
        Event::HookEnded(container, well) => format!("hook of {container} ended, well: {well}"),
        Event::ContainerStopped(container) => format!("container {container} stopped"),
        Event::ContainerRemoved(container) => format!("container {container} removed"),
        Event::RelistAsked { .. } => "relist asked".to_owned(),
        Event::RelistAnswered { .. } => "relist answered".to_owned(),
        Event::StatusAsked { container, .. } => format!("status of {container} asked"),
        Event::CallEnded(_) => "call ended".to_owned(),
        other => format!("{other:?}"),
    };
    world.gate.events()[from..].iter().map(word).collect()
}

/// Waits until the gate has heard so many events: over a line they come a moment later.
async fn heard(world: &World, from: usize, events: usize) {
    while world.gate.events().len() < from + events {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_the_policy_hears() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let id = |id: &str| proto::StartContainerRequest { container_id: id.to_owned() }.encode_to_vec();
        let sandbox = proto::RunPodSandboxRequest {
            config: Some(proto::PodSandboxConfig {
                metadata: Some(proto::PodSandboxMetadata { name: "pod".to_owned(), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let exec = |timeout| {
            let (container_id, cmd) = ("c1".to_owned(), vec!["bye".to_owned()]);
            proto::ExecSyncRequest { container_id, cmd, timeout }.encode_to_vec()
        };
        let filtered = proto::ListContainersRequest {
            filter: Some(proto::ContainerFilter { id: "c".to_owned(), ..Default::default() }),
        };
        // Method, request, answer; what is heard when it is asked, and when it succeeded.
        type Row<'a> = (&'a str, Vec<u8>, Vec<u8>, &'a [&'a str], &'a [&'a str]);
        let table: [Row<'_>; 13] = [
            (
                "RunPodSandbox",
                sandbox.encode_to_vec(),
                id("s1"),
                &[],
                &["sandbox s1 of pod created, Declared { plan: None, hinted: false, foreign: true }"],
            ),
            ("CreateContainer", create("web"), id("c1"), &[], &["container c1 created", "call ended"]),
            ("StartContainer", id("c1"), vec![], &[], &["container c1 started"]),
            (
                "ExecSync",
                exec(0),
                vec![],
                &["hook of c1 asked"],
                &["hook of c1 ended, well: true", "call ended"],
            ),
            ("ExecSync", exec(1), vec![], &[], &[]),
            ("StopContainer", stop(30), vec![], &[], &["container container-1 stopped", "call ended"]),
            ("RemoveContainer", id("c1"), vec![], &[], &["container c1 removed"]),
            ("StopPodSandbox", id("s1"), vec![], &["sandbox s1 stopping"], &[]),
            ("RemovePodSandbox", id("s1"), vec![], &[], &["sandbox s1 removed"]),
            (
                "ListContainers",
                vec![],
                vec![0xff; 100],
                &["relist asked"],
                &["relist answered", "call ended"],
            ),
            ("ListContainers", filtered.encode_to_vec(), vec![], &[], &[]),
            ("ContainerStatus", id("c1"), vec![], &["status of c1 asked"], &[]),
            ("Version", vec![], vec![], &[], &[]),
        ];
        for (method, request, answer, asked, succeeded) in table {
            for ok in [true, false] {
                let from = world.gate.events().len();
                let call = begin(&kubelet, method, &request).await;
                let exchange = calls.recv().await.unwrap();
                heard(&world, from, asked.len()).await;
                assert_eq!(words(&world, from), asked, "{method}, asked");
                if ok {
                    exchange.reply(&answer).await.unwrap();
                } else {
                    exchange.fail(13, "no").unwrap();
                }
                call.reply().await.unwrap();
                // The client has the end of its answer, so all of it was told.
                let mut expected = asked.to_vec();
                expected.extend(succeeded.iter().filter(|word| ok || **word == "call ended"));
                heard(&world, from, expected.len()).await;
                assert_eq!(words(&world, from), expected, "{method}, ok: {ok}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_lost_is_no_success() {
    within(async {
        let world = World::new().await;
        let kubelet = world.kubelet().await;
        for method in ["StopContainer", "CreateContainer", "ListContainers"] {
            let (runtime, mut calls) = world.manual_runtime();
            let from = world.gate.events().len();
            let message = match method {
                "CreateContainer" => create("web"),
                "StopContainer" => stop(30),
                _ => vec![],
            };
            let call = begin(&kubelet, method, &message).await;
            let exchange = calls.recv().await.unwrap();
            runtime.kill().await;
            drop(exchange);
            assert_eq!(call.reply().await.unwrap().status(), Some(14));
            while !words(&world, from).iter().any(|word| word == "call ended") {
                tokio::task::yield_now().await;
            }
            let words = words(&world, from);
            assert_eq!(words.last().unwrap(), "call ended");
            assert_eq!(words.iter().filter(|word| *word == "call ended").count(), 1);
            assert!(words.iter().all(|word| word == "call ended" || word == "relist asked"), "{words:?}");
        }
    })
    .await;
}
